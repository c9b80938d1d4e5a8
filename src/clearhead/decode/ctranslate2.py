"""CTranslate2: a translator or language model as a folder that the inference engine of that name opens.

Weights go straight from our modules into the engine's own specification. Beside them lies the tokenizer, because the
engine reads and writes tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import MultiHead
from clearhead.decode.rules import Rules
from clearhead.files import new_folder
from clearhead.layers import Block, Embedding, FeedForward, Learned, Sinusoidal
from clearhead.models.heads import Vocabulary
from clearhead.models.model import Model
from clearhead.models.transformer import Stack
from clearhead.text import Tokenizer

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
_NEVER = -1e4  # a bias that no score outweighs, and that float16 holds


def export(
    model: Model,
    tokenizer: Tokenizer,
    rules: Rules,
    folder: str | Path,
    *,
    quantization: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write `folder`: whole, or not at all. ValueError says what the engine has no place for."""
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(f"there is no quantization {quantization!r}: choose {', '.join(QUANTIZATIONS)}")
    try:
        from ctranslate2 import specs
    except ImportError:
        raise ValueError("export needs CTranslate2: pip install 'clearhead[ctranslate2]'") from None
    spec = _Writer(specs).model(model, rules)
    tokens = _vocabulary(tokenizer, _head(model).output.out_features)
    if model.encoder is not None:
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        assert rules.start is not None
        spec.config.decoder_start_token = tokens[rules.start]
    else:
        spec.register_vocabulary(tokens)
    if not rules.ends:
        raise ValueError("this model has no token that ends a text: put eos_token_id into generation_config.json")
    spec.config.eos_token = tokens[rules.ends[0]]
    spec.config.bos_token = tokens[rules.ends[0] if tokenizer.bos_id is None else tokenizer.bos_id]
    spec.config.unk_token = tokens[rules.ends[0] if tokenizer.unk_id is None else tokenizer.unk_id]
    spec.validate()
    spec.optimize(quantization=quantization)
    with new_folder(folder, overwrite=overwrite) as target:
        spec.save(str(target))
        tokenizer.save(target)


def _vocabulary(tokenizer: Tokenizer, size: int) -> list[str]:
    """The name of every id; ids that the tokenizer never gives have names that it never gives either."""
    named = tokenizer.tokens(range(min(size, tokenizer.vocab_size)))
    return [name or f"<unused{i}>" for i, name in enumerate([*named, *[""] * (size - len(named))])]


def _head(model: Model) -> Vocabulary:
    if not isinstance(model.head, Vocabulary) or model.head.inner is not None:
        raise ValueError("only models that write can be exported: translators and language models")
    return model.head


