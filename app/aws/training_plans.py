"""Training plans: AWS's reservations as it reports them, and the time in them that can be used."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Protocol

from advisor.cost import BLOCK_END_MARGIN_S, ULTRASERVER_END_MARGIN_S
from app.errors import AppError, Conflict, ServiceUnavailable, shortened

Kind = Literal[
    "clock", "credentials", "denied", "missing", "taken", "limit", "throttled", "unreachable", "no"
]
MAX_MESSAGE = 500
# The API's own limit (botocore model, ListTrainingPlans).
PAGE_SIZE = 100
LIVE = ("Pending", "Scheduled", "Active")
_CLOCK = re.compile(r"RequestTimeTooSkewed|RequestInTheFuture|RequestExpired")
# SageMaker and STS tell a wrong clock as a wrong signature, in these words.
_CLOCK_WORDS = re.compile(r"signature (expired|not yet current)", re.IGNORECASE)
_CODES: Mapping[Kind, str] = {
    "credentials": "ExpiredToken ExpiredTokenException InvalidClientTokenId InvalidAccessKeyId "
    "UnrecognizedClientException SignatureDoesNotMatch InvalidSignatureException AuthFailure",
    "denied": "AccessDenied AccessDeniedException UnauthorizedOperation OptInRequired 403",
    "missing": "ResourceNotFound ResourceNotFoundException NoSuchResourceException NoSuchEntity "
    "NoSuchBucket InvalidSubnetID.NotFound InvalidSubnetID.Malformed InvalidGroup.NotFound "
    "InvalidGroupId.Malformed 404",
    "taken": "ResourceInUse",
    "limit": "ResourceLimitExceeded",
    "throttled": "Throttling ThrottlingException ThrottledException TooManyRequestsException "
    "RequestLimitExceeded SlowDown",
    "unreachable": "InternalFailure InternalServerError InternalError ServiceUnavailable "
    "ServiceUnavailableException ServiceException RequestTimeout",
}
_KINDS = {code: kind for kind, codes in _CODES.items() for code in codes.split()}
_OWN_WORDS: Mapping[Kind, str] = {
    "clock": "AWS refuses the time of the request: the clock of this machine is wrong. Set it "
    "(for example with NTP), then try again",
    "credentials": "AWS does not accept the credentials of this service: they are wrong, or have "
    "expired. Renew them, then try again",
    "throttled": "AWS asks for fewer calls; try again in a minute",
}


class Clients(Protocol):
    """Where boto3 clients come from."""

    def client(self, name: str, region: str | None = None) -> Any:
        """The client of one service of AWS."""
        ...


class AwsTrouble(AppError):
    """A call to AWS had no good end. kind: what sort of end; aws_code: AWS's own word, or "".

    503 for what may pass by itself, 409 for what somebody has to mend.
    """

    code = Conflict.code
    status = Conflict.status

    def __init__(self, kind: Kind, aws_code: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.aws_code = aws_code
        if kind in ("throttled", "unreachable"):
            self.code, self.status = ServiceUnavailable.code, ServiceUnavailable.status


@contextmanager
def asking_aws(doing: str) -> Iterator[None]:
    """Turn what boto3 raises into AwsTrouble. doing: words for people, such as "read the plan"."""
    from botocore.exceptions import (  # noqa: PLC0415 - installed only where AWS is used
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        PartialCredentialsError,
    )

    try:
        yield
    except ClientError as error:
        raise _told(error.response, doing) from None
    except (NoCredentialsError, PartialCredentialsError):
        message = "this service has no AWS credentials: give it a role or keys, and start it again"
        raise AwsTrouble("credentials", "", message) from None
    except BotoCoreError as error:
        # The error's own text has addresses in it, and at times more than that.
        name = type(error).__name__
        message = f"AWS gave no answer when asked to {doing} ({name}); try again later"
        raise AwsTrouble("unreachable", name, message) from None


def _told(response: Mapping[str, Any], doing: str) -> AwsTrouble:
    code = str(response.get("Error", {}).get("Code", ""))
    text = str(response.get("Error", {}).get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    kind = _KINDS.get(code, "unreachable" if status >= 500 else "no")
    if _CLOCK.search(code) or _CLOCK_WORDS.search(text):
        kind = "clock"
    elif kind == "no" and "not found" in text.lower():
        # Some calls say "Requested resource not found." as ValidationException.
        kind = "missing"
    if kind in _OWN_WORDS:
        return AwsTrouble(kind, code, f"{_OWN_WORDS[kind]} ({code})")
    if kind == "unreachable":
        message = f"AWS failed when asked to {doing} ({code}); try again later"
        return AwsTrouble(kind, code, message)
    words = "does not permit" if kind == "denied" else "refused"
    message = f"AWS {words} to {doing}: {code}: {text}"
    return AwsTrouble(kind, code, shortened(message, MAX_MESSAGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One reserved block of a training plan: its time, its zone, its instances."""

    start_at: datetime
    end_at: datetime
    availability_zone: str
    num_instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time in which jobs can run; ends before AWS begins to take the instances."""

    start_at: datetime
    end_at: datetime

    @property
    def length_s(self) -> float:
        """Seconds from start to end."""
        return (self.end_at - self.start_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """A reservation as AWS reports it. Counts are None where it does not say.

    upfront_fee: AWS's own text. targets: what the plan may be used for.
    """

    arn: str
    name: str
    status: str
    status_message: str
    region: str
    account: str
    instance_type: str
    num_total: int | None
    num_available: int | None
    num_in_use: int | None
    num_unhealthy: int | None
    segments: tuple[Segment, ...]
    targets: tuple[str, ...]
    upfront_fee: str
    currency: str

    @property
    def is_live(self) -> bool:
        """Whether jobs can still run in it, now or later."""
        return self.status in LIVE

    @property
    def num_free(self) -> int | None:
        """Instances that a job could get now."""
        if self.num_available is None:
            return None
        return max(self.num_available - (self.num_unhealthy or 0), 0)

    def windows(self, now: datetime) -> tuple[Window, ...]:
        """The stretches of time that are left for jobs, in order."""
        return windows(self.segments, now, self.instance_type) if self.is_live else ()

    def usable_s(self, now: datetime) -> float:
        """Seconds that are left for jobs."""
        return sum(window.length_s for window in self.windows(now))


def windows(segments: Sequence[Segment], now: datetime, instance_type: str) -> tuple[Window, ...]:
    """The time of segments that jobs can use from now on.

    Segments that overlap are parts of one block in several zones: a job that uses all of them has
    the time that they share.
    """
    margin = timedelta(seconds=end_margin_s(instance_type))
    blocks: list[tuple[datetime, datetime]] = []
    for segment in sorted(segments, key=lambda each: (each.start_at, each.end_at)):
        if blocks and segment.start_at < blocks[-1][1]:
            start, end = blocks.pop()
            blocks.append((max(start, segment.start_at), min(end, segment.end_at)))
        else:
            blocks.append((segment.start_at, segment.end_at))
    usable = (Window(start_at=max(now, start), end_at=end - margin) for start, end in blocks)
    return tuple(window for window in usable if window.length_s > 0)


def end_margin_s(instance_type: str) -> float:
    """Seconds before the end of a block from which AWS takes instances back (advisor.cost)."""
    is_ultraserver = instance_type.removeprefix("ml.").startswith("p6e-")
    return ULTRASERVER_END_MARGIN_S if is_ultraserver else BLOCK_END_MARGIN_S


def dollars(fee: str, currency: str) -> Decimal | None:
    """AWS's fee as US dollars; None when it is no amount, or of another currency."""
    if currency not in ("", "USD") or not re.fullmatch(r"\d{1,12}(\.\d{1,6})?", fee):
        return None
    return Decimal(fee)


