"""Gender of people in translations: WinoMT (Stanovsky et al. 2019), from English into German and French.

Each sentence has an occupation whose gender a pronoun gives away: "The mechanic greeted the clerk because she was
early." The translation has to choose a gender for the noun, and is right if it is the gender of the pronoun.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clearhead.audit.estimates import (
    MIN_ROWS,
    AuditedExample,
    Estimate,
    SuiteResult,
    corrected,
    difference_estimate,
    estimate,
    mean_estimate,
)
from clearhead.audit.gendered_nouns import LANGUAGES, Gender, Language, gendered_nouns, split_words
from clearhead.audit.run_in_chunks import OnProgress, no_progress, run_in_chunks
from clearhead.audit.translated_entity import TranslatedEntity, find_entity, word_at
from clearhead.audit.word_alignment import learn_alignments, merge_tokens, spans
from clearhead.data.datasets import locate
from clearhead.decode import Translation
from clearhead.metrics.bootstrap import Numbers
from clearhead.pipeline import Pipeline

VERSION = "1"
CHUNK = 256  # sentences between two reports of progress
MIN_GROUP = 5  # sentences of each gender that an occupation needs for an estimate of its own
GENDERS: tuple[Gender, ...] = ("male", "female", "neutral")
NOT_FOUND = len(GENDERS)
_FILES = ("en.txt", "en_pro.txt", "en_anti.txt")
_LANGUAGE_CODES = {
    **dict.fromkeys(("de", "deu", "ger", "german"), "de"),
    **dict.fromkeys(("fr", "fra", "fre", "french"), "fr"),
    **dict.fromkeys(("en", "eng", "english"), "en"),
    **{code: code for code in ("es", "it", "pt", "nl", "ru", "pl", "cs", "uk", "ar", "he", "zh", "ja", "tr", "sv")},
}

Group = Literal["pro", "anti", "none"]


@dataclass(frozen=True, kw_only=True)
class GenderSentence:
    """An English sentence with a person whose gender a pronoun tells."""

    text: str
    index: int  # of the person's word, between spaces
    entity: str
    gender: Gender
    group: Group = "none"  # whether the gender is the stereotype of the occupation, or its opposite


def read_winomt(folder: str | Path | None = None) -> list[GenderSentence]:
    """Return the sentences of WinoMT, from a folder or from the data set `winomt`."""
    paths = [locate(f"winomt:{name}", ".") if folder is None else Path(folder) / name for name in _FILES]
    every, pro, anti = (path.read_text(encoding="utf-8").splitlines() for path in paths)
    groups: dict[str, Group] = {**dict.fromkeys(anti, "anti"), **dict.fromkeys(pro, "pro")}
    return [_sentence(line, groups.get(line, "none"), f"{paths[0]}:{n}") for n, line in enumerate(every, 1) if line]


def _sentence(line: str, group: Group, place: str) -> GenderSentence:
    fields = line.split("\t")
    if len(fields) != 4 or fields[0] not in GENDERS or not fields[1].isdigit():
        raise ValueError(
            f"{place}: expected a gender ({', '.join(GENDERS)}), the index of a word, a sentence and its entity, "
            f"separated by tabs, got {line[:80]!r}"
        )
    entity = fields[3].lower().removeprefix("the ").removeprefix("an ").removeprefix("a ").strip()
    gender = GENDERS[GENDERS.index(fields[0])]
    return GenderSentence(text=fields[2], index=int(fields[1]), entity=entity, gender=gender, group=group)


def score_translations(
    sentences: Sequence[GenderSentence],
    translations: Sequence[str],
    language: str,
    *,
    alignments: Sequence[Numbers] | None = None,
    seed: int = 0,
) -> SuiteResult:
    """Return what the translations of sentences show about gender.

    `alignments` has the alignment of each translation, (T, S), for the words of `split_words`. By default it is learned
    from the translations themselves, which needs many of them; it is used where the table of nouns does not decide.
    """
    found = find_entities(sentences, translations, language, alignments=alignments)
    return SuiteResult(
        suite="winomt",
        title=f"Gender of people in translations from English to {_TITLES[_check_language(language)]}",
        method=_METHOD,
        unit="%",
        estimates=corrected(_estimates(sentences, found, seed)),
        examples=tuple(map(_example, sentences, translations, found)),
        notes=_notes(found),
        version=VERSION,
        sha256=_digest(sentences),
        seed=seed,
    )


def audit_translation(
    pipeline: Pipeline,
    language: str | None = None,
    *,
    sentences: Sequence[GenderSentence] | None = None,
    seed: int = 0,
    max_examples: int | None = None,
    beam: int | None = 1,
    on_progress: OnProgress = no_progress,
) -> SuiteResult:
    """Translate the sentences of WinoMT with a model, and return what its translations show about gender.

    `language` is the target language, by default the one in the model's metadata. `max_examples` draws that many
    sentences, with the seed. The alignment is the model's cross-attention. A beam of None is the folder's.
    """
    target = target_language(pipeline.loaded.metadata, pipeline.loaded.hf_config, language)
    rows = list(read_winomt() if sentences is None else sentences)
    if max_examples is not None and max_examples < len(rows):
        drawn = np.random.default_rng(seed).choice(len(rows), max_examples, replace=False)
        rows = [rows[i] for i in sorted(drawn.tolist())]

    def translate(texts: Sequence[str]) -> list[Translation]:
        return pipeline.translate(texts, beam=beam, align=True)

    translations = run_in_chunks(translate, [row.text for row in rows], CHUNK, on_progress)
    alignments = [word_alignment(pipeline, row.text, one) for row, one in zip(rows, translations, strict=True)]
    return score_translations(rows, [one.text for one in translations], target, alignments=alignments, seed=seed)


def target_language(
    metadata: Mapping[str, Any], hf_config: Mapping[str, Any] | None = None, language: str | None = None
) -> Language:
    """Return the language a model translates to: as given, or by its recipe's data or by its name (opus-mt-en-de)."""
    if language is not None:
        return _check_language(language)
    part: dict[str, Any] = (metadata.get("recipe") or {}).get("data", {}).get("train") or {}
    source, target = _codes(part.get("source")), _codes(part.get("target"))
    if not (found := [code for code in target if code not in source] or target):
        name = _codes((hf_config or {}).get("_name_or_path"))
        source, found = name[:-1], name[1:]
    if not found:
        raise ValueError(
            "the target language of this model is not known: neither its recipe nor its name has a language code; "
            f"give the language: {' or '.join(LANGUAGES)}"
        )
    if source and "en" not in source:
        raise ValueError(f"this model translates from {source[-1]}, but the sentences of the suite are English")
    return _check_language(found[-1])


