"""A meter of training steps: memory by kind, bytes of collectives, and the time of each operation on a roofline.

It sees every operation, of real tensors as of fake ones, which have shapes and no numbers.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from clearhead.distributed.torch_private import group_size
from clearhead.plan.hardware import Hardware

COLLECTIVES = {  # operator -> its name, and which argument has the size of the whole
    "_allgather_base_": ("all-gather", 0),
    "_reduce_scatter_base_": ("reduce-scatter", 1),
    "allreduce_": ("all-reduce", 0),
    "all_reduce": ("all-reduce", 0),
}
HALF = (torch.bfloat16, torch.float16)
FLASH_BACKWARD = 2.5  # products of the backward pass of FlashAttention, in those of its forward pass


@dataclass
class Traffic:
    """The calls of one collective, and the bytes that a rank sends for them in a ring."""

    calls: int = 0
    nbytes: float = 0.0


class StepMeter(TorchDispatchMode):
    """Context that measures the operations inside it; `phase` is the kind of what is allocated."""

    def __init__(self, hardware: Hardware | None = None, *, causal: bool = False) -> None:
        super().__init__()
        self.phase = "activations"
        self.memory: dict[str, int] = defaultdict(int)  # now, by kind
        self.peak: dict[str, int] = {}  # by kind, when the sum was largest
        self.largest: dict[str, int] = defaultdict(int)  # of each kind
        self.traffic: dict[str, Traffic] = defaultdict(Traffic)
        self.flops = 0.0
        self.seconds = 0.0
        self._hardware, self._causal = hardware, causal
        self._live: dict[int, tuple[Any, str, int]] = {}  # by the id of a storage: weak reference, kind, bytes
        self._resize: Any = None

    def __enter__(self) -> Self:
        # FSDP frees and allocates gathered weights by resizing their storages, which is no operation.
        self._resize = original = torch.UntypedStorage.resize_
        meter = self

        def resize_(self: torch.UntypedStorage, size: int) -> Any:
            result = original(self, size)
            meter._set(self, "gathers")
            return result

        torch.UntypedStorage.resize_ = resize_
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.UntypedStorage.resize_ = self._resize

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # its operations on shards come here
        if func is torch.ops.prim.device.default:  # asked for more often than all operations together
            return func(*args)
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        inputs = [*_tensors(args), *_tensors(kwargs.values())]
        with unset_fake_temporarily() if _is_planning(name, args, inputs) else nullcontext():
            result = func(*args, **kwargs)
        outputs = list(_tensors(result))
        for x in outputs:
            storage = x.untyped_storage()
            if id(storage) not in self._live and all(y.untyped_storage() is not storage for y in inputs):
                self._set(storage, self.phase)
        if func.namespace in ("c10d", "fsdp", "_c10d_functional"):
            self._communicate(name, args, [*inputs, *outputs])
        elif not func.is_view and not name.startswith("empty"):
            self._compute(func, name, args, kwargs, result, [*inputs, *outputs])
        return result

    def _communicate(self, name: str, args: Any, tensors: list[Tensor]) -> None:
        for x in tensors:
            if id(x.untyped_storage()) in self._live:
                self._set(x.untyped_storage(), "gathers")
        if name in COLLECTIVES:
            title, whole = COLLECTIVES[name]
            ranks = group_size(args)
            nbytes = sum(x.nbytes for x in _tensors([args[whole]]))  # of what all ranks hold together
            self.traffic[title].calls += 1
            self.traffic[title].nbytes += nbytes * (ranks - 1) / ranks * (2 if title == "all-reduce" else 1)
        if name == "_reduce_scatter_base_":
            self._set(args[0].untyped_storage(), "gradients")

    def _compute(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, tensors: list[Tensor]) -> None:
        flops = 0.0
        if "varlen_attn" in name or name in ("_flash_attention_forward", "_flash_attention_backward"):
            flops = _attention_flops(name, args, self._causal)
        elif "flash_attention_for_cpu" in name:  # (B, H, T, K)
            q, k = args[1:3] if "backward" in name else args[:2]
            flops = 4.0 * q.numel() * k.shape[2] * (FLASH_BACKWARD if "backward" in name else 1.0)
        elif func.overloadpacket in flop_registry:
            flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
        self.flops += flops
        if self._hardware is not None:
            dtype = "bfloat16" if any(x.dtype in HALF for x in tensors) else "float32"
            moved = sum({id(x): x.nbytes for x in tensors}.values())
            self.seconds += max(flops / self._hardware.flops[dtype], moved / self._hardware.bandwidth)

    def _set(self, storage: torch.UntypedStorage, kind: str) -> None:
        """Record the kind and the present size of a storage."""
        key, size = id(storage), storage.nbytes()
        if key in self._live:
            reference, old, before = self._live[key]
            self.memory[old] -= before
        else:
            reference = weakref.ref(storage, partial(self._free, key))
        self._live[key] = reference, kind, size
        self.memory[kind] += size
        self.largest[kind] = max(self.largest[kind], self.memory[kind])
        if sum(self.memory.values()) > sum(self.peak.values()):
            self.peak = dict(self.memory)

    def _free(self, key: int, reference: object) -> None:
        _, kind, size = self._live.pop(key)
        self.memory[kind] -= size


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in arguments or results; torch's own traversal of nested values takes many times as long."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Iterable):
        for value in values:
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, list | tuple):
                yield from _tensors(value)


def _is_planning(name: str, args: Any, inputs: list[Tensor]) -> bool:
    """Return whether an operation has to give numbers: of positions and layouts, or one number, such as a seed."""
    if not inputs:
        return name == "arange" or (name in ("randint", "zeros") and [] in args)
    return not any(isinstance(x, FakeTensor) for x in inputs)


def _attention_flops(name: str, args: Any, causal: bool) -> float:
    """Return the operations of FlashAttention over sequences of equal lengths."""
    half = [x for x in _tensors(args) if x.dim() == 3]
    backward = "backward" in name
    q, k = half[1:3] if backward else half[:2]  # the gradient of the output comes first
    offsets = next(x for x in _tensors(args) if x.dtype == torch.int32)
    pairs = q.shape[0] * k.shape[0] / (offsets.numel() - 1) / (2 if causal else 1)
    return 4.0 * pairs * q.shape[1] * q.shape[2] * (FLASH_BACKWARD if backward else 1.0)
