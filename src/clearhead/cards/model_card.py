"""The model card of a folder: `README.md` in the hub's format, from measured facts and the answers of a person."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.cards.card_answers import (
    MODEL_QUESTIONS,
    Answers,
    CardQuestion,
    answer_or_mark,
    find_blanks,
    license_fields,
)
from clearhead.cards.card_fields import IMAGE_TAGS, PIPELINE_TAGS, check_fields, hub_metrics, metric_type
from clearhead.cards.card_record import CARD_RECORD, CardRecord
from clearhead.cards.energy import estimate_energy
from clearhead.cards.public_names import file_label, is_hub_name
from clearhead.cards.public_recipe import PARTS, part_files, public_recipe
from clearhead.files import write_atomic
from clearhead.files.manifest import Folder
from clearhead.files.s3_path import S3Path

CARD = "README.md"
MAX_CARD_BYTES = 1 << 20
MAX_ESTIMATES = 30  # of a suite that are shown
MAX_LABELS = 50
USES = {
    "classify": 'model.classify("A text.")', "pair": 'model.classify("A text.", "Another one.")',
    "tag": 'model.tag("A text.")', "qa": 'model.qa("A question?", "A text with the answer.")',
    "translate": 'model.translate("A text.")', "language_model": 'model.generate("The beginning")',
    "dialogue": 'model.chat(["Hello."])', "embed": 'model.encode(["A text.", "Another one."])',
    "rerank": 'model.rerank("A query", ["A document.", "Another one."])', "caption": 'model.caption(["image.jpg"])',
    "draw": 'model.draw(["A text."])',
}  # fmt: skip

_SEAL = re.compile(r"\n<!-- clearhead card ([0-9a-f]{64}) -->\n\Z")


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a card states of a model without asking a person."""

    name: str
    architecture: str
    model_type: str
    parameters: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of the manifest: task, recipe, step
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])  # data, training, tests, audit

    @property
    def recipe(self) -> Mapping[str, Any]:
        return self.metadata.get("recipe") or {}

    @property
    def task(self) -> str | None:
        return self.metadata.get("task")

    @property
    def reads_images(self) -> bool:
        return "image" in self.recipe.get("data", {}).get("train", {})

    @property
    def pipeline_tag(self) -> str | None:
        tag = PIPELINE_TAGS.get(str(self.task))
        return IMAGE_TAGS.get(str(self.task), tag) if self.reads_images else tag

    @property
    def training_files(self) -> list[dict[str, Any]]:
        """The files of the recipe, with their data sets where these are known."""
        if "data" in self.measured:
            return list(self.measured["data"])
        parts = self.recipe.get("data", {})
        return [
            {"part": name, "name": file_label(file)} for name in PARTS for file in part_files(parts.get(name) or {})
        ]

    @property
    def questions(self) -> tuple[CardQuestion, ...]:
        """The questions that these facts leave open."""
        unneeded: set[str] = set()
        if self.reads_images and self.task == "classify":
            unneeded.add("languages")
        files = self.training_files
        if files and all("license" in file for file in files):
            unneeded.add("data_origin")
        return tuple(question for question in MODEL_QUESTIONS if question.name not in unneeded)


@dataclass(frozen=True, kw_only=True)
class Card:
    """The text of a card, its metadata, and the questions that it leaves blank."""

    text: str
    fields: Mapping[str, Any]
    blanks: tuple[CardQuestion, ...]


def model_card(facts: ModelFacts, answers: Answers) -> Card:
    """Return the card of a model; blanks are marked in its text, and missing in its metadata."""
    data = _card_data(facts, answers)
    fields = data.to_dict()
    check_fields(fields)
    blanks = tuple(find_blanks(facts.questions, answers))
    sections = [_about(facts, blanks), _uses(facts, answers), _data(facts, answers), _recipe(facts)]
    sections += [_scores(facts), _audit(facts), _limits(facts, answers), _compute(facts)]
    body = "\n".join(line for section in sections for line in [*section, ""])
    return Card(text=sealed(f"---\n{data.to_yaml()}\n---\n\n{body}"), fields=fields, blanks=blanks)


def write_card(folder: Path, facts: ModelFacts, record: CardRecord) -> Card:
    """Write `README.md`, and the answers and facts behind it where there are any; return the card."""
    card = model_card(facts, record.answers)
    if record.answers or record.measured:
        record.write(folder / CARD_RECORD)
    write_atomic(folder / CARD, card.text)
    return card


def read_card(folder: Path) -> str | None:
    """Return the card of a folder as text; None where it has none, or one that is too large or not text."""
    path = folder / CARD
    try:
        if not path.is_file() or path.stat().st_size > MAX_CARD_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def model_name(folder: str | Folder) -> str:
    """Return the name of a model: that of its folder, or of its run for `model`."""
    path = folder if isinstance(folder, S3Path) else Path(folder).resolve()
    return path.parent.name if path.name in ("model", "last", "best") and path.parent.name else path.name


