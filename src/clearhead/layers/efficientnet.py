"""EfficientNet-Lite (Tan and Le 2019; the variant without squeeze-and-excitation): images to a grid of vectors.

Batch norm is folded into the convolutions: the network extracts features and is not trained.
"""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = 1280  # width of the vectors
STRIDE = 32  # pixels of a side for each vector
STEM = 32
# repeats, kernel, stride, expansion, width of each stage of the smallest network
STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320))  # fmt: skip


@dataclass(frozen=True)
class EfficientNetConfig:
    """The multipliers of a network."""

    width: float = 1.0
    depth: float = 1.0


class SameConv(nn.Conv2d):
    """A convolution with ceil(side / stride) outputs; an odd pixel of padding goes to the right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        if self.kernel_size[0] > 1:
            down, right = (self._padding(side) for side in input.shape[2:])
            input = F.pad(input, (right // 2, right - right // 2, down // 2, down - down // 2))
        return super().forward(input)

    def _padding(self, side: int) -> int:
        kernel, stride = self.kernel_size[0], self.stride[0]
        return max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)


class InvertedBottleneck(nn.Module):
    """Expansion, a convolution of each channel, and a linear projection (Sandler et al. 2018)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = SameConv(inputs, inner) if expansion > 1 else None
        self.depthwise = SameConv(inner, inner, kernel, stride, groups=inner)
        self.project = SameConv(inner, outputs)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        h = x if self.expand is None else F.relu6(self.expand(x))
        h = self.project(F.relu6(self.depthwise(h)))
        return x + h if self.skips else h


class EfficientNetLite(nn.Module):
    """Maps images (B, 3, H, W) to features (B, 1280, H / 32, W / 32)."""

    def __init__(self, config: EfficientNetConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = SameConv(3, STEM, 3, 2)
        blocks: list[nn.Module] = []
        inputs = STEM
        for i, (repeats, kernel, stride, expansion, width) in enumerate(STAGES):
            outputs = round_width(width * config.width)
            repeats = repeats if i in (0, len(STAGES) - 1) else math.ceil(repeats * config.depth)
            for repeat in range(repeats):
                blocks.append(InvertedBottleneck(inputs, outputs, kernel, 1 if repeat else stride, expansion))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.head = SameConv(inputs, FEATURES)

    def forward(self, pixels: Tensor) -> Tensor:
        x = F.relu6(self.stem(pixels))
        for block in self.blocks:
            x = block(x)
        return F.relu6(self.head(x))


def round_width(width: float) -> int:
    """Return the nearest multiple of 8 that is at most a tenth smaller."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded
