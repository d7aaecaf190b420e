"""Databases with a recommendation in them, and jobs made of it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from app.benchmarks import load_shipped
from app.database import Database
from app.jobs.schemas import JobRequest
from app.jobs.store import plan_job, write_job
from app.jobs.tables import Job
from app.knowledge import knowledge_of
from app.recommendations import answer, store
from app.schemas import RecommendRequest
from app.settings import Settings


@pytest.fixture
def settings(tmp_path: Any) -> Settings:
    """Of a service whose jobs are in a folder of the test's own."""
    return Settings(jobs_dir=str(tmp_path / "jobs"))


@pytest.fixture
def database(any_url: str) -> Iterator[Database]:
    """A database of each kind, with one recommendation."""
    made = Database(any_url, load_shipped)
    question = RecommendRequest.model_validate(
        {"model": {"size_b": 1.0}, "num_tokens": 10**9, "instances": ["p5en"]}
    )
    with made.writing() as session:
        store(session, answer(question, knowledge_of(())))
    yield made
    made.dispose()


class Jobs:
    """Jobs in a database, as a test makes and looks at them."""

    def __init__(self, database: Database, settings: Settings) -> None:
        from app.tables import StoredRecommendation  # noqa: PLC0415 - only here

        self.database, self.settings = database, settings
        with database.reading() as session:
            self.recommendation_id: str = session.query(StoredRecommendation.id).scalar()

    def add(self, **given: Any) -> str:
        """A queued job; its id."""
        request = JobRequest(recommendation_id=self.recommendation_id, **given)
        with self.database.writing() as session:
            new = plan_job(session, request, self.settings, created_by=None)
            return write_job(session, new, self.settings, datetime.now(UTC)).id

    def get(self, identity: str) -> Job:
        """The job as it is now."""
        with self.database.reading() as session:
            job = session.get_one(Job, identity)
            session.expunge(job)
            return job

    def events(self, identity: str) -> list[tuple[str, Any]]:
        """Kinds and details of a job's events, in their order."""
        from app.jobs.events import events_after  # noqa: PLC0415 - only here

        with self.database.reading() as session:
            return [(e.kind, json.loads(e.detail)) for e in events_after(session, identity, 0)]

    def hurry(self) -> None:
        """Let everything be due now, and every lease be over: an hour later, for a worker."""
        with self.database.writing() as session:
            for job in session.query(Job).filter(Job.due_at.is_not(None)):
                job.due_at = job.created_at
                job.lease_owner = job.lease_until = None


@pytest.fixture
def jobs(database: Database, settings: Settings) -> Jobs:
    """Jobs of the database."""
    return Jobs(database, settings)
