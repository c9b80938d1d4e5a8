"""Fingerprint of a tokenizer: hashes of its file and of its output, to detect changes of either."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

# Texts on which tokenizers, and versions of their library, are known to differ.
PROBES = (
    "",
    "The quick brown fox jumps over the lazy dog.",
    "  leading,  double and trailing spaces  ",
    "tabs\tand\nnew lines\r\nand\u00a0hard\u2009spaces\u3000",
    "naïve café, Łódź, ÅNGSTRÖM, İstanbul, STRASSE straße",
    "e\u0301 is not é to everyone; ﬁ ligature, Ⅷ, ½, ²",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم",
    "नमस्ते दुनिया ภาษาไทยไม่มีช่องว่าง",
    "今日は世界。中文没有空格，한국어는 있다",
    "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ©™",
    "3.14159 1,000,000 2024-02-29 0x7F 1e-9 +49 (0)30",
    "def f(x):\n    return {'a': [x ** 2, x != 0]}  # ok",
    "https://example.org/a_b?c=d&e=%20#f user@example.com",
    "don't won't it's O'Neill rock'n'roll “quoted” ‘single’ — dash…",
    "snake_case camelCase SCREAMING_CASE kebab-case",
    "[CLS] a [SEP] b [MASK] [PAD] [UNK]",
    "<s> a </s> <mask> <pad> <unk> <|endoftext|>",
    "zero\u200bwidth soft\u00adhyphen \ufeffbom \x00 null \x7f delete",
    "antidisestablishmentarianism" * 12,
    "a" * 300,
)


def canonical_hash(content: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a tokenizer.json, ignoring whitespace, key order, padding and truncation."""
    relevant = {key: value for key, value in content.items() if key not in ("padding", "truncation")}
    return _hash(relevant)


def probe_hash(ids: Sequence[Sequence[int]]) -> str:
    return _hash(ids)


def compare(expected: Mapping[str, str], actual: Mapping[str, str]) -> None:
    """Raises ValueError if two fingerprints differ, and names the cause: the file or the library version."""
    missing = [key for key in ("tokenizer_json", "probe") if not isinstance(expected.get(key), str)]
    if missing:
        raise ValueError(f"the fingerprint lacks {', '.join(missing)}: it was not created by `Tokenizer.fingerprint`")
    same = {key: expected[key] == actual[key] for key in ("tokenizer_json", "probe")}
    if not same["tokenizer_json"]:
        effect = "the probe texts get the same ids" if same["probe"] else "the probe texts get different ids"
        raise ValueError(
            f"tokenizer.json is not the one that was fingerprinted ({expected['tokenizer_json'][:12]} expected, "
            f"{actual['tokenizer_json'][:12]} found; {effect}): restore the file the model was trained with"
        )
    if not same["probe"]:
        raise ValueError(
            f"the same tokenizer.json gives different ids: tokenizers {expected.get('tokenizers', '?')} expected, "
            f"{actual['tokenizers']} installed; install the former, or train and fingerprint again"
        )


def library_version() -> str:
    return tokenizers.__version__


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
