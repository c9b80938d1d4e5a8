"""Images: inference beside `transformers`' ViT, ragged beside padded batches, training beside a plain PyTorch loop.

    python benchmarks/vision.py [--full] [--plain-steps N [--seed S]]

- `vs_hf_vit`: a ViT (width 192, 12 layers, 3 heads, 224 x 224 pixels), images per second divided by `transformers`'.
- `ragged_vs_padded`: images of many sizes as one ragged batch, divided by `transformers` on images that are padded to
  the largest one, as its batches require.
- `train_vs_plain`: the training step of `recipes/cifar10.yaml` through the loop's own `step` (collate, augmentation,
  forward, loss, backward, clipping, AdamW), divided by the same architecture written with `torch.nn` alone.

The last line is a JSON object. `--plain-steps` trains the plain model on CIFAR-10 for so many steps instead, with the
recipe's augmentation and schedule, and prints its test accuracy and the time of its steps: what the recipe is
compared with.
"""

from __future__ import annotations

import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmark import Benchmark
from clearhead.data import locate, read_rows
from clearhead.distributed import Distributed
from clearhead.hub.folder import open_folder
from clearhead.train.loop import make_batches, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import read_recipe
from clearhead.train.run import prepare
from clearhead.train.signals import SignalGuard
from clearhead.vision import Patches
from timing import FAST, keep_memory

RECIPE = Path(__file__).parents[1] / "recipes" / "cifar10.yaml"
CIFAR = "cifar10_jpg:cifar10_jpg.tar"
SIZE, WARMUP = 64, 800  # of a batch and of the schedule, as in the recipe
VIT: dict[str, Any] = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}


