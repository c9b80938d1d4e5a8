"""Translation of 1, 8, 64 and 512 real sentences by one model on every side: greedy and beam 5, twenty tokens for each.

A Marian model (width 256, 3 + 3 layers, 4 heads, vocabulary of 8,000; 7.8 million parameters) with random weights
translates token ids of the lengths that Multi30k's English sentences have. The end token is suppressed and the limit
is 20, so every side takes the same steps. transformers runs `generate` on padded batches, CTranslate2 the folder that
clearhead exports; `auto` is the engine that clearhead chooses for a model loaded with dtype "auto". Every side is
measured in each dtype that this machine computes in, and the best counts; a ratio above 1 means that clearhead is
faster by that factor. 512 sentences only with --full.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch

from benchmark import Benchmark
from clearhead.decode.beam import BeamConfig
from clearhead.decode.generator import TextGenerator, batches
from clearhead.decode.translation_engine import TranslationEngine
from clearhead.export.ctranslate2 import export
from clearhead.hub.folder import open_folder
from clearhead.hub.generation_config import read_defaults
from clearhead.text import Tokenizer
from texts import data_file
from timing import FAST, keep_memory

Run = Callable[[int], list[list[int]]]
SENTENCES = "multi30k:test_2016_flickr.en.gz"
WORDS, END, PAD, STEPS = 8000, 0, 7999, 20
BATCH = 64  # sentences per batch of the peers
SIZES = (1, 8, 64, 512)
BEAMS = {"greedy": 1, "beam5": 5}
PEERS = ("clearhead", "transformers", "ctranslate2")
TARGETS = {"vs_ct2_greedy": 0.85, "vs_ct2_beam5": 1.1, "auto": 0.97}


def sources(count: int) -> list[list[int]]:
    """Return random token sequences with the lengths of the sentences, each with an end token."""
    draw = random.Random(0)
    with gzip.open(data_file(SENTENCES), "rt", encoding="utf-8") as file:
        lengths = [len(re.findall(r"\w+|[^\w\s]", line)) for line in file][:count]
    return [[draw.randrange(2, PAD) for _ in range(n)] + [END] for n in lengths]


def peer(folder: Path):
    """Save a transformers model for all sides to open."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=WORDS, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_position_embeddings=512,
        activation_function="relu", scale_embedding=True, pad_token_id=PAD, eos_token_id=END, bos_token_id=END,
        decoder_start_token_id=PAD, forced_eos_token_id=None, init_std=0.05,
    )  # fmt: skip
    model = MarianMTModel(config).eval()
    model.generation_config.bad_words_ids = [[PAD]]
    model.save_pretrained(folder)
    return model


def tokenizer() -> Tokenizer:
    """Return a tokenizer that maps ids to names: CTranslate2 reads and writes token strings."""
    vocab = {f"t{i}": i for i in range(WORDS)}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "t1"},
    }  # fmt: skip
    return Tokenizer(content)


def translator(folder: Path, dtype: torch.dtype) -> TextGenerator:
    """Return clearhead's generator with the end token suppressed."""
    opened = open_folder(folder, dtype=dtype)
    defaults = read_defaults(json.loads(opened.extra_files["generation_config.json"]), opened.hf_config)
    defaults = replace(defaults, constraints=replace(defaults.constraints, min_new_tokens=STEPS))
    return TextGenerator(opened.model, tokenizer(), defaults, 512, 512)


def clearhead_side(generator: TextGenerator, texts: list[list[int]], engine: TranslationEngine | None = None) -> Run:
    """Translate in the batches of `translate`, by clearhead's own decoder or by the engine that is chosen."""

    @torch.inference_mode()
    def run(beam: int) -> list[list[int]]:
        config = BeamConfig(size=beam)
        search = generator.search if engine is None else engine.select("auto", config, len(texts)).search
        results: list[list[int]] = [[] for _ in texts]
        for batch in batches([len(text) for text in texts], beam):
            for i, best in zip(batch, search([texts[i] for i in batch], config, STEPS), strict=True):
                results[i] = list(best[0].ids)
        return results

    return run


def transformers_side(model: Any, texts: list[list[int]]) -> Run:
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))

    @torch.inference_mode()
    def run(beam: int) -> list[list[int]]:
        results: list[list[int]] = [[] for _ in texts]
        for begin in range(0, len(texts), BATCH):
            part = order[begin : begin + BATCH]
            longest = len(texts[part[0]])
            ids = torch.tensor([texts[i] + [PAD] * (longest - len(texts[i])) for i in part])
            out = model.generate(
                input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beam, do_sample=False,
                max_new_tokens=STEPS, min_new_tokens=STEPS,
            )  # fmt: skip
            for i, row in zip(part, out[:, 1:].tolist(), strict=True):
                results[i] = row
        return results

    return run