def describe_plan(clients: Clients, name_or_arn: str, region: str) -> TrainingPlan:
    """One training plan. Raises AwsTrouble, of kind "missing" when there is none of this name."""
    with asking_aws(f"describe the training plan in {region}"):
        answer = clients.client("sagemaker", region).describe_training_plan(
            TrainingPlanName=name_or_arn
        )
    return plan_of(answer, region)


def list_plans(clients: Clients, region: str) -> tuple[TrainingPlan, ...]:
    """All training plans of the account in a region, live ones first. Raises AwsTrouble."""
    summaries: list[Mapping[str, Any]] = []
    with asking_aws(f"list the training plans in {region}"):
        client = clients.client("sagemaker", region)
        page = client.list_training_plans(MaxResults=PAGE_SIZE)
        seen: set[str] = set()
        while True:
            summaries += page.get("TrainingPlanSummaries", ())
            token = page.get("NextToken")
            if not token or token in seen:
                break
            seen.add(token)
            page = client.list_training_plans(MaxResults=PAGE_SIZE, NextToken=token)
    # Only DescribeTrainingPlan counts unhealthy instances, which matter while jobs can run.
    found = [
        describe_plan(clients, each["TrainingPlanArn"], region)
        if each.get("Status") in LIVE
        else plan_of(each, region)
        for each in summaries
    ]
    return tuple(sorted(found, key=_order))


def _order(plan: TrainingPlan) -> tuple[bool, datetime, str]:
    never = datetime.max.replace(tzinfo=UTC)
    return (not plan.is_live, plan.segments[0].start_at if plan.segments else never, plan.name)


