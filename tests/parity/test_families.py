"""Every family and head against `transformers`: eval, gradients, and the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

transformers = pytest.importorskip("transformers")

from safetensors import safe_open  # noqa: E402

from clearhead.attention import Layout  # noqa: E402
from clearhead.hub.families import FAMILIES  # noqa: E402
from clearhead.hub.folder import LoadedModel, open_folder, save_folder  # noqa: E402
from clearhead.layers import ReversibleBlock  # noqa: E402
from clearhead.vision.patches import Patches  # noqa: E402
from tests.parity.cases import CASES, Case  # noqa: E402

LENGTHS, TARGETS = (7, 1, 24, 12), (5, 9, 1, 17)


class Both:
    """One ragged batch, as both sides want it, run through both."""

    def __init__(self, case: Case, theirs: Any, opened: LoadedModel) -> None:
        self.case, self.theirs, self.ours, self.loaded = case, theirs, opened.model, opened
        c = theirs.config
        torch.manual_seed(1)
        self.layout = Layout.from_lengths(LENGTHS)
        pad = c.pad_token_id if getattr(c, "pad_token_id", None) is not None else 0
        low, high = (4, 58) if pad < 4 else (0, 58)  # no padding inside a text
        self.ids = torch.randint(low, high, (sum(LENGTHS),))
        self.read = self.layout
        self.args: tuple[Any, ...]
        self.kwargs: dict[str, Any]
        self.call: dict[str, Any] = {}
        if opened.config.patches is not None:
            pixels = torch.randn(3, 3, 12, 12)
            assert self.ours.encoder is not None and isinstance(self.ours.encoder.embedding, Patches)
            self.layout = self.read = self.ours.encoder.embedding.layout(pixels)
            self.args, self.kwargs = (pixels, self.layout), {}
            self.call = {"pixel_values": pixels}
            if self.ours.decoder is not None:
                self._add_target(low, high, pad, TARGETS[:3])
            return
        # one text: they mix padding into what they compute (Nyströmformer the texts of a batch, BigBird's last block,
        # Reformer the number of chunks)
        if c.model_type in ("nystromformer", "big_bird", "reformer"):
            self.layout = self.read = Layout.uniform(1, len(self.ids))
        if case.architecture == "LongformerForQuestionAnswering":  # the question ends at the first of three separators
            self.layout = self.read = Layout.uniform(4, len(self.ids) // 4)
            self.ids[: len(self.ids) // 4 * 4].view(4, -1)[:, [3, 4, -1]] = c.sep_token_id
        if c.model_type == "siglip_text_model":  # it pools the last position, padded or not
            self.layout = self.read = Layout.uniform(4, len(self.ids) // 4)
        if c.model_type == "clip_text_model":  # it pools where a text ends
            self.ids[self.layout.offsets[1:] - 1] = c.eos_token_id
        self.args, self.kwargs = (self.ids, self.layout), {}
        self.call = {
            "input_ids": self.layout.pad(self.ids, pad),
            "attention_mask": self.layout.pad(torch.ones_like(self.ids)),
        }
        if getattr(opened.config.encoder, "num_segments", 0) > 1:
            segments = torch.randint(2, self.ids.shape)
            self.kwargs["segments"] = segments
            self.call["token_type_ids"] = self.layout.pad(segments)
        if self.ours.encoder is not None and self.ours.decoder is not None:
            self._add_target(low, high, pad, TARGETS)
            if case.architecture.startswith("BartForS"):  # it pools where the source has its last </s>
                target = self.ids.clone()
                target[self.layout.offsets[1:] - 1] = 2
                self.args = (target, self.layout)
                self.call["input_ids"] = self.layout.pad(target, pad)
                self._set_target(target, self.layout, pad)

    def _add_target(self, low: int, high: int, pad: int, lengths: tuple[int, ...]) -> None:
        self._set_target(torch.randint(low, high, (sum(lengths),)), Layout.from_lengths(lengths), pad)

    def _set_target(self, target: torch.Tensor, layout: Layout, pad: int) -> None:
        self.read = layout
        self.args = (*self.args[:2], target, layout)
        self.call["decoder_input_ids"] = layout.pad(target, pad)
        self.call["decoder_attention_mask"] = layout.pad(torch.ones_like(target))

    def outputs(self) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
        """What the heads give, at real positions: ours, theirs; and all that theirs returned."""
        got = self.ours(*self.args, **self.kwargs)
        out = self.theirs(**self.call, output_hidden_states=True)
        kind = self.loaded.config.head.kind if self.loaded.config.head else None
        real = self.read.unpad
        if kind is None:
            want = [real(out.last_hidden_state)]
        elif kind in ("pooler", "attention_pooler"):
            want = [out[next(n for n in ("image_embeds", "text_embeds", "pooler_output") if n in out)]]
        elif kind == "pretraining":
            second = out.get("seq_relationship_logits", out.get("sop_logits"))
            return list(got), [real(out.prediction_logits), second], out
        elif kind == "span":
            want = [real(torch.stack([out.start_logits, out.end_logits], -1))]
        elif kind == "discriminator":
            want = [real(out.logits).unsqueeze(-1)]
        elif kind in ("sequence", "nsp"):
            want = [out.logits]
        else:
            want = [real(out.logits)]
        return [got], want, out


@pytest.fixture(scope="module")
def made(request, tmp_path_factory):
    """One case, built once for all its tests."""
    folder = tmp_path_factory.mktemp("theirs")
    theirs = request.param.make(folder)
    return request.param, folder, theirs, open_folder(folder)


every = pytest.mark.parametrize("made", CASES, indirect=True, ids=str)


def norm_apart(opened: LoadedModel, stack: str) -> bool:
    """Whether the last hidden state of theirs is before the norm."""
    reads_images = stack == "encoder" and opened.config.patches is not None
    return reads_images or opened.family.model_type in ("clip_text_model", "siglip_text_model", "reformer")


def eval_error(case: Case, theirs: Any, opened: LoadedModel) -> float:
    """The largest difference of logits and of every hidden state, in eval."""
    both = Both(case, theirs.eval(), opened)
    states: dict[str, list[torch.Tensor]] = {"encoder": [], "decoder": []}
    hooks = []
    for name in states:
        if (stack := getattr(opened.model, name)) is not None:
            hooks.append(stack.embedding.register_forward_hook(lambda m, a, out, s=states[name]: s.append(out)))
            blocks = list(dict.fromkeys(stack.blocks))
            for block in blocks:  # of two streams, theirs is the second

                def keep(m: Any, a: Any, out: torch.Tensor, s: list[torch.Tensor] = states[name]) -> None:
                    s.append(out.chunk(2, 1)[1] if isinstance(m, ReversibleBlock) else out)

                hooks.append(block.register_forward_hook(keep))
            if stack.norm is not None and not norm_apart(opened, name):  # the others' last state is after the norm
                hooks.append(stack.norm.register_forward_hook(lambda m, a, out, s=states[name]: s.__setitem__(-1, out)))
    with torch.no_grad():
        got, want, out = both.outputs()
    for hook in hooks:
        hook.remove()
    pairs = list(zip(got, want, strict=True))
    for name, layout in (("encoder", both.layout), ("decoder", both.read)):
        theirs_states = out.get(f"{name}_hidden_states", out.get("hidden_states"))
        if states[name] and theirs_states is not None:
            pairs += zip(states[name], map(layout.unpad, theirs_states), strict=True)
    assert len(pairs) > opened.config.stack.num_layers
    assert all(g.shape == w.shape for g, w in pairs)
    return max(float((g - w).abs().max()) for g, w in pairs)


def gradient_error(case: Case, theirs: Any, opened: LoadedModel, folder: Path) -> tuple[float, float]:
    """The difference of the losses, and the largest of all gradients, in training mode without dropout."""
    theirs.train(case.config != "BigBirdConfig")  # it draws random blocks in training mode
    both = Both(case, theirs, opened)
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    opened.model.train()
    theirs.zero_grad()
    opened.model.zero_grad()
    got, want, _ = both.outputs()
    losses = []
    for side in (got, want):
        torch.manual_seed(2)
        loss = torch.zeros(())
        for x in side:
            if x.shape[-1] == 1:
                loss = loss + F.binary_cross_entropy_with_logits(x, torch.rand(x.shape))
            else:
                loss = loss + F.cross_entropy(x.flatten(0, -2), torch.randint(x.shape[-1], (x[..., 0].numel(),)))
        loss.backward()
        losses.append(float(loss.detach()))
    theirs.eval()
    opened.model.eval()
    ours = dict(opened.model.named_parameters())
    with torch.no_grad():  # saved as if they were weights, so that they come under the names of the folder
        for parameter in theirs.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    theirs.save_pretrained(folder)
    worst = seen = 0.0
    with safe_open(folder / "model.safetensors", "pt") as saved:
        for pair in opened.family.pairs(ours, opened.architecture):
            if pair.hf_name == "final_logits_bias":  # Marian's and BART's bias of the vocabulary is not learned there
                continue
            name = opened.family.duplicated.get(pair.hf_name) if "untied" in str(case) else None
            want = saved.get_tensor(name or pair.hf_name)
            grads = [torch.zeros_like(ours[n]) if (g := ours[n].grad) is None else g for n in pair.params]
            worst = max(worst, float((pair.tensor_map.write(grads) - want).abs().max()))
            seen = max(seen, float(want.abs().max()))
    theirs.load_state_dict(before)
    assert seen > 1e-3, "there were gradients to compare"
    return abs(losses[0] - losses[1]), worst


@every
def test_eval(made):
    """Logits and every hidden state within 1e-5 in float32."""
    case, _, theirs, opened = made
    assert opened.architecture == case.architecture
    assert not opened.missing_keys and not opened.unexpected_keys
    assert eval_error(case, theirs, opened) < 1e-5


@every
def test_gradients(made, tmp_path):
    """Loss and the gradient of every parameter within 1e-4, in training mode without dropout."""
    case, _, theirs, opened = made
    loss, gradient = gradient_error(case, theirs, opened, tmp_path)
    assert loss < 1e-5
    assert gradient < 1e-4


@every
def test_round_trip(made, tmp_path):
    """Their folder, opened and saved, is their folder: the same tensors under the same names, the same config."""
    case, folder, theirs, opened = made
    save_folder(opened, tmp_path / "ours")
    back = getattr(transformers, case.architecture).from_pretrained(tmp_path / "ours")
    a, b = theirs.state_dict(), back.state_dict()
    if case.unused_pooler is not None:
        b = {name: value for name, value in b.items() if not name.startswith(f"{case.unused_pooler}.")}
    if case.config == "ReformerConfig":
        a, b = (
            {name: value for name, value in x.items() if name != "lm_head.bias"} for x in (a, b)
        )  # nothing reads it
    assert a.keys() == b.keys()
    assert all(torch.equal(a[k], b[k]) for k in a)
    with (
        safe_open(folder / "model.safetensors", "pt") as f,
        safe_open(tmp_path / "ours" / "model.safetensors", "pt") as g,
    ):
        extra = set(f.keys()) - set(g.keys())
        assert set(g.keys()) <= set(f.keys())
        # sinusoids are computed, and Reformer's bias of the vocabulary is read by nothing
        assert all(k.endswith(("embed_positions.weight", "lm_head.bias")) for k in extra)
    before, after = (json.loads((p / "config.json").read_text()) for p in (folder, tmp_path / "ours"))
    version = before["transformers_version"]
    assert after.pop("clearhead") == {"manifest": "clearhead.json", "transformers_version": version}
    assert before == after
    again = open_folder(tmp_path / "ours")
    assert again.config == opened.config
    ours, same = dict(opened.model.named_parameters()), dict(again.model.named_parameters())
    assert ours.keys() == same.keys()
    assert all(torch.equal(ours[n], same[n]) for n in ours)


@every
def test_the_config_of_a_new_model_reads_back(made):
    """What a table writes from nothing, it reads as the same model."""
    _, _, _, opened = made
    family, config = opened.family, opened.config
    raw = family.write(config, opened.architecture)
    assert family.read(json.loads(json.dumps(raw)), opened.architecture) == config


def test_every_head_of_every_table_is_here():
    tested = {case.architecture for case in CASES}
    assert {name for family in FAMILIES.values() for name in family.heads} == tested


def test_the_page_of_families_is_made_from_the_tables():
    """docs/families.md has a line for every family with its heads and classes, and figures within what is promised."""
    from tests.parity.page import PAGE, classes, heads

    text = PAGE.read_text(encoding="utf-8")
    for family in FAMILIES.values():
        line = next(
            row
            for row in text.splitlines()
            if row.startswith(f"| {family.title} | `{family.model_type}` | {heads(family)} |")
        )
        logits, gradients = (float(figure) for figure in line.split("|")[4:6])
        assert logits <= 1e-5 and gradients <= 1e-4
        assert f"| {family.title} | {classes(family)} |" in text
