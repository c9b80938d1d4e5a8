"""Heads over a corpus: sums that are right, and the same after a stop."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from clearhead.attention import look
from clearhead.cli import app as command
from clearhead.see import heads
from clearhead.see.heads import FIGURES, survey, table, tally, texts_of

TEXTS = [f"Sentence number {i} is about {word}." for i in range(12) for word in ("cats", "the old sea", "rain")]


def test_a_head_that_looks_one_back(minilm):
    """Layer 0, head 2 of MiniLM looks at the token before."""
    names, sums = survey(minilm.opened, TEXTS[:6], effects=0)
    lines = table(names, sums)
    back = next(line for line in lines if (line.layer, line.head) == ("encoder.0", 2))
    assert back.previous + back.next + back.same > 0.9
    assert back.entropy < min(line.entropy for line in lines if line is not back)
    assert all(line.effect is None for line in lines)


def test_figures_by_hand(minilm):
    tokens = minilm.tokens("The old sea.")
    with torch.inference_mode(), look(minilm.model) as seen:
        minilm.model.states(tokens.ids, tokens.layout, segments=tokens.segments)
    special = torch.tensor([True, False, False, False, False, True])
    found = tally(seen["encoder.2"], 0, special)[4]
    w = seen["encoder.2"].head(4).double()[1:5]
    want = {
        "entropy": -(w * w.log()).sum(),
        "distance": sum(w[i, j] * abs(i + 1 - j) for i in range(4) for j in range(6)),
        "first": w[:, 0].sum(),
        "previous": sum(w[i, i] for i in range(4)),
        "next": sum(w[i, i + 2] for i in range(4)),
        "same": sum(w[i, i + 1] for i in range(4)),
        "special": w[:, 0].sum() + w[:, 5].sum(),
    }
    for name, value in zip(FIGURES, found, strict=True):
        assert float(value) == pytest.approx(float(want[name]), rel=1e-6), name


def test_a_head_that_is_missed(minilm):
    names, sums = survey(minilm.opened, TEXTS[:4], effects=4)
    effects = [line.effect for line in table(names, sums)]
    assert sums.measured == 4
    assert max(effects) > 1e-3 and min(effects) > -1e-9


def test_stopped_and_gone_on_to_the_same_bits(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(heads, "CHUNK", 8)
    want = survey(minilm.opened, TEXTS, effects=3)

    class Stopped(Exception):
        pass

    def stop(sums):
        if sums.documents == 16:
            raise Stopped

    state = tmp_path / "state"
    with pytest.raises(Stopped):
        survey(minilm.opened, TEXTS, state, effects=3, told=stop)
    seen = []
    found = survey(minilm.opened, TEXTS, state, effects=3, told=lambda sums: seen.append(sums.documents))
    assert seen[0] == 24
    assert found == want


def test_another_model_s_sums_are_refused(minilm, tmp_path):
    state = tmp_path / "state"
    survey(minilm.opened, TEXTS[:2], state, effects=0)
    with pytest.raises(ValueError, match="another model or other settings"):
        survey(minilm.opened, TEXTS[:2], state, effects=1)


def test_texts(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    assert list(texts_of(tmp_path / "a.jsonl")) == ["one", "two"]
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"txt": 1}\n')
    with pytest.raises(ValueError, match=r"b.jsonl:2: each line is an object"):
        list(texts_of(tmp_path / "b.jsonl"))


def test_the_command(minilm, tmp_path):
    from tests.real import MINILM

    file, out = tmp_path / "texts.txt", tmp_path / "heads.parquet"
    file.write_text("\n".join(TEXTS[:5]))
    result = CliRunner().invoke(command, ["heads", str(MINILM), str(file), "-o", str(out), "--effects", "2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["documents"] == 5 and len(found["heads"]) == 72
    import pyarrow.parquet as pq

    assert pq.read_table(out).to_pylist() == found["heads"]
    assert (tmp_path / "heads.svg").exists() and not (tmp_path / "heads.parquet.state").exists()
