"""Tensor maps: how parameters are stored in one tensor of a Hugging Face folder, in both directions."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorMap:
    """Parameters stored as one Hugging Face tensor: concatenated along the outputs, transposed, a row, or squeezed."""

    names: tuple[str, ...]
    transposed: bool = False
    row: bool = False
    squeezed: int = 0  # leading dimensions of size 1 that the stored tensor does not have
    requires: str | None = None  # applies only if the model has this parameter too

    def of_stack(self, stack: str) -> "TensorMap":
        names = tuple(name.replace("{stack}", stack) for name in self.names)
        requires = None if self.requires is None else self.requires.replace("{stack}", stack)
        return replace(self, names=names, requires=requires)

    def read(self, tensor: Tensor, shapes: list[torch.Size]) -> list[Tensor]:
        tensor = tensor.squeeze(0) if self.row else tensor.T if self.transposed else tensor
        tensor = tensor.reshape(*[1] * self.squeezed, *tensor.shape) if self.squeezed else tensor
        if len(self.names) == 1:
            return [tensor]
        return list(tensor.split([shape[0] for shape in shapes]))

    def write(self, tensors: list[Tensor]) -> Tensor:
        tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        tensor = tensor.reshape(tensor.shape[self.squeezed :])
        return (tensor.unsqueeze(0) if self.row else tensor.T if self.transposed else tensor).contiguous()

    def shape(self, shapes: list[torch.Size]) -> tuple[int, ...]:
        full = (sum(shape[0] for shape in shapes), *shapes[0][1:])[self.squeezed :]
        return (1, *full) if self.row else full[::-1] if self.transposed else full


def joined(*names: str, transposed: bool = False) -> TensorMap:
    """Maps several parameters to one concatenated tensor."""
    return TensorMap(names, transposed)


def transposed(name: str) -> TensorMap:
    """Maps a matrix to one stored as (inputs, outputs)."""
    return TensorMap((name,), transposed=True)


def row(name: str) -> TensorMap:
    """Maps a vector to a matrix of one row."""
    return TensorMap((name,), row=True)


def squeezed(name: str, count: int) -> TensorMap:
    """Maps a parameter to a tensor without its first dimensions, which have size 1."""
    return TensorMap((name,), squeezed=count)
