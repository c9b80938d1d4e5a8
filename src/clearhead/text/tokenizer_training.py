"""Tokenizer training from text files; deterministic for the same text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, processors, trainers

from clearhead.text.algorithms import byte_pairs, unigram, wordpiece
from clearhead.text.corpus import check_corpus, read_corpus
from clearhead.text.templates import TEMPLATES, TokenizerTemplate
from clearhead.text.tokenizer import Tokenizer

KINDS = ("wordpiece", "bpe", "unigram")
"""The kinds of tokenizers that can be trained."""

MIN_FREQUENCY = 2  # merges that occur once are ignored

CorpusReader = Callable[[], Iterator[str]]


def train_tokenizer(
    files: str | Path | Sequence[str | Path],
    *,
    template: str,
    vocab_size: int,
    kind: str | None = None,
    lowercase: bool = False,
    extra: Sequence[str] = (),
    max_len: int | None = None,
    progress: bool | None = None,
) -> Tokenizer:
    """Trains a tokenizer on text files (plain, .gz or .xz; UTF-8), which are streamed.

    `template` is the model family (see `TEMPLATES`) and `kind` the algorithm ("wordpiece", "bpe" or "unigram"; by
    default the family's own). `vocab_size` includes special tokens; a small corpus may give fewer. `extra` are
    additional special tokens, such as language tags. `progress` shows a progress bar; None: on a terminal.
    """
    if template not in TEMPLATES:
        raise ValueError(f"there is no template {template!r}: choose from {', '.join(TEMPLATES)}")
    family = TEMPLATES[template]
    kind = kind or family.kind
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}: choose from {', '.join(KINDS)}")
    paths = [Path(f) for f in ([files] if isinstance(files, str | Path) else files)]
    check_corpus(paths)
    plan = _VocabularyPlan.create(family, kind, vocab_size, tuple(extra), lowercase)
    with _progress(paths, sys.stderr.isatty() if progress is None else progress) as read:
        rust = _TRAINERS[kind](read, plan)
    rust.add_special_tokens(family.added(family.last))
    template_processor = family.processor(rust.get_vocab())
    trim = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    rust.post_processor = processors.Sequence([trim, template_processor]) if kind == "bpe" else template_processor
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # this class reads the file; family classes rebuild the pipeline
        "model_input_names": family.inputs,
        "clean_up_tokenization_spaces": False,
        **({} if kind == "bpe" else {"unk_token": plan.unk}),
        **family.roles,
        **({"extra_special_tokens": list(extra)} if extra else {}),
        **({"model_max_length": max_len} if max_len else {}),
    }
    return Tokenizer(json.loads(rust.to_str()), config)


@dataclass(frozen=True)
class _VocabularyPlan:
    """The vocabulary to train: `room` tokens after the special tokens `first`, none of them `reserved`."""

    first: list[AddedToken]
    reserved: frozenset[str]
    room: int
    unk: str
    lowercase: bool

    @staticmethod
    def create(
        family: TokenizerTemplate, kind: str, vocab_size: int, extra: tuple[str, ...], lowercase: bool
    ) -> _VocabularyPlan:
        unk = family.roles.get("unk_token", "<unk>")
        needed = () if kind == "bpe" else (unk,)  # bytes cover any text
        first = [*(t for t in needed if t not in family.first), *family.first]
        first += [t for t in dict.fromkeys(extra) if t not in (*first, *family.last)]
        reserved = frozenset((*first, *family.last))
        return _VocabularyPlan(family.added(first), reserved, vocab_size - len(reserved), unk, lowercase)

    @property
    def size(self) -> int:
        return len(self.first) + self.room

    def check(self, needed: int, what: str) -> None:
        if self.room < needed:
            raise ValueError(
                f"vocab_size leaves room for {max(self.room, 0)} tokens besides the special tokens, but {what} need "
                f"{needed}: increase it by at least {needed - self.room}"
            )


def _train_wordpiece(read: CorpusReader, plan: _VocabularyPlan) -> tokenizers.Tokenizer:
    """Trains WordPiece in two passes: the letters first, because the trainer numbers them in hash-table order.

    With the letters given in sorted order, as temporary special tokens, ties between pairs are resolved
    deterministically.
    """
    rust = wordpiece(models.WordPiece(unk_token=plan.unk), lowercase=plan.lowercase)
    _train(rust, read, trainers.WordPieceTrainer(vocab_size=0, show_progress=False))
    letters = sorted(set(rust.get_vocab()) - plan.reserved)
    plan.check(len(letters), "the letters alone")
    rust = wordpiece(models.WordPiece(unk_token=plan.unk), lowercase=plan.lowercase)
    trainer = trainers.WordPieceTrainer(
        vocab_size=plan.size, min_frequency=MIN_FREQUENCY, show_progress=False, special_tokens=[*plan.first, *letters]
    )
    _train(rust, read, trainer)
    content = json.loads(rust.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in plan.reserved]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def _train_bpe(read: CorpusReader, plan: _VocabularyPlan) -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plan.check(len(alphabet), "the bytes alone")
    rust = byte_pairs(models.BPE(), lowercase=plan.lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=plan.size, min_frequency=MIN_FREQUENCY, show_progress=False, special_tokens=plan.first,
        initial_alphabet=alphabet,
    )  # fmt: skip
    _train(rust, read, trainer)
    return rust


def _train_unigram(read: CorpusReader, plan: _VocabularyPlan) -> tokenizers.Tokenizer:
    """Trains Unigram; scores are rounded and sorted, because the trainer sums them in thread order."""
    plan.check(1, "the letters alone")
    rust = unigram(models.Unigram(), lowercase=plan.lowercase)
    trainer = trainers.UnigramTrainer(
        vocab_size=plan.size, show_progress=False, special_tokens=plan.first, unk_token=plan.unk
    )
    _train(rust, read, trainer)
    content = json.loads(rust.to_str())
    special, pieces = content["model"]["vocab"][: len(plan.first)], content["model"]["vocab"][len(plan.first) :]
    trained = _canonicalize([(piece, score) for piece, score in pieces if piece not in plan.reserved])
    plan.check(len(trained), "the letters alone")
    content["model"]["vocab"] = special + trained
    return tokenizers.Tokenizer.from_str(json.dumps(content))


_TRAINERS = {"wordpiece": _train_wordpiece, "bpe": _train_bpe, "unigram": _train_unigram}


def _canonicalize(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns tokens and scores without the nondeterminism of a run.

    Letters that training dropped return with the lowest score plus one ten-thousandth each, in hash-table order: here
    all get the lowest score.
    """
    floor = min((score for _, score in pieces), default=0.0)

    def canonical(piece: str, score: float) -> float:
        steps = (score - floor) * 1e4
        dropped = len(piece) == 1 and abs(steps - round(steps)) < 1e-6 and steps < len(pieces)
        return round(floor if dropped else score, 6)

    scored = [(piece, canonical(piece, score)) for piece, score in pieces]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def _train(rust: tokenizers.Tokenizer, read: CorpusReader, trainer: trainers.Trainer) -> None:
    try:
        rust.train_from_iterator(read(), trainer)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"training failed: {error}; give more text or another vocab_size") from error


@contextmanager
def _progress(files: Sequence[Path], shown: bool) -> Generator[CorpusReader]:
    """Yields a corpus reader with a progress bar on standard error, then a timer while the trainer runs."""
    if not shown:
        yield lambda: read_corpus(files)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        total = sum(path.stat().st_size for path in files)

        def read() -> Iterator[str]:
            for done in bar.task_ids:
                bar.remove_task(done)
            task = bar.add_task("reading", total=total)
            yield from read_corpus(files, lambda done: bar.update(task, completed=done))
            bar.remove_task(task)
            bar.add_task("training", total=None)

        yield read
