"""Looking into live transformers models: what `look` sees on SDPA is what the same model in eager mode says it did."""

import copy
import csv
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

transformers = pytest.importorskip("transformers")
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM  # noqa: E402
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface  # noqa: E402

from clearhead.attention import Layout  # noqa: E402
from clearhead.attention.capture.look import Heads  # noqa: E402
from clearhead.integrations.transformers import capture as live  # noqa: E402
from clearhead.integrations.transformers.capture import ablate_heads, look  # noqa: E402
from clearhead.integrations.transformers.module_names import attentions  # noqa: E402
from clearhead.models import TransformerConfig, build_encoder  # noqa: E402

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ENCODERS = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {},
    "albert": {"embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2},
    "electra": {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48},
    "modernbert": {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    "ernie": {},
}
DECODERS = {
    "gpt2": {},
    "gpt_neox": {},
    "gpt_bigcode": {},
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 4},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"head_dim": 8},
    "gemma": {"head_dim": 16, "num_key_value_heads": 1},
    "gemma3_text": {"head_dim": 8, "sliding_window": 4},
    "phi": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "olmo2": {},
    "granite": {"attention_multiplier": 0.3},
}
SMALL = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_hidden_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
TRANSLATORS = {
    "marian": SMALL,
    "bart": SMALL,
    "mbart": SMALL,
    "m2m_100": SMALL,
    "pegasus": SMALL,
    "t5": {
        "d_model": 32,
        "num_hidden_layers": 2,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 1,
    },
}
PICTURE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 12, "patch_size": 4,
}  # fmt: skip
VISION = ("vit", "deit", "dinov2", "clip_vision_model", "siglip_vision_model")

LENGTHS = (9, 6)
IDS = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
REAL = torch.arange(9) < torch.tensor(LENGTHS).unsqueeze(1)  # padded on the right
LATE = REAL.flip(1)  # padded on the left, as for generation
STEPS = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
WORST = 1e-5  # worst seen: 1.6e-6 (T5, whose scores are not scaled)


def make(name: str, auto: Any = AutoModel, *, kernel: str = "sdpa", **options: Any) -> Any:
    """A tiny model with weights large enough that its attention is far from even."""
    model = auto.from_config(AutoConfig.for_model(name, **{**SIZES, **options}), attn_implementation=kernel).eval()
    sharpen(model)
    return model


def sharpen(model):
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.2)


