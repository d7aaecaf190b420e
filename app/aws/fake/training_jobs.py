"""FakeJobs: training jobs whose life is a function of the clock. Nothing is trained.

States and messages are SageMaker's own (API reference, DescribeTrainingJob); how long each lasts is
made up, so no figure of a job here is a measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from app.aws.fake.errors import Refusal, missing

ACCOUNT = "123456789012"
STARTING_S, DOWNLOADING_S, UPLOADING_S, STOPPING_S = 20.0, 10.0, 5.0, 10.0
_ENDS = {"MaxRuntimeExceeded": "Stopped"}


@dataclass(slots=True, kw_only=True)
class FakeJob:
    """One job. waits_until: the start of its reservation. failure: what it ends with, if that."""

    request: Mapping[str, Any]
    arn: str
    created_at: datetime
    waits_until: datetime | None = None
    train_s: float = 60.0
    failure: str | None = None
    stopped_at: datetime | None = None
    drops_plan: bool = False

    def phases(self) -> list[tuple[str, datetime]]:
        """Each state and when it begins; the last is for ever."""
        at, found = self.created_at, []
        if self.waits_until is not None and self.waits_until > at:
            found.append(("Pending", at))
            at = self.waits_until
        limit_s = float(self.request["StoppingCondition"]["MaxRuntimeInSeconds"])
        is_cut = self.train_s > limit_s
        for name, length_s in (
            ("Starting", STARTING_S),
            ("Downloading", DOWNLOADING_S),
            ("Training", min(self.train_s, limit_s)),
            ("Uploading", UPLOADING_S),
        ):
            found.append((name, at))
            at += timedelta(seconds=length_s)
        last = "Failed" if self.failure else "MaxRuntimeExceeded" if is_cut else "Completed"
        found.append((last, at))
        if self.stopped_at is not None and self.stopped_at < at:
            found = [each for each in found if each[1] < self.stopped_at]
            found.append(("Stopping", self.stopped_at))
            found.append(("Stopped", self.stopped_at + timedelta(seconds=STOPPING_S)))
        return found

    def state(self, now: datetime) -> str:
        """The secondary status now."""
        return [name for name, at in self.phases() if at <= now][-1]

    def is_over(self, now: datetime) -> bool:
        """Whether it has ended."""
        return self.phases()[-1][1] <= now

    def described(self, now: datetime) -> dict[str, Any]:
        """The answer of DescribeTrainingJob."""
        phases = [each for each in self.phases() if each[1] <= now]
        is_over, state = self.is_over(now), phases[-1][0]
        status = _ENDS.get(state, state) if is_over or state == "Stopping" else "InProgress"
        answer: dict[str, Any] = {
            key: value
            for key, value in self.request.items()
            if key not in ("Tags", "ResourceConfig", "ProfilerConfig")
        }
        resources = dict(self.request["ResourceConfig"])
        if self.drops_plan:
            resources.pop("TrainingPlanArn", None)
        answer |= {
            "ResourceConfig": resources,
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": status,
            "SecondaryStatus": state,
            "CreationTime": _seconds(self.created_at),
            "LastModifiedTime": _seconds(phases[-1][1]),
            "ModelArtifacts": {
                "S3ModelArtifacts": self.request["OutputDataConfig"]["S3OutputPath"]
            },
            "SecondaryStatusTransitions": _transitions(phases),
        }
        begun = next((at for name, at in phases if name == "Training"), None)
        if begun is not None:
            answer["TrainingStartTime"] = _seconds(begun)
        if is_over:
            answer["TrainingEndTime"] = _seconds(phases[-1][1])
            launched = next((at for name, at in phases if name == "Starting"), phases[-1][1])
            answer["BillableTimeInSeconds"] = max(
                1, int((phases[-1][1] - launched).total_seconds())
            )
        if is_over and self.failure:
            answer["FailureReason"] = self.failure
        return answer


@dataclass(slots=True, kw_only=True)
class FakeJobs:
    """All jobs by name. quota: instances that may be in use at once, of each type."""

    train_s: float = 60.0
    quota: int = 64
    failure: str | None = None
    drops_plan: bool = False
    jobs: dict[str, FakeJob] = field(default_factory=dict)

    def create(
        self, request: Mapping[str, Any], region: str, now: datetime, waits_until: datetime | None
    ) -> dict[str, Any]:
        """CreateTrainingJob. Raises Refusal."""
        name = request["TrainingJobName"]
        if name in self.jobs:
            raise Refusal("ResourceInUse", "Training job names must be unique within an account.")
        kind, wanted = (request["ResourceConfig"][key] for key in ("InstanceType", "InstanceCount"))
        if "TrainingPlanArn" not in request["ResourceConfig"]:
            in_use = self.in_use(now, instance_type=kind)
            if in_use + wanted > self.quota:
                raise Refusal(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{kind} for training job usage' is "
                    f"{self.quota} Instances, with current utilization of {in_use} Instances and a "
                    f"request delta of {wanted} Instances.",
                )
        arn = f"arn:aws:sagemaker:{region}:{ACCOUNT}:training-job/{name}"
        self.jobs[name] = FakeJob(
            request=request,
            arn=arn,
            created_at=now,
            waits_until=waits_until,
            train_s=self.train_s,
            failure=self.failure,
            drops_plan=self.drops_plan,
        )
        return {"TrainingJobArn": arn}

    def describe(self, name: str, now: datetime) -> dict[str, Any]:
        """DescribeTrainingJob. Raises Refusal."""
        return self._job(name).described(now)

    def stop(self, name: str, now: datetime) -> dict[str, Any]:
        """StopTrainingJob. Raises Refusal."""
        job = self._job(name)
        if job.is_over(now):
            raise Refusal(
                "ValidationException",
                f"The request was rejected because the training job is in status {job.state(now)}.",
            )
        if job.stopped_at is None:
            job.stopped_at = now
        return {}

    def in_use(
        self, now: datetime, *, plan_arn: str | None = None, instance_type: str | None = None
    ) -> int:
        """Instances of unfinished jobs: of a training plan, or on demand of one type."""
        resources = [
            job.request["ResourceConfig"] for job in self.jobs.values() if not job.is_over(now)
        ]
        return sum(
            each["InstanceCount"]
            for each in resources
            if each.get("TrainingPlanArn") == plan_arn
            and instance_type in (None, each["InstanceType"])
        )

    def _job(self, name: str) -> FakeJob:
        if name not in self.jobs:
            raise missing()
        return self.jobs[name]


def _transitions(phases: list[tuple[str, datetime]]) -> list[dict[str, Any]]:
    ends = [at for _, at in phases[1:]]
    found: list[dict[str, Any]] = [
        {"Status": name, "StartTime": _seconds(at), "StatusMessage": f"{name} (stand-in)"}
        for name, at in phases
    ]
    for each, end in zip(found, ends, strict=False):
        each["EndTime"] = _seconds(end)
    return found


def _seconds(at: datetime) -> float:
    return at.astimezone(UTC).timestamp()