def sealed(text: str) -> str:
    """Return a card with a hash of its text, by which later edits are detected."""
    return f"{text}\n<!-- clearhead card {hashlib.sha256(text.encode()).hexdigest()} -->\n"


def is_edited(text: str) -> bool:
    """Return whether a card was written or edited by a person, so that it must not be overwritten."""
    seal = _SEAL.search(text)
    return seal is None or hashlib.sha256(text[: seal.start()].encode()).hexdigest() != seal[1]


def cell(value: object) -> str:
    """Return a value as a cell of a Markdown table."""
    return " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(cell(value) for value in line) + " |" for line in lines]


def _card_data(facts: ModelFacts, answers: Answers) -> Any:
    from huggingface_hub import ModelCardData

    base = facts.recipe.get("model", {}).get("base_model")
    names = [name for test in facts.measured.get("tests", []) for name in test["scores"]]
    sets = [file["hub_id"] for file in facts.training_files if "hub_id" in file and file["part"] != "test"]
    tags = ["clearhead", facts.model_type, *(["sentence-transformers"] if facts.task in ("embed", "rerank") else [])]
    results = _eval_results(facts)
    return ModelCardData(
        language=answers.get("languages"),
        library_name="clearhead",
        pipeline_tag=facts.pipeline_tag,
        tags=tags,
        base_model=base if isinstance(base, str) and is_hub_name(base) else None,
        datasets=list(dict.fromkeys(sets)) or None,
        metrics=hub_metrics(names) or None,
        model_name=facts.name if results else None,
        eval_results=results or None,
        **license_fields(answers),  # pyright: ignore[reportArgumentType]
    )


def _eval_results(facts: ModelFacts) -> list[Any]:
    """Return the scores as the hub's model-index; intervals are arguments of their metrics."""
    from huggingface_hub import EvalResult

    if facts.pipeline_tag is None:
        return []
    results: list[Any] = []
    for test in facts.measured.get("tests", []):
        about = {"sha256": test["sha256"]} if "sha256" in test else None
        for name, value in test["scores"].items():
            args: dict[str, Any] = {}
            if name in test.get("intervals", {}):
                low, high = test["intervals"][name]
                args = {"low": round(low, 4), "high": round(high, 4), "level": 0.95, "rows": test.get("rows")}
            results.append(EvalResult(
                task_type=facts.pipeline_tag, dataset_type=test.get("hub_id", "unknown"), dataset_name=test["name"],
                dataset_args=about, metric_type=metric_type(name), metric_name=name, metric_value=round(value, 4),
                metric_args=args or None,
            ))  # fmt: skip
    return results


def _about(facts: ModelFacts, blanks: Sequence[CardQuestion]) -> list[str]:
    base = public_recipe(facts.recipe).get("model", {}).get("base_model")
    origin = f", fine-tuned from `{base}`" if isinstance(base, str) else ""
    size = "" if facts.parameters is None else f" with {facts.parameters:,} parameters"
    purpose = f"for the task `{facts.task}`" if facts.task else "without a recorded task"
    lines = [f"# {cell(facts.name)}", ""]
    if blanks:
        names = ", ".join(f"`{question.name}`" for question in blanks)
        lines += [f"> **Draft.** Blank: {names}. `clearhead card` asks for them.", ""]
    lines += [f"A `{facts.architecture}` {purpose}{size}{origin}. Saved by clearhead.", ""]
    if labels := facts.metadata.get("labels"):
        shown = ", ".join(f"`{cell(label)}`" for label in labels[:MAX_LABELS])
        lines += [f"Labels: {shown}{f' and {len(labels) - MAX_LABELS} more' if len(labels) > MAX_LABELS else ''}.", ""]
    images = facts.reads_images and facts.task == "classify"
    call = 'model.classify(["image.jpg"])' if images else USES.get(str(facts.task))
    code = ["```python", "import clearhead", "", 'model = clearhead.load("FOLDER-OR-NAME")', *([call] if call else [])]
    return [*lines, *code, "```"]


def _uses(facts: ModelFacts, answers: Answers) -> list[str]:
    def text(name: str) -> str:
        return answer_or_mark(facts.questions, answers, name)

    lines = ["## Intended use", "", text("intended_use"), "", "## What it must not be used for", ""]
    return [*lines, text("out_of_scope_use"), "", "## Who made it", "", text("developers")]


