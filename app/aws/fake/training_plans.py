"""FakePlans: reservations, and offerings at the published rate where there is one."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from app.aws.fake.errors import Refusal, missing
from app.aws.fake.training_jobs import ACCOUNT

# AWS's own: plans end at 11:30 UTC (developer guide, Flexible Training Plans).
END_HOUR, END_MINUTE = 11, 30
WAITS_H = (0, 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePlan:
    """One reservation."""

    name: str
    region: str
    instance_type: str
    num_instances: int
    start_at: datetime
    end_at: datetime
    fee: str

    @property
    def arn(self) -> str:
        """Its ARN."""
        return f"arn:aws:sagemaker:{self.region}:{ACCOUNT}:training-plan/{self.name}"

    def status(self, now: datetime) -> str:
        """Scheduled, Active or Expired, by the clock."""
        if now < self.start_at:
            return "Scheduled"
        return "Active" if now < self.end_at else "Expired"

    def described(self, now: datetime, in_use: int) -> dict[str, Any]:
        """The answer of DescribeTrainingPlan."""
        status = self.status(now)
        times = {"StartTime": self.start_at.timestamp(), "EndTime": self.end_at.timestamp()}
        free = self.num_instances - in_use if status == "Active" else 0
        return {
            "TrainingPlanArn": self.arn,
            "TrainingPlanName": self.name,
            "Status": status,
            "DurationHours": int((self.end_at - self.start_at).total_seconds() // 3600),
            "UpfrontFee": self.fee,
            "CurrencyCode": "USD",
            "TotalInstanceCount": self.num_instances,
            "AvailableInstanceCount": free,
            "InUseInstanceCount": in_use,
            "TargetResources": ["training-job"],
            "ReservedCapacitySummaries": [
                {
                    "ReservedCapacityArn": f"arn:aws:sagemaker:{self.region}:{ACCOUNT}:"
                    f"reserved-capacity/{self.name}",
                    "InstanceType": self.instance_type,
                    "TotalInstanceCount": self.num_instances,
                    "Status": status,
                    "AvailabilityZone": f"{self.region}a",
                    **times,
                }
            ],
            **times,
        }


@dataclass(slots=True, kw_only=True)
class FakePlans:
    """All plans by name, and what was offered.

    rate: US dollars of an instance-hour by type and region; None where none is published.
    """

    rate: Callable[[str, str], Decimal | None]
    plans: dict[str, FakePlan] = field(default_factory=dict)
    offered: dict[str, FakePlan] = field(default_factory=dict)

    def add(self, plan: FakePlan) -> None:
        """A plan that is there already."""
        self.plans[plan.name] = plan

    def find(self, name_or_arn: str) -> FakePlan:
        """The plan. Raises Refusal."""
        for plan in self.plans.values():
            if name_or_arn in (plan.name, plan.arn):
                return plan
        raise missing()

    def search(self, asked: Mapping[str, Any], region: str, now: datetime) -> dict[str, Any]:
        """SearchTrainingPlanOfferings: one that begins now and one that begins tomorrow."""
        kind, hours = asked["InstanceType"], int(asked["DurationHours"])
        count = int(asked.get("InstanceCount", 1))
        rate = self.rate(kind, region)
        found = []
        for wait_h in () if rate is None else WAITS_H:
            start = max(now, _time(asked.get("StartTimeAfter"), now)) + timedelta(hours=wait_h)
            end = (start + timedelta(hours=hours)).replace(
                hour=END_HOUR, minute=END_MINUTE, second=0, microsecond=0
            )
            if end < start + timedelta(hours=hours):
                end += timedelta(days=1)
            start = end - timedelta(hours=hours)
            # What is sold begins at once where it would have begun already.
            start = max(start, now)
            if end > _time(asked.get("EndTimeBefore"), end):
                continue
            fee = rate * count * hours if rate is not None else Decimal(0)
            text = f"{region}/{kind}/{count}/{start:%Y%m%dT%H}/{end:%Y%m%dT%H}"
            identity = f"tpo-{hashlib.sha256(text.encode()).hexdigest()[:17]}"
            self.offered[identity] = FakePlan(
                name=identity,
                region=region,
                instance_type=kind,
                num_instances=count,
                start_at=start,
                end_at=end,
                fee=f"{fee:.2f}",
            )
            found.append(_offering(identity, self.offered[identity], hours))
        return {"TrainingPlanOfferings": found}

    def create(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """CreateTrainingPlan. Raises Refusal."""
        name, identity = asked["TrainingPlanName"], asked["TrainingPlanOfferingId"]
        if name in self.plans:
            raise Refusal("ResourceInUse", f"A training plan named {name} already exists.")
        offered = self.offered.get(identity)
        if offered is None:
            raise Refusal("ResourceNotFound", f"Training plan offering {identity} is not found.")
        made = FakePlan(
            name=name,
            region=offered.region,
            instance_type=offered.instance_type,
            num_instances=offered.num_instances,
            start_at=offered.start_at,
            end_at=offered.end_at,
            fee=offered.fee,
        )
        self.add(made)
        return {"TrainingPlanArn": made.arn}


def _offering(identity: str, plan: FakePlan, hours: int) -> dict[str, Any]:
    times = {"StartTime": plan.start_at.timestamp(), "EndTime": plan.end_at.timestamp()}
    return {
        "TrainingPlanOfferingId": identity,
        "TargetResources": ["training-job"],
        "DurationHours": hours,
        "UpfrontFee": plan.fee,
        "CurrencyCode": "USD",
        "RequestedStartTimeAfter": plan.start_at.timestamp(),
        "ReservedCapacityOfferings": [
            {
                "InstanceType": plan.instance_type,
                "InstanceCount": plan.num_instances,
                "AvailabilityZone": f"{plan.region}a",
                "DurationHours": hours,
                **times,
            }
        ],
    }


def _time(value: Any, default: datetime) -> datetime:
    return default if value is None else datetime.fromtimestamp(float(value), UTC)