def eager(model):
    """The same model, as it must be to give its own weights out."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


def compare(views, weights, real):
    """Every layer and head of two sequences at the real queries, against (layers of) (B, H, T, S)."""
    assert len(views) == len(weights)
    uneven = 0.0
    for view, want in zip(views, weights, strict=True):
        for sequence in range(len(want)):
            rows = real[sequence][: want.shape[2]]
            got = view.heads(sequence)[:, rows]
            torch.testing.assert_close(got, want[sequence][:, rows], atol=WORST, rtol=0)
            uneven = max(uneven, float(got.std(-1).max()) if got.shape[-1] > 1 else 0.0)
    assert uneven > 0.05, "the maps are flat: such a test would show nothing"


@pytest.fixture(autouse=True)
def _no_trace():
    """Whatever a test did, the interface is afterwards what it was."""
    before, plain = dict(ALL_ATTENTION_FUNCTIONS.items()), AttentionInterface.get_interface
    yield
    after = dict(ALL_ATTENTION_FUNCTIONS.items())
    assert before.keys() == after.keys()
    assert all(before[key] is after[key] for key in before)
    assert AttentionInterface.get_interface is plain
    assert not live._listeners


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_encoders(name):
    model = make(name, **ENCODERS[name])
    config, outside = model.config.to_dict(), model(IDS, attention_mask=REAL.long())
    with look(model) as seen:
        inside = model(IDS, attention_mask=REAL.long())
    assert torch.equal(inside.last_hidden_state, outside.last_hidden_state)
    assert model.config.to_dict() == config
    assert list(seen) == [f"encoder.{i}" for i in range(model.config.num_hidden_layers)]
    want = eager(model)(IDS, attention_mask=REAL.long(), output_attentions=True).attentions
    compare([seen[n] for n in seen], want, REAL)


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_decoders(name):
    model = make(name, AutoModelForCausalLM, **DECODERS[name])
    twin = eager(model)
    for mask in (None, REAL.long()):
        outside = model(IDS, attention_mask=mask)
        with look(model) as seen:
            inside = model(IDS, attention_mask=mask)
        assert torch.equal(inside.logits, outside.logits)
        assert list(seen) == [f"decoder.{i}" for i in range(3)]
        want = twin(IDS, attention_mask=mask, output_attentions=True).attentions
        compare([seen[n] for n in seen], want, torch.ones_like(REAL) if mask is None else REAL)
    with look(model) as seen:
        ids = model.generate(IDS, attention_mask=LATE.long(), **STEPS)
    want = twin.generate(IDS, attention_mask=LATE.long(), output_attentions=True, return_dict_in_generate=True, **STEPS)
    assert torch.equal(ids, want.sequences)
    for step in range(4):
        views = [seen.calls(n)[step] for n in seen]
        compare(views, want.attentions[step], LATE if step == 0 else torch.ones(2, 1, dtype=torch.bool))
    last = seen.calls("decoder.0")[-1]
    assert last.shape()[0] == 1
    assert last.inputs.layout_q.host_starts[0] == last.shape()[1] - 1


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_encoder_decoders(name):
    model = make(name, AutoModelForSeq2SeqLM, **TRANSLATORS[name])
    twin, target = eager(model), IDS.flip(1)[:, :5]
    given = {"input_ids": IDS, "attention_mask": REAL.long(), "decoder_input_ids": target}
    outside = model(**given)
    with look(model) as seen:
        inside = model(**given)
    assert torch.equal(inside.logits, outside.logits)
    assert list(seen) == [
        "encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross"
    ]  # fmt: skip
    want, all_real = twin(**given, output_attentions=True), torch.ones(2, 9, dtype=torch.bool)
    compare([seen["encoder.0"], seen["encoder.1"]], want.encoder_attentions, REAL)
    compare([seen["decoder.0"], seen["decoder.1"]], want.decoder_attentions, all_real)
    compare([seen["decoder.0.cross"], seen["decoder.1.cross"]], want.cross_attentions, all_real)
    given = {"input_ids": IDS, "attention_mask": REAL.long(), **STEPS}
    with look(model, kinds=["cross"]) as seen:
        ids = model.generate(**given)
    want = twin.generate(**given, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(ids, want.sequences)
    for step in range(4):
        compare([seen.calls(n)[step] for n in seen], want.cross_attentions[step], all_real)


@torch.no_grad()
def test_whisper():
    model = make("whisper", transformers.AutoModelForSpeechSeq2Seq, **SMALL, num_mel_bins=8, max_source_positions=10)
    given = {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": IDS[:, :5]}
    with look(model) as seen:
        model(**given)
    want = eager(model)(**given, output_attentions=True)
    every = torch.ones(2, 10, dtype=torch.bool)
    compare([seen["encoder.0"], seen["encoder.1"]], want.encoder_attentions, every)
    compare([seen["decoder.0"], seen["decoder.1"]], want.decoder_attentions, every)
    compare([seen["decoder.0.cross"], seen["decoder.1.cross"]], want.cross_attentions, every)


@pytest.mark.parametrize("name", VISION)
@torch.no_grad()
def test_pictures(name):
    model = make(name, **PICTURE)
    pixels = torch.randn(2, 3, 12, 12)
    outside = model(pixels)
    with look(model) as seen:
        inside = model(pixels)
    assert torch.equal(inside.last_hidden_state, outside.last_hidden_state)
    assert list(seen) == ["encoder.0", "encoder.1"]
    want = eager(model)(pixels, output_attentions=True).attentions
    compare([seen[n] for n in seen], want, torch.ones(2, want[0].shape[2], dtype=torch.bool))


@pytest.mark.parametrize("name", ["clip", "siglip"])
@torch.no_grad()
def test_text_and_vision(name):
    text = {key: SIZES[key] for key in SIZES if key != "num_key_value_heads"}
    config = AutoConfig.for_model(name, text_config=text, vision_config=PICTURE)
    model = AutoModel.from_config(config, attn_implementation="sdpa").eval()
    sharpen(model)
    given = {"input_ids": IDS, "attention_mask": REAL.long(), "pixel_values": torch.randn(2, 3, 12, 12)}
    with look(model) as seen:
        model(**given)
    assert list(seen) == [f"text.encoder.{i}" for i in range(3)] + [f"vision.encoder.{i}" for i in range(2)]
    want = eager(model)(**given, output_attentions=True)
    compare([seen[f"text.encoder.{i}"] for i in range(3)], want.text_model_output.attentions, REAL)
    vision = want.vision_model_output.attentions
    compare([seen[f"vision.encoder.{i}"] for i in range(2)], vision, torch.ones(2, 99, dtype=torch.bool))
    assert seen.rollout(stack="vision.encoder").shape == vision[0].shape[2:]


@torch.no_grad()
def test_eager_models_too():
    """Softcapped scores (Gemma 2) exist in eager mode only; a plain eager model is heard as well."""
    for name, options in (
        ("gemma2", {"head_dim": 8, "attn_logit_softcapping": 2.0, "sliding_window": 4}),
        ("opt", DECODERS["opt"]),
    ):
        model = make(name, AutoModelForCausalLM, kernel="eager", **options)
        with look(model) as seen:
            out = model(IDS, attention_mask=REAL.long(), output_attentions=True)
        compare([seen[n] for n in seen], out.attentions, REAL)
        assert seen["decoder.0"].kernel == "eager"


@torch.no_grad()
def test_a_chunk_after_a_cache():
    """Several queries behind a cache, padded on the left: more keys than queries, and a mask for both."""
    model = make("llama", AutoModelForCausalLM, num_key_value_heads=2)

    def run(model, **options):
        first = model(IDS[:, :5], attention_mask=LATE[:, :5].long(), use_cache=True)
        return model(IDS[:, 5:], attention_mask=LATE.long(), past_key_values=first.past_key_values, **options)

    with look(model) as seen:
        run(model)
    views = [seen[n] for n in seen]
    compare(views, run(eager(model), output_attentions=True).attentions, torch.ones(2, 4, dtype=torch.bool))
    assert views[0].shape() == (4, 9)
    weights, at = views[0].heads(0), torch.arange(9.0)
    want = (weights * (at[5:, None] - at).abs()).sum(-1).mean(-1)
    torch.testing.assert_close(views[0].distance(0), want)


@torch.no_grad()
def test_a_static_cache_is_read_in_time_or_not_at_all():
    model = make("llama", AutoModelForCausalLM)
    with look(model) as seen:
        model.generate(IDS, **STEPS, cache_implementation="static", disable_compile=True)
    last = seen["decoder.1"]
    assert last.inputs.layout_q.host_starts == (11, 11)
    torch.testing.assert_close(last.heads(0).sum(-1), torch.ones(4, 1))
    with pytest.raises(LookupError, match="overwritten since, as a static cache does"):
        seen.calls("decoder.1")
    with look(model) as seen:
        model(IDS, past_key_values=transformers.StaticCache(model.config, max_cache_len=16))
    assert seen["decoder.1"].shape() == (9, 9)  # what is still empty, SDPA leaves out
    want = eager(model)(IDS, output_attentions=True).attentions
    compare([seen[n] for n in seen], want, torch.ones_like(REAL))


def test_training_and_inference_mode():
    model = make("bert", attention_probs_dropout_prob=0.5)
    model.train()
    with look(model) as seen:
        model(IDS).last_hidden_state.sum().backward()
    view = seen["encoder.2"]
    assert not view.inputs.q.requires_grad
    torch.testing.assert_close(view.heads().sum(-1), torch.ones(4, 9))
    model.eval()
    with torch.inference_mode(), look(model) as seen:
        model(IDS)
    torch.testing.assert_close(seen["encoder.2"].heads().sum(-1), torch.ones(4, 9))


@torch.no_grad()
def test_nothing_is_copied():
    """The tensors kept are those the kernel got: same memory, of one sequence and of several."""
    model, passed, kernel = make("bert"), [], F.scaled_dot_product_attention
    for ids in (IDS[:1], IDS):
        with look(model, layers=[1]) as seen, pytest.MonkeyPatch.context() as patch:
            patch.setattr(F, "scaled_dot_product_attention", lambda *a, **o: passed.append(a) or kernel(*a, **o))
            model(ids)
        call = seen["encoder.1"].inputs
        for kept, given in zip((call.q, call.k, call.v), passed[-2], strict=True):  # of three layers, the second
            assert kept.data_ptr() == given.data_ptr()
            assert kept.shape == (len(ids) * 9, 4, 8)
        assert [len(seen.calls(n)) for n in seen] == [1]


def without_by_hand(model, projection, heads, width=8):
    """The reference: the same model with these heads' columns zeroed before the output projection hears them."""

    def deafen(module, args):
        x = args[0].clone()
        for head in heads:
            x[..., head * width : (head + 1) * width] = 0
        return (x, *args[1:])

    handle = projection.register_forward_pre_hook(deafen)
    try:
        return model(IDS, attention_mask=REAL.long())
    finally:
        handle.remove()


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@torch.no_grad()
def test_without_heads(kernel):
    cases: list[tuple[Heads, Sequence[int]]] = [([0, 3], [0, 3]), ("all", range(4))]
    for name, auto, path in (
        ("bert", AutoModel, "encoder.layer.1.attention.output.dense"),
        ("gpt2", AutoModelForCausalLM, "transformer.h.1.attn.c_proj"),
        ("llama", AutoModelForCausalLM, "model.layers.1.self_attn.o_proj"),
    ):
        model = make(name, auto)
        model.set_attn_implementation(kernel)
        before = model(IDS, attention_mask=REAL.long())[0]
        layer = "encoder.1" if name == "bert" else "decoder.1"
        projection = model.get_submodule(path)
        for which, heads in cases:
            with ablate_heads(model, {layer: which}):
                got = model(IDS, attention_mask=REAL.long())[0]
            assert torch.equal(got, without_by_hand(model, projection, heads)[0])
            assert not torch.allclose(got, before)
        assert torch.equal(model(IDS, attention_mask=REAL.long())[0], before)
        with (
            pytest.raises(ValueError, match=rf"{layer} has heads 0 to 3, not \[4\]"),
            ablate_heads(model, {layer: [4]}),
        ):
            model(IDS)
        with ablate_heads(model, {}):
            assert torch.equal(model(IDS, attention_mask=REAL.long())[0], before)


