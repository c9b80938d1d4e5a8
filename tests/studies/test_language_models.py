import numpy as np
import pytest
import torch

from clearhead.models import build
from clearhead.pipeline import load
from clearhead.studies import StudyCorpus, language_models
from clearhead.studies.language_models import MODELS, SMALL, CurvePoint, LanguageModelRun, LanguageModelsResult
from clearhead.tasks.model_presets import decoder_only


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # so little work is not worth sharing


@pytest.mark.parametrize(("models", "vocab_size"), [(MODELS, 1000), (SMALL, 300)])
def test_the_two_are_of_one_size(models, vocab_size):
    sizes = [
        sum(p.numel() for p in build(decoder_only(m, vocab_size, language_models.MAX_LEN)).parameters())
        for m in models.values()
    ]
    assert max(sizes) / min(sizes) < 1.1


def test_the_study_end_to_end(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"Line {n} says that {n} is {n * n}.\n" for n in range(300)))
    sizes = {"steps": 24, "models": SMALL, "vocab_size": 300, "batch_tokens": 256}
    measured = language_models.measure(
        StudyCorpus.from_file(tmp_path / "text.txt"), tmp_path / "runs", prompt="Line", **sizes
    )
    assert [s.label for s in measured.speakers] == ["LSTM", "Transformer"]
    for s in measured.speakers:
        assert [p.step for p in s.points] == list(range(2, 25, 2))
        assert s.points[-1].loss < s.points[0].loss
        assert 0 < s.points[0].seconds < s.points[-1].seconds <= s.seconds + 0.1
        assert s.sample.startswith("Line") and len(s.sample) > 4
        model = load(tmp_path / "runs" / s.label.lower() / "model").model
        assert s.parameters == sum(p.numel() for p in model.parameters())
    again = language_models.measure(
        StudyCorpus.from_file(tmp_path / "text.txt"), tmp_path / "runs", prompt="Line", **sizes
    )
    assert again == measured


def test_the_picture():
    points = (CurvePoint(10, 30.0, 5.0), CurvePoint(20, 60.0, 4.0))
    speakers = tuple(LanguageModelRun(label, 900_000, 60.0, 1000.0, points, "") for label in ("LSTM", "Transformer"))
    steps, minutes = language_models.draw(LanguageModelsResult(20, 512, 300, 2, "", speakers)).axes
    assert [np.asarray(line.get_xdata()).tolist() for line in steps.lines] == [[10, 20]] * 2
    assert [np.asarray(line.get_xdata()).tolist() for line in minutes.lines] == [[0.5, 1.0]] * 2
    assert [text.get_text().splitlines()[0] for text in minutes.texts] == ["LSTM", "Transformer"]
    assert not list(steps.texts)
