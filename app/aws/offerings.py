"""Offerings: reservations that AWS would sell for a recommended run, with what each would cost."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from threading import Lock
from typing import Any

from advisor.catalog import Catalog
from advisor.cost import CENT, DAY_S, MAX_DAYS
from advisor.units import DAY_HOURS, HOUR_S, TOKENS_PER_BILLION
from app.aws.training_plans import (
    Clients,
    Segment,
    Window,
    asking_aws,
    dollars,
    end_margin_s,
    segment_json,
    windows,
)
from app.database import Database
from app.errors import Conflict, NotFound
from app.recommendations import stored

TARGET = "training-job"
# SageMaker developer guide: a plan starts at most 8 weeks ahead; what is searched ends a day or
# more after its start.
MAX_AHEAD = timedelta(weeks=8)
# How long the price of an offering is remembered for the one who confirms it.
MEMORY = timedelta(minutes=30)
MAX_REMEMBERED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person looks for: a plan for a candidate of a stored recommendation.

    duration_hours: None takes the predicted hours; either is rounded up to whole days.
    """

    recommendation_id: str
    candidate: int
    region: str
    start_after: datetime | None = None
    max_wait_hours: float | None = None
    duration_hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A candidate of a stored recommendation: what it takes, as it was predicted.

    slow_hours: at the lower end of the predicted speed's interval. cost: as in the recommendation.
    """

    instance_type: str
    num_instances: int
    num_tokens: int
    hours: float
    slow_hours: float
    cost: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What AWS is asked for. max_wait: offerings that start later are left out."""

    region: str
    instance_type: str
    num_instances: int
    days: int
    start_after: datetime
    max_wait: timedelta | None = None

    def as_request(self) -> dict[str, Any]:
        """The request of SearchTrainingPlanOfferings."""
        asked: dict[str, Any] = {
            "InstanceType": self.instance_type,
            "InstanceCount": self.num_instances,
            "DurationHours": self.days * DAY_HOURS,
            "StartTimeAfter": self.start_after,
            "TargetResources": [TARGET],
        }
        if self.max_wait is not None:
            # One day more: plans end at a fixed time of the day, whatever their length.
            asked["EndTimeBefore"] = (
                self.start_after + self.max_wait + timedelta(days=self.days + 1)
            )
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """A reservation that AWS offers. upfront_fee: AWS's own text; price_usd: None if not in USD."""

    id: str
    region: str
    instance_type: str
    num_instances: int
    segments: tuple[Segment, ...]
    upfront_fee: str
    currency: str

    @property
    def price_usd(self) -> Decimal | None:
        """The fee as an amount of US dollars; None when it is none."""
        return dollars(self.upfront_fee, self.currency)

    @property
    def paid_s(self) -> float:
        """Seconds that are paid."""
        return sum((each.end_at - each.start_at).total_seconds() for each in self.segments)

    def windows(self, now: datetime) -> tuple[Window, ...]:
        """The stretches of time that jobs can use."""
        return windows(self.segments, now, self.instance_type)


def run_of(content: Mapping[str, Any], candidate: int) -> Run:
    """A candidate of a stored answer: 0 is the best, then its alternatives. Raises NotFound."""
    best = content["best"]
    found = [] if best is None else [best, *content["alternatives"]]
    if not found:
        raise NotFound("the recommendation has no candidate: nothing meets what it was asked for")
    if not 0 <= candidate < len(found):
        raise NotFound(f"candidate: the recommendation has 0 to {len(found) - 1}, not {candidate}")
    chosen = found[candidate]
    speed = chosen["throughput"]
    hours = float(chosen["cost"]["hours"])
    return Run(
        instance_type=f"ml.{chosen['settings']['instance_type']}",
        num_instances=chosen["settings"]["num_instances"],
        num_tokens=chosen["num_tokens"],
        hours=hours,
        slow_hours=hours * speed["tokens_per_s"] / speed["interval_tokens_per_s"][0],
        cost=chosen["cost"],
    )


