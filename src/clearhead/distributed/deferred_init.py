"""Initial weights of a model that no process holds whole: the same bits as those of a model built in one piece.

The model is built on the meta device, where its operations are recorded. They are then run in the same order, so that
every number is drawn at its place in the sequence; a weight is in memory from its last initialization until its shard
is taken, and values that are overwritten later are drawn and dropped at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from clearhead.distributed.torch_private import mutates_argument, storage_key

OVERWRITE = ("uniform_", "normal_", "zero_", "fill_")  # of their first argument, whatever it was


@dataclass(frozen=True, eq=False)
class _RecordedCall:
    """One operation of the construction of a model; its tensors keep their storages apart."""

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: Any

    def tensors(self) -> Iterator[Tensor]:
        leaves = tree_leaves((self.args, self.options, self.result))
        return (leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_meta)

    def overwrites(self, key: int) -> bool:
        """Return whether the whole storage gets values that do not depend on the old ones."""
        if self.function.overloadpacket.__name__ not in OVERWRITE:
            return False
        tensor = self.args[0]
        return storage_key(tensor) == key and tensor.numel() * tensor.itemsize == tensor.untyped_storage().nbytes()


class InitRecorder(TorchDispatchMode):
    """Context in which a model is built on the meta device, with a record of how its weights are initialized."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[_RecordedCall] = []
        self._device = torch.device("meta")

    def __enter__(self) -> Self:
        self._device.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._device.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        call = _RecordedCall(func, args, kwargs or {}, result)
        if any(True for _ in call.tensors()):
            self._calls.append(call)
        return result

    @staticmethod
    def parameters(model: nn.Module) -> dict[int, tuple[str, Tensor]]:
        """Return the parameters of a model on the meta device by their storages, before it is sharded."""
        return {storage_key(param): (name, param.detach()) for name, param in model.named_parameters()}

    @torch.no_grad()
    def replay(self, parameters: dict[int, tuple[str, Tensor]], place: Callable[[str, Tensor], object]) -> None:
        """Run all operations on the CPU; call `place` with the name and the value of each parameter, once."""
        uses: dict[int, list[int]] = {}
        for i, call in enumerate(self._calls):
            for key in {storage_key(tensor) for tensor in call.tensors()}:
                uses.setdefault(key, []).append(i)
        live: dict[int, Tensor] = {}  # the bytes of storages
        for call in self._calls:
            self._run(call, live)
            for key in {storage_key(tensor) for tensor in call.tensors()}:
                uses[key].pop(0)
                if not uses[key] and key in parameters:
                    name, like = parameters[key]
                    if key not in live:
                        raise ValueError(f"{name} is not initialized when the model is built on the meta device")
                    place(name, _view(live.pop(key), like))
                elif not uses[key] or self._calls[uses[key][0]].overwrites(key):
                    live.pop(key, None)
        assert not any(uses.values())

    @staticmethod
    def _run(call: _RecordedCall, live: dict[int, Tensor]) -> None:
        """Run an operation on the values of its tensors, unless it only allocates or makes a view."""
        inputs = {storage_key(t) for t in tree_leaves((call.args, call.options)) if isinstance(t, Tensor) and t.is_meta}
        outputs = [t for t in tree_leaves(call.result) if isinstance(t, Tensor)]
        if call.function.overloadpacket.__name__.startswith("empty"):
            return
        if not mutates_argument(call.function) and outputs and all(storage_key(t) in inputs for t in outputs):
            return

        def real(leaf: Any) -> Any:
            if isinstance(leaf, torch.device):
                return torch.device("cpu")
            if not isinstance(leaf, Tensor) or not leaf.is_meta:
                return leaf
            key = storage_key(leaf)
            if key not in live:
                live[key] = _bytes_of(leaf)
            return _view(live[key], leaf)

        args, options = tree_map(real, (call.args, call.options))
        result = tree_leaves(call.function(*args, **options))
        for symbol, value in zip(tree_leaves(call.result), result, strict=True):
            if isinstance(symbol, Tensor) and storage_key(symbol) not in live:
                memory = live[storage_key(symbol)] = _bytes_of(symbol)
                _view(memory, symbol).copy_(value)


def _bytes_of(symbol: Tensor) -> Tensor:
    """Return memory for the storage of a tensor on the meta device."""
    return torch.empty(symbol.untyped_storage().nbytes(), dtype=torch.uint8, device="cpu")


def _view(memory: Tensor, symbol: Tensor) -> Tensor:
    """Return the real tensor of one on the meta device."""
    return memory.view(symbol.dtype).as_strided(symbol.shape, symbol.stride(), symbol.storage_offset())
