"""Tokenizer files in the Hugging Face layout: reads new and old layouts, writes the new one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import AddedToken, models, processors

from clearhead.text.algorithms import byte_pairs, wordpiece
from clearhead.text.templates import TEMPLATES, TokenizerTemplate

Json = dict[str, Any]
T = TypeVar("T")

MAX_FILE_BYTES = 1 << 27  # four times the largest vocabularies in use
SINGLE_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LIST_ROLES = ("additional_special_tokens", "extra_special_tokens")

# Classes of transformers whose vocab.txt is a plain WordPiece; others with such a file split text differently.
_WORDPIECE = {
    f"{name}Tokenizer"
    for name in (
        "", "Bert", "ConvBert", "DistilBert", "Electra", "Funnel", "LayoutLM", "Lxmert", "MobileBert", "SqueezeBert",
    )
}  # fmt: skip
_SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "source.spm", "tokenizer.model")


def read_tokenizer_files(folder: Path) -> tuple[Json, Json]:
    """Returns the content of tokenizer.json, built from older files if missing, and of tokenizer_config.json."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: give the folder that holds tokenizer.json")
    config = read_json(folder / "tokenizer_config.json")
    config |= {key: v for key, v in read_json(folder / "special_tokens_map.json").items() if key not in config}
    if (folder / "tokenizer.json").exists():
        return read_json(folder / "tokenizer.json"), config
    if (folder / "vocab.txt").exists():
        template = TEMPLATES["bert"]
        config |= {role: token for role, token in template.roles.items() if role not in config}
        rust = _read_wordpiece(folder / "vocab.txt", config)
    elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        rust = _read_bpe(folder, config)
        template = TEMPLATES["gpt2" if rust.token_to_id("</s>") is None else "roberta"]
        config |= {role: token for role, token in template.roles.items() if role not in config}
    else:
        raise ValueError(_missing_message(folder))
    for token in _read_added_tokens(folder, config):
        (rust.add_special_tokens if token.special else rust.add_tokens)([token])
    rust.add_special_tokens(special_tokens(config, folder))
    rust.post_processor = _processor(rust, template, config)
    config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    config.setdefault("model_input_names", template.inputs)
    return json.loads(rust.to_str()), config


def write_tokenizer_files(folder: Path, content: Json, config: Json) -> None:
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json."""
    folder.mkdir(parents=True, exist_ok=True)
    specials = {key: config[key] for key in (*SINGLE_ROLES, *LIST_ROLES) if config.get(key)}
    for name, value in (
        ("tokenizer.json", content), ("tokenizer_config.json", config), ("special_tokens_map.json", specials),
    ):  # fmt: skip
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def special_tokens(config: Json, source: Path | str = "tokenizer_config.json") -> list[AddedToken]:
    listed: list[Any] = []
    for key in LIST_ROLES:
        value: Any = config.get(key) or []
        listed += value.values() if isinstance(value, dict) else value
    values = [config[key] for key in SINGLE_ROLES if config.get(key)] + listed
    return [added_token(value, source) for value in values]


def added_token(value: Any, source: Path | str = "tokenizer_config.json") -> AddedToken:
    """Parses a special token of a config: a string, or an object with `content` and flags."""
    flags: Json = value if isinstance(value, dict) else {"content": value}
    if not isinstance(flags.get("content"), str) or not flags["content"]:
        raise ValueError(f"{source}: {value!r} is not a special token: it must be a string or an object with `content`")
    given = {k: bool(flags[k]) for k in ("single_word", "lstrip", "rstrip", "normalized") if k in flags}
    return AddedToken(flags["content"], special=True, **{"normalized": False, **given})


def read_json(path: Path) -> Json:
    """Reads a JSON object from a file; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, more than the {MAX_FILE_BYTES:,} allowed")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}, not a JSON object")
    return value


def guarded(function: Callable[[], T], source: Path | str) -> T:
    """Calls `function`; any error of `tokenizers`, panics included, becomes a ValueError that names the file."""
    try:
        return function()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a Rust panic is not an Exception
        raise ValueError(
            f"tokenizers {tokenizers.__version__} cannot read {source}: {error}; "
            "get the file again, or upgrade tokenizers if a newer version wrote it"
        ) from error


def check_merges(model: Json) -> None:
    """Refuses merges whose second part lacks the required prefix: `tokenizers` would abort the process."""
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
            "open it with transformers' AutoTokenizer and save it, to get a tokenizer.json"
        )
    vocab = {token: id for id, token in enumerate(_read_lines(path))}
    unk, *framing = (_token_string(config, role) for role in ("unk_token", "cls_token", "sep_token"))
    missing = [token for token in (unk, *framing) if token not in vocab]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it must be the vocabulary of a BERT model")
    accents = config.get("strip_accents")
    return wordpiece(
        guarded(lambda: models.WordPiece(vocab, unk_token=unk), path),
        lowercase=bool(config.get("do_lower_case", True)),
        accents=None if accents is None else not accents,
        chinese=bool(config.get("tokenize_chinese_chars", True)),
    )


def _read_bpe(folder: Path, config: Json) -> tokenizers.Tokenizer:
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


def _read_added_tokens(folder: Path, config: Json) -> list[AddedToken]:
    """Returns the tokens that old folders keep outside the vocabulary, in the order of their ids."""
    path = folder / "added_tokens.json"
    tokens: list[tuple[int, AddedToken]] = []
    try:
        for content, id in read_json(path).items():
            tokens.append((int(id), AddedToken(content, normalized=False)))
        for id, flags in (config.get("added_tokens_decoder") or {}).items():
            token = added_token(flags)
            token.special = bool(flags.get("special"))
            tokens.append((int(id), token))
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{path} or `added_tokens_decoder` in tokenizer_config.json is invalid: {error}") from error
    return [token for _, token in sorted(tokens, key=lambda pair: pair[0])]


def _processor(rust: tokenizers.Tokenizer, template: TokenizerTemplate, config: Json) -> Any:
    """Returns the family's post-processor, with the ids of this folder's special tokens."""
    vocab = rust.get_vocab()
    processor = template.processor(
        {usual: vocab[_token_string(config, role)] for role, usual in template.roles.items()}
    )
    if template.kind == "wordpiece":
        return processor
    trim = processors.ByteLevel(trim_offsets=True, add_prefix_space=bool(config.get("add_prefix_space", False)))
    return processors.Sequence([trim, processor])


def _token_string(config: Json, role: str) -> str:
    return added_token(config[role]).content


def _missing_message(folder: Path) -> str:
    for name in _SENTENCEPIECE:
        if (folder / name).exists():
            fix = (
                "transformers cannot convert Marian's either: train a new one with template='marian'"
                if name == "source.spm"
                else "open the folder once with transformers' AutoTokenizer.from_pretrained and save_pretrained, with "
                "sentencepiece and protobuf installed, which writes a tokenizer.json"
            )
            return f"{folder} has only {name}, a sentencepiece model, which is not supported: {fix}"
    return f"{folder} has no tokenizer: it needs tokenizer.json, or vocab.txt, or vocab.json with merges.txt"
