"""Captions by ViT and GPT-2, text in images by TrOCR: token for token those of transformers, greedy and by beam search."""

import numpy as np
import pytest
import torch

import clearhead
from clearhead.serve.model_registry import supported_tasks
from clearhead.viz.image_scene import ImageScene

transformers = pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image")

VIT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
       "patch_size": 4}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 30, "n_positions": 24, "model_type": "gpt2",
        "add_cross_attention": True, "is_decoder": True, "bos_token_id": 0, "eos_token_id": 1}  # fmt: skip
TROCR = {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "vocab_size": 30,
         "max_position_embeddings": 24, "model_type": "trocr", "cross_attention_hidden_size": 24, "bos_token_id": 0,
         "eos_token_id": 1}  # fmt: skip


@pytest.fixture(scope="module", params=[("vit", GPT2), ("deit", TROCR)], ids=["gpt2", "trocr"])
def both(request, tmp_path_factory):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("captions")
    words = ["<s>", "</s>", *(f"word{i}" for i in range(28))]
    fast = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="word0"))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    transformers.PreTrainedTokenizerFast(tokenizer_object=fast, bos_token="<s>", eos_token="</s>").save_pretrained(
        folder
    )
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    torch.manual_seed(3)
    encoder, decoder = {**VIT, "model_type": request.param[0]}, request.param[1]
    config = transformers.VisionEncoderDecoderConfig(
        encoder=encoder, decoder=decoder, decoder_start_token_id=0, eos_token_id=1, pad_token_id=1
    )
    model = transformers.VisionEncoderDecoderModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.8 if "encoder_attn" in name else 0.2))
    model.generation_config.update(decoder_start_token_id=0, eos_token_id=1, pad_token_id=1, bos_token_id=0)
    model.save_pretrained(folder)
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (20, 24, 3), dtype="u1") for _ in range(5)]
    processor = transformers.ViTImageProcessor.from_pretrained(folder)
    pixels = torch.as_tensor(np.stack(processor([Image.fromarray(image) for image in images])["pixel_values"]))
    return folder, model, pixels, [torch.from_numpy(image).permute(2, 0, 1) for image in images]


@pytest.mark.parametrize("beam", [1, 3])
def test_captions_equal_those_of_transformers(both, beam):
    folder, theirs, pixels, images = both
    with torch.no_grad():
        expected = theirs.generate(pixel_values=pixels, num_beams=beam, do_sample=False, max_new_tokens=12)
    found = clearhead.load(folder).caption(images, beam=beam, max_len=12)
    for caption, row in zip(found, expected.tolist(), strict=True):
        ids = row[1:]
        ids = ids[: ids.index(1) + 1] if 1 in ids else ids
        assert list(caption.nbest[0].ids) == ids
    assert len({caption.text for caption in found}) > 1  # the images matter
    alone = clearhead.load(folder).caption(images[3:4], beam=beam, max_len=12)[0]
    assert alone.text == found[3].text and alone.score == pytest.approx(found[3].score, abs=1e-5)


def test_attention_of_words_to_the_image_is_captured(both):
    folder, _, _, images = both
    model = clearhead.load(folder)
    with model.look() as seen:
        (caption,) = model.caption(images[:1], max_len=6)
    cross = seen["decoder.1.cross"]
    patches = model.loaded.config.patches
    assert patches is not None and patches.num_tokens == (18 if patches.distillation_token else 17)
    assert cross.shape(0) == (len(caption.nbest[0].ids), patches.num_tokens)
    assert isinstance(seen.image_scene(), ImageScene) and seen.image_scene().grid == (4, 4)
    assert [layer.name for layer in seen.image_scene().layers] == ["encoder.0", "encoder.1"]


def test_a_model_of_texts_and_texts_for_a_model_of_images_are_refused(both):
    with pytest.raises(ValueError, match="this model reads images, not texts: use `caption`"):
        clearhead.load(both[0]).translate("word1 word2")
    assert supported_tasks(clearhead.load(both[0])) == ("caption",)
