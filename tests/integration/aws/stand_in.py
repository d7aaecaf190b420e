"""Account and Slack: what tests know of the service, of its AWS, and of the messages it sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

from fastapi.testclient import TestClient

from app.aws.fake.server import FakeAws
from app.aws.fake.training_plans import FakePlan
from app.jobs.tables import Job
from app.notices.tables import Notice
from app.service import Service

QUESTION = {
    "model": {"size_b": 8},
    "num_tokens": 10**9,
    "instances": ["p6-b200"],
    "max_instances": 2,
}


@dataclass
class Slack:
    """What came to the webhook."""

    url: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)


def slack_handler(sink: Slack) -> type[BaseHTTPRequestHandler]:
    """A webhook that says ok."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            sink.messages.append(json.loads(self.rfile.read(size)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler


@dataclass
class Account:
    """A service and its AWS, whose clock is the test's."""

    fake: FakeAws
    client: TestClient = field(init=False)
    service: Service = field(init=False)
    plan: FakePlan = field(init=False)
    later: timedelta = timedelta(0)
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    def now(self) -> datetime:
        """AWS's time."""
        return self.begun + self.later

    def at(self, **later: float) -> datetime:
        """A time from the beginning of the test."""
        return self.begun + timedelta(**later)

    def recommend(self) -> str:
        """The id of an answer."""
        identity: str = self.client.post("/recommend", json=QUESTION).json()["id"]
        return identity

    def start(self, **more: Any) -> dict[str, Any]:
        """POST /jobs under the reservation, unless told otherwise; its answer."""
        asked = {
            "recommendation_id": self.recommend(),
            "backend": "sagemaker",
            "kind": "probe",
            "training_plan_arn": self.plan.arn,
            **more,
        }
        answer = self.client.post("/jobs", json=asked)
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def job(self, identity: str) -> dict[str, Any]:
        """GET /jobs/ID."""
        found: dict[str, Any] = self.client.get(f"/jobs/{identity}").json()
        return found

    def work(self, rounds: int = 4, **later: float) -> None:
        """Let the worker look, at AWS's time plus this; everything is due, no lease runs."""
        self.later += timedelta(**later)
        for _ in range(rounds):
            with self.service.database.writing() as session:
                for job in session.query(Job).filter(Job.due_at.is_not(None)):
                    job.due_at = job.created_at
                    job.lease_owner = job.lease_until = None
            self.service.worker.round()

    def until(self, identity: str, is_done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Work, a quarter of a minute at a time, until a job is as wanted; the job."""
        for _ in range(60):
            job = self.job(identity)
            if is_done(job):
                return job
            self.work(seconds=15)
        raise AssertionError(f"the job stays {job['status']}: {job['trouble']}")

    def told(self) -> list[str]:
        """Kinds of the notices that were written, in their order."""
        with self.service.database.reading() as session:
            return [n.kind for n in session.query(Notice).order_by(Notice.created_at, Notice.id)]
