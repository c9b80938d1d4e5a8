"""The two models of CLIP and of SigLIP together, against transformers."""

import json

import numpy as np
import pytest
import torch

import clearhead

transformers = pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
LABELS = ["old dog", "tree", "red house"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("clip"), siglip=False)


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    return make(tmp_path_factory.mktemp("siglip"), siglip=True)


def make(path, *, siglip):
    """A folder of a random model with images, and what transformers' model returns for them and the labels."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [chr(i) for i in range(97, 123)]
    vocab = {token: i for i, token in enumerate([*letters, *(f"{c}</w>" for c in letters), "<|start|>", "<|end|>"])}
    fast = Tokenizer(models.BPE(vocab=vocab, merges=[], end_of_word_suffix="</w>"))
    fast.normalizer, fast.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    fast.post_processor = processors.TemplateProcessing(
        single="<|start|> $A <|end|>", special_tokens=[("<|start|>", 52), ("<|end|>", 53)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    tokenizer.save_pretrained(path)
    if siglip:
        processor = transformers.SiglipImageProcessor(size={"height": 16, "width": 16})
    else:
        processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    processor.save_pretrained(path)
    torch.manual_seed(0)
    text = {**SIZES, "vocab_size": 54, "max_position_embeddings": 40, "eos_token_id": 53, "bos_token_id": 52}
    sizes = {"text_config": text, "vision_config": {**SIZES, "image_size": 16, "patch_size": 4}}
    if siglip:
        model = transformers.SiglipModel(transformers.SiglipConfig(**sizes)).eval()
    else:
        model = transformers.CLIPModel(transformers.CLIPConfig(**sizes, projection_dim=24)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(path)
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype="u1")) for h, w in ((20, 31), (16, 16), (40, 18))]
    for i, image in enumerate(images):
        image.save(path / f"{i}.png")
    texts = [f"a photo of a {label}" for label in LABELS]
    if siglip:
        inputs = {"input_ids": tokenizer(texts, padding="max_length", max_length=40, return_tensors="pt")["input_ids"]}
    else:
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        out = model(pixel_values=torch.as_tensor(np.stack(processor(images)["pixel_values"])), **inputs)
    return path, out


def test_vectors_and_labels_equal_those_of_transformers(folder):
    path, out = folder
    clip = clearhead.load_image_text(path)
    files = [path / f"{i}.png" for i in range(3)]
    torch.testing.assert_close(clip.encode_images(files), out.image_embeds, atol=1e-5, rtol=0)
    texts = clip.encode_texts([f"a photo of a {label}" for label in LABELS])
    torch.testing.assert_close(texts, out.text_embeds, atol=1e-5, rtol=0)
    expected = out.logits_per_image.softmax(1)
    for answer, row in zip(clip.classify(files, LABELS), expected, strict=True):
        assert [answer.scores[label] for label in LABELS] == pytest.approx(row.tolist(), abs=1e-5)
        assert answer.answer == LABELS[int(row.argmax())]
    assert clip.classify(str(files[0]), LABELS).answer == clip.classify(files, LABELS)[0].answer
    assert clip.encode_images([]).shape == clip.encode_texts([]).shape == (0, 24)


def test_siglip_fills_texts_and_scores_each_label_alone(siglip):
    path, out = siglip
    model = clearhead.load_image_text(path)
    files = [path / f"{i}.png" for i in range(3)]
    torch.testing.assert_close(model.encode_images(files), out.image_embeds, atol=1e-5, rtol=0)
    texts = model.encode_texts([f"a photo of a {label}" for label in LABELS])
    torch.testing.assert_close(texts, out.text_embeds, atol=1e-5, rtol=0)
    for answer, row in zip(model.classify(files, LABELS), out.logits_per_image.sigmoid(), strict=True):
        assert [answer.scores[label] for label in LABELS] == pytest.approx(row.tolist(), abs=1e-5)
    assert model.encode_images([]).shape == model.encode_texts([]).shape == (0, 32)


def test_wrong_calls_are_explained(folder, tmp_path):
    clip = clearhead.load_image_text(folder[0])
    with pytest.raises(ValueError, match="give each once"):
        clip.classify(folder[0] / "0.png", ["a", "a"])
    with pytest.raises(ValueError, match="the place of the label"):
        clip.classify(folder[0] / "0.png", ["a"], template="a photo")
    with pytest.raises(ValueError, match=r"clearhead\.load_image_text"):
        clearhead.load(folder[0])
    for kind in ("bert", ["clip"]):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
        with pytest.raises(ValueError, match=r"has not two models"):
            clearhead.load_image_text(tmp_path)
