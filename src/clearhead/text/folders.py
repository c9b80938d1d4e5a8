"""Folders: a tokenizer as Hugging Face's tools keep it, read from new and old layouts and written as the new one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import AddedToken, models, processors

from clearhead.text.kinds import byte_pairs, wordpiece
from clearhead.text.templates import TEMPLATES, Template

Json = dict[str, Any]
T = TypeVar("T")

LIMIT = 1 << 27  # bytes; the largest vocabularies in use take a quarter of it
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTED = ("additional_special_tokens", "extra_special_tokens")

# Classes of transformers whose vocab.txt is a plain WordPiece; others with such a file split text in their own ways.
_WORDPIECE = {
    f"{name}Tokenizer"
    for name in (
        "", "Bert", "ConvBert", "DistilBert", "Electra", "Funnel", "LayoutLM", "Lxmert", "MobileBert", "SqueezeBert",
    )
}  # fmt: skip
_SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "source.spm", "tokenizer.model")


def read_folder(folder: Path) -> tuple[Json, Json]:
    """What tokenizer.json holds, or would hold in an old folder, and what tokenizer_config.json says."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: give the folder that holds tokenizer.json")
    config = read_json(folder / "tokenizer_config.json")
    config |= {key: v for key, v in read_json(folder / "special_tokens_map.json").items() if key not in config}
    if (folder / "tokenizer.json").exists():
        return read_json(folder / "tokenizer.json"), config
    if (folder / "vocab.txt").exists():
        template = TEMPLATES["bert"]
        config |= {role: token for role, token in template.roles.items() if role not in config}
        rust = _read_wordpiece(folder / "vocab.txt", config)
    elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        rust = _read_byte_pairs(folder, config)
        template = TEMPLATES["gpt2" if rust.token_to_id("</s>") is None else "roberta"]
        config |= {role: token for role, token in template.roles.items() if role not in config}
    else:
        raise ValueError(_nothing(folder))
    for token in _added(folder, config):
        (rust.add_special_tokens if token.special else rust.add_tokens)([token])
    rust.add_special_tokens(special_tokens(config, folder))
    rust.post_processor = _processor(rust, template, config)
    config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    config.setdefault("model_input_names", template.inputs)
    return json.loads(rust.to_str()), config


def write_folder(folder: Path, content: Json, config: Json) -> None:
    """Write tokenizer.json, tokenizer_config.json and special_tokens_map.json."""
    folder.mkdir(parents=True, exist_ok=True)
    specials = {key: config[key] for key in (*NAMED, *LISTED) if config.get(key)}
    for name, value in (
        ("tokenizer.json", content), ("tokenizer_config.json", config), ("special_tokens_map.json", specials),
    ):  # fmt: skip
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def special_tokens(config: Json, source: Path | str = "tokenizer_config.json") -> list[AddedToken]:
    """The special tokens that a tokenizer_config.json names."""
    listed: list[Any] = []
    for key in LISTED:
        value: Any = config.get(key) or []
        listed += value.values() if isinstance(value, dict) else value
    values = [config[key] for key in NAMED if config.get(key)] + listed
    return [added_token(value, source) for value in values]


def added_token(value: Any, source: Path | str = "tokenizer_config.json") -> AddedToken:
    """A special token as a config writes it: a string, or an object with its `content` and flags."""
    flags: Json = value if isinstance(value, dict) else {"content": value}
    if not isinstance(flags.get("content"), str) or not flags["content"]:
        raise ValueError(f"{source}: {value!r} is no special token: it is a string, or an object with its `content`")
    chosen = {k: bool(flags[k]) for k in ("single_word", "lstrip", "rstrip", "normalized") if k in flags}
    return AddedToken(flags["content"], special=True, **{"normalized": False, **chosen})