class PlainBlock(nn.Module):
    """A pre-norm Transformer layer of torch.nn."""

    def __init__(self, width: int, num_heads: int, ffn_dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, ffn_dim), nn.Linear(ffn_dim, width)
        self.num_heads = num_heads

    def forward(self, x: Tensor) -> Tensor:
        B, N, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + self.out(a)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class PlainCct(nn.Module):
    """A compact convolutional transformer of torch.nn, with the sizes of `recipes/cifar10.yaml`."""

    def __init__(self, width: int = 128, num_layers: int = 4, num_heads: int = 2, ffn_dim: int = 256) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(64, width, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        for module in self.stem:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        self.positions = nn.Parameter(torch.empty(1, 64, width).normal_(std=0.02))
        self.blocks = nn.ModuleList(PlainBlock(width, num_heads, ffn_dim) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.query, self.output = nn.Linear(width, 1, bias=False), nn.Linear(width, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.stem(pixels).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        weights = (self.query(x) / math.sqrt(x.shape[-1])).softmax(1)
        return self.output((weights * x).sum(1))


def augmented(pixels: Tensor) -> Tensor:
    """Flip half of the images, and cut each out of itself with four black pixels around; all in the range -1 to 1."""
    flip = torch.rand(len(pixels)) < 0.5
    pixels = torch.where(flip[:, None, None, None], pixels.flip(3), pixels)
    padded = nn.functional.pad(pixels, (4, 4, 4, 4))
    at = torch.randint(0, 9, (len(pixels), 2)).tolist()
    cut = torch.stack([image[:, y : y + 32, x : x + 32] for image, (y, x) in zip(padded, at, strict=True)])
    return cut.float() / 127.5 - 1


def plain_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, pixels: Tensor, labels: Tensor, dtype: str = FAST[0]
) -> float:
    """One update, in the memory layout that is fastest for it."""
    inputs = augmented(pixels).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
        logits = model(inputs)
    loss = nn.functional.cross_entropy(logits.float(), labels, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def plain_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.06, fused=True)


def vit_model(folder: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return `transformers`' ViT with random weights, and ours with the same."""
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    theirs: Any = ViTModel(ViTConfig(**VIT), add_pooling_layer=False).eval()
    theirs.save_pretrained(folder)
    return theirs.to(dtype), open_folder(folder, dtype=dtype).model


def inference(bench: Benchmark, rounds: int, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        models = {dtype: vit_model(folder, getattr(torch, dtype)) for dtype in FAST}
    patches = models["float32"][1].encoder.embedding
    assert isinstance(patches, Patches)
    pixels = torch.randn(count, 3, 224, 224)
    layout = patches.layout(pixels)
    sizes = np.random.default_rng(0).integers(5, 15, (count, 2)) * 16  # sides from 80 to 224
    images = [torch.randn(3, height, width) for height, width in sizes.tolist()]
    padded = torch.zeros(count, 3, 224, 224)
    for row, image in zip(padded, images, strict=True):
        row[:, : image.shape[1], : image.shape[2]] = image
    ragged = patches.layout(images)
    with torch.inference_mode():
        trials = {
            "ours": {d: partial(m.encoder, pixels.to(getattr(torch, d)), layout) for d, (_, m) in models.items()},
            "transformers": {d: partial(m, pixels.to(getattr(torch, d))) for d, (m, _) in models.items()},
        }
        dtypes = {side: bench.fastest_dtype(f"{side}, ViT", works) for side, works in trials.items()}
        ours, theirs = models[dtypes["ours"]][1], models[dtypes["transformers"]][0]
        own = [image.to(getattr(torch, dtypes["ours"])) for image in images]
        padded = padded.to(getattr(torch, dtypes["transformers"]))
        best = bench.interleaved(
            "ViT",
            {
                "ours": trials["ours"][dtypes["ours"]], "theirs": trials["transformers"][dtypes["transformers"]],
                "ragged": lambda: ours.encoder(own, ragged), "padded": lambda: theirs(padded),
            },
            rounds,
        )  # fmt: skip
    print({name: f"{count / seconds:.1f} images/s" for name, seconds in best.items()})
    print(f"patches: {ragged.num_tokens:,} ragged, {layout.num_tokens:,} padded")
    return {"vs_hf_vit": best["theirs"] / best["ours"], "ragged_vs_padded": best["padded"] / best["ragged"]}


def training(bench: Benchmark, rounds: int, steps: int) -> dict[str, float]:
    """Time steps on images of noise that have CIFAR-10's size."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        from PIL import Image

        for i in range(640):
            path = Path(folder) / "images" / str(i % 10) / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype="u1")).save(path)
        part = f"{{file: {folder}/images, image: ., label: folder}}"
        changes = [f"data.train={part}", "data.test=null", "data.validation_rows=32"]
        run = prepare(read_recipe(RECIPE, changes), Path(folder), Path(folder) / "run")
        job, settings = run.job(Distributed(), shown=False), run.settings
        batches = make_batches(job.task, job.columns, settings, 1)
        optimizer = make_optimizer(job.model, settings.optimizer)
        plain = PlainCct().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        theirs = plain_optimizer(plain)
        parameters = [sum(p.numel() for p in model.parameters()) for model in (job.model, plain)]
        assert parameters[0] == parameters[1], parameters
        pixels = torch.from_numpy(rng.integers(0, 256, (SIZE, 3, 32, 32), dtype="u1"))
        labels = torch.from_numpy(rng.integers(0, 10, SIZE))
        trials = {dtype: partial(plain_step, plain, theirs, pixels, labels, dtype) for dtype in FAST}
        dtype = bench.fastest_dtype("plain, training", trials)
        bench.runs_in({"ours, training": settings.dtype})
        with SignalGuard() as stop:

            def ours() -> None:
                for number in range(steps):
                    examples = batches.batch(*batches.place(number))
                    parts = StepParts.of(job.task, job.columns, examples, settings)
                    inputs = read_batches(job.task, job.columns, parts, number)
                    step(job, optimizer, inputs, number, Distributed(), stop)

            def torch_alone() -> None:
                for _ in range(steps):
                    trials[dtype]()

            best = bench.interleaved("training", {"ours": ours, "plain": torch_alone}, rounds)
        size = len(batches.batch(*batches.place(0)))
    print({n: f"{1e3 * s / steps:.0f} ms a step" for n, s in best.items()}, f"batches of {size} and {SIZE}")
    return {"train_vs_plain": (best["plain"] / SIZE) / (best["ours"] / size)}


def train_plain(steps: int, seed: int) -> dict[str, Any]:
    """Train the plain model on CIFAR-10: the recipe's warmup, cosine and batches."""
    from clearhead.vision import read_image

    data: dict[str, tuple[Tensor, Tensor]] = {}
    names: list[str] = []
    for part in ("train", "test"):
        rows = list(read_rows(locate(CIFAR, base="."), {"image": part, "label": "folder"}))
        names = names or sorted({row.values["label"] for row in rows})
        pixels = torch.stack([read_image(row.values["image"].content) for row in rows])
        data[part] = pixels, torch.tensor([names.index(row.values["label"]) for row in rows])
    torch.manual_seed(seed)
    model = PlainCct().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimizer = plain_optimizer(model)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / WARMUP, 1.0, WARMUP)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - WARMUP)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [WARMUP])
    pixels, labels = data["train"]
    per_epoch = len(pixels) // SIZE
    order = torch.randperm(len(pixels))
    curve: list[tuple[int, float]] = []
    seconds, begin = 0.0, time.perf_counter()
    for number in range(steps):
        at = number % per_epoch
        chosen = order[SIZE * at : SIZE * (at + 1)]
        plain_step(model, optimizer, pixels[chosen], labels[chosen])
        schedule.step()
        if at == per_epoch - 1:
            seconds += time.perf_counter() - begin  # without the evaluations
            order = torch.randperm(len(pixels))
            curve.append((number + 1, accuracy(model, *data["test"])))
            print(f"step {number + 1:,}: {curve[-1][1]:.2f} %", flush=True)
            begin = time.perf_counter()
    minutes = (seconds + time.perf_counter() - begin) / 60
    return {
        "plain_accuracy": accuracy(model, *data["test"]),
        "steps": steps,
        "seed": seed,
        "minutes": minutes,
        "curve": curve,
    }


def accuracy(model: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    with torch.inference_mode():
        found = torch.cat([model(part.float() / 127.5 - 1).argmax(1) for part in pixels.split(500)])
    return 100 * float((found == labels).double().mean())


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more rounds")
    bench.parser.add_argument("--plain-steps", type=int, help="train the plain model on CIFAR-10 instead")
    bench.parser.add_argument("--seed", type=int, default=1, help="of --plain-steps: random seed. Default: 1.")
    given = bench.parse()
    keep_memory()
    if given.plain_steps:
        bench.reads(CIFAR)
        bench.runs_in({"plain": FAST[0]})
        bench.finish(train_plain(given.plain_steps, given.seed))
        return
    torch.set_num_threads(2)
    result = {**inference(bench, 8 if given.full else 3, 16), **training(bench, 8 if given.full else 3, 6)}
    bench.reads("images of noise: 224 x 224 pixels, sides from 80 to 224, and 32 x 32 for the training")
    bench.finish({name: round(value, 3) for name, value in result.items()}, peers=("transformers",))


if __name__ == "__main__":
    main()
