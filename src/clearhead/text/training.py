"""Training: a tokenizer learnt from text files, the same from the same text every time."""

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

from clearhead.text.corpus import check_corpus, read_corpus
from clearhead.text.kinds import byte_pairs, unigram, wordpiece
from clearhead.text.templates import TEMPLATES, Template
from clearhead.text.tokenizer import Tokenizer

KINDS = ("wordpiece", "bpe", "unigram")
SEEN = 2  # a pair of pieces seen once is no pattern

Read = Callable[[], Iterator[str]]


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
    """A tokenizer learnt from text files (plain, .gz or .xz; UTF-8), which are streamed.

    `template` names the family of models it is for (see `TEMPLATES`) and `kind` how it splits words ("wordpiece",
    "bpe" or "unigram"; by default the family's own). `vocab_size` counts everything; little text may give less.
    `extra` are further special tokens, such as language tags. Progress is shown on a terminal, unless told otherwise.
    """
    if template not in TEMPLATES:
        raise ValueError(f"there is no template {template!r}: choose from {', '.join(TEMPLATES)}")
    family = TEMPLATES[template]
    kind = kind or family.kind
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}: choose from {', '.join(KINDS)}")
    paths = [Path(f) for f in ([files] if isinstance(files, str | Path) else files)]
    check_corpus(paths)
    plan = _Plan.of(family, kind, vocab_size, tuple(extra), lowercase)
    with _progress(paths, sys.stderr.isatty() if progress is None else progress) as read:
        rust = _LEARN[kind](read, plan)
    rust.add_special_tokens(family.added(family.last))
    frame = family.processor(rust.get_vocab())
    trim = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    rust.post_processor = processors.Sequence([trim, frame]) if kind == "bpe" else frame
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # reads the file; the families' classes rebuild the pipeline
        "model_input_names": family.inputs,
        "clean_up_tokenization_spaces": False,
        **({} if kind == "bpe" else {"unk_token": plan.unk}),
        **family.roles,
        **({"extra_special_tokens": list(extra)} if extra else {}),
        **({"model_max_length": max_len} if max_len else {}),
    }
    return Tokenizer(json.loads(rust.to_str()), config)


@dataclass(frozen=True)
class _Plan:
    """What is to be learnt: `room` pieces after the special tokens `first`, none of them `reserved`."""

    first: list[AddedToken]
    reserved: frozenset[str]
    room: int
    unk: str
    lowercase: bool

    @staticmethod
    def of(family: Template, kind: str, vocab_size: int, extra: tuple[str, ...], lowercase: bool) -> _Plan:
        unk = family.roles.get("unk_token", "<unk>")
        needed = () if kind == "bpe" else (unk,)  # bytes leave nothing unknown
        first = [*(t for t in needed if t not in family.first), *family.first]
        first += [t for t in dict.fromkeys(extra) if t not in (*first, *family.last)]
        reserved = frozenset((*first, *family.last))
        return _Plan(family.added(first), reserved, vocab_size - len(reserved), unk, lowercase)

    @property
    def size(self) -> int:
        """The ids given out while learning."""
        return len(self.first) + self.room

    def check(self, needed: int, what: str) -> None:
        if self.room < needed:
            raise ValueError(
                f"vocab_size leaves room for {max(self.room, 0)} pieces besides the special tokens, and {what} take "
                f"{needed}: make it {needed - self.room} larger or more"
            )


def _learn_wordpiece(read: Read, plan: _Plan) -> tokenizers.Tokenizer:
    """WordPiece in two readings: the letters first, because the trainer numbers them as its hash table falls.

    With the letters given in order, as special tokens for the time being, ties between pairs fall the same way always.
    """
    rust = wordpiece(models.WordPiece(unk_token=plan.unk), lowercase=plan.lowercase)
    _train(rust, read, trainers.WordPieceTrainer(vocab_size=0, show_progress=False))
    letters = sorted(set(rust.get_vocab()) - plan.reserved)
    plan.check(len(letters), "the letters alone")
    rust = wordpiece(models.WordPiece(unk_token=plan.unk), lowercase=plan.lowercase)
    trainer = trainers.WordPieceTrainer(
        vocab_size=plan.size, min_frequency=SEEN, show_progress=False, special_tokens=[*plan.first, *letters]
    )
    _train(rust, read, trainer)
    content = json.loads(rust.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in plan.reserved]
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def _learn_byte_pairs(read: Read, plan: _Plan) -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plan.check(len(alphabet), "the bytes alone")
    rust = byte_pairs(models.BPE(), lowercase=plan.lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=plan.size, min_frequency=SEEN, show_progress=False, special_tokens=plan.first,
        initial_alphabet=alphabet,
    )  # fmt: skip
    _train(rust, read, trainer)
    return rust


def _learn_unigram(read: Read, plan: _Plan) -> tokenizers.Tokenizer:
    """Unigram; its scores are rounded and put in order, because the trainer adds them up as its threads fall."""
    plan.check(1, "the letters alone")
    rust = unigram(models.Unigram(), lowercase=plan.lowercase)
    trainer = trainers.UnigramTrainer(
        vocab_size=plan.size, show_progress=False, special_tokens=plan.first, unk_token=plan.unk
    )
    _train(rust, read, trainer)
    content = json.loads(rust.to_str())
    special, pieces = content["model"]["vocab"][: len(plan.first)], content["model"]["vocab"][len(plan.first) :]
    learnt = _settle([(piece, score) for piece, score in pieces if piece not in plan.reserved])
    plan.check(len(learnt), "the letters alone")
    content["model"]["vocab"] = special + learnt
    return tokenizers.Tokenizer.from_str(json.dumps(content))


_LEARN = {"wordpiece": _learn_wordpiece, "bpe": _learn_byte_pairs, "unigram": _learn_unigram}


def _settle(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces and scores without the accidents of a run.

    Letters that training dropped come back with the lowest score and one ten-thousandth more each, in the order of a
    hash table: here all get the lowest.
    """
    floor = min((score for _, score in pieces), default=0.0)

    def settled(piece: str, score: float) -> float:
        steps = (score - floor) * 1e4
        dropped = len(piece) == 1 and abs(steps - round(steps)) < 1e-6 and steps < len(pieces)
        return round(floor if dropped else score, 6)

    scored = [(piece, settled(piece, score)) for piece, score in pieces]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def _train(rust: tokenizers.Tokenizer, read: Read, trainer: trainers.Trainer) -> None:
    try:
        rust.train_from_iterator(read(), trainer)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"nothing can be learnt: {error}; give more text or another vocab_size") from error


@contextmanager
def _progress(files: Sequence[Path], shown: bool) -> Generator[Read]:
    """Reading with a bar on standard error (bytes, rate, time left), then the time that learning takes."""
    if not shown:
        yield lambda: read_corpus(files)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), Left())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        total = sum(path.stat().st_size for path in files)

        def read() -> Iterator[str]:
            for done in bar.task_ids:
                bar.remove_task(done)
            task = bar.add_task("reading", total=total)
            yield from read_corpus(files, lambda done: bar.update(task, completed=done))
            bar.remove_task(task)
            bar.add_task("learning", total=None)

        yield read
