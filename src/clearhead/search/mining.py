"""Training rows of a reader: for each question a passage with its answer and retrieved passages without it."""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.search.index import Index
from clearhead.tasks.answer_spans import plain
from clearhead.text.sentences import split_sentences

_BLANK_LINE = re.compile(r"\n\s*\n")


@dataclass(frozen=True, kw_only=True)
class PassageMiningConfig:
    """Which of the passages that are found for a question become rows."""

    num_negatives: int = 3  # of each question
    depth: int = 20  # passages searched for each question
    unanswerable: float = 0.2  # share of the questions whose row has no passage with the answer

    def __post_init__(self) -> None:
        if self.num_negatives < 1 or self.depth <= self.num_negatives:
            raise ValueError(
                f"num_negatives is {self.num_negatives} and depth {self.depth}: give at least 1, and a larger depth"
            )
        if not 0.0 <= self.unanswerable < 1.0:
            raise ValueError(f"unanswerable is {self.unanswerable:g}: give a share from 0 to below 1")


def mine_passages(
    index: Index, questions: Iterable[Mapping[str, Any]], config: PassageMiningConfig
) -> Iterator[dict[str, Any]]:
    """Yield question, context, answer and negatives of each question; one without negatives is left out.

    `questions` have a question, the texts of its answers, and the context if it is known. The passage with the answer
    is the best one found that has it, of the known context if there is one; else the context itself. Questions that are
    to be unanswerable are spread evenly over the rows; their context is a passage without the answer.
    """
    for number, row in enumerate(questions):
        found = index.search(row["question"], config.depth)
        wanted = [text for text in row["answers"] if text.strip()]
        has = [has_answer(result.text, wanted) for result in found]
        wrong = [result.text for result, right in zip(found, has, strict=True) if not right]
        if not wanted or _is_chosen(number, config.unanswerable):
            if len(wrong) > 1:
                yield {"question": row["question"], "context": wrong[0], "answer": "",
                       "negative": wrong[1 : 1 + config.num_negatives]}  # fmt: skip
            continue
        context = row.get("context")
        right = [result.text for result, has_it in zip(found, has, strict=True) if has_it]
        if context is not None:
            right = [text for text in right if text in context or context in text] or [context]
        answered = passage_with_answer(right, row["answers"])
        if wrong and answered is not None:
            yield {"question": row["question"], "context": answered[0], "answer": answered[1],
                   "negative": wrong[: config.num_negatives]}  # fmt: skip


def pseudo_pairs(index: Index, *, keep: float = 0.1) -> Iterator[dict[str, str]]:
    """Yield anchor and positive for the training of embeddings on documents without questions.

    Anchors are headings, and sentences taken out of their passage (inverse cloze, Lee et al. 2019); the share `keep` of
    the sentences stays in its passage, so that equal words count too. Which ones is decided by a hash: always the same.
    """
    language = index.config.passages.language
    for passage in index.all_passages():
        if passage.heading and passage.heading not in passage.text:
            yield {"anchor": passage.heading, "positive": passage.text}
        blocks = [block for block in _BLANK_LINE.split(passage.text) if plain(block) != plain(passage.heading)]
        sentences = [sentence for block in blocks for sentence in split_sentences(block, language)]
        if len(sentences) < 2:
            continue
        chance = zlib.crc32(f"{passage.source}\n{passage.start}".encode("utf-8", "surrogatepass"))
        sentence = sentences[chance % len(sentences)]
        stays = (chance >> 8) % 1000 < 1000 * keep
        rest = passage.text if stays else " ".join(passage.text.replace(sentence, " ", 1).split())
        yield {"anchor": sentence, "positive": rest}


def has_answer(passage: str, answers: Sequence[str]) -> bool:
    """Return whether a passage has the words of an answer, whatever their case, punctuation and articles."""
    text = f" {plain(passage)} "
    return any(f" {wanted} " in text for answer in answers if (wanted := plain(answer)))


def passage_with_answer(passages: Sequence[str], answers: Sequence[str]) -> tuple[str, str] | None:
    """Return the first passage that has an answer as it is written, and the answer."""
    return next(((passage, text) for passage in passages for text in answers if text and text in passage), None)


def _is_chosen(number: int, share: float) -> bool:
    """Return whether a number is one of `share` of all numbers, spread evenly."""
    return int((number + 1) * share) > int(number * share)
