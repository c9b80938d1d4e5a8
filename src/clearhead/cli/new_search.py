"""`clearhead new search`: rows and recipes that train a retriever and a reader on your own documents."""

import json
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

TEXT = """\
# Search trained on {docs}

{about}
Run these commands in the folder that holds `{name}`:

```bash
clearhead train {name}/retriever.yaml --out {name}/runs/retriever
{train_reader}clearhead index {docs} --out {name}/index --model {name}/runs/retriever/model{reader}
{measure}clearhead serve {name}/index
```
"""


def new_search(
    docs: Path, questions: Path | None, out: Path, columns: dict[str, str], base_model: str | None,
    generator: str | None = None,
) -> None:  # fmt: skip
    """Write a folder with training rows, recipes and the commands; where that fails, leave no folder."""
    try:
        _new_search(docs, questions, out, columns, base_model, generator)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _new_search(
    docs: Path, questions: Path | None, out: Path, columns: dict[str, str], base_model: str | None,
    generator: str | None,
) -> None:  # fmt: skip
    from clearhead.cli.task_rows import question_rows, question_values
    from clearhead.pipeline import load
    from clearhead.search import Index, IndexConfig, PassageMiningConfig, mine_passages, pseudo_pairs, read_documents
    from clearhead.search.document_readers import ReadReport
    from clearhead.search.question_generator import generated_questions
    from clearhead.train.recipe_scratch import scratch_recipe

    out.mkdir(parents=True)
    skipped = ReadReport()
    index = Index.create(str(out / "words"), IndexConfig())
    index.update(read_documents(docs, skipped))
    for name, reason in skipped.skipped:
        typer.echo(f"skipped {name}: {reason}", err=True)
    if not len(index):
        raise ValueError(f"{docs} has no text that can be indexed")
    pairs: list[Mapping[str, Any]] = list(pseudo_pairs(index))
    about = f"{len(index):,} passages. Without questions, the retriever learns from headings and from sentences."
    if generator is not None:
        written = list(generated_questions(index, load(generator)))
        pairs += [{"anchor": row["question"], "positive": row["context"]} for row in written]
        about += f" A model wrote {len(written):,} questions more."
    commands = {"train_reader": "", "reader": "", "measure": ""}
    if questions is not None:
        rows = [question_values(row.values) for row in question_rows(questions, columns)]
        parts = split_questions(rows)
        mined = list(mine_passages(index, parts["train"], PassageMiningConfig()))
        _write(out / "passages.jsonl", mined)
        pairs = [{"anchor": row["question"], "positive": row["context"]} for row in mined if row["answer"]]
        for name in ("calibration", "test"):
            _write(out / f"{name}.jsonl", parts[name])
        _recipe(scratch_recipe, "answer", out / "passages.jsonl", out / "reader.yaml", base_model)
        about = (
            f"{len(index):,} passages; {len(rows):,} questions: {len(parts['train']):,} to train, "
            f"{len(parts['calibration']):,} to calibrate, {len(parts['test']):,} to measure. The retriever learns from "
            "questions and their passages, the reader from passages with and without the answer."
        )
        commands = {
            "train_reader": f"clearhead train {out}/reader.yaml --out {out}/runs/reader\n",
            "reader": f" --reader {out}/runs/reader/model",
            "measure": f"clearhead calibrate {out}/index {out}/calibration.jsonl\n"
            f"clearhead eval {out}/index {out}/test.jsonl --out {out}/failures.html\n",
        }
    if len(pairs) < 2:
        raise ValueError(f"{docs} gives {len(pairs)} training pairs: add documents or questions")
    _write(out / "pairs.jsonl", pairs)
    _recipe(scratch_recipe, "embed", out / "pairs.jsonl", out / "retriever.yaml", base_model)
    (out / "README.md").write_text(TEXT.format(docs=docs, name=out, about=f"{about}\n", **commands), encoding="utf-8")
    typer.echo(f"{out} written: {about}")
    typer.echo(f"next: the commands in {out}/README.md", err=True)


def split_questions(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return four fifths of the questions to train, a tenth to calibrate and a tenth to measure.

    All questions about one context stay together; the parts depend on the texts alone.
    """
    parts: dict[str, list[dict[str, Any]]] = {"train": [], "calibration": [], "test": []}
    for row in rows:
        tenth = zlib.crc32(str(row.get("context") or row["question"]).encode("utf-8", "surrogatepass")) % 10
        name = "calibration" if tenth == 8 else "test" if tenth == 9 else "train"
        parts[name].append({key: value for key, value in row.items() if value is not None})
    return parts


def _recipe(make: Any, task: str, rows: Path, out: Path, base_model: str | None) -> None:
    out.write_text(make(task, [rows], out, base_model), encoding="utf-8")


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
