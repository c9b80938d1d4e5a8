"""Translation by CTranslate2 in a server: many clients at once, and what is refused at the start."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from clearhead.pipeline import load
from tests.serve.conftest import start
from tests.serve.models import sentence

pytest.importorskip("ctranslate2")


def test_clients_at_once_get_the_translations_of_their_texts(folders, tmp_path):
    draw = random.Random(5)
    requests = [[sentence(draw) for _ in range(draw.randint(1, 6))] for _ in range(48)]
    model = load(folders["translate"], dtype="float32")
    ours = [[t.text for t in model.translate(texts, beam=1)] for texts in requests]
    expected = [model.translate(texts, beam=1, align=True, engine="ctranslate2") for texts in requests]
    assert ours == [[t.text for t in translations] for translations in expected]
    running = start(
        tmp_path / "log", f"mt={folders['translate']}", "--dtype", "float32", "--engine", "ctranslate2"
    )  # fmt: skip
    try:
        with running.client() as client, ThreadPoolExecutor(12) as pool:

            def ask(texts: list[str]) -> list[dict]:
                response = client.post("/translate", json={"text": texts, "beam": 1, "align": True})
                assert response.status_code == 200, response.text
                return response.json()["answers"]

            for answers, translations in zip(pool.map(ask, requests), expected, strict=True):
                assert [a["text"] for a in answers] == [t.text for t in translations]
                assert [a["score"] for a in answers] == pytest.approx([t.score for t in translations], abs=1e-4)
                for answer, translation in zip(answers, translations, strict=True):
                    assert translation.alignment is not None
                    assert answer["alignment"][0] == pytest.approx(translation.alignment[0].tolist(), abs=1e-4)
    finally:
        running.stop()
    assert len(list((folders["translate"] / ".ctranslate2").glob("float32-*"))) == 1


def test_a_model_that_cannot_run_there_is_refused_at_the_start(folders, tmp_path):
    model = load(folders["translate"], dtype="float32")
    settings = json.loads(model.loaded.extra_files["generation_config.json"]) | {"no_repeat_ngram_size": 3}
    cast(Any, model.loaded.extra_files)["generation_config.json"] = json.dumps(settings).encode()
    model.save(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-m", "clearhead.cli", "serve", str(tmp_path / "model"), "--port", "0", "--engine",
         "ctranslate2"], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot be run by CTranslate2: generation_config.json sets no_repeat_ngram_size" in done.stderr
