"""MTEB: an embedding model as the benchmark `mteb` runs it.

`mteb.evaluate(MtebEncoder("my-model"), mteb.get_tasks(tasks=["STSBenchmark"]))`
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mteb.models import ModelMeta
from mteb.types import PromptType
from torch import Tensor

from clearhead.pipeline import Pipeline, load

PROMPTS = {PromptType.query: "query", PromptType.document: "document"}


class MtebEncoder:
    """A model folder, its name on the hub or a loaded `Pipeline`, as an encoder of `mteb`: similarity is the cosine.

    Queries and documents of retrieval tasks get the model's own prompts.
    """

    def __init__(self, model: str | Path | Pipeline, revision: str | None = None, **options: Any) -> None:
        self.pipeline = model if isinstance(model, Pipeline) else load(model, revision=revision, **options)
        name = "clearhead/pipeline" if isinstance(model, Pipeline) else str(model).strip("/")
        config = self.pipeline.loaded.config
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": name if name.count("/") == 1 else f"local/{Path(name).name}",
                "revision": revision or "no_revision_available",
                "n_parameters": sum(p.numel() for p in self.pipeline.model.parameters()),
                "max_tokens": self.pipeline.max_len,
                "embed_dim": config.output_width,
                "framework": ["PyTorch"],
            }
        )

    def encode(
        self,
        inputs: Iterable[Any],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> np.ndarray:
        """Return the vectors of the texts of all batches, (texts, D)."""
        texts = [str(text) for batch in inputs for text in batch["text"]]
        prompt = None if prompt_type is None else PROMPTS[prompt_type]
        return self.pipeline.encode(texts, prompt=prompt).numpy()

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosines of all pairs, (first, second)."""
        return _unit(embeddings1) @ _unit(embeddings2).t()

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the cosine of each pair of rows."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(1)


def _unit(vectors: Any) -> Tensor:
    return torch.nn.functional.normalize(torch.atleast_2d(torch.as_tensor(vectors)).float(), dim=1)
