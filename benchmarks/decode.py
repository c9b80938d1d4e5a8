"""Translation of 64 real sentences by one model on every side: greedy and beam 5, twenty tokens for each.

A Marian model (width 256, 3 + 3 layers, 4 heads, vocabulary of 8,000; 7.8 million parameters) with random weights
translates token ids of the lengths that Multi30k's English sentences have. The end token is suppressed and the limit
is 20, so every side takes the same steps. transformers runs `generate` on one padded batch, CTranslate2 the folder
that clearhead exports. Each side's best precision counts; a ratio above 1 means that clearhead is faster by that
factor.
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

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch

from benchmark import Benchmark
from clearhead.decode.beam import BeamConfig
from clearhead.decode.generator import TextGenerator
from clearhead.export.ctranslate2 import export
from clearhead.hub.folder import open_folder
from clearhead.hub.generation_config import read_defaults
from clearhead.text import Tokenizer
from texts import data_file
from timing import FAST, keep_memory

SENTENCES = "multi30k:test_2016_flickr.en.gz"
WORDS, END, PAD, STEPS, COUNT = 8000, 0, 7999, 20, 64
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TARGETS = {"vs_hf_beam5": 4.0, "vs_ct2_beam5": 1.3, "vs_hf_greedy": 4.0, "vs_ct2_greedy": 1.3}


def sources() -> list[list[int]]:
    """Return random token sequences with the lengths of the sentences, each with an end token."""
    draw = random.Random(0)
    with gzip.open(data_file(SENTENCES), "rt", encoding="utf-8") as file:
        lengths = [len(re.findall(r"\w+|[^\w\s]", line)) for line in file][:COUNT]
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


def clearhead_side(folder: Path, dtype: torch.dtype, texts: list[list[int]]) -> Callable[[int], list[list[int]]]:
    opened = open_folder(folder, dtype=dtype)
    defaults = read_defaults(json.loads(opened.extra_files["generation_config.json"]), opened.hf_config)
    defaults = replace(defaults, constraints=replace(defaults.constraints, min_new_tokens=STEPS))
    writer = TextGenerator(opened.model, tokenizer(), defaults, 512, 512)

    @torch.inference_mode()
    def run(beam: int) -> list[list[int]]:
        return [list(best[0].ids) for best in writer.search(texts, BeamConfig(size=beam), STEPS)]

    return run


def transformers_side(model, dtype: torch.dtype, texts: list[list[int]]) -> Callable[[int], list[list[int]]]:
    import copy

    model = copy.deepcopy(model).to(dtype)
    longest = max(map(len, texts))
    ids = torch.tensor([t + [PAD] * (longest - len(t)) for t in texts])
    mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in texts])

    @torch.inference_mode()
    def run(beam: int) -> list[list[int]]:
        out = model.generate(
            input_ids=ids, attention_mask=mask, num_beams=beam, do_sample=False, max_new_tokens=STEPS,
            min_new_tokens=STEPS,
        )  # fmt: skip
        return out[:, 1:].tolist()

    return run


def ctranslate2_side(folder: Path, kind: str, threads: int, texts: list[list[int]]) -> Callable[[int], list[list[int]]]:
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), device="cpu", compute_type=kind, intra_threads=threads)
    named = [[f"t{i}" for i in text] for text in texts]

    def run(beam: int) -> list[list[int]]:
        out = engine.translate_batch(
            named, beam_size=beam, max_decoding_length=STEPS, min_decoding_length=STEPS, max_batch_size=0
        )
        return [[int(name[1:]) for name in result.hypotheses[0]] for result in out]

    return run


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds, a few minutes")
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
    texts = sources()
    bench.reads(f"{SENTENCES}: lengths of its first {COUNT} sentences; token ids are random")
    with tempfile.TemporaryDirectory() as temp:
        model = peer(Path(temp) / "model")
        opened = open_folder(Path(temp) / "model")
        rules = read_defaults(json.loads(opened.extra_files["generation_config.json"]), opened.hf_config).constraints
        export(opened.model, tokenizer(), rules, Path(temp) / "float32")
        export(opened.model, tokenizer(), rules, Path(temp) / "int8", quantization="int8")

        def side(name: str, dtype: str, texts: list[list[int]]) -> Callable[[int], list[list[int]]]:
            if name == "clearhead":
                return clearhead_side(Path(temp) / "model", DTYPES[dtype], texts)
            if name == "transformers":
                return transformers_side(model, DTYPES[dtype], texts)
            return ctranslate2_side(Path(temp) / dtype, dtype, args.threads, texts)

        dtypes = {"clearhead": FAST, "transformers": FAST, "ctranslate2": ("float32", "int8")}
        sides = {f"{name} {dtype}": side(name, dtype, texts) for name, all_ in dtypes.items() for dtype in all_}
        result: dict[str, float] = {}
        detail: dict[str, object] = {"sentences": len(texts), "tokens_read": sum(map(len, texts)), "steps": STEPS}
        for name, beam in (("greedy", 1), ("beam5", 5)):
            ours = sides["clearhead float32"](beam)
            assert all(len(text) == STEPS for text in ours)
            for other in ("transformers float32", "ctranslate2 float32"):  # all sides must give the same result
                same = sum(a == b for a, b in zip(ours, sides[other](beam), strict=True))
                assert same >= 0.9 * len(texts), (other, beam, same)
                detail[f"same_as_{other.split()[0]}_{name}"] = same
            works = {who: (lambda run=run, beam=beam: run(beam)) for who, run in sides.items()}
            best = bench.interleaved(name, works, 15 if args.full else 3, budget=90 if args.full else 9)
            fastest = {who: min((f"{who} {dtype}" for dtype in dtypes[who]), key=lambda n: best[n]) for who in dtypes}
            bench.runs_in({f"{who}, {name}": chosen.split()[1] for who, chosen in fastest.items()})
            group = {who: best[chosen] for who, chosen in fastest.items()}
            result[f"vs_hf_{name}"] = round(group["transformers"] / group["clearhead"], 2)
            result[f"vs_ct2_{name}"] = round(group["ctranslate2"] / group["clearhead"], 2)
            detail[f"{name}_ms"] = {n: round(t * 1e3, 1) for n, t in best.items()}
            print(f"\n{name}: {COUNT} sentences, {STEPS} steps")
            for who, seconds in sorted(best.items(), key=lambda item: item[1]):
                print(f"  {who:22} {seconds * 1e3:8.1f} ms   {COUNT * STEPS / seconds:8,.0f} tokens/s")
        if args.full:  # the batch size of `translate`
            many = [[*text[-2::-1], END] for text in texts] * 8
            works: dict[str, Callable[[], object]] = {}
            for who, all_ in dtypes.items():
                trials = {dtype: partial(side(who, dtype, many), 1) for dtype in all_}
                works[who] = trials[bench.fastest_dtype(f"{who}, greedy, 512 sentences", trials)]
            best = bench.interleaved("greedy, 512 sentences", works, 7, budget=60)
            detail["greedy_512_ms"] = {n: round(t * 1e3, 1) for n, t in best.items()}
            for short, who in (("hf", "transformers"), ("ct2", "ctranslate2")):
                detail[f"vs_{short}_greedy_512"] = round(best[who] / best["clearhead"], 2)
    detail["seconds"] = round(time.perf_counter() - begin, 1)
    print("\ntargets:", ", ".join(f"{n} {t}" for n, t in TARGETS.items()))
    bench.finish({**result, "detail": detail}, peers=("transformers", "ctranslate2"))


if __name__ == "__main__":
    main()