def ctranslate2_side(engine: Any, texts: list[list[int]]) -> Run:
    named = [[f"t{i}" for i in text] for text in texts]

    def run(beam: int) -> list[list[int]]:
        out = engine.translate_batch(
            named, beam_size=beam, max_decoding_length=STEPS, min_decoding_length=STEPS, max_batch_size=BATCH
        )
        return [[int(name[1:]) for name in result.hypotheses[0]] for result in out]

    return run


def sides(folder: Path, threads: int) -> dict[str, Callable[[list[list[int]]], Run]]:
    """Return the sides by name, each as a function of the texts."""
    import copy

    import ctranslate2

    model = peer(folder / "model")
    generators = {dtype: translator(folder / "model", getattr(torch, dtype)) for dtype in FAST}
    constraints = replace(generators[FAST[0]].defaults.constraints, min_new_tokens=0)
    found: dict[str, Callable[[list[list[int]]], Run]] = {}
    for dtype, generator in generators.items():
        found[f"clearhead {dtype}"] = partial(clearhead_side, generator)
        cast = copy.deepcopy(model).to(getattr(torch, dtype))
        found[f"transformers {dtype}"] = partial(transformers_side, cast)
    for kind in ("float32", "int8"):
        export(open_folder(folder / "model").model, tokenizer(), constraints, folder / kind, quantization=kind)
        engine = ctranslate2.Translator(str(folder / kind), device="cpu", compute_type=kind, intra_threads=threads)
        found[f"ctranslate2 {kind}"] = partial(ctranslate2_side, engine)
    chosen = TranslationEngine(generators[FAST[0]], folder / "model", fastest=True)
    found["auto"] = lambda texts: clearhead_side(generators[FAST[0]], texts, chosen)
    return found


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="512 sentences too, and more rounds: several minutes")
    bench.parser.add_argument("--threads", type=int, default=2)
    args = bench.parse()
    for name in ("transformers", "ctranslate2"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    keep_memory()
    begin = time.perf_counter()
    sizes = SIZES if args.full else SIZES[:3]
    texts = sources(max(sizes))
    bench.reads(f"{SENTENCES}: lengths of its first {len(texts)} sentences; token ids are random")
    result: dict[str, float] = {}
    detail: dict[str, object] = {"steps": STEPS, "dtypes": list(FAST)}
    curve: dict[str, dict[str, dict[int, float]]] = {name: {} for name in BEAMS}  # beam, side, sentences: ms
    ratios: dict[str, float] = {}  # of auto to the best side
    with tempfile.TemporaryDirectory() as temp:
        known = sides(Path(temp), args.threads)
        for size in sizes:
            runs = {side: start(texts[:size]) for side, start in known.items()}
            for name, beam in BEAMS.items():
                if size == 64:  # all sides must give the same result
                    ours = runs["clearhead float32"](beam)
                    assert all(len(text) == STEPS for text in ours)
                    for other in ("transformers float32", "ctranslate2 float32"):
                        same = sum(a == b for a, b in zip(ours, runs[other](beam), strict=True))
                        assert same >= 0.9 * size, (other, beam, same)
                        detail[f"same_as_{other.split()[0]}_{name}"] = same
                works: dict[str, Callable[[], object]] = {side: partial(run, beam) for side, run in runs.items()}
                label = f"{name}, {size} sentences"
                times = bench.interleaved(label, works, 15 if args.full else 5, budget=60 if args.full else 4)
                for side, seconds in times.items():
                    curve[name].setdefault(side, {})[size] = round(seconds * 1e3, 1)
                ratios[f"{name}_{size}"] = round(min(times.values()) / times["auto"], 2)
                if size == 64:
                    best = {who: min((t, n) for n, t in times.items() if n.startswith(who)) for who in PEERS}
                    bench.runs_in({f"{who}, {name}": side.split()[1] for who, (_, side) in best.items()})
                    group = {who: seconds for who, (seconds, _) in best.items()}
                    result[f"vs_hf_{name}"] = round(group["transformers"] / group["clearhead"], 2)
                    result[f"vs_ct2_{name}"] = round(group["ctranslate2"] / group["clearhead"], 2)
    for name, lines in curve.items():
        print(f"\n{name}, tokens/s{''.join(f'{size:>10,}' for size in sizes)} sentences")
        for side, times in sorted(lines.items(), key=lambda item: item[1][64]):
            print(f"  {side:22}" + "".join(f"{size * STEPS / times[size] * 1e3:10,.0f}" for size in sizes))
    result["auto"] = min(ratios.values())
    detail |= {"ms": curve, "auto_to_best": ratios, "seconds": round(time.perf_counter() - begin, 1)}
    print("\ntargets:", ", ".join(f"{n} {t}" for n, t in TARGETS.items()))
    bench.finish({**result, "detail": detail}, peers=("transformers", "ctranslate2"))


if __name__ == "__main__":
    main()
