"""What the worker tells of training plans, each once; AWS's silence stops nothing."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from sqlalchemy import select

from app.aws.plan_watch import PlanWatch
from app.database import Database
from app.notices.messages import message_for
from app.notices.tables import Notice

START = datetime(2026, 12, 7, 11, 30, tzinfo=UTC)
END = START + timedelta(hours=24)


@dataclass
class Account:
    """SageMaker with one plan, and the clock of the watch."""

    now: datetime = START - timedelta(hours=3)
    in_use: int = 1
    is_away: bool = False
    asked: list[str] = field(default_factory=list)

    def client(self, name: str, region: str | None = None) -> "Account":
        self.asked.append(f"{name} {region}")
        return self

    def list_training_plans(self, **_: Any) -> Mapping[str, Any]:
        if self.is_away:
            raise EndpointConnectionError(endpoint_url="https://sagemaker")
        return {"TrainingPlanSummaries": [self.describe_training_plan()]}

    def describe_training_plan(self, **_: Any) -> Mapping[str, Any]:
        return {
            "TrainingPlanArn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/night",
            "TrainingPlanName": "night",
            "Status": "Active" if START <= self.now < END else "Scheduled",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2 - self.in_use,
            "InUseInstanceCount": self.in_use,
            "ReservedCapacitySummaries": [
                {
                    "InstanceType": "ml.p6-b200.48xlarge",
                    "TotalInstanceCount": 2,
                    "StartTime": START,
                    "EndTime": END,
                }
            ],
        }


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/test.db", lambda _session: None)
    yield made
    made.dispose()


def told(database: Database) -> list[str]:
    with database.reading() as session:
        notices = session.scalars(select(Notice).order_by(Notice.created_at)).all()
        for each in notices:
            # Each can be sent.
            assert "night" in message_for(each.kind, json.loads(each.payload))["text"]
        return [each.kind for each in notices]


def test_each_thing_is_told_once_by_whichever_worker(database: Database) -> None:
    account = Account()
    watches = [PlanWatch(database, account, "us-west-2", lambda: account.now) for _ in range(2)]
    while account.now < END + timedelta(hours=1):
        for watch in watches:
            watch.look()
        account.now += timedelta(minutes=5)
    assert told(database) == ["plan_starts_soon", "plan_ends_in_2_hours", "plan_ends_in_45_minutes"]


def test_who_looks_late_is_told_only_what_is_still_true(database: Database) -> None:
    account = Account(now=END - timedelta(minutes=30))
    PlanWatch(database, account, "us-west-2", lambda: account.now).look()
    assert told(database) == ["plan_ends_in_45_minutes"]


def test_idle_is_told_after_a_quarter_of_an_hour_and_again_when_it_happens_again(
    database: Database,
) -> None:
    account = Account(now=START, in_use=0)
    watch = PlanWatch(database, account, "us-west-2", lambda: account.now)
    for in_use in (0,) * 14 + (1,) * 5 + (0,) * 20:
        account.in_use = in_use
        watch.look()
        account.now += timedelta(minutes=1)
    assert told(database) == ["plan_is_idle"]
    account.now += timedelta(minutes=1)
    watch.look()
    assert told(database) == ["plan_is_idle"]


def test_aws_is_asked_once_a_minute_and_its_silence_stops_nothing(database: Database) -> None:
    account = Account(is_away=True, now=START)
    watch = PlanWatch(database, account, "us-west-2", lambda: account.now)
    for _ in range(10):
        watch.look()
    assert account.asked == ["sagemaker us-west-2"]
    account.now += timedelta(minutes=1)
    account.is_away = False
    watch.look()
    assert len(account.asked) > 1


def test_without_a_region_nothing_is_asked(database: Database) -> None:
    account = Account()
    PlanWatch(database, account, "", lambda: account.now).look()
    assert account.asked == []
