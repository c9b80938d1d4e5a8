from __future__ import annotations

import json

import pytest
import tokenizers

from clearhead.text import Tokenizer, fingerprint
from tests.text.conftest import ALL


def test_what_is_in_it(made):
    taken = made("wordpiece", "bert").fingerprint()
    assert set(taken) == {"tokenizer_json", "probe", "tokenizers"}
    assert len(taken["tokenizer_json"]) == len(taken["probe"]) == 64
    assert taken["tokenizers"] == tokenizers.__version__
    assert len(fingerprint.PROBES) == 20


def test_every_tokenizer_has_its_own(made):
    taken = [
        made(kind, template).fingerprint() for kind, template in ALL if template not in ("bart", "xlm-roberta")
    ]  # which are RoBERTa's
    assert len({f["tokenizer_json"] for f in taken}) == len(taken)
    made("wordpiece", "bert").check(made("wordpiece", "bert").fingerprint())


def test_spacing_order_padding_and_version_do_not_count(made, tmp_path):
    tokenizer = made("unigram", "t5")
    content = json.loads(json.dumps(tokenizer._content, indent=7))
    turned = dict(reversed(content.items())) | {"padding": {"any": 1}, "truncation": {"any": 2}}
    assert fingerprint.canonical_hash(turned) == tokenizer.fingerprint()["tokenizer_json"]
    tokenizer.check(tokenizer.fingerprint() | {"tokenizers": "0.1.0"})


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (lambda c: c["normalizer"].update(lowercase=True), "get different ids"),
        (lambda c: c["model"].update(max_input_chars_per_word=99_999), "get"),
        (lambda c: c.update(version="1.0 "), "get the same ids"),
    ],
)
def test_a_drifted_file_is_named(made, change, effect):
    tokenizer = made("wordpiece", "bert")
    content = json.loads(json.dumps(tokenizer._content))
    change(content)
    if "same" in effect:  # a file that means the same is another file all the same
        now = tokenizer.fingerprint() | {"tokenizer_json": fingerprint.canonical_hash(content)}
        with pytest.raises(ValueError, match=f"tokenizer.json is not the one.*{effect}"):
            fingerprint.compare(tokenizer.fingerprint(), now)
        return
    with pytest.raises(ValueError, match=f"tokenizer.json is not the one.*{effect}"):
        Tokenizer(content, tokenizer.config).check(tokenizer.fingerprint())


def test_a_drifted_library_is_named(made, monkeypatch):
    """The same file, read by a library that lowercases where it did not."""
    tokenizer = made("wordpiece", "bert")
    taken = tokenizer.fingerprint() | {"tokenizers": "0.9.4"}
    other = Tokenizer(tokenizer._content, tokenizer.config)
    other._escaped.normalizer = tokenizers.normalizers.Lowercase()
    with pytest.raises(
        ValueError,
        match=f"same tokenizer.json gives different ids: tokenizers 0.9.4 expected, {tokenizers.__version__}",
    ):
        other.check(taken)


@pytest.mark.parametrize("broken", [{}, {"probe": "x"}, {"probe": None, "tokenizer_json": "x"}])
def test_what_is_no_fingerprint(made, broken):
    with pytest.raises(ValueError, match="the fingerprint lacks"):
        made("wordpiece", "bert").check(broken)


def test_probes_show_the_differences_that_matter(made):
    """Lowercasing, accents, spaces and special strings: each changes the probe hash."""
    seen = {
        made("wordpiece", "bert").fingerprint()["probe"],
        made("wordpiece", "bert", lowercase=True).fingerprint()["probe"],
        made("wordpiece", "albert").fingerprint()["probe"],
    }
    assert len(seen) == 3