def plan_of(answer: Mapping[str, Any], region: str) -> TrainingPlan:
    """The plan in an answer of DescribeTrainingPlan, or in an entry of ListTrainingPlans."""
    reserved = answer.get("ReservedCapacitySummaries") or ()
    arn = str(answer["TrainingPlanArn"])
    parts = arn.split(":")
    total = answer.get("TotalInstanceCount")
    return TrainingPlan(
        arn=arn,
        name=str(answer.get("TrainingPlanName") or arn.rpartition("/")[2]),
        status=str(answer.get("Status", "")),
        status_message=str(answer.get("StatusMessage") or ""),
        region=parts[3] if len(parts) > 4 and parts[3] else region,
        account=parts[4] if len(parts) > 4 else "",
        instance_type=next((str(each["InstanceType"]) for each in reserved), ""),
        num_total=total,
        num_available=answer.get("AvailableInstanceCount"),
        num_in_use=answer.get("InUseInstanceCount"),
        num_unhealthy=answer.get("UnhealthyInstanceCount"),
        segments=_segments(answer, reserved, total or 0),
        targets=tuple(answer.get("TargetResources") or ()),
        upfront_fee=str(answer.get("UpfrontFee") or ""),
        currency=str(answer.get("CurrencyCode") or ""),
    )


def _segments(
    answer: Mapping[str, Any], reserved: Sequence[Mapping[str, Any]], total: int
) -> tuple[Segment, ...]:
    found = [
        Segment(
            start_at=each["StartTime"].astimezone(UTC),
            end_at=each["EndTime"].astimezone(UTC),
            availability_zone=str(each.get("AvailabilityZone") or ""),
            num_instances=each.get("TotalInstanceCount") or total,
        )
        for each in reserved
        if each.get("StartTime") and each.get("EndTime")
    ]
    if not found and answer.get("StartTime") and answer.get("EndTime"):
        found = [
            Segment(
                start_at=answer["StartTime"].astimezone(UTC),
                end_at=answer["EndTime"].astimezone(UTC),
                availability_zone="",
                num_instances=total,
            )
        ]
    return tuple(sorted(found, key=lambda each: (each.start_at, each.end_at)))


def plan_json(plan: TrainingPlan, now: datetime) -> dict[str, Any]:
    """A plan for programs, with the time that is left in it."""
    left = plan.windows(now)
    return {
        "arn": plan.arn,
        "name": plan.name,
        "status": plan.status,
        "status_message": plan.status_message,
        "region": plan.region,
        "instance_type": plan.instance_type,
        "num_instances": plan.num_total,
        "num_available": plan.num_available,
        "num_in_use": plan.num_in_use,
        "num_unhealthy": plan.num_unhealthy,
        "num_free": plan.num_free if plan.is_live else 0,
        "target_resources": list(plan.targets),
        "upfront_fee": plan.upfront_fee,
        "currency": plan.currency,
        "segments": [segment_json(each) for each in plan.segments],
        "usable_s": plan.usable_s(now),
        "usable_until": left[-1].end_at.isoformat() if left else None,
    }


def segment_json(segment: Segment) -> dict[str, Any]:
    """A segment for programs."""
    return {
        "start_at": segment.start_at.isoformat(),
        "end_at": segment.end_at.isoformat(),
        "availability_zone": segment.availability_zone,
        "num_instances": segment.num_instances,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A segment as a box on a time line that is 1000 wide; usable: the part of it that is left."""

    x: float
    width: float
    usable_x: float
    usable_width: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """A plan's segments on a time line, and where now is on it (None: outside)."""

    stretches: tuple[Stretch, ...]
    now_x: float | None


def time_line(plan: TrainingPlan, now: datetime) -> TimeLine | None:
    """The drawing of a plan's segments; None when it has none."""
    if not plan.segments:
        return None
    first = plan.segments[0].start_at
    last = max(segment.end_at for segment in plan.segments)
    span_s = max((last - first).total_seconds(), 1.0)

    def place(at: datetime) -> float:
        return round(1000 * min(max((at - first).total_seconds() / span_s, 0.0), 1.0), 2)

    stretches = []
    for segment in plan.segments:
        left = windows([segment], now, plan.instance_type) if plan.is_live else ()
        begin, end = (left[0].start_at, left[0].end_at) if left else (first, first)
        stretches.append(
            Stretch(
                x=place(segment.start_at),
                width=round(place(segment.end_at) - place(segment.start_at), 2),
                usable_x=place(begin),
                usable_width=round(place(end) - place(begin), 2),
                text=f"{minute(segment.start_at)} to {minute(segment.end_at)}"
                f", {segment.num_instances} instances in {segment.availability_zone or 'a zone'}",
            )
        )
    return TimeLine(stretches=tuple(stretches), now_x=place(now) if first <= now <= last else None)


def minute(at: datetime) -> str:
    """A time for people, to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
