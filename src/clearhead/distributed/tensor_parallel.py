"""Tensor parallelism: the heads and the inner width of each block are divided over ranks (Shoeybi et al. 2019).

It is applied to a model from outside. The projections to queries, keys, values and to the inner width of the
feed-forward layer keep some of their columns, the projections back the rows that belong to them, and the sum over the
ranks is the output of the block. Embeddings, norms and head are computed by each of these ranks.
"""

from collections.abc import Iterator

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from clearhead.attention import Dot, MultiHead, ScaledDot
from clearhead.layers.blocks import Block
from clearhead.layers.feedforward import FeedForward, GatedFeedForward
from clearhead.models import Model, TransformerStack


def split_blocks(model: Model, mesh: DeviceMesh) -> None:
    """Divide each block over the ranks of a mesh of one dimension; ValueError where a model cannot be divided."""
    for stack in (model.encoder, model.decoder):
        if stack is None:
            continue
        if not isinstance(stack, TransformerStack):
            raise ValueError(f"parallel.tensor is {mesh.size()}, but a recurrent model has no heads: set it to 1")
        for block in dict.fromkeys(stack.blocks):
            assert isinstance(block, Block)
            if reason := next(_undivided(block, stack, mesh.size()), None):
                raise ValueError(f"parallel.tensor is {mesh.size()}, but {reason}")
            parallelize_module(block, mesh, _styles(block))


def _undivided(block: Block, stack: TransformerStack, count: int) -> Iterator[str]:
    """Yield what does not allow a block to be divided, with the fix."""
    if stack.bias is not None:
        yield "its position biases have a value for each head, which is not divided: set it to 1"
    for attention in (block.attention, block.cross):
        if attention is None:
            continue
        for title, layer in (("query", attention.query), ("key", attention.key)):
            if (heads := layer.out_features // attention.head_dim) % count:
                yield f"the model has {heads} {title} heads, which is no multiple of it: change one of them"
        if attention.core.method is not None or not isinstance(attention.core.score, ScaledDot | Dot):
            yield "only exact attention by dot products is divided: set it to 1"
        if attention.query_norm is not None:
            yield "the norms of queries and keys are shared by all heads, and are not divided: set it to 1"
        if attention.core.dropout:
            yield "the heads of all ranks would drop the same weights: set model.attention_dropout to 0"
    feedforward = block.feedforward
    if not isinstance(feedforward, FeedForward | GatedFeedForward):
        yield f"{type(feedforward).__name__} is not divided: set it to 1"
    elif (width := feedforward.up.out_features) % count:
        yield f"model.ffn_dim is {width}, which is no multiple of it: change one of them"
    elif feedforward.dropout.p:
        yield "all ranks would drop the same places: set model.hidden_dropout to 0"


def _styles(block: Block) -> dict[str, ParallelStyle]:
    """Return how each layer of a block is divided. An input is marked once, so that its gradients are summed once."""
    same = Replicate()
    styles: dict[str, ParallelStyle] = {
        "attention": PrepareModuleInput(input_layouts=(same, None), desired_input_layouts=(same, None)),
        "feedforward": PrepareModuleInput(input_layouts=(same,), desired_input_layouts=(same,)),
    }
    if block.cross is not None:
        styles["cross"] = PrepareModuleInput(
            input_layouts=(same, None), desired_input_layouts=(same, None),
            input_kwarg_layouts={"context": same}, desired_input_kwarg_layouts={"context": same},
        )  # fmt: skip
    for name, module in block.named_modules():
        if not isinstance(module, MultiHead | FeedForward | GatedFeedForward):
            continue
        for child, _ in module.named_children():
            if child in ("query", "key", "value", "gate", "up"):
                styles[f"{name}.{child}"] = ColwiseParallel()
            elif child in ("output", "down"):
                styles[f"{name}.{child}"] = RowwiseParallel()
    return styles
