from pathlib import Path

import pytest
import torch

from clearhead.attention import Layout
from clearhead.attention.capture import look
from clearhead.efficient import METHODS, BigBird, Linformer, Longformer, make_method
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel, open_folder, save_folder
from clearhead.models import ModelConfig, TransformerConfig, build
from clearhead.models.attention_methods import with_attention

SIZES = {"vocab_size": 50, "width": 16, "num_layers": 3, "num_heads": 2, "ffn_dim": 32, "max_len": 64}
BERT = {"positions": "learned", "embedding_norm": True, "num_segments": 2, "norm_eps": 1e-12, "activation": "gelu"}


def encoder(**settings: object) -> ModelConfig:
    return ModelConfig(encoder=TransformerConfig(**SIZES, **BERT, **settings))  # type: ignore[arg-type]


def decoder() -> ModelConfig:
    return ModelConfig(decoder=TransformerConfig(**SIZES, positions="learned", norm_first=True))  # type: ignore[arg-type]


def states(model: torch.nn.Module, length: int = 40) -> torch.Tensor:
    ids = torch.randint(50, (length,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model.eval()(ids, Layout.from_lengths([length]))


class TestWithAttention:
    @pytest.mark.parametrize("kind", METHODS)
    def test_every_method_in_a_model(self, kind: str) -> None:
        """It changes the output, shares the weights, leaves the first model alone, and is captured."""
        config = decoder() if kind in ("gated_linear", "sink_window") else encoder()
        model = build(config)
        if kind == "reformer_lsh":  # it needs one projection for both
            for block in model.encoder.blocks:  # type: ignore[union-attr]
                block.attention.key = block.attention.query  # type: ignore[union-attr]
        before = states(model)
        options = {"bigbird": {"block": 4, "random": 1}, "longformer": {"window": 4},
                   "projected_longformer": {"window": 4}, "strided": {"stride": 3},
                   "selected_blocks": {"block": 4, "blocks": 2}, "lsh": {"window": 4, "local": 2},
                   "linformer": {"rank": 8}, "nystrom": {"landmarks": 4}, "sink_window": {"window": 3},
                   "reformer_lsh": {"chunk": 4}, "reformer_local": {"chunk": 4}}  # fmt: skip
        sizes = {"width": 16, "num_heads": 2, "head_dim": 8, "max_len": 64}
        method = make_method({"kind": kind, **options.get(kind, {})}, **sizes)
        changed, _ = with_attention(model, config, method)
        with look(changed) as seen:
            after = states(changed)
        assert not torch.allclose(before, after, atol=1e-3)
        assert torch.equal(states(model), before)
        assert {p.data_ptr() for p in model.parameters()} <= {p.data_ptr() for p in changed.parameters()}
        name = next(iter(seen))
        assert seen[name].kernel == kind
        if kind == "projected_longformer":  # its global tokens read other values: tests/efficient
            return
        weights, values = seen[name].head(1), seen[name].inputs.v[:, 1]
        stack = changed.encoder or changed.decoder
        expected = stack.blocks[0].attention.core.method(seen[name].inputs)[:, 1]  # type: ignore[union-attr, operator]
        torch.testing.assert_close(weights @ values, expected, atol=1e-5, rtol=1e-5)
        tile = seen[name].tile(1, size=(10, 8), pool="mean")
        torch.testing.assert_close(tile, weights.view(10, 4, 8, 5).mean((1, 3)), atol=1e-6, rtol=1e-5)

    def test_single_layers_and_back(self) -> None:
        config = encoder()
        model = build(config)
        some, changed = with_attention(model, config, Longformer(window=4), [0, 2])
        more, both = with_attention(some, changed, BigBird(block=4), [1])
        assert [entry["layers"] for entry in both.encoder.attention] == [[0, 2], [1]]  # type: ignore[union-attr]
        with look(more) as seen:
            states(more)
        assert [attention.kernel for attention in seen.values()] == ["longformer", "bigbird", "longformer"]
        exact, plain = with_attention(more, both, None)
        assert torch.equal(states(exact), states(model)) and plain == config

    def test_options_take_the_sizes_of_the_model(self) -> None:
        config = decoder()
        model, _ = with_attention(build(config), config, {"kind": "gated_linear"}, [1])
        assert model.decoder.blocks[1].attention.core.method.options["head_dim"] == 8  # type: ignore[union-attr]

    def test_wrong_layers_are_explained(self) -> None:
        config = encoder()
        with pytest.raises(ValueError, match="there is no layer 3: the encoder has layers 0 to 2"):
            with_attention(build(config), config, Longformer(), [3])
        with pytest.raises(ValueError, match="layers are 0 to 2"):
            build(encoder(attention=({"kind": "longformer", "layers": [3]},)))
        shared = encoder(num_groups=1)
        with pytest.raises(ValueError, match="share a method"):
            with_attention(build(shared), shared, Longformer(), [0])


@pytest.mark.parametrize("method", [BigBird(block=4, random=1), Linformer(rank=8, max_len=64, shared=False)])
def test_a_saved_model_keeps_its_attention(tmp_path: Path, method: BigBird | Linformer) -> None:
    torch.manual_seed(0)
    family = FAMILIES["bert"]
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
             "intermediate_size": 32, "max_position_embeddings": 64}  # fmt: skip
    config = family.read(sizes, "BertModel")
    model, changed = with_attention(build(config), config, method, [1])
    for parameter in model.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    loaded = LoadedModel(model, changed, family, "BertModel", family.write(changed, "BertModel"))
    save_folder(loaded, tmp_path / "model")
    opened = open_folder(tmp_path / "model")
    assert opened.config.encoder.attention == changed.encoder.attention  # type: ignore[union-attr]
    assert torch.equal(states(opened.model), states(model))
    assert not opened.missing_keys and not opened.unexpected_keys
