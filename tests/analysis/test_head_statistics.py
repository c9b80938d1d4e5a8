"""Head statistics over a corpus: correct sums, and identical sums after a resume."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from clearhead.analysis import head_statistics as module
from clearhead.analysis.corpus_io import read_texts
from clearhead.analysis.head_statistics import STATISTICS, head_rows, head_statistics, sum_statistics
from clearhead.attention.capture import look
from clearhead.cli import app as command

TEXTS = [f"Sentence number {i} is about {word}." for i in range(12) for word in ("cats", "the old sea", "rain")]


def test_a_head_that_attends_to_the_previous_token(minilm):
    """Layer 0, head 2 of MiniLM attends to neighbours."""
    names, sums = head_statistics(minilm.loaded, TEXTS[:6], effects=0)
    lines = head_rows(names, sums)
    back = next(line for line in lines if (line.layer, line.head) == ("encoder.0", 2))
    assert back.previous + back.next + back.same > 0.9
    assert back.entropy < min(line.entropy for line in lines if line is not back)
    assert all(line.effect is None for line in lines)


def test_statistics_against_direct_sums(minilm):
    tokens = minilm.tokens("The old sea.")
    with torch.inference_mode(), look(minilm.model) as capture:
        minilm.model.hidden_states(tokens.ids, tokens.layout, segments=tokens.segments)
    special = torch.tensor([True, False, False, False, False, True])
    found = sum_statistics(capture["encoder.2"], 0, special)[4]
    w = capture["encoder.2"].head(4).double()[1:5]
    want = {
        "entropy": -(w * w.log()).sum(),
        "distance": sum(w[i, j] * abs(i + 1 - j) for i in range(4) for j in range(6)),
        "first": w[:, 0].sum(),
        "previous": sum(w[i, i] for i in range(4)),
        "next": sum(w[i, i + 2] for i in range(4)),
        "same": sum(w[i, i + 1] for i in range(4)),
        "special": w[:, 0].sum() + w[:, 5].sum(),
    }
    for name, value in zip(STATISTICS, found, strict=True):
        assert float(value) == pytest.approx(float(want[name]), rel=1e-6), name


def test_ablation_effects(minilm):
    names, sums = head_statistics(minilm.loaded, TEXTS[:4], effects=4)
    rows = head_rows(names, sums)
    effects = [line.effect for line in rows if line.effect is not None]
    assert sums.ablated_documents == 4 and len(effects) == len(rows) > 0
    assert max(effects) > 1e-3 and min(effects) > -1e-9


def test_resume_is_bit_identical(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_DOCUMENTS", 8)
    want = head_statistics(minilm.loaded, TEXTS, effects=3)

    class Stopped(Exception):
        pass

    def stop(sums):
        if sums.documents == 16:
            raise Stopped

    state = tmp_path / "state"
    with pytest.raises(Stopped):
        head_statistics(minilm.loaded, TEXTS, state, effects=3, on_progress=stop)
    progress = []
    found = head_statistics(
        minilm.loaded, TEXTS, state, effects=3, on_progress=lambda sums: progress.append(sums.documents)
    )
    assert progress[0] == 24
    assert found == want


def test_state_of_other_settings_is_refused(minilm, tmp_path):
    state = tmp_path / "state"
    head_statistics(minilm.loaded, TEXTS[:2], state, effects=0)
    with pytest.raises(ValueError, match="a different model or different settings"):
        head_statistics(minilm.loaded, TEXTS[:2], state, effects=1)


def test_read_texts(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    assert list(read_texts(tmp_path / "a.jsonl")) == ["one", "two"]
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"txt": 1}\n')
    with pytest.raises(ValueError, match=r"b.jsonl:2: each line must be an object"):
        list(read_texts(tmp_path / "b.jsonl"))


def test_command(minilm, tmp_path):
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
