"""A service whose AWS is the stand-in over HTTP, with a Slack that keeps what it is sent."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from fastapi.testclient import TestClient
from stand_in import Account, Slack, slack_handler

from app.aws.fake.demo import REGION, with_account
from app.aws.fake.server import new_fake, serving
from app.aws.fake.training_plans import FakePlan
from app.main import create_app
from app.settings import Settings


@pytest.fixture
def slack() -> Iterator[Slack]:
    """A sink of messages on this machine."""
    sink = Slack()
    server = ThreadingHTTPServer(("127.0.0.1", 0), slack_handler(sink))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    sink.url = f"http://127.0.0.1:{server.server_port}/services"
    yield sink
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def account(any_url: str, tmp_path: Path, slack: Slack) -> Iterator[Account]:
    """The service and its account: a role, a bucket, and a reservation that runs."""
    fake = new_fake()
    made = Account(fake=fake)
    fake.clock = made.now
    made.plan = FakePlan(
        name="night",
        region=REGION,
        instance_type="ml.p6-b200.48xlarge",
        num_instances=2,
        start_at=made.at(hours=-1),
        end_at=made.at(hours=47),
        fee="4744.32",
    )
    fake.plans.add(made.plan)
    with serving(fake) as url:
        settings = Settings(
            database_url=any_url,
            jobs_dir=str(tmp_path / "jobs"),
            worker="separate",
            slack_test_url=slack.url,
        )
        app = create_app(with_account(settings, url))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            made.client, made.service = client, app.state.service
            yield made
        if made.service.aws is not None:
            made.service.aws.close()
