"""The database ends every connection while the worker is in the middle of a call."""

from collections.abc import Callable
from typing import Any

import pytest
from acted_service import ActedService
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from app.errors import AppError
from app.jobs.worker import Worker
from app.notices.outcome import Sent


class Silent:
    """A sender that takes everything."""

    def send(self, *_: Any) -> Sent:
        return Sent()


def ending_connections(jobs: Any, at: str) -> Callable[[str], None]:
    """Ends all connections of the database at each call of this name, twice in all."""
    left = [2]

    def end(where: str) -> None:
        if where != at or not left[0]:
            return
        left[0] -= 1
        if jobs.database.engine.dialect.name == "sqlite":
            jobs.database.engine.dispose()
            return
        other = create_engine(jobs.database.url, isolation_level="AUTOCOMMIT")
        with other.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        other.dispose()

    return end


@pytest.mark.parametrize("at", ["preflight", "submit", "submitted", "observe", "observed"])
def test_nothing_is_lost_or_doubled(jobs: Any, at: str) -> None:
    identity = jobs.add()
    service = ActedService(at=ending_connections(jobs, at))
    worker = Worker(jobs.database, {service.name: service}, Silent())
    for _ in range(16):
        try:
            jobs.hurry()
            worker.round()
        except (AppError, SQLAlchemyError):
            # As in Worker.run: what failed is looked at anew.
            jobs.database.forget_preparation()
    assert jobs.get(identity).status == "completed"
    assert service.created == [jobs.get(identity).name]
    kinds = [kind for kind, _ in jobs.events(identity)]
    assert kinds.count("completed") == 1
