"""The grouped kernel: dense products over groups of sequences of similar length."""

from clearhead.attention.kernels.grouped.kernel import is_preferred, rows, run, unsupported_reason

__all__ = ["is_preferred", "rows", "run", "unsupported_reason"]
