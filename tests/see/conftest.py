"""What the viewer is shown with."""

from __future__ import annotations

import pytest

from clearhead.app import App, load
from clearhead.see import Scene, scene_of
from tests.real import MINILM

TEXTS = ["The animal did not cross the street because it was too tired.", "Unbelievably, the untrained dog won."]


@pytest.fixture(scope="session")
def minilm() -> App:
    if MINILM is None:
        pytest.skip("MiniLM is not installed")
    return load(MINILM)


@pytest.fixture(scope="session")
def animals(minilm) -> Scene:
    """Two sentences in MiniLM."""
    return scene_of(minilm.opened, TEXTS, title="animals")