def read_json(path: Path) -> Json:
    """A JSON object from a file; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > LIMIT:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, more than the {LIMIT:,} a tokenizer may take")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, not a JSON object")
    return value


def guarded(make: Callable[[], T], source: Path | str) -> T:
    """What `make` gives; whatever `tokenizers` raises, its panics too, becomes a ValueError that names the file."""
    try:
        return make()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the Rust side is no Exception
        raise ValueError(
            f"{source} is nothing that tokenizers {tokenizers.__version__} can read: {error}; "
            "get the file again, or upgrade tokenizers if a newer version wrote it"
        ) from error


def check_merges(model: Json) -> None:
    """Refuse merges whose second part lacks the prefix it must have: `tokenizers` would end the whole process."""
    prefix: str = model.get("continuing_subword_prefix") or ""
    if model.get("merges") and prefix:
        for merge in model["merges"]:
            right: str = merge.split(" ")[-1] if isinstance(merge, str) else merge[1]
            if not right.startswith(prefix):
                raise ValueError(f"merge {merge!r} does not continue a word with {prefix!r}")


def _read_wordpiece(path: Path, config: Json) -> tokenizers.Tokenizer:
    kind = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if kind and kind not in _WORDPIECE:
        raise ValueError(
            f"{path} belongs to {kind}, which splits text in its own way: "
            "open it with transformers' AutoTokenizer and save it, which writes a tokenizer.json"
        )
    vocab = {token: id for id, token in enumerate(_read_lines(path))}
    unk, *framing = (_named(config, role) for role in ("unk_token", "cls_token", "sep_token"))
    missing = [token for token in (unk, *framing) if token not in vocab]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: is it the vocabulary of a BERT?")
    accents = config.get("strip_accents")
    return wordpiece(
        guarded(lambda: models.WordPiece(vocab, unk_token=unk), path),
        lowercase=bool(config.get("do_lower_case", True)),
        accents=None if accents is None else not accents,
        chinese=bool(config.get("tokenize_chinese_chars", True)),
    )


def _read_byte_pairs(folder: Path, config: Json) -> tokenizers.Tokenizer:
    vocab = read_json(folder / "vocab.json")
    merges = [tuple(m.split(" ")) for m in _read_lines(folder / "merges.txt") if m and not m.startswith("#version")]
    model = guarded(lambda: models.BPE(vocab, merges), folder / "vocab.json")  # pyright: ignore[reportArgumentType]
    return byte_pairs(model, prefix_space=bool(config.get("add_prefix_space", False)))


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return lines[:-1] if lines[-1] == "" else lines


def _added(folder: Path, config: Json) -> list[AddedToken]:
    """Tokens that old folders keep beside the vocabulary, in the order of their ids."""
    path = folder / "added_tokens.json"
    found: list[tuple[int, AddedToken]] = []
    try:
        for content, id in read_json(path).items():
            found.append((int(id), AddedToken(content, normalized=False)))
        for id, flags in (config.get("added_tokens_decoder") or {}).items():
            token = added_token(flags)
            token.special = bool(flags.get("special"))
            found.append((int(id), token))
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{path} or `added_tokens_decoder` in tokenizer_config.json is broken: {error}") from error
    return [token for _, token in sorted(found, key=lambda pair: pair[0])]


def _processor(rust: tokenizers.Tokenizer, template: Template, config: Json) -> Any:
    """The family's frame, with the ids of whatever this folder calls its special tokens."""
    vocab = rust.get_vocab()
    frame = template.processor({usual: vocab[_named(config, role)] for role, usual in template.roles.items()})
    if template.kind == "wordpiece":
        return frame
    trim = processors.ByteLevel(trim_offsets=True, add_prefix_space=bool(config.get("add_prefix_space", False)))
    return processors.Sequence([trim, frame])


def _named(config: Json, role: str) -> str:
    return added_token(config[role]).content


def _nothing(folder: Path) -> str:
    for name in _SENTENCEPIECE:
        if (folder / name).exists():
            mend = (
                "transformers does not convert Marian's either: train one here with template='marian'"
                if name == "source.spm"
                else "open the folder once with transformers' AutoTokenizer.from_pretrained and save_pretrained, with "
                "sentencepiece and protobuf installed, which writes a tokenizer.json"
            )
            return f"{folder} has only {name}, a sentencepiece model, which is not read here: {mend}"
    return f"{folder} holds no tokenizer: it needs tokenizer.json, or vocab.txt, or vocab.json with merges.txt"
