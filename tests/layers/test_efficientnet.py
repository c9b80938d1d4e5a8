import pytest
import torch
from torch import nn

from clearhead.hub.image_features import BATCH_NORM_EPS, KNOWN, folded, load_features
from clearhead.layers.efficientnet import (
    EfficientNetConfig,
    EfficientNetLite,
    InvertedBottleneck,
    SameConv,
    round_width,
)


def stored_weights(network: EfficientNetLite) -> dict[str, torch.Tensor]:
    """Random weights under the names of the package, with batch norm apart."""
    torch.manual_seed(0)
    out: dict[str, torch.Tensor] = {}
    for name, module in network.named_modules():
        if not isinstance(module, SameConv):
            continue
        parts = name.split(".")
        kinds = {"expand": ("_expand_conv", "_bn0"), "depthwise": ("_depthwise_conv", "_bn1"),
                 "project": ("_project_conv", "_bn2")}  # fmt: skip
        if parts[0] == "blocks":
            convolution, norm = (f"_blocks.{parts[1]}.{one}" for one in kinds[parts[2]])
        else:
            convolution, norm = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}[name]
        count = module.weight.shape[0]
        out[f"{convolution}.weight"] = module.weight.detach().clone()
        out |= {f"{norm}.weight": torch.rand(count) + 0.5, f"{norm}.bias": torch.randn(count) * 0.1,
                f"{norm}.running_mean": torch.randn(count) * 0.1, f"{norm}.running_var": torch.rand(count) + 0.5}  # fmt: skip
    return out


def test_folded_batch_norm_computes_the_same():
    network = EfficientNetLite(EfficientNetConfig())
    stored = stored_weights(network)
    network.load_state_dict(folded(stored))
    x = torch.randn(2, 3, 64, 64)

    def unfolded(convolution: SameConv, names: tuple[str, str], x: torch.Tensor) -> torch.Tensor:
        norm = nn.BatchNorm2d(convolution.out_channels, eps=BATCH_NORM_EPS).eval()
        norm.load_state_dict({k: stored.get(f"{names[1]}.{k}", v) for k, v in norm.state_dict().items()})
        plain = SameConv(convolution.in_channels, convolution.out_channels, convolution.kernel_size[0],
                         convolution.stride[0], convolution.groups)  # fmt: skip
        plain.load_state_dict({"weight": stored[f"{names[0]}.weight"], "bias": torch.zeros(convolution.out_channels)})
        return norm(plain(x))

    with torch.no_grad():
        y = unfolded(network.stem, ("_conv_stem", "_bn0"), x).clamp(0, 6)
        torch.testing.assert_close(network.stem(x).clamp(0, 6), y, atol=1e-5, rtol=1e-5)
        first = network.blocks[0]
        assert isinstance(first, InvertedBottleneck)
        depthwise = unfolded(first.depthwise, ("_blocks.0._depthwise_conv", "_blocks.0._bn1"), y).clamp(0, 6)
        projected = unfolded(first.project, ("_blocks.0._project_conv", "_blocks.0._bn2"), depthwise)
        torch.testing.assert_close(first(y), projected, atol=1e-5, rtol=1e-4)
        assert network(x).shape == (2, 1280, 2, 2)


@pytest.mark.parametrize(("side", "kernel", "stride"), [(7, 3, 2), (8, 3, 2), (9, 5, 2), (8, 5, 1), (1, 5, 2)])
def test_odd_padding_goes_to_the_right_and_below(side, kernel, stride):
    convolution = SameConv(1, 1, kernel, stride)
    assert convolution(torch.zeros(1, 1, side, side)).shape[-1] == -(-side // stride)
    if (side, kernel, stride) == (8, 3, 2):  # one pixel of padding in all: none above
        nn.init.zeros_(convolution.weight)
        assert convolution.bias is not None
        nn.init.zeros_(convolution.bias)
        convolution.weight.data[0, 0, 0, 0] = 1.0
        image = torch.arange(64.0).view(1, 1, 8, 8)
        assert torch.equal(convolution(image)[0, 0], image[0, 0, ::2, ::2])


def test_widths_are_rounded_to_eights():
    assert [round_width(w) for w in (16, 24 * 1.1, 40 * 1.1, 112 * 1.1, 3)] == [16, 24, 48, 120, 8]


def test_unknown_and_missing_packages_are_explained(monkeypatch):
    with pytest.raises(ValueError, match="there are no image features 'package:other': choose package:efficientnet"):
        load_features("package:other")
    name = next(iter(KNOWN))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"there is no package '{name}': pip install efficientnet-lite0"):
        load_features(f"package:{name}")


def test_features_of_the_package():
    name = next(iter(KNOWN))
    pytest.importorskip(name)
    features = load_features(f"package:{name}")
    found = features([torch.zeros(3, 224, 224, dtype=torch.uint8), torch.full((3, 224, 224), 255, dtype=torch.uint8)])
    assert found.shape == (2, 1280, 7, 7) and features.grid == 7
    assert 0 <= float(found.min()) and float(found.max()) <= 6 and not torch.allclose(found[0], found[1])
