"""Cards to be written: the facts of a model or of data, the answers kept beside the card, and the refusal of blanks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.audit.card_facts import find_audit, merge_tests, run_facts
from clearhead.cards.card_answers import CardQuestion, check_answers, find_blanks, refuse_blanks
from clearhead.cards.card_record import CARD_RECORD, CardRecord, files_digest, read_card_record, training_digest
from clearhead.cards.model_card import CARD, Card, ModelFacts, is_edited, model_card, model_name
from clearhead.data.data_card import data_card, data_questions
from clearhead.data.data_sources import data_sources
from clearhead.data.described_file import described_source
from clearhead.files import IntegrityError, read_manifest, write_atomic
from clearhead.hub.describe import describe
from clearhead.hub.resolve import resolve_model


@dataclass(frozen=True, kw_only=True)
class CardTarget:
    """A card that is to be written: where, the record behind it, what is asked, and how answers become its text."""

    path: Path
    record_path: Path
    record: CardRecord
    questions: tuple[CardQuestion, ...]
    render: Callable[[Mapping[str, Any]], Card]


def model_card_target(
    source: str,
    *,
    audit: Path | None = None,
    evaluated: Sequence[Mapping[str, Any]] = (),
    out: Path | None = None,
) -> CardTarget:
    """Return the card of a model folder, with the facts of its run, its audit, and evaluations on test data.

    Facts of an earlier card are kept as long as the files of the folder are the same.
    """
    folder = resolve_model(source)
    if out is None and not Path(source).is_dir():
        raise ValueError(f"{source} is not a local folder: give --out FILE for its card")
    path = folder / CARD if out is None else out
    record_path = path.with_name(CARD_RECORD if out is None else f"{out.stem}.yaml")
    described = describe(folder)
    if described["intact"] is False:
        raise IntegrityError(folder, described["problems"])
    info: dict[str, Any] = described["metadata"]
    manifest = None if described["intact"] is None else read_manifest(folder)
    identity = {**info, **{name: described[name] for name in ("architecture", "head", "labels")}}
    record = read_card_record(record_path).kept(training_digest(identity), files_digest(manifest))
    measured = dict(record.measured)
    run, audited = run_facts(folder, info), find_audit(folder, source, audit)
    if run:
        measured["training"] = run["training"]
    if audited is not None:
        measured["audit"] = audited
    if tests := merge_tests(measured.get("tests", []), run.get("tests", []), evaluated):
        measured["tests"] = tests
    if recipe := info.get("recipe"):
        measured["data"] = data_sources(recipe, info.get("train_sha256"))
    facts = ModelFacts(
        name=model_name(folder), architecture=described["architecture"], model_type=described["model_type"],
        parameters=described["parameters"], metadata={**info, "labels": described["labels"]}, measured=measured,
    )  # fmt: skip
    return CardTarget(
        path=path, record_path=record_path, record=replace(record, measured=measured), questions=facts.questions,
        render=lambda answers: model_card(facts, answers),
    )  # fmt: skip


def data_card_target(
    source: str, *, labels: Sequence[str] = (), header: bool | None = None, out: Path | None = None
) -> CardTarget:
    """Return the data statement of a file, of a data set of the catalog, or of one of its files."""
    name, dataset, files, folder = described_source(source, labels, header)
    path = folder / f"{name.replace(':', '.').replace('/', '.')}.card.md" if out is None else out
    record_path = path.with_suffix(".yaml")
    return CardTarget(
        path=path, record_path=record_path, record=replace(read_card_record(record_path), measured={}),
        questions=data_questions(dataset), render=lambda answers: data_card(name, files, answers, dataset),
    )  # fmt: skip


def write_target(
    target: CardTarget,
    given: Mapping[Any, Any],
    *,
    draft: bool = False,
    overwrite: bool = False,
    ask: Callable[[CardQuestion], Mapping[str, Any]] | None = None,
) -> Card:
    """Write a card and the record behind it; ValueError names the blanks, unless it is a draft.

    `given` replaces answers of the record, and `ask` is called for each blank. Answers and facts are kept in the record
    even where a blank remains, so that nothing is asked or measured twice.
    """
    answers = check_answers(target.questions, {**target.record.answers, **given})
    for question in find_blanks(target.questions, answers):
        if ask is not None:
            answers.update(ask(question))
    record = replace(target.record, answers=answers)
    if answers or record.measured:
        record.write(target.record_path)
    if not draft:
        refuse_blanks(find_blanks(target.questions, answers), str(target.record_path))
    if target.path.exists() and is_edited(target.path.read_text(encoding="utf-8", errors="replace")) and not overwrite:
        raise ValueError(f"{target.path} was written or edited by hand: --overwrite replaces it, --out names another")
    card = target.render(answers)
    write_atomic(target.path, card.text)
    return card
