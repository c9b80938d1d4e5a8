"""Build the course: execute each lecture, and write its notebook and its page.

python docs/course/build_course.py [--all] [NUMBER ...]

The source of a lecture is N-NAME.py, cells in the percent format. The notebook N-NAME.ipynb holds the cells with their
outputs and, in its metadata, the seconds of every section: by the clock, and of the processor, which other programs on
the machine change less. The page N-NAME.md is the same for the site. A section whose code has not changed keeps its
stored outputs, unless --all is given: sections depend on the setup cells only.
"""

from __future__ import annotations

import base64
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import torch
from nbclient import NotebookClient

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("[0-9]-*.py"))
PICTURES = HERE / "pictures"
TIMEOUT_S = 600
SOLUTION = "solution"  # the tag of cells that are folded
SECTION = re.compile(r"^## (\d+\. .+)$", re.M)


def read_source(path: Path) -> Any:
    """Return the cells of a source as a notebook without outputs; cells have stable ids, solutions are folded."""
    notebook = jupytext.read(path, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if SOLUTION in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
    notebook.metadata = nbformat.from_dict({
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    })  # fmt: skip
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def sections(notebook: Any) -> list[tuple[str, list[int]]]:
    """Return the title and the cell numbers of every section; what comes before the first one is the setup."""
    found: list[tuple[str, list[int]]] = [("setup", [])]
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and (match := SECTION.search(cell.source)):
            found.append((match[1], []))
        found[-1][1].append(number)
    return found


def copy_outputs(notebook: Any, stored: Any) -> set[str]:
    """Copy the stored outputs of the sections whose code has not changed; returns the titles of these sections."""
    known = {title: code_cells(stored, numbers) for title, numbers in sections(stored)}
    copied: set[str] = set()
    for title, numbers in sections(notebook):
        cells, old = code_cells(notebook, numbers), known.get(title, [])
        if [c.source for c in cells] == [c.source for c in old] and all(c.execution_count is not None for c in old):
            copied.add(title)
            for cell, executed in zip(cells, old):
                cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    return copied if "setup" in copied else set()


def code_cells(notebook: Any, numbers: list[int]) -> list[Any]:
    """Return the code cells among these cells."""
    return [notebook.cells[number] for number in numbers if notebook.cells[number].cell_type == "code"]


def processor_seconds(client: NotebookClient) -> float:
    """Return the processor time that the kernel has used."""
    first = client.nb.cells[0]
    cell = nbformat.v4.new_code_cell("__import__('time').process_time()")
    used = float(client.execute_cell(cell, 0, store_history=False).outputs[0].data["text/plain"])
    client.nb.cells[0] = first  # nbclient puts an executed cell into its place
    return used


def execute(notebook: Any, folder: Path, kept: set[str], on_section: Callable[[str, float, float], object]) -> None:
    """Execute the sections of a notebook that are not kept, in a fresh kernel."""
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    with client.setup_kernel():
        for title, numbers in sections(notebook):
            if title in kept and title != "setup":
                continue
            begin, used = time.perf_counter(), processor_seconds(client)
            for position, number in enumerate(numbers):
                client.execute_cell(notebook.cells[number], number, execution_count=position + 1)
            for number in numbers:
                notebook.cells[number].metadata.pop("execution", None)  # timestamps
            taken = time.perf_counter() - begin
            on_section(title, round(taken, 1), round(processor_seconds(client) - used, 1))


def to_page(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown page of an executed notebook, and its pictures by file name."""
    pictures: dict[str, bytes] = {}
    parts: list[str] = []
    section = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            section += bool(SECTION.search(cell.source))
            parts.append(cell.source)
            continue
        shown = [_fence("py", cell.source.replace("%matplotlib inline\n", ""))]
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name.partition('-')[0]}-{section:02}-{len(pictures):02}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                shown.append(f"![{_caption(notebook, section)}](pictures/{file})")
            else:
                shown.append(_fence("text", str(output.get("text", data.get("text/plain", ""))).rstrip()))
        text = "\n\n".join(shown)
        if SOLUTION in cell.metadata.get("tags", []):
            text = '??? example "Solution"\n\n' + re.sub(r"^(?=.)", "    ", text, flags=re.M)
        parts.append(text)
    link = f"\n\n[The notebook]({name}.ipynb) of this page holds the same cells and outputs."
    parts[0] += link
    return "\n\n".join(parts) + "\n", pictures


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _caption(notebook: Any, section: int) -> str:
    title = sections(notebook)[section][0]
    return f"Figure of section {title}"


def build(path: Path, *, fresh: bool = False) -> None:
    """Execute what changed in a lecture, and write its notebook, page and pictures."""
    notebook, target = read_source(path), path.with_suffix(".ipynb")
    titles = [title for title, _ in sections(notebook)]
    kept: set[str] = set()
    times: dict[str, dict[str, float]] = {}
    if target.exists() and not fresh:
        stored = nbformat.read(target, as_version=4)
        old = stored.metadata.get("clearhead", {}).get("sections", {})
        kept = copy_outputs(notebook, stored) & old.keys()
        times = {title: dict(old[title]) for title in titles if title in kept}

    def write() -> None:
        notebook.metadata["clearhead"] = nbformat.from_dict({
            "processor": processor_name(), "threads": torch.get_num_threads(), "torch": torch.__version__,
            "sections": {title: times[title] for title in titles if title in times},
        })  # fmt: skip
        nbformat.write(notebook, target)

    def on_section(title: str, seconds: float, used: float) -> None:
        print(f"{seconds:7.1f} s, processor {used:6.1f} s  {title}", flush=True)
        times[title] = {"seconds": seconds, "processor_seconds": used}
        write()

    if kept != set(titles):
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, Path(folder), kept, on_section)
    write()
    nbformat.validate(notebook)
    page, pictures = to_page(notebook, path.stem)
    path.with_suffix(".md").write_text(page, encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for old_picture in PICTURES.glob(f"{path.stem.partition('-')[0]}-*.png"):
        old_picture.unlink()
    for file, content in pictures.items():
        (PICTURES / file).write_bytes(content)


def processor_name() -> str:
    """Return the name of the processor, as Linux gives it."""
    cpu = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", cpu.read_text(), re.M) if cpu.exists() else []
    return names[0] if names else platform.machine()


def main(arguments: list[str]) -> None:
    numbers = [argument for argument in arguments if argument != "--all"]
    for path in SOURCES:
        if not numbers or path.stem.partition("-")[0] in numbers:
            print(path.stem)
            build(path, fresh="--all" in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
