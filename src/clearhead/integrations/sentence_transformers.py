"""Acceleration of a live `SentenceTransformer` or `CrossEncoder`: no padding, and clearhead's attention.

    from clearhead.integrations.sentence_transformers import accelerate
    model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    accelerate(model)

`encode`, `predict`, their trainers and multi-process pools work as before; only this instance changes.
"""

from typing import TYPE_CHECKING

from clearhead.integrations.transformers.packing import Acceleration

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer


def accelerate(model: "SentenceTransformer | CrossEncoder") -> Acceleration:
    """Run the Transformer modules of this model without padding, forward and backward, until it is undone.

    accelerate(model)                  # until .undo()
    with accelerate(model): ...        # inside the block
    """
    from sentence_transformers.base.modules import Transformer

    found = [module.model for module in model.modules() if isinstance(module, Transformer)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no Transformer module: there is nothing to accelerate")
    if any(module.backend != "torch" for module in model.modules() if isinstance(module, Transformer)):
        raise ValueError('the model runs on ONNX or OpenVINO: load it with backend="torch" to accelerate it')
    return Acceleration(found)
