"""A service that others can reach, on each kind of database, with a key of each role."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from reached_service import Reached

from app.access.keys import create_key
from app.access.roles import Role
from app.benchmarks import load_shipped
from app.database import Database
from app.main import create_app
from app.settings import Settings

SECRET = "a-secret-of-a-test-with-more-than-32-characters"


@pytest.fixture
def reached(any_url: str, tmp_path: Path) -> Iterator[Reached]:
    """The service; `capped` is a submitter that may spend 100 USD on a job, 150 in a month."""
    database = Database(any_url, load_shipped)
    now = datetime.now(UTC)
    with database.writing() as session:
        keys = {role.label: create_key(session, role.label, role, now).text for role in Role}
        keys["capped"] = create_key(
            session,
            "capped",
            Role.SUBMITTER,
            now,
            max_usd_per_job=Decimal(100),
            max_usd_per_month=Decimal(150),
        ).text
    settings = Settings(
        database_url=any_url,
        host="0.0.0.0",  # noqa: S104 - a setting only: nothing listens
        secret_key=SECRET,
        worker="separate",
        jobs_dir=str(tmp_path / "jobs"),
    )
    with TestClient(create_app(settings), base_url="https://shardwise.test") as client:
        yield Reached(client=client, database=database, keys=keys)
    database.dispose()
