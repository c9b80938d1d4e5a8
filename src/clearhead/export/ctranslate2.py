"""Exports a translation or language model to CTranslate2.

Weights are copied from the modules into CTranslate2's model specification. The folder also holds the tokenizer, because
the engine reads and writes tokens.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import MultiHead, ScaledDot
from clearhead.files import new_folder
from clearhead.hub.generation_config import GenerationConstraints
from clearhead.layers import Block, Embedding, FeedForward, LearnedPositions, SinusoidalPositions
from clearhead.models.heads import LMHead
from clearhead.models.model import Model
from clearhead.models.transformer import TransformerStack
from clearhead.text import Tokenizer

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
_FORBIDDEN_BIAS = -1e4  # outweighs any score and fits into float16


def export(
    model: Model,
    tokenizer: Tokenizer,
    constraints: GenerationConstraints,
    folder: str | Path,
    *,
    quantization: str | None = None,
    overwrite: bool = False,
) -> None:
    """Writes `folder` atomically; ValueError names what CTranslate2 does not support."""
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(f"there is no quantization {quantization!r}: choose {', '.join(QUANTIZATIONS)}")
    spec = build_spec(model, tokenizer, constraints)
    spec.optimize(quantization=quantization)
    with new_folder(folder, overwrite=overwrite) as target:
        spec.save(str(target))
        tokenizer.save(target)


def build_spec(model: Model, tokenizer: Tokenizer, constraints: GenerationConstraints) -> Any:
    """Returns CTranslate2's specification of a model, with its weights; ValueError names what is not supported."""
    try:
        from ctranslate2 import specs
    except ImportError:
        raise ValueError("export needs CTranslate2: pip install 'clearhead[ctranslate2]'") from None
    spec = _SpecWriter(specs).model(model, constraints)
    tokens = token_names(model, tokenizer)
    if model.encoder is not None:
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        assert constraints.start_token_id is not None
        spec.config.decoder_start_token = tokens[constraints.start_token_id]
    else:
        spec.register_vocabulary(tokens)
    if not constraints.eos_token_ids:
        raise ValueError("this model has no end token: set eos_token_id in generation_config.json")
    spec.config.eos_token = tokens[constraints.eos_token_ids[0]]
    spec.config.bos_token = tokens[constraints.eos_token_ids[0] if tokenizer.bos_id is None else tokenizer.bos_id]
    spec.config.unk_token = tokens[constraints.eos_token_ids[0] if tokenizer.unk_id is None else tokenizer.unk_id]
    spec.validate()
    return spec


def token_names(model: Model, tokenizer: Tokenizer) -> list[str]:
    """Returns the name of every id: its token; ids without a token get unused names."""
    size = _head(model).output.out_features
    named = tokenizer.tokens(range(min(size, tokenizer.vocab_size)))
    names = [name or f"<unused{i}>" for i, name in enumerate([*named, *[""] * (size - len(named))])]
    if len(set(names)) < size:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"the tokenizer has the token {twice!r} twice, but CTranslate2 knows tokens by their name")
    return names


def _head(model: Model) -> LMHead:
    if not isinstance(model.head, LMHead) or model.head.inner is not None:
        raise ValueError("only translation and language models can be exported to CTranslate2")
    return model.head


