"""Analyses over a corpus: head statistics, prediction errors, errors of attention methods and kernels."""