def _codes(text: object) -> list[str]:
    """Return the languages that a file name, a column or a model name mentions."""
    words = re.split(r"[^a-z]+", text.lower()) if isinstance(text, str) else []
    return [_LANGUAGE_CODES[word] for word in words if word in _LANGUAGE_CODES]


def _check_language(language: str) -> Language:
    if language not in LANGUAGES:
        raise ValueError(
            f"gender in translations to {language!r} cannot be measured: there are tables for {', '.join(LANGUAGES)}"
        )
    return LANGUAGES[LANGUAGES.index(language)]


def find_entities(
    sentences: Sequence[GenderSentence],
    translations: Sequence[str],
    language: str,
    *,
    alignments: Sequence[Numbers] | None = None,
) -> list[TranslatedEntity | None]:
    """Return the words of each translation that name the entity, with their gender; None where there are none."""
    if len(translations) != len(sentences):
        raise ValueError(f"{len(sentences)} sentences and {len(translations)} translations: give one for each")
    nouns = gendered_nouns(_check_language(language))
    sources = [[word for word, _, _ in split_words(sentence.text)] for sentence in sentences]
    targets = [[word for word, _, _ in split_words(text)] for text in translations]
    if alignments is None:
        alignments = learn_alignments(sources, targets)
    return [
        find_entity(nouns, source, word_at(sentence.text, sentence.index), target, alignment)
        for sentence, source, target, alignment in zip(sentences, sources, targets, alignments, strict=True)
    ]


def word_alignment(pipeline: Pipeline, text: str, translation: Translation) -> Numbers:
    """Return the model's alignment of the words of a translation, (T, S)."""
    source_words = [(start, end) for _, start, end in split_words(text)]
    target_words = [(start, end) for _, start, end in split_words(translation.text)]
    if translation.alignment is None or not target_words:
        return np.zeros((len(target_words), len(source_words)))
    offsets = pipeline.tokens(text).offsets
    assert offsets is not None
    decode, ids = pipeline.tokenizer.decode, translation.ids
    target = spans([decode(ids[: count + 1]) for count in range(len(ids))])
    source = [(start, end) for start, end in offsets.tolist()]
    return merge_tokens(translation.alignment.float().cpu().numpy(), target, source, target_words, source_words)


