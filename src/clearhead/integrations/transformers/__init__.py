"""Attention capture and head ablation on live `transformers` models."""
