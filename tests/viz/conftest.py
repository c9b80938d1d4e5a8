"""A scene for the viewer tests."""

from __future__ import annotations

import pytest

from clearhead.viz import Scene, record_scene

TEXTS = ["The animal did not cross the street because it was too tired.", "Unbelievably, the untrained dog won."]


@pytest.fixture(scope="session")
def animals(minilm) -> Scene:
    """Two sentences in MiniLM."""
    return record_scene(minilm.loaded, TEXTS, title="animals")
