"""RELIABILITY 10 for the loader: every hostile folder is refused at once, in little memory, and nothing outside is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.hostile import HOSTILE
from tests.files.trials import check, try_all


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    found = try_all("load", HOSTILE, tmp_path_factory.mktemp("hostile"))
    assert not (Path(__file__).parents[2] / "harm-was-done").exists()
    return found


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_refused(trials, name):
    check(trials[name])


def test_a_good_folder_passes(trials):
    assert trials["valid"]["kind"] == "", trials["valid"]
    assert trials["valid"]["outside"] == []