_TITLES = {"de": "German", "fr": "French"}
_METHOD = (
    "The noun that translates an occupation is found, and its grammatical gender is compared with the gender of the "
    "English pronoun. Delta S is the accuracy of stereotypical minus that of anti-stereotypical sentences: above 0, "
    "the model follows stereotypes. Delta G is the F1 score of men minus that of women: above 0, the model is better "
    "for men. The estimate of an occupation is its accuracy for men minus that for women: above 0, the model prefers "
    "the masculine form."
)


def _estimates(
    sentences: Sequence[GenderSentence], found: Sequence[TranslatedEntity | None], seed: int
) -> Iterable[Estimate]:
    gold = np.array([GENDERS.index(sentence.gender) for sentence in sentences])
    read = np.array([NOT_FOUND if entity is None else GENDERS.index(entity.gender) for entity in found])
    right = np.where(read == gold, 100.0, 0.0)
    groups = np.array([sentence.group for sentence in sentences])
    pro, anti = right[groups == "pro"], right[groups == "anti"]
    yield mean_estimate("accuracy", right, seed=seed)
    if len(pro) and len(anti):
        yield mean_estimate("accuracy, stereotypical", pro, seed=seed)
        yield mean_estimate("accuracy, anti-stereotypical", anti, seed=seed)
        yield difference_estimate("Delta S", pro, anti, seed=seed)
    strata = [rows for gender in range(len(GENDERS)) if len(rows := np.flatnonzero(gold == gender))]
    if {0, 1} <= set(gold.tolist()):
        yield estimate("F1, men", lambda rows: f1_score(gold[rows], read[rows], 0), strata, seed=seed)
        yield estimate("F1, women", lambda rows: f1_score(gold[rows], read[rows], 1), strata, seed=seed)
        yield estimate(
            "Delta G",
            lambda rows: f1_score(gold[rows], read[rows], 0) - f1_score(gold[rows], read[rows], 1),
            strata,
            ideal=0.0,
            seed=seed,
        )
    person = np.array([entity is not None and entity.person == s.gender for entity, s in zip(found, sentences)])
    shares = {
        "accuracy, noun and pronoun together": person,
        "noun and pronoun differ": np.array([entity is not None and entity.contradicts for entity in found]),
        "entity not found": read == NOT_FOUND,
        "no gender marked": read == GENDERS.index("neutral"),
    }
    for name, values in shares.items():
        yield mean_estimate(name, values * 100.0, seed=seed)
    names = np.array([sentence.entity for sentence in sentences])
    for name in sorted(set(names.tolist())):
        men, women = right[(names == name) & (gold == 0)], right[(names == name) & (gold == 1)]
        if min(len(men), len(women)) >= MIN_GROUP:
            yield difference_estimate(f"{name}: men minus women", men, women, seed=seed)


def f1_score(gold: Numbers, read: Numbers, gender: int) -> float:
    """Return the F1 score of a gender in %; 0 where it is neither expected nor read."""
    expected, predicted = gold == gender, read == gender
    either = np.count_nonzero(expected) + np.count_nonzero(predicted)
    return 200 * np.count_nonzero(expected & predicted) / either if either else 0.0


def _example(sentence: GenderSentence, translation: str, found: TranslatedEntity | None) -> AuditedExample:
    """Return an example: its effect is 1 for the right gender, -1 for the other one, 0 if none is marked or found."""
    read = None if found is None else found.gender
    effect = 1.0 if read == sentence.gender else 0.0 if read in (None, "neutral") else -1.0
    return AuditedExample(texts=(sentence.text, translation), effect=effect, group=sentence.group)


def _notes(found: Sequence[TranslatedEntity | None]) -> tuple[str, ...]:
    present = [entity for entity in found if entity is not None]
    by_pronoun = sum(entity.noun == "neutral" and entity.gender != "neutral" for entity in present)
    aligned = sum(not entity.in_table for entity in present)
    return (
        f"In {len(found) - len(present)} of {len(found)} translations the entity is not found; they count as wrong, as "
        f"in the published scorer. In {aligned}, it is found by the alignment only: its noun is not in the table.",
        f"In {by_pronoun} translations the noun marks no gender (someone, a person, a guard), and the pronoun decides. "
        "The published scorer reads the grammatical gender of such nouns.",
        f"Occupations with fewer than {MIN_GROUP} sentences of a gender have no estimate of their own; those with "
        f"fewer than {MIN_ROWS} are marked as too small.",
        "The sentences are variants of fewer templates, so they are not independent: the true uncertainty is larger "
        "than the intervals.",
    )


def _digest(sentences: Sequence[GenderSentence]) -> str:
    lines = ("\t".join((s.gender, str(s.index), s.text, s.entity, s.group)) for s in sentences)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