class _SpecWriter:
    """Copies modules into the fields of a CTranslate2 specification."""

    def __init__(self, specs: Any) -> None:
        self._specs = specs

    def model(self, model: Model, constraints: GenerationConstraints) -> Any:
        decoder, head = model.decoder, _head(model)
        encoder = model.encoder
        if not isinstance(decoder, TransformerStack) or not (encoder is None or isinstance(encoder, TransformerStack)):
            raise ValueError("CTranslate2 supports only Transformers, and this model is not one")
        if encoder is None:
            sizes = len(decoder.blocks), _heads(decoder)
            spec = self._specs.TransformerDecoderModelSpec.from_config(*sizes, **self._options(decoder))
        else:
            if _heads(encoder) != _heads(decoder):
                raise ValueError(
                    f"encoder and decoder have {_heads(encoder)} and {_heads(decoder)} heads: "
                    "CTranslate2 needs the same number for both"
                )
            layers = len(encoder.blocks), len(decoder.blocks)
            spec = self._specs.TransformerSpec.from_config(layers, _heads(decoder), **self._options(decoder))
            self._stack(spec.encoder, encoder)
        self._stack(spec.decoder, decoder)
        self._linear(spec.decoder.projection, _weight(head.output) * head.scale, head.output.bias)
        self._forbid(spec.decoder.projection, constraints)
        eps = {module.eps for module in decoder.modules() if isinstance(module, nn.LayerNorm)}
        spec.config.layer_norm_epsilon = eps.pop() if len(eps) == 1 else None
        return spec

    def _options(self, stack: TransformerStack) -> dict[str, Any]:
        first = stack.blocks[0]
        assert isinstance(first, Block)
        embedding = stack.embedding
        supported = isinstance(first.feedforward, FeedForward) and isinstance(embedding, Embedding)
        if not supported or stack.bias is not None or stack.rotary is not None or stack.local is not None:
            raise ValueError(
                "this model cannot be exported to CTranslate2: it needs ungated feed-forward layers and positions "
                "added to the tokens, as in Marian, BART and GPT-2"
            )
        activations = self._specs.Activation
        names = {
            "relu": activations.RELU,
            "gelu": activations.GELU,
            "gelu_tanh": activations.GELUTanh,
            "silu": activations.SWISH,
        }
        assert isinstance(first.feedforward, FeedForward) and isinstance(embedding, Embedding)
        if first.feedforward.activation not in names:
            raise ValueError(
                f"CTranslate2 export supports the activations {', '.join(names)}, not {first.feedforward.activation}"
            )
        options = {"pre_norm": first.norm_first, "activation": names[first.feedforward.activation]}
        return {**options, "layernorm_embedding": True} if embedding.norm is not None else options

    def _stack(self, spec: Any, stack: TransformerStack) -> None:
        self._options(stack)
        embedding, positions = stack.embedding, stack.embedding.positions
        assert isinstance(embedding, Embedding)
        if embedding.projection is not None or embedding.segments is not None:
            raise ValueError("CTranslate2 supports neither embedding projections nor segments")
        spec.scale_embeddings = embedding.scale
        words = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        words.weight = _to_numpy(embedding.tokens.weight)
        if isinstance(positions, SinusoidalPositions):
            spec.position_encodings.encodings = _to_numpy(positions.table)
        elif isinstance(positions, LearnedPositions):
            spec.position_encodings.encodings = _to_numpy(positions.table.weight[positions.offset :])
        if embedding.norm is not None:
            self._norm(spec.layernorm_embedding, embedding.norm)
        if stack.norm is not None:
            self._norm(spec.layer_norm, stack.norm)
        for layer, block in zip(spec.layer, stack.blocks, strict=True):
            assert isinstance(block, Block) and isinstance(block.feedforward, FeedForward)
            self._attention(layer.self_attention, block.attention, block.attention_norm)
            if block.cross is not None and block.cross_norm is not None:
                self._attention(layer.attention, block.cross, block.cross_norm)
            self._norm(layer.ffn.layer_norm, block.feedforward_norm)
            self._linear(layer.ffn.linear_0, _weight(block.feedforward.up), block.feedforward.up.bias)
            self._linear(layer.ffn.linear_1, _weight(block.feedforward.down), block.feedforward.down.bias)

    def _attention(self, spec: Any, attention: MultiHead, norm: nn.Module) -> None:
        core = attention.core
        if type(core.score) is not ScaledDot or core.method is not None or attention.query_norm is not None:
            kind = type(core.score).__name__ if core.method is None else core.method.kind
            raise ValueError(f"CTranslate2 computes exact scaled dot-product attention, but a layer has {kind}")
        self._norm(spec.layer_norm, norm)
        inputs = [attention.query, attention.key, attention.value]
        groups = [inputs] if len(spec.linear) == 2 else [inputs[:1], inputs[1:]]
        for linear, layers in zip(spec.linear, groups, strict=False):
            biases = [bias for layer in layers if (bias := _bias(layer)) is not None]
            self._linear(linear, torch.cat([_weight(layer) for layer in layers]), torch.cat(biases) if biases else None)
        self._linear(spec.linear[-1], _weight(attention.output), attention.output.bias)

    def _norm(self, spec: Any, norm: nn.Module) -> None:
        if not isinstance(norm, nn.LayerNorm):
            raise ValueError(f"CTranslate2 export supports only LayerNorm, not {type(norm).__name__}")
        spec.gamma = _to_numpy(norm.weight)
        spec.beta = _to_numpy(norm.weight.new_zeros(len(norm.weight)) if (bias := _bias(norm)) is None else bias)

    def _linear(self, spec: Any, weight: Tensor, bias: Tensor | None) -> None:
        spec.weight = _to_numpy(weight)
        if bias is not None:
            spec.bias = _to_numpy(bias)

    def _forbid(self, projection: Any, constraints: GenerationConstraints) -> None:
        """Gives forbidden tokens a large negative bias: the format has no list of them."""
        if (
            constraints.needs_history
            or constraints.begin_suppress_tokens
            or constraints.forced_bos_token_id is not None
        ):
            raise ValueError(
                "generation_config.json sets constraints that CTranslate2's format cannot store (token sequences, "
                "repetition, first tokens): remove them, and pass them to the engine at run time"
            )
        if singles := [run[0] for run in constraints.bad_words_ids]:
            bias = projection.bias if projection.has_bias() else np.zeros(len(projection.weight), dtype=np.float32)
            projection.bias = bias.copy()
            projection.bias[singles] = _FORBIDDEN_BIAS


def _heads(stack: TransformerStack) -> int:
    block = stack.blocks[0]
    assert isinstance(block, Block)
    return block.attention.query.out_features // block.attention.head_dim


def _bias(layer: nn.Linear | nn.LayerNorm) -> Tensor | None:
    return layer.bias


def _weight(layer: nn.Linear) -> Tensor:
    if type(layer) is not nn.Linear:
        raise ValueError(f"CTranslate2 export needs plain linear layers, but this model has a {type(layer).__name__}")
    return layer.weight


def _to_numpy(tensor: Tensor) -> np.ndarray:
    return np.array(tensor.detach().float().cpu().numpy())  # a copy: quantization writes into the array