@torch.no_grad()
def test_albert_layers_share_a_module():
    """Names, filters and switched heads follow the layers, also after a forward that broke off."""
    model = make("albert", **ENCODERS["albert"])
    assert len({s.module for s in attentions(model).values()}) == 2
    want = eager(model)(IDS, output_attentions=True).attentions

    def stop(module, args):
        raise RuntimeError("stop")

    with look(model, layers=["encoder.1", "encoder.2"]) as seen:
        handle = model.encoder.albert_layer_groups[1].register_forward_pre_hook(stop)
        with pytest.raises(RuntimeError, match="stop"):
            model(IDS)
        handle.remove()
        model.encoder.albert_layer_groups[0].albert_layers[0].attention(torch.randn(1, 2, 32))  # out of turn
        for _ in range(2):
            model(IDS)
    assert [len(seen.calls(n)) for n in ("encoder.1", "encoder.2")] == [3, 2]
    every = torch.ones_like(REAL)
    compare([seen.calls("encoder.1")[-1], seen.calls("encoder.2")[-1]], want[1:3], every)
    outputs, dense = [], model.encoder.albert_layer_groups[0].albert_layers[0].attention.dense
    handle = dense.register_forward_pre_hook(lambda module, args: outputs.append(args[0]))
    with ablate_heads(model, {"encoder.1": [2]}):
        model(IDS)
    handle.remove()
    assert [bool((x[..., 16:24] == 0).all()) for x in outputs] == [False, True]


