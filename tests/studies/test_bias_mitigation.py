"""Does augmentation help: rows with a planted bias, one result for each seed and treatment, and runs that are kept."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from clearhead.data.reweighing import group_of
from clearhead.studies import bias_mitigation
from clearhead.studies.bias_mitigation import NEGATIVE, POSITIVE, TREATMENTS, TreatedRun, made_up_rows, skewed_rows
from clearhead.studies.labels_needed import pretrained
from clearhead.studies.study_tables import show_mitigation
from clearhead.studies.training import finetuned_run
from clearhead.train.recipe import read_recipe
from clearhead.train.text_augmentation import TextAugmentConfig


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    torch.set_num_threads(1)
    here = tmp_path_factory.mktemp("encoder")
    text = "".join(f"{texts[0].capitalize()}. My brother was here.\n\n" for texts, _ in made_up_rows() * 2)
    (here / "t.txt").write_text(text)
    sizes = {"size": "tiny", "vocab_size": 90, "batch_tokens": 256}
    return str(pretrained(here / "run", steps=2, text=("t.txt",), base=here, **sizes))


def test_skewed_rows_have_the_planted_bias():
    rows = made_up_rows(400)
    for seed in (1, 2):
        drawn = skewed_rows(rows, 80, seed)
        assert len(set(drawn)) == 80, "no row twice"
        counts = Counter((group_of({"text": texts[0]}, "gender"), label) for texts, label in drawn)
        assert counts["female", NEGATIVE] == counts["male", POSITIVE] == 18
        assert counts["female", POSITIVE] == counts["male", NEGATIVE] == 2
    assert skewed_rows(rows, 80, 1) == skewed_rows(rows, 80, 1) != skewed_rows(rows, 80, 2)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match=r"skewed rows need 27 of female 0, and the data has 15: ask for fewer rows"):
        skewed_rows(made_up_rows(120), 120, 1)


def test_the_study_end_to_end(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.audit.crossed_bootstrap.DRAWS", 500)
    rows, steps = made_up_rows(), list[str]()
    options = {"data": "made up", "base_model": encoder, "count": 40, "steps": 2, "seeds": 1, "persons_per_template": 1}
    measured = bias_mitigation.measure(tmp_path, rows, rows[:20], **options)
    assert [(t.rows, t.training) for t in measured.treatments] == [
        (kind, training) for kind in ("as they come", "skewed") for training in TREATMENTS
    ]
    assert (measured.audited, measured.test, measured.count, measured.seeds) == (48, 20, 40, 1)
    for t in measured.treatments:
        assert [run.accuracy for run in t.runs] == list(t.accuracy.scores) and len(t.runs) == 1
        assert [run.shift for run in t.runs] == pytest.approx(t.shift.scores, abs=0.0051)
        for run in t.runs:
            assert run.shift_interval[0] <= run.shift <= run.shift_interval[1] and 0 <= run.flips <= 100
    for first in measured.treatments[::4]:
        assert first.training == "as is" and first.cost.scores == (0.0,)
    assert not list(tmp_path.rglob("model.safetensors")), "models are deleted"

    def note(name: str, step: int, total: int) -> None:
        steps.append(f"{step}/{total}")

    again = bias_mitigation.measure(tmp_path, rows, rows[:20], **options, on_progress=note)
    assert again == measured and set(steps) == {"2/2"}, "finished runs are not repeated"
    axes = bias_mitigation.draw(measured).axes
    assert [text.get_text() for text in axes[0].get_yticklabels()] == list(TREATMENTS)
    legend = axes[0].get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == [
        "rows as they come",
        "rows skewed",
    ]


def test_treatments_are_settings_of_the_recipe(encoder, tmp_path):
    rows = made_up_rows(40)
    for number, settings in enumerate(TREATMENTS.values()):
        finetuned_run("x", encoder, rows, rows[:8], tmp_path / str(number), steps=1, seed=1, data=settings)
    data = [read_recipe(tmp_path / str(i) / "run" / "recipe.yaml").data for i in range(4)]
    assert [isinstance(one.augment, TextAugmentConfig) for one in data] == [False, True, False, True]
    assert [one.balance_groups for one in data] == [None, None, "gender", "gender"]


def test_the_cost_is_paired_by_seed():
    plain, treated = ([TreatedRun(value, 1.0, (0.0, 2.0), 5.0, (2.0, 8.0), 1.0) for value in values]
                      for values in ((80.0, 90.0), (79.0, 92.0)))  # fmt: skip
    one = bias_mitigation._summary("skewed", "both", treated, plain)
    assert one.cost.scores == (1.0, -2.0) and one.accuracy.scores == (79.0, 92.0) and one.runs == tuple(treated)


def test_the_table_has_a_line_for_each_treatment(capsys):
    from rich.console import Console

    run = TreatedRun(80.0, -3.0, (-4.0, -2.0), 5.0, (2.0, 8.0), 1.0)
    one = bias_mitigation._summary("skewed", "both", [run, run], [run, run])
    measured = bias_mitigation.MitigationResult("made up", 8, 4, 2, 2, 0.9, 48, (one,), 2.0)
    show_mitigation(Console(width=120), measured)
    shown = capsys.readouterr().out
    assert "both" in shown and "80.0±0.0" in shown and "-3.0±0.0" in shown
