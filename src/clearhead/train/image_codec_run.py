"""The image codec of a run: trained once on the training images, and kept in `image_codec/`."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from clearhead.data import Columns
from clearhead.files import new_folder
from clearhead.train.checkpoint import Checkpoints, average_checkpoints
from clearhead.train.code_images import CodeImages
from clearhead.train.evaluate import evaluate
from clearhead.train.loop import TrainingJob, epochs_to_steps, fit, make_batches
from clearhead.train.recipe import CodecConfig, OptimizerConfig, Recipe, ScheduleConfig, TrainConfig
from clearhead.train.run_data import Log, Parts
from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig

IMAGE_SIZE = 64  # by default
BATCH = 64  # images coded at a time
EVALUATE_EPOCHS = 5


def load_image_codec(recipe: Recipe, parts: Parts, folder: Path, log: Log) -> ImageCodec:
    """Return the codec of a run; train it on the training images if there is none yet. A killed training resumes."""
    given, size = recipe.image_codec, recipe.data.image_size or IMAGE_SIZE
    config = ImageCodecConfig(image_size=size, num_codes=given.num_codes, width=given.width)
    target = folder / "image_codec"
    if not target.exists():
        _train(config, recipe, parts, folder, log)
    codec = ImageCodec(config)
    codec.load_state_dict(load_file(target / "codec.safetensors"))
    return codec.eval()


def _train(config: ImageCodecConfig, recipe: Recipe, parts: Parts, folder: Path, log: Log) -> None:
    task, run = CodeImages(config), folder / "image_codec_run"
    train, valid = (task.read(rows) for rows in parts())
    settings = _settings(recipe.image_codec, len(train["image"]))
    settings = epochs_to_steps(settings, len(make_batches(task, train, settings)))
    log(f"image codec: {len(train['image']):,} images, {settings.last:,} steps")
    run.mkdir(exist_ok=True)
    torch.manual_seed(recipe.seed)
    codec = ImageCodec(config)
    progress = fit(
        TrainingJob(
            task, codec, train, settings, recipe.seed, run, lambda model, _: evaluate(model, task, valid, settings)
        )
    )
    checkpoints = Checkpoints(run / "checkpoints", settings.keep)
    average_checkpoints(codec, [checkpoints.at(progress.best_step or progress.step)])
    scores = {"psnr": evaluate(codec, task, valid, settings)["psnr"], "codes_used": codes_used(codec, task, valid)}
    with new_folder(folder / "image_codec") as new:
        save_file({name: tensor.contiguous() for name, tensor in codec.state_dict().items()}, new / "codec.safetensors")
        (new / "results.json").write_text(json.dumps(scores) + "\n")
    log(f"image codec: {scores['psnr']:.1f} dB on validation images, {scores['codes_used']:.0%} of the codes used")


def codes_used(codec: ImageCodec, task: CodeImages, columns: Columns) -> float:
    """Return the share of the codes that occur in these images."""
    seen: set[int] = set()
    for examples in np.array_split(np.arange(len(columns["image"])), -(-len(columns["image"]) // BATCH)):
        seen |= set(codec.encode(task.collate(columns, examples).ids).flatten().tolist())
    return len(seen) / codec.config.num_codes


def _settings(given: CodecConfig, count: int) -> TrainConfig:
    batch = min(given.batch_examples, count)
    every = EVALUATE_EPOCHS * max(1, -(-count // batch))
    return TrainConfig(
        epochs=given.epochs, batch_examples=batch, optimizer=OptimizerConfig(lr=given.lr, betas=(0.9, 0.99), eps=1e-8),
        schedule=ScheduleConfig(kind="cosine", warmup=100), evaluate_every=every, save_every=every, keep=1,
    )  # fmt: skip
