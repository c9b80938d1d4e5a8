"""The grouped kernel: dense products over groups of sequences of similar length."""

from clearhead.attention.kernels.grouped.kernel import rows, run, unsupported_reason

__all__ = ["rows", "run", "unsupported_reason"]
