"""Tiny random models of every family and head, as `transformers` builds and saves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 61}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
BERT = {**SIZES, **STILL, "max_position_embeddings": 24, "num_labels": 3}
LLAMA = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "num_labels": 3,
         "classifier_dropout": 0.0}  # fmt: skip
SEQ2SEQ = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "vocab_size": 61, "dropout": 0.0,
           "max_position_embeddings": 24, "num_labels": 3, "decoder_start_token_id": 2}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "vocab_size": 61,
      "dropout_rate": 0.0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "num_labels": 3,
      "initializer_factor": 0.3}  # fmt: skip
MODERN = {**SIZES, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
          "local_attention": 6, "num_labels": 3}  # fmt: skip


@dataclass(frozen=True)
class Case:
    architecture: str
    config: str
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        return f"{self.architecture}{'-' + self.note if self.note else ''}"

    @property
    def unused_pooler(self) -> str | None:
        """A pooler that the architecture is made with and nothing reads: it is not kept."""
        if self.config == "BigBirdConfig" and self.architecture != "BigBirdModel":
            return "bert.pooler"
        return "encoder.pooler" if self.config == "VisionEncoderDecoderConfig" else None

    def make(self, folder: Path) -> transformers.PreTrainedModel:
        """The model with every parameter random, norms and biases too, saved in `folder`."""
        torch.manual_seed(len(str(self)))
        two = {"num_labels": 2} if self.architecture.endswith(("QuestionAnswering", "PreTraining")) else {}
        model = getattr(transformers, self.architecture)(getattr(transformers, self.config)(**{**self.settings, **two}))
        if self.unused_pooler is not None:
            model.get_submodule(self.unused_pooler.rpartition(".")[0]).pooler = None
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if self.config == "MarianConfig" and "embed_positions" in name:
                    continue  # sinusoids
                parameter.add_(torch.randn_like(parameter) * 0.1)
            if getattr(model, "final_logits_bias", None) is not None:
                model.final_logits_bias.normal_()
            if self.config == "ReformerConfig" and hasattr(model, "lm_head"):
                model.lm_head.bias.zero_()  # nothing reads it
            if self.note == "untied":  # two parameters there, of which one is read: every older folder has them equal
                model.cls.predictions.bias.copy_(model.cls.predictions.decoder.bias)
        model.save_pretrained(folder)
        return model.eval()


def _many(config: str, settings: dict[str, Any], *architectures: str) -> list[Case]:
    return [Case(name, config, settings) for name in architectures]


NYSTROM = {
    **BERT,
    "max_position_embeddings": 44,
    "segment_means_seq_len": 44,
    "num_landmarks": 11,
    "conv_kernel_size": 5,
}
LONGFORMER = {**BERT, "max_position_embeddings": 40, "sep_token_id": 2}
LED = {**{k: v for k, v in SEQ2SEQ.items() if k != "max_position_embeddings"}, "attention_window": [4, 8],
       "max_encoder_position_embeddings": 32, "max_decoder_position_embeddings": 20}  # fmt: skip
BIGBIRD = {**BERT, "max_position_embeddings": 44, "block_size": 4, "num_random_blocks": 2}
REFORMER = {"hidden_size": 32, "num_attention_heads": 4, "attention_head_size": 6, "feed_forward_size": 48,
            "vocab_size": 61, "hidden_dropout_prob": 0.0, "local_attention_probs_dropout_prob": 0.0, "num_labels": 3,
            "attn_layers": ["local", "lsh", "lsh"], "axial_pos_shape": [4, 11], "axial_pos_embds_dim": [12, 20],
            "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, "num_hashes": 2, "hash_seed": 5,
            "classifier_dropout": 0.0}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 61, "n_positions": 24, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "pad_token_id": 0, "num_labels": 3, "classifier_dropout": 0.0}  # fmt: skip
DISTIL = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "vocab_size": 61, "max_position_embeddings": 24,
          "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "qa_dropout": 0.0, "num_labels": 3}  # fmt: skip
VIT = {**{k: v for k, v in SIZES.items() if k != "vocab_size"}, "image_size": 12, "patch_size": 4, "num_labels": 3}
CAPTION = {"encoder": {**VIT, "model_type": "vit"},
           "decoder": {**GPT2, "model_type": "gpt2", "add_cross_attention": True, "is_decoder": True}}  # fmt: skip
TROCR = {"d_model": 32, "decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 40, "vocab_size": 61,
         "dropout": 0.0, "max_position_embeddings": 24, "model_type": "trocr", "is_decoder": True}  # fmt: skip
DEIT = {**VIT, "model_type": "deit", "hidden_size": 24}
CLIP_TEXT = {**SIZES, "max_position_embeddings": 24, "projection_dim": 20, "eos_token_id": 60, "pad_token_id": 0}
ALBERT = {**BERT, "embedding_size": 16, "classifier_dropout_prob": 0.0}
HEADS = ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering")

CASES = [
    *_many("BertConfig", BERT, "BertModel", "BertForPreTraining", "BertForNextSentencePrediction",
           *(f"BertFor{h}" for h in HEADS)),
    Case("BertForMaskedLM", "BertConfig", {**BERT, "tie_word_embeddings": False}, "untied"),
    Case("BertModel", "BertConfig", {**BERT, "hidden_act": "gelu_new", "type_vocab_size": 1}, "gelu_new"),
    *_many("RobertaConfig", {**BERT, "max_position_embeddings": 26}, "RobertaModel", *(f"RobertaFor{h}" for h in HEADS)),
    *_many("XLMRobertaConfig", {**BERT, "pad_token_id": 3, "max_position_embeddings": 28}, "XLMRobertaModel", *(f"XLMRobertaFor{h}" for h in HEADS)),
    *_many("AlbertConfig", ALBERT, "AlbertModel", "AlbertForPreTraining", *(f"AlbertFor{h}" for h in HEADS)),
    Case("AlbertForMaskedLM", "AlbertConfig", {**ALBERT, "num_hidden_layers": 5, "num_hidden_groups": 2}, "groups"),
    *_many("ElectraConfig", {**BERT, "embedding_size": 16}, "ElectraModel", "ElectraForPreTraining",
           *(f"ElectraFor{h}" for h in HEADS)),
    Case("ElectraForMaskedLM", "ElectraConfig", {**BERT, "embedding_size": 32}, "wide"),
    *_many("DistilBertConfig", DISTIL, "DistilBertModel", *(f"DistilBertFor{h}" for h in HEADS)),
    *_many("ModernBertConfig", MODERN, "ModernBertModel", *(f"ModernBertFor{h}" for h in HEADS)),
    Case("ModernBertForSequenceClassification", "ModernBertConfig",
         {**MODERN, "classifier_pooling": "mean", "norm_bias": True, "mlp_bias": True, "attention_bias": True}, "biases"),
    *_many("NystromformerConfig", NYSTROM, "NystromformerModel", *(f"NystromformerFor{h}" for h in HEADS)),
    Case("NystromformerModel", "NystromformerConfig", {**NYSTROM, "num_landmarks": 44}, "exact"),
    *_many("LongformerConfig", {**LONGFORMER, "attention_window": 4}, *(f"LongformerFor{h}" for h in HEADS)),
    Case("LongformerModel", "LongformerConfig", {**LONGFORMER, "attention_window": [4, 8, 4]}, "windows"),
    *_many("BigBirdConfig", BIGBIRD, "BigBirdModel", *(f"BigBirdFor{h}" for h in HEADS[:3])),
    Case("BigBirdModel", "BigBirdConfig", {**BIGBIRD, "attention_type": "original_full", "use_bias": False,
         "rescale_embeddings": True}, "full"),
    *_many("ReformerConfig", REFORMER, "ReformerModel", *(f"ReformerFor{h}" for h in HEADS if h != "TokenClassification")),
    Case("ReformerModel", "ReformerConfig", {**REFORMER, "local_attn_chunk_length": 2, "lsh_attn_chunk_length": 11,
         "axial_pos_embds": False, "lsh_num_chunks_before": 0, "lsh_num_chunks_after": 1, "num_hashes": 1,
         "num_buckets": [2, 4], "local_num_chunks_after": 1}, "learned"),
    Case("ReformerModelWithLMHead", "ReformerConfig", {**REFORMER, "is_decoder": True, "num_buckets": 4}),
    *_many("GPT2Config", GPT2, "GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification",
           "GPT2ForTokenClassification", "GPT2ForQuestionAnswering"),
    Case("GPT2LMHeadModel", "GPT2Config", {**GPT2, "n_inner": 40, "activation_function": "relu"}, "inner"),
    *_many("LlamaConfig", LLAMA, "LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification",
           "LlamaForTokenClassification"),
    Case("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 10,
         "tie_word_embeddings": True}, "biases"),
    Case("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0,
         "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}, "llama3"),
    Case("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 900.0,
         "factor": 2.0}}, "linear"),
    *_many("MistralConfig", {**LLAMA, "sliding_window": 4}, "MistralModel", "MistralForCausalLM",
           "MistralForSequenceClassification", "MistralForTokenClassification"),
    Case("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": None}, "unbounded"),
    *_many("Qwen2Config", LLAMA, "Qwen2Model", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification",
           "Qwen2ForTokenClassification"),
    Case("Qwen2ForCausalLM", "Qwen2Config", {**LLAMA, "use_sliding_window": True, "sliding_window": 4,
         "max_window_layers": 1}, "sliding"),
    *_many("Qwen3Config", {**LLAMA, "head_dim": 12}, "Qwen3Model", "Qwen3ForCausalLM",
           "Qwen3ForSequenceClassification", "Qwen3ForTokenClassification"),
    *_many("MarianConfig", {**SEQ2SEQ, "pad_token_id": 60, "decoder_start_token_id": 60, "scale_embedding": True},
           "MarianModel", "MarianMTModel"),
    Case("MarianMTModel", "MarianConfig", {**SEQ2SEQ, "activation_function": "swish", "pad_token_id": 60,
         "decoder_start_token_id": 60}, "swish"),
    *_many("BartConfig", SEQ2SEQ, "BartModel", "BartForConditionalGeneration", "BartForSequenceClassification",
           "BartForQuestionAnswering"),
    *_many("LEDConfig", LED, "LEDModel", "LEDForConditionalGeneration", "LEDForQuestionAnswering"),
    *_many("T5Config", T5, "T5Model", "T5ForConditionalGeneration", "T5EncoderModel", "T5ForTokenClassification"),
    Case("T5ForConditionalGeneration", "T5Config", {**T5, "feed_forward_proj": "gated-gelu",
         "tie_word_embeddings": False}, "v1.1"),
    *_many("ViTConfig", VIT, "ViTModel", "ViTForImageClassification"),
    Case("ViTForImageClassification", "ViTConfig", {**VIT, "qkv_bias": False}, "unbiased"),
    *_many("DeiTConfig", VIT, "DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"),
    *_many("CLIPVisionConfig", {**VIT, "projection_dim": 20}, "CLIPVisionModel", "CLIPVisionModelWithProjection"),
    *_many("CLIPTextConfig", CLIP_TEXT, "CLIPTextModel", "CLIPTextModelWithProjection"),
    *_many("SiglipVisionConfig", VIT, "SiglipVisionModel"),
    *_many("SiglipTextConfig", {**SIZES, "max_position_embeddings": 24, "projection_size": 20}, "SiglipTextModel"),
    Case("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", CAPTION),
    Case("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", {**CAPTION, "encoder": {**CAPTION["encoder"],
         "hidden_size": 24}}, "projected"),
    Case("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", {**CAPTION, "encoder": DEIT}, "deit"),
    Case("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", {"encoder": DEIT, "decoder": {**TROCR,
         "cross_attention_hidden_size": 24, "scale_embedding": True}}, "trocr-deit"),
    Case("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", {"encoder": CAPTION["encoder"], "decoder": {**TROCR,
         "use_learned_position_embeddings": False, "layernorm_embedding": False, "activation_function": "relu",
         "tie_word_embeddings": False}}, "trocr"),
    *_many("Dinov2Config", {**VIT, "mlp_ratio": 2}, "Dinov2Model", "Dinov2ForImageClassification"),
]  # fmt: skip
