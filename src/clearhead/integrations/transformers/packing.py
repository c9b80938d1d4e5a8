"""Acceleration of a transformers encoder: its layers run on the tokens of a batch without the padding.

The base model (`BertModel` inside `BertForSequenceClassification`, ...) takes padded tensors and returns padded tensors
as before; in between, its tokens are one packed sequence (1, N) and its attention is clearhead's. Collators, heads,
losses and trainers are unchanged.
"""

import inspect
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from clearhead.attention import Layout
from clearhead.integrations.transformers.attention import NAME, set_layout

TOLERANCE = 1e-4  # of the check: a wrong head or position differs by far more


def accelerate(model: PreTrainedModel) -> "Acceleration":
    """Run this model without padding and with clearhead's attention, forward and backward.

    It ends with `undo()` of the result, or with its `with` block. Two short sequences are run before and after: a model
    whose output changes is refused and left as it was.
    """
    return Acceleration([model])


class Acceleration:
    """Accelerated models; `undo` gives them back their own forward."""

    def __init__(self, models: list[PreTrainedModel]) -> None:
        self._undo: list[tuple[PreTrainedModel, str | None]] = []
        try:
            for model in models:
                self._accelerate(model)
        except BaseException:
            self.undo()
            raise

    def _accelerate(self, model: PreTrainedModel) -> None:
        base = cast("PreTrainedModel", model.base_model)
        if isinstance(vars(base).get("forward"), PackedForward):
            raise ValueError(f"this {type(base).__name__} is accelerated already: call undo() first")
        implementation = model.config._attn_implementation
        _check_supported(model)
        before = _probe(model)
        self._undo.append((model, implementation))
        model.set_attn_implementation(NAME)
        base.forward = PackedForward(base)
        after = _probe(model)
        if not all(
            x.shape == y.shape and torch.allclose(x, y, rtol=0, atol=TOLERANCE)
            for x, y in zip(before, after, strict=True)
        ):
            raise ValueError(
                f"{type(model).__name__} gives other outputs without padding: its forward reads positions that packing "
                "moves, so it is left as it was"
            )

    def undo(self) -> None:
        """Give the models back their own forward and attention implementation."""
        while self._undo:
            model, implementation = self._undo.pop()
            vars(model.base_model).pop("forward", None)
            model.set_attn_implementation(implementation or "eager")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


class PackedForward:
    """The forward of a base model on a packed batch: padded tensors in, padded tensors out."""

    def __init__(self, base: PreTrainedModel) -> None:
        self.base = base
        self.padding = _padding_of_positions(base)
        parameters = self.__signature__.parameters.values()
        self.names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(type(self.base).forward.__get__(self.base))

    def __call__(self, *args: Any, **options: Any) -> Any:
        forward: Any = type(self.base).forward
        call = dict(zip(self.names, args, strict=False)) | options
        mask: Tensor | None = call.pop("attention_mask", None)
        given: Tensor | None = call.get("input_ids") if call.get("inputs_embeds") is None else call["inputs_embeds"]
        if given is None or "cu_seq_lens_q" in call or not call.get("return_dict", True) or _is_dense(mask):
            return forward(self.base, **call, attention_mask=mask)  # packed already, or no batch to pack
        batch = _Batch.of(given, mask)
        positions = call.pop("position_ids", None)
        packed = {name: batch.pack(value) for name, value in call.items()}
        packed["position_ids"] = batch.pack(
            self._positions(call.get("input_ids"), batch) if positions is None else positions
        )
        offsets = set_layout(batch.layout.offsets.to(torch.int32), batch.layout)
        longest = max(batch.layout.host_lengths, default=0)
        packed |= {"cu_seq_lens_q": offsets, "cu_seq_lens_k": offsets, "max_length_q": longest, "max_length_k": longest}
        return self._unpacked(forward(self.base, **packed), batch)

    def _positions(self, ids: Tensor | None, batch: "_Batch") -> Tensor:
        """Return the positions (B, T) that the model would count itself."""
        if ids is not None and self.padding is not None:
            tokens = (ids != self.padding).long()
            return tokens.cumsum(1) * tokens + self.padding
        first = 0 if self.padding is None else self.padding + 1
        return torch.arange(first, first + batch.length, device=batch.layout.offsets.device).expand(batch.size, -1)

    def _unpacked(self, output: Any, batch: "_Batch") -> Any:
        output.last_hidden_state = batch.unpack(output.last_hidden_state)
        if getattr(output, "hidden_states", None) is not None:
            output.hidden_states = tuple(batch.unpack(x) for x in output.hidden_states)
        if getattr(output, "pooler_output", None) is not None:  # it read the first token of the batch alone
            output.pooler_output = self._pooled(output.last_hidden_state)
        return output

    def _pooled(self, states: Tensor) -> Tensor:
        base: Any = self.base
        if isinstance(base.pooler, nn.Linear):  # ALBERT: the model itself takes the first token
            return base.pooler_activation(base.pooler(states[:, 0]))
        return base.pooler(states)


