"""Metrics: of labels, numbers, texts, captions and rankings, with confidence intervals and calibration."""