def offers_for(
    database: Database,
    clients: Clients,
    seen: "SeenOfferings",
    wish: Wish,
    *,
    catalog: Catalog,
    now: datetime,
) -> dict[str, Any]:
    """What AWS would sell for a candidate, beside the run. Remembers what it shows.

    Raises NotFound for an unknown recommendation or candidate, Conflict for what is not sold,
    AwsTrouble when AWS gives no answer.
    """
    with database.reading() as session:
        content = stored(session, wish.recommendation_id).content
    run = run_of(content, wish.candidate)
    search = search_for(run, wish, catalog=catalog, now=now)
    found = search_offerings(clients, search)
    seen.remember(found)
    return {
        "recommendation_id": wish.recommendation_id,
        "candidate": wish.candidate,
        "region": search.region,
        "instance_type": search.instance_type,
        "num_instances": search.num_instances,
        "duration_hours": search.days * DAY_HOURS,
        "predicted_hours": run.hours,
        "estimated_usd": run.cost["total_usd"],
        "offerings": [offering_json(each, run, now) for each in found],
    }


def search_for(run: Run, wish: Wish, *, catalog: Catalog, now: datetime) -> Search:
    """What to ask AWS for: whole days, and as many instances as are sold. Raises Conflict."""
    instance = catalog.instance(run.instance_type.removeprefix("ml."))
    if not instance.plan_eligible:
        raise Conflict(f"{instance.name} is not sold in training plans; choose another candidate")
    if instance.ultraserver_instances:
        raise Conflict(
            f"{instance.name} is sold in whole UltraServers: search for it in the AWS console"
        )
    bought = instance.reserved_count(run.num_instances)
    if bought is None:
        raise Conflict(
            f"a training plan has at most {instance.reservable_counts[-1]} instances; the run has "
            f"{run.num_instances}"
        )
    needed_s = end_margin_s(run.instance_type) + run.hours * HOUR_S
    if wish.duration_hours is not None:
        needed_s = wish.duration_hours * HOUR_S
    days = max(math.ceil(needed_s / DAY_S), 1)
    if days > MAX_DAYS:
        raise Conflict(
            f"a training plan has at most {MAX_DAYS} days; the run needs {days}: give "
            "duration_hours, and go on from the checkpoint in another plan"
        )
    begin = now if wish.start_after is None else max(now, wish.start_after)
    if begin > now + MAX_AHEAD:
        raise Conflict("start_after: training plans start at most 8 weeks ahead")
    return Search(
        region=wish.region,
        instance_type=run.instance_type,
        num_instances=bought,
        days=days,
        start_after=begin.astimezone(UTC),
        max_wait=None if wish.max_wait_hours is None else timedelta(hours=wish.max_wait_hours),
    )


def search_offerings(clients: Clients, search: Search) -> tuple[Offering, ...]:
    """What AWS offers now, soonest first; empty when it has nothing. Raises AwsTrouble."""
    with asking_aws(f"search training plans in {search.region}"):
        answer = clients.client("sagemaker", search.region).search_training_plan_offerings(
            **search.as_request()
        )
    found = (_offering(each, search) for each in answer.get("TrainingPlanOfferings", ()))
    kept = [
        each
        for each in found
        if each.segments
        and (
            search.max_wait is None
            or each.segments[0].start_at <= search.start_after + search.max_wait
        )
    ]
    return tuple(sorted(kept, key=lambda each: (each.segments[0].start_at, each.id)))


def _offering(entry: Mapping[str, Any], search: Search) -> Offering:
    segments = [
        Segment(
            start_at=each["StartTime"].astimezone(UTC),
            end_at=each["EndTime"].astimezone(UTC),
            availability_zone=str(each.get("AvailabilityZone") or ""),
            num_instances=each.get("InstanceCount") or search.num_instances,
        )
        for each in entry.get("ReservedCapacityOfferings", ())
        if each.get("StartTime") and each.get("EndTime")
    ]
    return Offering(
        id=str(entry["TrainingPlanOfferingId"]),
        region=search.region,
        instance_type=search.instance_type,
        num_instances=search.num_instances,
        segments=tuple(sorted(segments, key=lambda each: (each.start_at, each.end_at))),
        upfront_fee=str(entry.get("UpfrontFee") or ""),
        currency=str(entry.get("CurrencyCode") or ""),
    )


