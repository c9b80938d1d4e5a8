"""ONNX Runtime says what clearhead says, at shapes that were not traced."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")

from clearhead.attention import Layout  # noqa: E402
from clearhead.export import onnx as module  # noqa: E402
from clearhead.export.compare import ragged  # noqa: E402
from clearhead.export.onnx import export_onnx, inputs, open_onnx  # noqa: E402
from clearhead.files import stale_temporaries  # noqa: E402
from clearhead.hub.folder import open_folder  # noqa: E402
from tests.export.test_padded_encoder import ENCODERS  # noqa: E402
from tests.files.hostile import valid  # noqa: E402
from tests.parity.cases import CASES  # noqa: E402

SHAPES = ((1,), (24,), (1, 1, 1), (7, 1, 24, 12), (9, 9))
QUICK = ("ModernBertForMaskedLM",)  # tracing takes seconds: the others are `make slow`


def check(opened, folder, tolerance=1e-5):
    theirs, ours = open_onnx(opened, folder), ragged(opened)
    for lengths in SHAPES:
        layout, ids = Layout.from_lengths(lengths), torch.randint(4, 30, (sum(lengths),))
        segments = torch.randint(2, ids.shape) if getattr(opened.config.encoder, "num_segments", 0) > 1 else None
        got, want = theirs(ids, layout, segments), ours(ids, layout, segments)
        assert got.keys() == want.keys()
        for name in want:
            torch.testing.assert_close(got[name], want[name], atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if str(c) in QUICK else [pytest.mark.slow]) for c in ENCODERS], ids=str
)
def test_parity(case, tmp_path):
    case.make(tmp_path / "model")
    opened = open_folder(tmp_path / "model")
    export_onnx(opened, tmp_path / "onnx")
    check(opened, tmp_path / "onnx")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """A folder of sentence vectors, opened, and what was exported of it."""
    place = tmp_path_factory.mktemp("sentences")
    folder = valid(place / "bert")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": "", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    opened = open_folder(folder)
    export_onnx(opened, place / "onnx")
    return opened, place / "onnx"


def test_sentence_vectors(sentences):
    opened, folder = sentences
    check(opened, folder)
    layout, ids = Layout.from_lengths((3, 8)), torch.randint(4, 30, (11,))
    vectors = open_onnx(opened, folder)(ids, layout, None)["sentence_embedding"]
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))


def test_the_folder_is_plain_for_those_who_know_neither(sentences):
    """Names, types and open sizes, as a user of ONNX Runtime and `transformers` meets them."""
    from transformers import AutoConfig, AutoTokenizer

    _, folder = sentences
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        (name, "tensor(int64)", ["batch", "length"]) for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    assert [o.name for o in session.get_outputs()] == ["last_hidden_state", "sentence_embedding"]
    assert AutoConfig.from_pretrained(folder).model_type == "bert"
    given = AutoTokenizer.from_pretrained(folder)(["a b c", "d"], padding=True, return_tensors="np")
    vectors = session.run(["sentence_embedding"], {k: np.asarray(v, dtype=np.int64) for k, v in given.items()})[0]
    alone = session.run(["sentence_embedding"], {k: np.asarray(v[1:, :3], dtype=np.int64) for k, v in given.items()})[0]
    np.testing.assert_allclose(vectors[1:], alone, atol=1e-6)
    assert not (folder / "clearhead.json").exists() and (folder / "modules.json").exists()
    with pytest.raises(ValueError, match="only for other frameworks"):
        open_folder(folder)


def test_int8(tmp_path):
    opened = open_folder(valid(tmp_path / "bert"))
    export_onnx(opened, tmp_path / "onnx", quantization="int8")
    raw = (tmp_path / "onnx" / "model.onnx").read_bytes()
    assert b"MatMulInteger" in raw
    check(opened, tmp_path / "onnx", tolerance=0.2)  # of numbers up to 3


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "BartForSequenceClassification", "ViTModel"])
def test_other_models_are_refused(name, tmp_path):
    next(case for case in CASES if str(case) == name).make(tmp_path / "model")
    with pytest.raises(ValueError, match=r"not an encoder.*ctranslate2|reads images"):
        export_onnx(open_folder(tmp_path / "model"), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_refused_before_anything_is_made(tmp_path, monkeypatch):
    opened = open_folder(valid(tmp_path / "bert"))
    with pytest.raises(ValueError, match="no quantization 'int4' for ONNX: choose int8"):
        export_onnx(opened, tmp_path / "onnx", quantization="int4")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(FileExistsError, match="is not empty"):
        export_onnx(opened, tmp_path / "full")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ValueError, match=r"needs onnxscript: pip install 'clearhead\[onnx\]'"):
        export_onnx(opened, tmp_path / "onnx")


def test_whole_or_not_at_all(tmp_path, monkeypatch):
    """What fails halfway leaves nothing, and the old folder as it was."""
    opened = open_folder(valid(tmp_path / "bert"))
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "old").touch()

    class Program:
        def save(self, path):
            Path(path).write_bytes(b"half")
            raise OSError("the disk is full")

    monkeypatch.setattr(module, "_trace", lambda *_: Program())
    with pytest.raises(OSError, match="full"):
        export_onnx(opened, tmp_path / "onnx", overwrite=True)
    assert [f.name for f in (tmp_path / "onnx").iterdir()] == ["old"] and not stale_temporaries(tmp_path)


def test_segments_are_asked_for_where_there_are_any(tmp_path):
    for name, want in (("BertModel", 3), ("DistilBertModel", 2), ("ModernBertModel", 2), ("RobertaModel", 3)):
        next(case for case in CASES if str(case) == name).make(tmp_path / name)
        assert len(inputs(open_folder(tmp_path / name))) == want