@torch.no_grad()
def test_contexts_nest_and_end_in_any_order():
    bert, llama = make("bert"), make("llama", AutoModelForCausalLM)
    before = bert(IDS)[0]
    with look(bert) as outer:
        with look(llama) as other, look(bert, layers=[0]) as inner, ablate_heads(bert, {"encoder.0": "all"}):
            off = bert(IDS)[0]
            llama(IDS)
        bert(IDS)
    assert [len(outer.calls("encoder.0")), len(inner.calls("encoder.0")), len(other.calls("decoder.2"))] == [2, 1, 1]
    torch.testing.assert_close(outer.calls("encoder.0")[0].heads(), inner["encoder.0"].heads())
    assert not torch.equal(outer.calls("encoder.1")[0].heads(), outer.calls("encoder.1")[1].heads())
    assert not torch.equal(off, before)
    first, second = look(bert), look(llama)
    early, late = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    bert(IDS)
    llama(IDS)
    second.__exit__(None, None, None)
    assert len(early.calls("encoder.0")) == 0
    assert len(late.calls("decoder.0")) == 1
    with pytest.raises(RuntimeError, match="stop"), look(bert), ablate_heads(bert, {"encoder.0": [0]}):
        raise RuntimeError("stop")
    assert torch.equal(bert(IDS)[0], before)