def _data(facts: ModelFacts, answers: Answers) -> list[str]:
    lines = ["## Training data", ""]
    rows: list[list[object]] = []
    for file in facts.training_files:
        digest = file.get("sha256", "")[:16] or "not recorded"
        origin = file.get("title", ""), file.get("license", ""), file.get("source", "")
        rows.append([file["part"], file["name"], *origin, digest])
    if rows:
        lines += [*table(("part", "file", "data set", "license", "source", "SHA-256"), rows), ""]
    else:
        lines += ["No training data is recorded in the folder.", ""]
    if origin := answer_or_mark(facts.questions, answers, "data_origin"):
        lines += [origin, ""]
    return [*lines, "### The people in the data", "", answer_or_mark(facts.questions, answers, "people")]


def _recipe(facts: ModelFacts) -> list[str]:
    if not facts.recipe:
        return ["## Training", "", "No recipe is recorded in the folder."]
    shown = json.dumps(public_recipe(facts.recipe), indent=1, ensure_ascii=False)
    lines = ["## Training", "", f"Trained for {facts.metadata.get('step', 0):,} steps by this recipe:", ""]
    return [*lines, "```json", shown.replace("```", "` ` `"), "```"]


def _scores(facts: ModelFacts) -> list[str]:
    lines = ["## Evaluation", ""]
    tests = facts.measured.get("tests", [])
    if not tests:
        return [*lines, "This card records no scores on test data."]
    for test in tests:
        digest = f", SHA-256 {test['sha256'][:16]}" if "sha256" in test else ""
        count = f"{test['rows']:,} rows of " if "rows" in test else ""
        lines += [f"On {count}`{cell(test['name'])}`{digest}:", ""]
        intervals = test.get("intervals", {})
        rows = [
            [name, f"{value:.2f}", "{:.2f} to {:.2f}".format(*intervals[name]) if name in intervals else "not measured"]
            for name, value in test["scores"].items()
        ]
        lines += [*table(("metric", "value", "95 % confidence interval"), rows), ""]
        if (error := test.get("calibration_error")) is not None:
            lines += [f"Calibration: the expected calibration error is {error:.1f} % (ten bins of equal size).", ""]
    return [*lines, "Intervals are by the bootstrap over rows: they hold for data like this test data only."]


def _audit(facts: ModelFacts) -> list[str]:
    lines = ["## Audit", ""]
    suites = facts.measured.get("audit", {}).get("suites", [])
    if not suites:
        return [*lines, "This card records no audit of social bias."]
    for suite in suites:
        version = f"Suite {suite['suite']} {suite['version']}, data {suite['sha256'][:16]}, seed {suite['seed']}."
        lines += [f"### {cell(suite['title'])}", "", f"{suite['method']} {version}", ""]
        unit = suite["unit"]
        shown = sorted(suite["estimates"], key=lambda e: not _flagged(e))[:MAX_ESTIMATES]
        rows = [
            [
                e["name"], f"{e['value']:.2f} {unit}", f"{e['low']:.2f} to {e['high']:.2f}",
                "" if e["ideal"] is None else f"{e['ideal']:g}", f"{e['count']:,}",
                "yes" if _flagged(e) else "not tested" if e["p_value"] is None else "no",
            ]
            for e in shown
        ]  # fmt: skip
        lines += table(("estimate", "value", "95 % confidence interval", "ideal", "rows", "differs from ideal"), rows)
        if (more := len(suite["estimates"]) - len(shown)) > 0:
            lines += ["", f"And {more} more estimates that are not shown."]
        lines += ["", *(f"- {cell(note)}" for note in suite["notes"]), ""]
    return [*lines, "An estimate that does not differ from the ideal one is no proof that the model has no bias."]


def _flagged(estimate: Mapping[str, Any]) -> bool:
    return estimate["p_value"] is not None and estimate["p_value"] < 0.05


def _limits(facts: ModelFacts, answers: Answers) -> list[str]:
    return ["## Limits", "", answer_or_mark(facts.questions, answers, "limitations")]


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _compute(facts: ModelFacts) -> list[str]:
    lines = ["## Compute and energy", ""]
    training = facts.measured.get("training", {})
    if "seconds" not in training or "threads" not in training:
        return [*lines, "This card records no training time."]
    energy = estimate_energy(training["seconds"], training["threads"])
    tokens = training.get("tokens")
    read = "" if tokens is None else f" It read about {tokens:,} tokens (from the logged speed)."
    return [
        *lines,
        f"Training took {training['seconds']:,.0f} seconds on {_threads(training['threads'])}: {energy.core_hours:.3g} "
        f"core-hours.{read}",
        "",
        f"Estimated energy: {energy.kwh:.2g} kWh, between {energy.low:.2g} and {energy.high:.2g}. This is an estimate "
        "from core-hours, an assumed power of 10 W (4 to 20) for a core with its memory, and an overhead of the "
        "building of 1.3 (1.0 to 1.6); nothing was measured. It leaves out accelerators, other processes of a "
        "distributed run, earlier attempts, and the training of a base model.",
    ]
