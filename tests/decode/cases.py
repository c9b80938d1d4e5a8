"""Tiny random models that write, as `transformers` makes them; sharpened, so that texts end at different lengths."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from clearhead.decode import TextGenerator, read_defaults
from clearhead.decode.beam import BeamConfig, BeamHypothesis
from clearhead.files.safe import parse_json
from clearhead.hub.folder import LoadedModel, open_folder
from tests.parity.cases import GPT2, LLAMA, SEQ2SEQ, T5, Case

V = 61
CASES = {
    "marian": Case("MarianMTModel", "MarianConfig", {
        **SEQ2SEQ, "pad_token_id": 60, "decoder_start_token_id": 60, "eos_token_id": 0, "forced_eos_token_id": 0,
        "scale_embedding": True, "max_position_embeddings": 64}),
    "bart": Case("BartForConditionalGeneration", "BartConfig", {**SEQ2SEQ, "max_position_embeddings": 64}),
    "t5": Case("T5ForConditionalGeneration", "T5Config", {**T5, "num_decoder_layers": 2, "decoder_start_token_id": 0}),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config", {**GPT2, "n_positions": 64, "eos_token_id": 1, "bos_token_id": 1}),
    "llama": Case("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "eos_token_id": 2, "bos_token_id": 1}),
    "mistral": Case("MistralForCausalLM", "MistralConfig", {
        **LLAMA, "sliding_window": 4, "eos_token_id": 2, "bos_token_id": 1}),
}  # fmt: skip
TRANSLATORS = ("marian", "bart", "t5")


@cache
def made(kind: str) -> tuple[Any, LoadedModel]:
    """The peer's model and ours, with the same weights."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = CASES[kind].make(folder)
        sharpen(model, kind)
        model.generation_config.eos_token_id = [*ends(model), 10, *((15,) if kind == "t5" else (20,))]
        if kind == "marian":
            model.generation_config.bad_words_ids = [[60]]
        model.save_pretrained(folder)
        return model, open_folder(folder, dtype=torch.float32)


def ends(model: Any) -> list[int]:
    told = model.generation_config.eos_token_id
    return told if isinstance(told, list) else [told]


def sharpen(model: Any, kind: str) -> None:
    with torch.no_grad():
        if kind in ("marian", "bart"):
            model.final_logits_bias[:, [10, 20]] += 1.0
            for layer in model.model.decoder.layers:
                layer.final_layer_norm.weight.mul_(1.5)
        elif kind == "t5":
            model.decoder.final_layer_norm.weight.mul_(2)
        else:
            (model.transformer.ln_f if kind == "gpt2" else model.model.norm).weight.mul_(2)


def writer(kind: str, **changes: Any) -> TextGenerator:
    """Our model; `changes` are keys of generation_config.json."""
    _, opened = made(kind)
    told = parse_json(opened.extra_files["generation_config.json"], "generation_config.json") | changes
    return TextGenerator(opened.model, None, read_defaults(told, opened.hf_config), opened.config.decoder.max_positions)  # type: ignore[arg-type]


def sources(count: int, seed: int = 0, longest: int = 11) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, 60) for _ in range(draw.randrange(1, longest))] for _ in range(count)]


def ours(
    kind: str, rows: list[list[int]], max_new: int, changes: dict[str, Any] | None = None, **beam: Any
) -> list[list[BeamHypothesis]]:
    with torch.inference_mode():
        return writer(kind, **(changes or {})).search(rows, BeamConfig(**beam), max_new)


def theirs(kind: str, rows: list[list[int]], max_new: int, **options: Any) -> list[list[tuple[tuple[int, ...], float]]]:
    """The same from `generate`: for each row the tokens and scores of the best hypotheses."""
    model, _ = made(kind)
    longest, pad = max(map(len, rows)), model.generation_config.pad_token_id
    blank = [[pad] * (longest - len(row)) for row in rows]
    left = kind not in TRANSLATORS
    ids = torch.tensor([b + r if left else r + b for r, b in zip(rows, blank, strict=True)])
    mask = torch.tensor([[0] * len(b) + [1] * len(r) if left else [1] * len(r) + [0] * len(b)
                         for r, b in zip(rows, blank, strict=True)])  # fmt: skip
    kept = options.setdefault("num_return_sequences", 1)
    with transformers_quiet():
        out = model.generate(
            input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=max_new,
            return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
    scores = getattr(out, "sequences_scores", None)
    found = []
    for at, row in enumerate(out.sequences[:, longest if left else 1 :].tolist()):
        stop = next((i for i, token in enumerate(row) if token in ends(model)), len(row) - 1)
        found.append((tuple(row[: stop + 1]), float("nan") if scores is None else float(scores[at])))
    return [found[i : i + kept] for i in range(0, len(found), kept)]


class transformers_quiet:
    def __enter__(self) -> None:
        self.old = transformers.utils.logging.get_verbosity()
        transformers.utils.logging.set_verbosity_error()

    def __exit__(self, *_: object) -> None:
        transformers.utils.logging.set_verbosity(self.old)
