"""Bias audits: what a model has learned about groups of people, measured with intervals."""
