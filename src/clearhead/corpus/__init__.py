"""Corpus preparation: a folder of documents becomes shards of tokens, with datatrove (extra `cluster`)."""

from clearhead.corpus.prepare_corpus import DEDUP, QUALITY, PrepareConfig, PrepareSummary, prepare

__all__ = ["DEDUP", "QUALITY", "PrepareConfig", "PrepareSummary", "prepare"]
