"""Generation settings of a model folder: reads and writes `generation_config.json`.

Settings have the meaning they have in `transformers`. A folder without the file has them in `config.json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

EarlyStopping = bool | Literal["never"]

# Settings that are not supported, each with the value that turns it off.
_UNSUPPORTED: dict[str, Any] = {
    "diversity_penalty": 0.0, "num_beam_groups": 1, "penalty_alpha": None, "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0, "guidance_scale": None, "sequence_bias": None, "typical_p": 1.0, "min_p": None,
    "top_h": None, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "exponential_decay_length_penalty": None,
    "watermarking_config": None, "stop_strings": None, "constraints": None, "force_words_ids": None,
    "renormalize_logits": False,
}  # fmt: skip

# Token ids that are read from config.json where generation_config.json lacks them.
_SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


@dataclass(frozen=True, kw_only=True)
class GenerationConstraints:
    """Which tokens a generated text may hold, and how it starts and ends."""

    start_token_id: int | None = None  # decoder_start_token_id, else bos_token_id
    eos_token_ids: tuple[int, ...] = ()  # eos_token_id
    bad_words_ids: tuple[tuple[int, ...], ...] = ()  # tokens and token sequences that are never generated
    begin_suppress_tokens: tuple[int, ...] = ()  # not allowed as the first token
    forced_bos_token_id: int | None = None
    forced_eos_token_ids: tuple[int, ...] = ()  # the last token of a text that reaches the length limit
    min_len: int = 0  # tokens before an end token, prompt included
    min_new_tokens: int = 0  # tokens before an end token, prompt excluded
    no_repeat_ngram_size: int = 0  # n-grams of this size occur once (no_repeat_ngram_size)
    repetition_penalty: float = 1.0  # divides the score of tokens that occurred before (Keskar et al. 2019)

    def ended(self, ids: Sequence[int], limit: int) -> bool:
        """Returns whether the model ended the text itself; an end forced at the limit does not count."""
        forced = bool(self.forced_eos_token_ids) and len(ids) >= limit
        return len(ids) > 0 and ids[-1] in self.eos_token_ids and not forced

    @property
    def needs_history(self) -> bool:
        """Whether the allowed next tokens depend on the tokens so far."""
        return (
            self.repetition_penalty != 1.0
            or self.no_repeat_ngram_size > 0
            or any(len(run) > 1 for run in self.bad_words_ids)
        )


@dataclass(frozen=True, kw_only=True)
class GenerationDefaults:
    """The generation settings of a model folder, used where the caller gives none."""

    constraints: GenerationConstraints
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = False
    max_len: int | None = None  # total tokens, start token or prompt included
    max_new_tokens: int | None = None
    temperature: float = 0.0  # 0: greedy
    top_k: int = 0
    top_p: float = 1.0


def read_defaults(generation: Mapping[str, Any] | None, config: Mapping[str, Any]) -> GenerationDefaults:
    """Reads the defaults from the content of `generation_config.json` (if there is one) and `config.json`."""
    settings = config if generation is None else generation
    for name, neutral in _UNSUPPORTED.items():
        if settings.get(name) not in (None, neutral):
            raise ValueError(
                f"generation_config.json sets {name} to {settings[name]!r}, which is not supported: remove it"
            )

    def ids(name: str) -> tuple[int, ...]:
        value = settings.get(name)
        return _token_ids(config.get(name) if value is None and name in _SPECIAL_TOKENS else value, name)

    def first_id(name: str) -> int | None:
        return next(iter(ids(name)), None)

    ends, start = ids("eos_token_id"), first_id("decoder_start_token_id")
    bad_words = [_token_ids(run, "bad_words_ids") for run in settings.get("bad_words_ids") or []]
    forbidden = [run for run in bad_words if run and not (len(run) == 1 and run[0] in ends)]
    return GenerationDefaults(
        constraints=GenerationConstraints(
            start_token_id=first_id("bos_token_id") if start is None else start,
            eos_token_ids=ends,
            bad_words_ids=(*forbidden, *((id,) for id in ids("suppress_tokens"))),
            begin_suppress_tokens=ids("begin_suppress_tokens"),
            forced_bos_token_id=first_id("forced_bos_token_id"),
            forced_eos_token_ids=ids("forced_eos_token_id"),
            min_len=_number(settings, "min_length", 0, integer=True),
            min_new_tokens=_number(settings, "min_new_tokens", 0, integer=True),
            no_repeat_ngram_size=_number(settings, "no_repeat_ngram_size", 0, integer=True),
            repetition_penalty=_number(settings, "repetition_penalty", 1.0),
        ),
        num_beams=_number(settings, "num_beams", 1, integer=True),
        length_penalty=_number(settings, "length_penalty", 1.0),
        early_stopping=_early_stopping(settings.get("early_stopping")),
        max_len=_number(settings, "max_length", None, integer=True),
        max_new_tokens=_number(settings, "max_new_tokens", None, integer=True),
        **_sampling(settings),
    )


def generation_config(
    family: str,
    *,
    eos: int,
    pad: int | None = None,
    bos: int | None = None,
    max_len: int = 512,
    beam: int | None = None,
    length_penalty: float | None = None,
) -> dict[str, Any]:
    """Returns the content of `generation_config.json` for a new model, so that `transformers` generates the same text.

    `family` is "marian" or "t5" (encoder-decoders that start from the padding token), or "gpt2" or "llama" (language
    models).
    """
    if family in ("marian", "t5"):
        if pad is None:
            raise ValueError(f"a {family} model starts from its padding token: give `pad`")
        content = {
            "bad_words_ids": [[pad]],
            "bos_token_id": 0,
            "decoder_start_token_id": pad,
            "eos_token_id": eos,
            "forced_eos_token_id": eos,
            "max_length": max_len,
            "num_beams": beam or 4,
            "pad_token_id": pad,
        }
        if family == "t5":
            del content["bos_token_id"], content["forced_eos_token_id"]
    elif family in ("gpt2", "llama"):
        content = {"bos_token_id": eos if bos is None else bos, "eos_token_id": eos, "pad_token_id": pad}
        content = {name: id for name, id in content.items() if id is not None}
        if beam is not None:
            content["num_beams"] = beam
    else:
        raise ValueError(f"there is no generation config for {family!r}: choose marian, t5, gpt2 or llama")
    return content if length_penalty is None else {**content, "length_penalty": length_penalty}


def _sampling(settings: Mapping[str, Any]) -> dict[str, Any]:
    if settings.get("do_sample") is not True:
        return {}
    return {
        "temperature": _number(settings, "temperature", 1.0),
        "top_k": _number(settings, "top_k", 50, integer=True),
        "top_p": _number(settings, "top_p", 1.0),
    }


def _early_stopping(value: object) -> EarlyStopping:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    if value == "never":
        return "never"
    raise ValueError(f"early_stopping is {value!r}: it must be true, false or 'never'")


def _token_ids(value: Any, name: str) -> tuple[int, ...]:
    listed: list[Any] = [] if value is None else value if isinstance(value, list) else [value]
    for id in listed:
        if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id < 2**31:
            raise ValueError(f"generation_config.json: {name} holds {id!r}, which is not a token id")
    return tuple(listed)


def _number(settings: Mapping[str, Any], name: str, default: Any, *, integer: bool = False) -> Any:
    value = settings.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        expected = "an integer" if integer else "a number"
        raise ValueError(f"generation_config.json sets {name} to {value!r}: it must be {expected}")
    if integer and value < 0:
        raise ValueError(f"generation_config.json sets {name} to {value}: it must be 0 or more")
    return value