class _Writer:
    """Our modules into the specification's fields."""

    def __init__(self, specs: Any) -> None:
        self._specs = specs

    def model(self, model: Model, rules: Rules) -> Any:
        decoder, head = model.decoder, _head(model)
        encoder = model.encoder
        if not isinstance(decoder, Stack) or not (encoder is None or isinstance(encoder, Stack)):
            raise ValueError("CTranslate2 runs Transformers, and this model is not one")
        if encoder is None:
            spec = self._specs.TransformerDecoderModelSpec.from_config(
                len(decoder.blocks), _heads(decoder), **self._options(decoder)
            )
        else:
            if _heads(encoder) != _heads(decoder):
                raise ValueError(
                    f"encoder and decoder have {_heads(encoder)} and {_heads(decoder)} heads: "
                    "CTranslate2's format holds one number for both"
                )
            layers = len(encoder.blocks), len(decoder.blocks)
            spec = self._specs.TransformerSpec.from_config(layers, _heads(decoder), **self._options(decoder))
            self._stack(spec.encoder, encoder)
        self._stack(spec.decoder, decoder)
        self._linear(spec.decoder.projection, head.output.weight * head.scale, head.output.bias)
        self._forbid(spec.decoder.projection, rules)
        eps = {module.eps for module in decoder.modules() if isinstance(module, nn.LayerNorm)}
        spec.config.layer_norm_epsilon = eps.pop() if len(eps) == 1 else None
        return spec

    def _options(self, stack: Stack) -> dict[str, Any]:
        """What of a stack's bricks the specification asks for; other bricks are refused."""
        first = stack.blocks[0]
        assert isinstance(first, Block)
        embedding = stack.embedding
        plain = isinstance(first.feedforward, FeedForward) and isinstance(embedding, Embedding)
        if not plain or stack.bias is not None or stack.rotary is not None or stack.local is not None:
            raise ValueError(
                "models like Marian, BART and GPT-2 can be exported: plain feed-forward layers, positions that are "
                "added to the tokens"
            )
        activations = self._specs.Activation
        names = {
            "relu": activations.RELU,
            "gelu": activations.GELU,
            "gelu_tanh": activations.GELUTanh,
            "silu": activations.SWISH,
        }
        assert isinstance(first.feedforward, FeedForward) and isinstance(embedding, Embedding)
        options = {"pre_norm": first.norm_first, "activation": names[first.feedforward.activation]}
        return {**options, "layernorm_embedding": True} if embedding.norm is not None else options

    def _stack(self, spec: Any, stack: Stack) -> None:
        self._options(stack)
        embedding, positions = stack.embedding, stack.embedding.positions
        assert isinstance(embedding, Embedding)
        if embedding.widen is not None or embedding.segments is not None:
            raise ValueError("token vectors that are widened, or segments, have no place in CTranslate2's format")
        spec.scale_embeddings = embedding.scale
        words = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        words.weight = _numbers(embedding.tokens.weight)
        if isinstance(positions, Sinusoidal):
            spec.position_encodings.encodings = _numbers(positions.table)
        elif isinstance(positions, Learned):
            spec.position_encodings.encodings = _numbers(positions.table.weight[positions.offset :])
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
            self._linear(layer.ffn.linear_0, block.feedforward.up.weight, block.feedforward.up.bias)
            self._linear(layer.ffn.linear_1, block.feedforward.down.weight, block.feedforward.down.bias)

    def _attention(self, spec: Any, part: MultiHead, norm: nn.Module) -> None:
        self._norm(spec.layer_norm, norm)
        inputs = [part.query, part.key, part.value]
        groups = [inputs] if len(spec.linear) == 2 else [inputs[:1], inputs[1:]]
        for linear, layers in zip(spec.linear, groups, strict=False):
            biases = [bias for layer in layers if (bias := _bias(layer)) is not None]
            self._linear(linear, torch.cat([layer.weight for layer in layers]), torch.cat(biases) if biases else None)
        self._linear(spec.linear[-1], part.output.weight, part.output.bias)

    def _norm(self, spec: Any, norm: nn.Module) -> None:
        if not isinstance(norm, nn.LayerNorm):
            raise ValueError(f"a norm of type {type(norm).__name__} is not exported: only layer norms are")
        spec.gamma = _numbers(norm.weight)
        spec.beta = _numbers(norm.weight.new_zeros(len(norm.weight)) if (bias := _bias(norm)) is None else bias)

    def _linear(self, spec: Any, weight: Tensor, bias: Tensor | None) -> None:
        spec.weight = _numbers(weight)
        if bias is not None:
            spec.bias = _numbers(bias)

    def _forbid(self, projection: Any, rules: Rules) -> None:
        """Tokens that are never written get a bias that says so: the format has no list of them."""
        if rules.needs_history or rules.forbidden_first or rules.forced_first is not None:
            raise ValueError(
                "generation_config.json sets rules that CTranslate2's format cannot hold (runs of tokens, repetition, "
                "first tokens): remove them from the folder, and give them to the engine when you run it"
            )
        if singles := [run[0] for run in rules.forbidden]:
            bias = projection.bias if projection.has_bias() else np.zeros(len(projection.weight), dtype=np.float32)
            projection.bias = bias.copy()
            projection.bias[singles] = _NEVER


def _heads(stack: Stack) -> int:
    block = stack.blocks[0]
    assert isinstance(block, Block)
    return block.attention.query.out_features // block.attention.head_dim


def _bias(layer: nn.Linear | nn.LayerNorm) -> Tensor | None:
    return layer.bias


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()
