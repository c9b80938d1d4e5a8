"""Analyses over a corpus: head statistics and prediction errors."""