@dataclass(frozen=True, eq=False)
class _Batch:
    """A padded batch (B, T) and the rows of it that are tokens."""

    size: int
    length: int
    rows: Tensor | None  # (N,) of the flattened batch; None: all
    layout: Layout

    @staticmethod
    def of(tokens: Tensor, mask: Tensor | None) -> "_Batch":
        B, T = tokens.shape[:2]
        if mask is None or bool(mask.all()):
            return _Batch(B, T, None, Layout.uniform(B, T, tokens.device))
        rows = mask.flatten().nonzero().flatten()
        return _Batch(B, T, rows, Layout.from_lengths(mask.bool().sum(1), device=tokens.device))

    def pack(self, value: Any) -> Any:
        """Return a tensor of tokens (B, T, ...) as (1, N, ...); anything else unchanged."""
        if not isinstance(value, Tensor) or value.dim() < 2 or value.shape[1] != self.length:
            return value
        flat = value.expand(self.size, *value.shape[1:]).flatten(0, 1)
        return (flat if self.rows is None else flat[self.rows]).unsqueeze(0)

    def unpack(self, x: Tensor) -> Tensor:
        """Return packed tokens (1, N, D) as (B, T, D), with zeros at the padding."""
        flat = x[0]
        if self.rows is not None:
            flat = flat.new_zeros(self.size * self.length, *flat.shape[1:]).index_copy(0, self.rows, flat)
        return flat.view(self.size, self.length, *flat.shape[1:])


def _is_dense(mask: Tensor | None) -> bool:
    return mask is not None and mask.dim() != 2


def _padding_of_positions(base: nn.Module) -> int | None:
    """Return the padding id that RoBERTa-like embeddings count positions from; None: positions count from 0."""
    for module in base.modules():
        padding = getattr(module, "padding_idx", None)
        if isinstance(padding, int) and isinstance(getattr(module, "position_embeddings", None), nn.Embedding):
            return padding
    return None


def _check_supported(model: PreTrainedModel) -> None:
    if not getattr(model, "is_backend_compatible", lambda: False)():
        raise ValueError(
            f"{type(model).__name__} does not read its kernel from transformers' attention interface: it cannot be "
            "accelerated; `clearhead.load` may open its folder"
        )
    if model.config.is_encoder_decoder or getattr(model.config, "is_decoder", False):
        raise ValueError(f"{type(model).__name__} is a decoder: only encoders can be accelerated")


@torch.no_grad()
def _probe(model: PreTrainedModel) -> list[Tensor]:
    """Return the outputs of two short sequences of different lengths, in evaluation mode."""
    training = model.training
    device = next(iter(model.parameters())).device
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.arange(12, device=device).view(2, 6) % max(size - 5, 1) + min(5, size - 1)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], device=device)
    try:
        model.eval()
        output = model(input_ids=ids, attention_mask=mask)
    finally:
        model.train(training)
    found: list[Tensor] = []
    for value in output.values():
        if isinstance(value, Tensor):
            tokens = value.shape[:2] == (2, 6)
            found.append(value[mask.bool()] if tokens else value)
    return found