def test_threads():
    """Two threads look at two models at once: each sees its own, and nothing is left."""
    models, counts = [make("bert"), make("roberta")], {}

    def work(i):
        total = 0
        for _ in range(20):
            with torch.no_grad(), look(models[i]) as seen:
                models[i](IDS)
            total += sum(len(seen.calls(n)) for n in seen)
        counts[i] = total

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {0: 60, 1: 60}


@pytest.mark.parametrize("how", ["wrapper", "in place", "forward"])
@torch.no_grad()
def test_compiled_models_run_eagerly_inside(how):
    torch.compiler.reset()
    model = make("bert", num_hidden_layers=1)
    if how == "in place":
        model.compile(backend="eager")
    elif how == "forward":
        model.forward = torch.compile(model.forward, backend="eager")
    run = torch.compile(model, backend="eager") if how == "wrapper" else model
    before = run(IDS)[0]
    with look(run) as seen:
        run(IDS)
    assert [len(seen.calls(n)) for n in seen] == [1]
    with ablate_heads(run, {"encoder.0": "all"}):
        assert not torch.equal(run(IDS)[0], before)
    assert torch.equal(run(IDS)[0], before)
    torch.compiler.reset()


@torch.no_grad()
def test_every_question_can_be_asked(tmp_path):
    for name, auto, values, outputs in (
        ("bert", AutoModel, "encoder.layer.1.attention.self.value", "encoder.layer.1.attention.output.dense"),
        (
            "opt",
            AutoModelForCausalLM,
            "model.decoder.layers.1.self_attn.v_proj",
            "model.decoder.layers.1.self_attn.out_proj",
        ),
    ):
        model, heard = make(name, auto, ffn_dim=48, word_embed_proj_dim=32), []
        handle = model.get_submodule(values).register_forward_hook(lambda m, a, out: heard.append(out))  # noqa: B023
        with look(model) as seen:
            model(IDS, attention_mask=REAL.long())
        handle.remove()
        view, weight = seen["encoder.1" if name == "bert" else "decoder.1"], model.get_submodule(outputs).weight
        whole = view.heads(1)[2]
        norms = (heard[0][1, :, 16:24] @ weight[:, 16:24].T).norm(dim=1)
        torch.testing.assert_close(view.norms(2, 1), norms, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(view.rows([-4], 2, 1, value_weighted=True), whole[5:6] * norms, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(view.tile(2, slice(1, 6), slice(2, 7), sequence=1), whole[1:6, 2:7])
        torch.testing.assert_close(view.overview(2, 9, sequence=1), whole)
        assert view.overview(2, 3, sequence=1, pool="mean").shape == (3, 3)
        torch.testing.assert_close(view.entropy(1)[2], torch.special.entr(whole).sum(-1).mean())
        assert view.distance(1).shape == (4,)
        flow = seen.rollout(sequence=1, stack="encoder" if name == "bert" else "decoder")
        torch.testing.assert_close(flow[:6].sum(-1), torch.ones(6))
        view.to_csv(tmp_path / "head.csv", 2, 1)
        with open(tmp_path / "head.csv", newline="") as file:
            table = torch.tensor([[float(x) for x in row[1:]] for row in list(csv.reader(file))[1:]])
        torch.testing.assert_close(table, whole)
        assert repr(view) == "AttentionMap(self, 4 heads, 2 sequences, sdpa kernel)"
    conv = make("gpt2", AutoModelForCausalLM)
    with look(conv, layers=[0]) as seen:
        conv(IDS)
    view, c_proj = seen["decoder.0"], conv.transformer.h[0].attn.c_proj.weight
    torch.testing.assert_close(view.norms(1), (view.inputs.v[:9, 1] @ c_proj[8:16]).norm(dim=1), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_hidden_rows_are_zero():
    """A padded query in front may see nothing: 0 here, 0 from SDPA."""
    model = make("llama", AutoModelForCausalLM)
    with look(model) as seen:
        model(IDS, attention_mask=LATE.long())
    assert torch.equal(seen["decoder.0"].heads(1)[:, :3], torch.zeros(4, 3, 9))
    assert not seen["decoder.0"].overview(0, 3, sequence=1).isnan().any()


def names(model):
    return list(attentions(model))


def test_names_of_joined_models():
    bert = AutoConfig.for_model("bert", **SIZES)
    gpt2 = AutoConfig.for_model("gpt2", **SIZES, add_cross_attention=True, is_decoder=True)
    vit = AutoConfig.for_model("vit", **PICTURE)
    llama = AutoConfig.for_model("llama", **SIZES)
    writer = [n for i in range(3) for n in (f"decoder.{i}", f"decoder.{i}.cross")]
    reader = [f"encoder.{i}" for i in range(3)]
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(bert, gpt2)
    assert names(transformers.EncoderDecoderModel(both)) == reader + writer
    twice = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(bert, copy.deepcopy(bert))
    assert names(transformers.EncoderDecoderModel(twice)) == reader + writer
    caption = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vit, gpt2)
    assert names(transformers.VisionEncoderDecoderModel(caption)) == reader[:2] + writer
    eyes = transformers.CLIPVisionConfig(**PICTURE)
    llava = transformers.LlavaConfig(vision_config=eyes, text_config=llama, image_token_index=5)
    assert names(transformers.LlavaForConditionalGeneration(llava)) == [
        *reader[:2],
        "decoder.0",
        "decoder.1",
        "decoder.2",
    ]
    assert names(nn.Sequential(nn.ModuleDict({"auto_model": AutoModel.from_config(bert)}))) == reader
    swin = AutoConfig.for_model("swin", image_size=16, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[1, 2])
    assert names(AutoModel.from_config(swin)) == ["encoder.0.0", "encoder.1.0", "encoder.1.1"]
    assert names(nn.ModuleDict({"left": AutoModel.from_config(bert), "right": AutoModel.from_config(bert)})) == [
        f"{side}.encoder.{i}" for side in ("left", "right") for i in range(3)
    ]
    alias = AutoModel.from_config(bert)
    alias.again = alias.encoder
    assert names(alias) == reader


REFUSED = {
    "bloom": ("BloomModel", {"n_layer": 1}),
    "gptj": ("GPTJModel", {"rotary_dim": 4}),
    "deberta-v2": ("DebertaV2Model", {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_outside_the_interface_are_refused_by_name(name):
    kind, options = REFUSED[name]
    model = AutoModel.from_config(AutoConfig.for_model(name, **{**SIZES, **options}))
    for context in (look, ablate_heads):
        with pytest.raises(ValueError, match=rf"{kind} \(model_type '{name}'\) computes attention outside"):
            context(model, *(() if context is look else ({"encoder.0": [0]},)))


def test_kernels_that_cannot_be_read_are_refused():
    model = make("bert")
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(ValueError, match=r"runs on 'flash_attention_2'.*set_attn_implementation"), look(model):
        pass
    sinks = AutoConfig.for_model("gpt_oss", **SIZES, head_dim=8, num_local_experts=2, num_experts_per_tok=1)
    with pytest.raises(ValueError, match="GptOssAttention adds learned sinks"), look(AutoModel.from_config(sinks)):
        pass


def test_dispatch():
    ours = build_encoder(TransformerConfig(vocab_size=60, width=32, num_layers=2, num_heads=4, ffn_dim=48)).eval()
    with look(ours, layers=[1]) as seen, ablate_heads(ours, {"0": [1]}):
        ours(IDS[0], Layout.from_lengths([9]))
    assert list(seen) == ["1"]
    with pytest.raises(ValueError, match="Linear has no attention layers of clearhead or transformers"):
        look(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="str is not a model"):
        look("bert-base-uncased")
    model = make("bert")
    with (
        pytest.raises(ValueError, match=r"no attention 'decoder.0': it has encoder.0"),
        look(model, layers=["decoder.0"]),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"no attention matches: the model has encoder\.0"),
        look(model, kinds=["cross"]),
    ):
        pass
    with pytest.raises(ValueError, match=r"no attention 'encoder.9'"), ablate_heads(model, {"encoder.9": [0]}):
        pass
    with look(model, layers=[0, "encoder.2"]) as seen:
        pass
    assert list(seen) == ["encoder.0", "encoder.2"]
    with pytest.raises(LookupError, match="did not run it"):
        seen["encoder.0"]
