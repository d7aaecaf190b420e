"""A worker that dies at any line: nothing is lost and nothing is doubled.

The worker is ended before each statement that it sends to the database and around each call of the
backend, one place after the other. What was not committed is gone, as with SIGKILL. Then another
worker goes on, an hour later.
"""

from collections.abc import Mapping
from typing import Any

from acted_service import ActedService
from sqlalchemy import event

from app.database import Database
from app.jobs.results import result_id
from app.jobs.worker import Worker
from app.notices.outcome import Outcome, Sent
from app.notices.tables import Notice
from app.tables import StoredResult

MEASURED = {
    "kind": "measured",
    "num_steps_measured": 20,
    "tokens_per_s": 1e5,
    "row": {
        "id": "shardwise-measured-1",
        "source_url": "shardwise:trainer",
        "gpu": "H200-141GB",
        "gpus_total": "8",
        "tokens_per_s_per_gpu": "12500",
    },
}
KINDS = ["queued", "submitting", "submitted", "running", "result_stored", "completed"]


class Killed(BaseException):
    """The process is gone; no handler of the program runs."""


class Fuse:
    """Ends the worker at its n-th place. count: places that were passed."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self.at:
            raise Killed


class Delivered:
    """A sender that counts, with its own places to die before and after."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse, self.kinds = fuse, list[str]()

    def send(self, kind: str, payload: Mapping[str, Any]) -> Outcome:
        assert payload["job"]
        self.fuse()
        self.kinds.append(kind)
        self.fuse()
        return Sent()


def run_with_a_death(jobs: Any, database: Database, at: int) -> tuple[bool, str, ActedService]:
    """One job from its start to its end, with a worker that dies once; whether it did."""
    fuse = Fuse(at)
    service = ActedService(document=MEASURED, at=fuse)
    identity = jobs.add()
    sender = Delivered(fuse)
    event.listen(database.engine, "before_cursor_execute", fuse)
    died = False
    try:
        dying = Worker(database, {"local": service}, sender)
        for _ in range(6):
            dying.round()
    except Killed:
        died = True
    finally:
        event.remove(database.engine, "before_cursor_execute", fuse)
    service.at = lambda _where: None
    sender.fuse = Fuse(-1)
    heir = Worker(database, {"local": service}, sender)
    for _ in range(8):
        jobs.hurry()
        heir.round()
    return died, identity, service


def test_nothing_is_lost_and_nothing_is_doubled_wherever_it_dies(
    jobs: Any, database: Database
) -> None:
    at, died = 0, True
    while died:
        at += 1
        died, identity, service = run_with_a_death(jobs, database, at)
        job = jobs.get(identity)
        where = f"killed at place {at}"
        assert job.status == "completed", where
        assert service.created == [job.name], where
        kinds = [kind for kind, _ in jobs.events(identity) if kind != "backend"]
        assert sorted(set(kinds)) == sorted(KINDS), where
        assert len(kinds) == len(set(kinds)), f"{where}: {kinds}"
        with database.reading() as session:
            stored = session.query(StoredResult).filter_by(id=result_id(identity)).count()
            told = session.query(Notice).filter_by(job_id=identity).count()
        assert (stored, told) == (1, 3), where
    assert at > 40