def offering_json(offering: Offering, run: Run, now: datetime) -> dict[str, Any]:
    """An offering beside the run: whether it fits, when it ends, what it costs with AWS's fee."""
    left = offering.windows(now)
    usable_s = sum(window.length_s for window in left)
    needed_s = run.hours * HOUR_S
    fits = usable_s >= needed_s
    price = offering.price_usd
    trained = run.num_tokens * min(usable_s / needed_s, 1.0)
    return {
        "offering_id": offering.id,
        "region": offering.region,
        "instance_type": offering.instance_type,
        "num_instances": offering.num_instances,
        "segments": [segment_json(each) for each in offering.segments],
        "upfront_fee": offering.upfront_fee,
        "currency": offering.currency,
        "total_usd": _number(price),
        "waiting_hours": max((offering.segments[0].start_at - now).total_seconds(), 0.0) / HOUR_S,
        "paid_hours": offering.paid_s / HOUR_S,
        "usable_hours": usable_s / HOUR_S,
        "usd_per_usable_hour": _rate(price, usable_s / HOUR_S),
        "usd_per_usable_instance_hour": _rate(price, usable_s / HOUR_S * offering.num_instances),
        "usd_per_billion_tokens": _rate(price, trained / TOKENS_PER_BILLION),
        "fits": "no" if not fits else "yes" if usable_s >= run.slow_hours * HOUR_S else "probably",
        "needs_checkpoints": len(left) > 1,
        "ends_at": _end(left, needed_s),
        "cost": _recosted(offering, run, price) if price is not None and fits else None,
    }


def _end(left: Sequence[Window], needed_s: float) -> str | None:
    """When the run would end; None when it does not fit."""
    for window in left:
        if needed_s <= window.length_s:
            return (window.start_at + timedelta(seconds=needed_s)).isoformat()
        needed_s -= window.length_s
    return None


def _recosted(offering: Offering, run: Run, price: Decimal) -> dict[str, Any]:
    """The candidate's cost, as in its recommendation, with AWS's fee instead of the estimate."""
    paid_hours = Decimal(str(offering.paid_s)) / HOUR_S
    per_hour = price / (paid_hours * offering.num_instances)
    scale = per_hour / _decimal(run.cost["usd_per_instance_hour"])
    parts = {
        name: _cents(_decimal(usd) * scale)
        for name, usd in run.cost["parts_usd"].items()
        if name != "idle"
    }
    parts["idle"] = price - sum(parts.values(), Decimal(0))
    return {
        "total_usd": _number(price),
        "usd_per_billion_tokens": _rate(price, run.num_tokens / TOKENS_PER_BILLION),
        "hours": run.hours,
        "paid_hours": float(paid_hours),
        "usd_per_instance_hour": _number(per_hour),
        "pricing": "training_plan",
        "region": offering.region,
        "price_source": f"offering {offering.id} of AWS",
        "is_proxy": False,
        "num_segments": len(offering.segments),
        "num_instances_bought": offering.num_instances,
        "parts_usd": {name: _number(usd) for name, usd in parts.items()},
        "estimated_usd": run.cost["total_usd"],
        "difference_usd": _number(price - _decimal(run.cost["total_usd"])),
    }


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))


def _cents(value: Decimal) -> Decimal:
    return value.quantize(CENT, rounding=ROUND_HALF_UP)


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(_cents(value))


def _rate(price: Decimal | None, amount: float) -> float | None:
    return None if price is None or amount <= 0 else _number(price / _decimal(amount))


class SeenOfferings:
    """The offerings that were shown lately: only those can be bought, at the price shown."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen: dict[tuple[str, str], tuple[Offering, datetime]] = {}

    def remember(self, offerings: Sequence[Offering]) -> None:
        """Keep what is about to be shown."""
        now = self._clock()
        with self._lock:
            for each in offerings:
                self._seen.pop((each.region, each.id), None)
                self._seen[each.region, each.id] = (each, now)
            while len(self._seen) > MAX_REMEMBERED:
                del self._seen[next(iter(self._seen))]

    def recall(self, region: str, identity: str) -> Offering | None:
        """The offering as it was shown; None when it was not, or too long ago."""
        with self._lock:
            found = self._seen.get((region, identity))
        if found is None or self._clock() - found[1] > MEMORY:
            return None
        return found[0]
