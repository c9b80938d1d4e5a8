"""The cache of a user: data sets, copies from object stores, and exports of models without a place of their own."""

import os
from pathlib import Path


def cache_home() -> Path:
    """Return the cache folder: $CLEARHEAD_CACHE, or clearhead in $XDG_CACHE_HOME, or ~/.cache/clearhead."""
    if own := os.environ.get("CLEARHEAD_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clearhead"
