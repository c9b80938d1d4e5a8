"""Parts of a model with their types, for tests that look inside."""

from __future__ import annotations

from torch import Tensor, nn

from clearhead.layers import Embedding
from clearhead.models import RecurrentDecoder, RecurrentEncoder, TransformerStack


def token_table(stack: nn.Module | None) -> nn.Embedding:
    """The token embedding of an encoder or a decoder."""
    assert isinstance(stack, (TransformerStack, RecurrentEncoder, RecurrentDecoder))
    assert isinstance(stack.embedding, Embedding)
    return stack.embedding.tokens


def output_layer(head: nn.Module | None) -> nn.Linear:
    """The last layer of a head."""
    assert head is not None and isinstance(head.output, nn.Linear)
    return head.output


def gradient(tensor: Tensor) -> Tensor:
    """The gradient that backward left."""
    assert tensor.grad is not None
    return tensor.grad
