"""The engine that searches for translations: clearhead's own decoder, or CTranslate2 where it is faster.

With "auto", CTranslate2 runs models that were loaded with `dtype="auto"`, which asks for the fastest arithmetic of the
machine, in int8. A model in a dtype that was given, or in its folder's, keeps clearhead's decoder, whose tokens equal
those of `transformers`.
"""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn

from clearhead.attention.hooks import is_observed
from clearhead.decode.beam import BeamConfig, BeamHypothesis
from clearhead.decode.ctranslate2_search import CTranslate2Search, unsupported_settings
from clearhead.decode.generator import Source, TextGenerator
from clearhead.models.precision import has_bfloat16

EngineName = Literal["auto", "clearhead", "ctranslate2"]
"""What computes a translation; "auto" is CTranslate2 where the model was loaded with `dtype="auto"`, if installed."""
Search = Callable[[Sequence[Source], BeamConfig, int], list[list[BeamHypothesis]]]
"""Finds the best hypotheses of each source, with at most this many new tokens."""

COMPUTE_TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
MANY_HYPOTHESES = 512  # where the processor computes in bfloat16, clearhead is faster from here on (docs/speed.md)


@dataclass(frozen=True)
class SelectedEngine:
    """An engine for one model: its name with its precision, as "ctranslate2 int8", and its search."""

    name: str
    search: Search


class TranslationEngine:
    """Chooses the engine of a model; CTranslate2 is opened at its first use, and its export cached beside `folder`."""

    def __init__(self, generator: TextGenerator, folder: Path | None, *, fastest: bool) -> None:
        """`fastest`: the model was loaded with dtype "auto", so that int8 is allowed."""
        self._generator, self._folder, self._fastest = generator, folder, fastest
        self._lock = threading.Lock()
        self._opened: tuple[tuple[tuple[int, int], ...], CTranslate2Search] | None = None
        self._failed: str | None = None  # why "auto" does not try CTranslate2 again

    def select(self, engine: EngineName, beam: BeamConfig, num_texts: int) -> SelectedEngine:
        """Return the engine for this search; ValueError says why one that was asked for by name cannot run it."""
        if engine not in get_args(EngineName):
            raise ValueError(f"there is no engine {engine!r}: choose {', '.join(get_args(EngineName))}")
        dtype = next(iter(self._generator.model.parameters())).dtype
        own = SelectedEngine(f"clearhead {str(dtype).removeprefix('torch.')}", self._generator.search)
        if engine == "clearhead":
            return own
        reason = self._unsupported_reason(beam, dtype)
        if engine == "ctranslate2":
            if reason is not None:
                raise ValueError(f"this model cannot be run by CTranslate2: {reason}; or give engine 'clearhead'")
            return self._open(dtype)
        is_large = has_bfloat16() and num_texts * beam.size >= MANY_HYPOTHESES
        if reason is not None or self._failed is not None or not self._fastest or is_large:
            return own
        if self._opened is not None:  # weights that change, as in training, are not exported again and again
            return self._named(self._opened[1]) if self._opened[0] == self._weights() else own
        try:
            return self._open(dtype)
        except ValueError as error:
            self._failed = str(error)
        except OSError as error:
            self._failed = str(error)
            message = f"the export for CTranslate2 cannot be written ({error}): clearhead's own decoder translates"
            warnings.warn(message, stacklevel=3)
        return own

    def _unsupported_reason(self, beam: BeamConfig, dtype: torch.dtype) -> str | None:
        """Return why CTranslate2 cannot run this search, and what to do; the export itself may find more."""
        generator = self._generator
        if not is_installed():
            return "it is not installed: pip install 'clearhead[ctranslate2]'"
        if not generator.translates or generator.reads_images:
            return "it does not translate texts"
        if any(is_observed(module) for module in _submodules(generator.model)):
            return "the model has hooks, which it would skip: leave `look` and `ablate_heads` first"
        if generator.model.training:
            return "the model is in training mode: call `model.eval()`"
        if generator.device.type != "cpu":
            return f"the model is on {generator.device}: load it with device='cpu'"
        if dtype not in COMPUTE_TYPES:
            return f"the model is in {dtype}: load it with dtype='float32' or 'auto'"
        settings = unsupported_settings(generator.defaults.constraints, beam.early_stopping)
        return None if settings is None else f"generation_config.json sets {settings}: remove the setting"

    def _open(self, dtype: torch.dtype) -> SelectedEngine:
        """Return CTranslate2 with the weights as they are now."""
        import ctranslate2

        compute_type = "int8" if self._fastest else COMPUTE_TYPES[dtype]
        with self._lock:
            weights = self._weights()
            if self._opened is None or self._opened[0] != weights:
                if compute_type not in ctranslate2.get_supported_compute_types("cpu"):
                    raise ValueError(
                        f"CTranslate2 does not compute in {compute_type} on this machine: load the model with "
                        "dtype='float32'"
                    )
                self._opened = weights, CTranslate2Search(self._generator, self._folder, compute_type)
            return self._named(self._opened[1])

    def _named(self, opened: CTranslate2Search) -> SelectedEngine:
        return SelectedEngine(f"ctranslate2 {opened.compute_type}", opened.search)

    def _weights(self) -> tuple[tuple[int, int], ...]:
        """Return where each parameter is and how often it was changed in place."""
        parameters = (p for module in _submodules(self._generator.model) for p in module._parameters.values())
        return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters if p is not None)


@cache
def is_installed() -> bool:
    """Return whether CTranslate2 is installed; looking for it takes as long as a step."""
    return find_spec("ctranslate2") is not None


def _submodules(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a module and all below it, in a tenth of the time of `modules()`, which each translation would pay."""
    yield module
    for child in module._modules.values():
        if child is not None:
            yield from _submodules(child)
