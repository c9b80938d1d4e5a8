"""Write docs/audits.md, the audits of six small models, from their records: python docs/audits_page.py

`--commands` prints the commands that train and audit the models; `--add` reads what they wrote to runs/NAME, and writes
docs/results/audit_NAME.json and docs/pictures/audit-NAME.svg. The texts of the suites stay out of the records here, as
many are offensive and all have their own licenses.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.audit.audit_plots import shown_estimates
from clearhead.audit.estimate_table import shown_p
from clearhead.audit.estimates import Estimate

DOCS = Path(__file__).parent
RECORDS, PICTURES = DOCS / "results", DOCS / "pictures"
TARGET = DOCS / "audits.md"
MAX_ROWS = 20  # of a suite; the record has all
INTRODUCTION = """\
# Audits of six models

Six small models, each trained here with a shortened recipe and audited with [`clearhead audit`](audit.md), which says how the values are
measured and what they do not show. The models are far from the quality of large ones: the page shows what an audit finds and
how certain it is. It ranks nothing. A value is **bold** if it differs from that of a model without bias (p < 0.05, corrected for all
values of the suite).

`python docs/audits_page.py` writes this page from `docs/results/audit_NAME.json`; `--commands` prints how the models are trained and
audited.
"""


@dataclass(frozen=True)
class AuditedModel:
    """A model of the page: the recipe that trains it, settings that shorten it, and options of the audit."""

    name: str
    title: str
    recipe: str
    settings: tuple[str, ...] = ()
    options: str = ""
    score: str = ""  # of the test set: a key of results.json
    shown_score: str = ""
    note: str = ""  # what a reader of the tables needs to know

    @property
    def train(self) -> str:
        settings = "".join(f" --set train.{setting}" for setting in self.settings)
        return f"clearhead train recipes/{self.recipe}.yaml -o runs/{self.name}{settings}"

    @property
    def audit(self) -> str:
        return f"clearhead audit runs/{self.name}/model {self.options}".rstrip()

    @property
    def record(self) -> Path:
        return RECORDS / f"audit_{self.name.replace('-', '_')}.json"


MODELS = (
    AuditedModel("minilm-mlm", "MiniLM with a masked-language-modeling head", "minilm-mlm",
                 ("steps=300", "schedule.warmup=30"), "",
                 "accuracy", "of the masked tokens are predicted"),
    AuditedModel("bert-mini", "A small BERT", "bert-mini", ("steps=800", "schedule.warmup=80"), "--why",
                 "accuracy", "of the masked tokens are predicted"),
    AuditedModel("gpt-mini", "A small GPT", "gpt-mini", ("steps=500", "schedule.warmup=50"),
                 "--judge runs/sst2/model", "perplexity", "perplexity"),
    AuditedModel("translate", "A translator from English to German", "translate",
                 ("steps=700", "schedule.warmup=175"), "--language de", "bleu", "BLEU"),
    AuditedModel("sst2", "A classifier of sentiment", "sst2", (), "", "accuracy", "accuracy",
                 " Label 1 is positive."),
    AuditedModel("squad", "A reader", "squad",
                 ("steps=600", "schedule.warmup=60", "evaluate_every=300", "save_every=150"), "", "f1", "F1"),
)  # fmt: skip


def add(model: AuditedModel, runs: Path) -> None:
    """Write the record of a model from its folder of the training run: the run and the audit, without texts."""
    folder = runs / model.name
    audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    for part in (*audit["suites"], *([audit["heads"]] if audit["heads"] else [])):
        part.pop("examples", None)
        part.pop("pairs", None)
    run = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    record = {"command": audit["command"], "train": {"command": model.train, **run}, "audit": audit}
    model.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    shutil.copyfile(folder / "audit.svg", PICTURES / f"audit-{model.name}.svg")


def row(e: Estimate) -> str:
    """A row of the table of a suite."""
    mark, ideal = "**" if e.flagged else "", "" if e.ideal is None else f"{e.ideal:g}"
    return (
        f"| {mark}{e.name.replace('|', '/')}{mark} | {e.value:.2f} | {e.low:.2f} to {e.high:.2f} | {ideal} | "
        f"{e.count:,} | {shown_p(e)} |"
    )


def section(model: AuditedModel, record: dict[str, Any]) -> str:
    """The part of the page about a model."""
    train, audit = record["train"], record["audit"]
    score = train[model.score]
    shown = f"{score:.1f} % {model.shown_score}" if model.score == "accuracy" else f"{model.shown_score} {score:.1f}"
    lines = [
        f"## {model.title}\n",
        f"{audit['parameters'] / 1e6:.1f} M parameters; {train['steps']:,} steps in {train['seconds'] / 60:.0f} minutes; "
        f"test set: {shown}.{model.note} The audit took {audit['seconds'] / 60:.1f} minutes with {audit['threads']} "
        f"{'thread' if audit['threads'] == 1 else 'threads'}.\n",
        f"```sh\n{model.train}\n{model.audit}\n```\n",
        f"![Every value of the audit with its interval](pictures/audit-{model.name}.svg)\n",
    ]
    for suite in audit["suites"]:
        estimates = [Estimate(**values) for values in suite["estimates"]]
        some, flagged = shown_estimates(estimates, MAX_ROWS), sum(e.flagged for e in estimates)
        tested = sum(e.p_value is not None for e in estimates)
        lines += [
            f"### {suite['title']} (`{suite['suite']}`)\n",
            f"{suite['method']} {flagged} of {tested} tested values differ from the value without bias.\n",
            f"| | {suite['unit'] or 'value'} | 95 % interval | without bias | rows | p |\n|---|---|---|---|---|---|",
            "\n".join(map(row, some)) + "\n",
        ]
        if len(some) < len(estimates):
            lines.append(f"{len(estimates) - len(some)} more values are in the record.\n")
        lines += [*(f"- {note}" for note in suite["notes"]), ""] if suite["notes"] else []
    if heads := audit["heads"]:
        lines += [
            "### Heads behind the largest effects (`--why`)\n",
            f"The preference in the chosen pairs is {heads['total']['value']:.2f} on average; ablating a head takes so much of it:\n",
            "| head | takes | 95 % interval | both sentences | p |\n|---|---|---|---|---|",
            *(head_row(head) for head in heads["heads"][:5]),
            "",
        ]
    lines += [*(f"- {line}" for line in audit["left_out"]), ""] if audit["left_out"] else []
    lines.append(f"The record is [{model.record.name}](results/{model.record.name}).\n")
    return "\n".join(lines)


def head_row(head: dict[str, Any]) -> str:
    """A row of the table of heads."""
    e = Estimate(**head["change"])
    return f"| {e.name} | {e.value:+.2f} | {e.low:.2f} to {e.high:.2f} | {head['likelihood']:+.2f} | {shown_p(e)} |"


def page() -> str:
    """The text of docs/audits.md."""
    found = [(m, json.loads(m.record.read_text(encoding="utf-8"))) for m in MODELS if m.record.exists()]
    return "\n".join([INTRODUCTION, *(section(model, record) for model, record in found)]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", action="store_true", help="print the commands that train and audit, and stop")
    parser.add_argument("--add", nargs="*", metavar="NAME", help="models whose record is read from runs; default: all")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the training runs")
    given = parser.parse_args()
    if given.commands:
        print(
            "\n".join(
                line
                for model in sorted(MODELS, key=lambda m: m.name == "gpt-mini")
                for line in (model.train, model.audit)
            )
        )
        return
    if given.add is not None:
        for model in MODELS:
            if not given.add or model.name in given.add:
                add(model, given.runs)
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
