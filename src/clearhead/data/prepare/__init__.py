"""Prepare: a folder of documents becomes shards of tokens, by datatrove's pipeline (extra `cluster`)."""

from clearhead.data.prepare.pipeline import DEDUP, QUALITY, Prepare, Summary, prepare

__all__ = ["DEDUP", "QUALITY", "Prepare", "Summary", "prepare"]
