"""Training plans as AWS reports them, and the time in them that jobs can use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError

from app.aws.training_plans import (
    AwsTrouble,
    Segment,
    describe_plan,
    dollars,
    list_plans,
    plan_json,
    plan_of,
    time_line,
    windows,
)

NOW = datetime(2026, 12, 4, 12, tzinfo=UTC)
TYPE = "ml.p6-b200.48xlarge"


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def entry(name: str, status: str, *times: tuple[float, float], **more: Any) -> dict[str, Any]:
    return {
        "TrainingPlanArn": f"arn:aws:sagemaker:us-west-2:123456789012:training-plan/{name}",
        "TrainingPlanName": name,
        "Status": status,
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 2,
        "InUseInstanceCount": 0,
        "TargetResources": ["training-job"],
        "UpfrontFee": "4744.32",
        "CurrencyCode": "USD",
        "ReservedCapacitySummaries": [
            {
                "InstanceType": TYPE,
                "TotalInstanceCount": 2,
                "AvailabilityZone": "us-west-2a",
                "StartTime": at(start),
                "EndTime": at(end),
            }
            for start, end in times
        ],
        **more,
    }


@dataclass(slots=True)
class Plans:
    """SageMaker with some plans, two to a page."""

    entries: list[dict[str, Any]]
    unhealthy: int = 0
    described: list[str] = field(default_factory=list)

    def client(self, name: str, region: str | None = None) -> "Plans":
        assert (name, region) == ("sagemaker", "us-west-2")
        return self

    def list_training_plans(self, **asked: Any) -> Mapping[str, Any]:
        begin = int(asked.get("NextToken", 0))
        page = {"TrainingPlanSummaries": self.entries[begin : begin + 2]}
        more = {"NextToken": str(begin + 2)} if begin + 2 < len(self.entries) else {}
        return {**page, **more}

    def describe_training_plan(self, **asked: Any) -> Mapping[str, Any]:
        wanted = asked["TrainingPlanName"]
        self.described.append(wanted.rpartition("/")[2])
        for each in self.entries:
            if wanted in (each["TrainingPlanArn"], each["TrainingPlanName"]):
                return {**each, "UnhealthyInstanceCount": self.unhealthy}
        error = {"Error": {"Code": "ResourceNotFound", "Message": "no such plan"}}
        raise ClientError(error, "DescribeTrainingPlan")


def test_all_pages_are_read_and_live_plans_come_first() -> None:
    plans = Plans(
        [
            entry("old", "Expired", (-100, -50)),
            entry("later", "Scheduled", (10, 34)),
            entry("now", "Active", (-1, 23)),
        ],
        unhealthy=1,
    )
    found = list_plans(plans, "us-west-2")
    assert [each.name for each in found] == ["now", "later", "old"]
    assert plans.described == ["later", "now"]
    assert [each.num_free for each in found] == [1, 1, 2]
    assert found[0].account == "123456789012"


def test_a_plan_that_is_not_there() -> None:
    with pytest.raises(AwsTrouble, match="no such plan") as raised:
        describe_plan(Plans([]), "nobody", "us-west-2")
    assert (raised.value.kind, raised.value.status) == ("missing", 409)


def test_aws_takes_instances_back_before_a_segment_ends() -> None:
    plan = plan_of(entry("now", "Active", (-1, 23), (30, 54)), "us-west-2")
    left = plan.windows(NOW)
    assert [(each.start_at, each.end_at) for each in left] == [(NOW, at(22.5)), (at(30), at(53.5))]
    assert plan.usable_s(NOW) == (22.5 + 23.5) * 3600
    assert plan.usable_s(at(25)) == 23.5 * 3600
    assert plan.usable_s(at(53.5)) == 0


def test_an_ultraserver_loses_an_hour() -> None:
    segments = (Segment(start_at=at(0), end_at=at(24), availability_zone="a", num_instances=18),)
    assert [each.end_at for each in windows(segments, NOW, "ml.p6e-gb200.36xlarge")] == [at(23)]
    assert [each.end_at for each in windows(segments, NOW, TYPE)] == [at(23.5)]


def test_a_plan_that_is_over_has_no_time_left() -> None:
    plan = plan_of(entry("failed", "Failed", (-1, 23)), "us-west-2")
    assert plan.windows(NOW) == ()
    shown = plan_json(plan, NOW)
    assert (shown["usable_s"], shown["usable_until"], shown["num_free"]) == (0, None, 0)


def test_a_plan_as_json() -> None:
    shown = plan_json(plan_of(entry("now", "Active", (-1, 23)), "us-west-2"), NOW)
    assert shown["upfront_fee"] == "4744.32"
    assert shown["usable_until"] == "2026-12-05T10:30:00+00:00"
    assert shown["segments"] == [
        {
            "start_at": "2026-12-04T11:00:00+00:00",
            "end_at": "2026-12-05T11:00:00+00:00",
            "availability_zone": "us-west-2a",
            "num_instances": 2,
        }
    ]


def test_a_plan_without_segments_has_the_time_of_the_whole() -> None:
    plan = plan_of(entry("now", "Active", StartTime=at(0), EndTime=at(24)), "us-west-2")
    assert plan.usable_s(NOW) == 23.5 * 3600
    assert plan.instance_type == ""


def test_the_time_line_shows_what_is_left() -> None:
    plan = plan_of(entry("now", "Active", (-10, 0), (10, 30)), "us-west-2")
    line = time_line(plan, at(20))
    assert line is not None
    over, left = line.stretches
    assert (over.x, over.width, over.usable_width) == (0, 250, 0)
    assert (left.x, left.width) == (500, 500)
    assert (left.usable_x, left.usable_width) == (750, 237.5)
    assert line.now_x == 750
    later = time_line(plan, at(40))
    assert later is not None
    assert later.now_x is None
    assert time_line(plan_of(entry("none", "Pending"), "us-west-2"), NOW) is None


@pytest.mark.parametrize(
    ("fee", "currency", "usd"),
    [
        ("4744.32", "USD", Decimal("4744.32")),
        ("12", "", Decimal(12)),
        ("4744.32", "EUR", None),
        ("xxxx.xx", "USD", None),
        ("-1", "USD", None),
        ("1e5", "USD", None),
        ("", "USD", None),
    ],
)
def test_a_fee_is_never_guessed(fee: str, currency: str, usd: Decimal | None) -> None:
    assert dollars(fee, currency) == usd
