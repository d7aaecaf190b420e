"""What a run costs: hours with their overheads, what must be bought, and US dollars.

Two ways of billing:
- by the second (on-demand, spot, the user's own rate): wall-clock seconds × instances × rate;
- whole days, paid up front (Capacity Blocks, training plans): only certain instance counts and day
  counts are sold, and the last minutes of each block cannot be used.

Wall clock is linear in the seconds of steady training:
    wall = start-up + last checkpoint + training × (1 + checkpoint/interval) × (1 + failures)
    failures = failures per GPU-second × GPUs × (interval / 2 + restart)
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any

from advisor.catalog import Catalog
from advisor.hardware import Instance
from advisor.price import RESERVED_KINDS, NoPrice, Quote, quote, sagemaker_on_demand
from advisor.units import DAY_HOURS, HOUR_S, TOKENS_PER_BILLION
from advisor.workload import PricingKind

DAY_S = DAY_HOURS * HOUR_S
CENT = Decimal("0.01")
_ZERO = Decimal("0.00")
MICRO_PER_USD = 1_000_000
MAX_DAYS = 182
# SageMaker developer guide, training plans: 1 to 182 days in steps of one day.
PLAN_DAYS = tuple(range(1, MAX_DAYS + 1))
# EC2 user guide, Capacity Blocks: 1 to 14 days, then multiples of 7 days up to 182.
BLOCK_DAYS = (*range(1, 15), *range(21, MAX_DAYS + 1, 7))
# AWS starts to end instances 30 minutes before a block ends, in an UltraServer 60 minutes (EC2
# user guide, Capacity Blocks; SageMaker developer guide, training plans).
BLOCK_END_MARGIN_S = 1800.0
ULTRASERVER_END_MARGIN_S = 3600.0
# Llama Team 2024 (arXiv:2407.21783), section 3.3.4: 419 unexpected interruptions in 54 days of
# 16,384 H100 GPUs, so one in about 50,700 GPU-hours.
FAILURES_PER_GPU_S = 419 / (54 * DAY_S * 16_384)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What a run takes beside steady training. The defaults are assumptions, except the failures.

    start_up_s: launch of the instances, image pull, process start, compilation; also per restart.
    checkpoint_interval_s: seconds of training between two checkpoints.
    checkpoint_bytes_per_s: write bandwidth of one instance while training waits. 2 GB/s is just
        below the storage bandwidth (EBS, 19 Gbit/s) of the slowest instance type here, p4d.
    failures_per_gpu_s: unexpected interruptions per GPU and second (see FAILURES_PER_GPU_S).
    num_segments: blocks that a reservation consists of; each loses its last minutes.
    """

    start_up_s: float = 600.0
    checkpoint_interval_s: float = 3600.0
    checkpoint_bytes_per_s: float = 2e9
    failures_per_gpu_s: float = FAILURES_PER_GPU_S
    num_segments: int = 1

    @property
    def lost_per_failure_s(self) -> float:
        """Half a checkpoint interval is trained again, and the job starts again."""
        return self.checkpoint_interval_s / 2 + self.start_up_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How one instance type is paid for: rate, billing rules, overheads, a remark for people."""

    instance: Instance
    quote: Quote
    overheads: Overheads
    remark: str = ""

    @property
    def whole_days(self) -> bool:
        return self.quote.kind in RESERVED_KINDS

    @property
    def day_choices(self) -> tuple[int, ...]:
        """Days that can be bought, ascending."""
        return BLOCK_DAYS if self.quote.kind == "capacity_block" else PLAN_DAYS

    @property
    def end_margin_s(self) -> float:
        """Seconds at the ends of a reservation's blocks that are paid and cannot be used."""
        one = (
            ULTRASERVER_END_MARGIN_S if self.instance.ultraserver_instances else BLOCK_END_MARGIN_S
        )
        return one * self.overheads.num_segments

    def usable_s(self, days: int) -> float:
        """Seconds of a reservation of so many days in which instances run."""
        return days * DAY_S - self.end_margin_s

    def bought(self, num_instances: int) -> int | None:
        """Instances to pay for so that num_instances train; None when so many are not sold."""
        if not self.whole_days:
            return num_instances
        return self.instance.reserved_count(num_instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Wall clock as a line in the seconds of steady training: wall = fixed + slope × training."""

    fixed_s: float
    slope: float

    def wall_s(self, training_s: float) -> float:
        return self.fixed_s + self.slope * training_s

    def training_s(self, wall_s: float) -> float:
        """The most training whose wall clock is at most wall_s; 0 when there is no room."""
        training_s = max((wall_s - self.fixed_s) / self.slope, 0.0)
        # Rounding may have put it one unit in the last place too high.
        while training_s > 0.0 and self.wall_s(training_s) > wall_s:
            training_s = math.nextafter(training_s, 0.0)
        return training_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run costs.

    total_usd and parts_usd are in whole cents; the parts (training, start_up, checkpoints,
        failures, idle) sum to the total. idle is what is paid and not used: the rest of the last
        day, the minutes before each block's end, and instances bought beyond those that train.
    hours: wall clock with the overheads. paid_hours: hours paid per bought instance.
    days_reserved: None when billed by the second.
    price_date: ISO date on which the rate was read; None for the user's own.
    """

    total_usd: Decimal
    hours: float
    paid_hours: float
    usd_per_instance_hour: Decimal
    pricing: PricingKind
    region: str | None
    price_source: str
    price_date: str | None
    is_proxy: bool
    days_reserved: int | None
    num_segments: int
    num_instances: int
    num_instances_bought: int
    parts_usd: Mapping[str, Decimal]
    notes: tuple[str, ...]

    def usd_per_billion_tokens(self, num_tokens: int) -> Decimal:
        """US dollars per 1e9 trained tokens, to the cent."""
        return _cents(self.total_usd * TOKENS_PER_BILLION / num_tokens)

    def as_mapping(self, num_tokens: int) -> dict[str, Any]:
        """Ready for JSON: dollars as numbers of whole cents, with usd_per_billion_tokens."""
        return {
            "total_usd": float(self.total_usd),
            "usd_per_billion_tokens": float(self.usd_per_billion_tokens(num_tokens)),
            "hours": self.hours,
            "paid_hours": self.paid_hours,
            "usd_per_instance_hour": float(self.usd_per_instance_hour),
            "pricing": self.pricing,
            "region": self.region,
            "price_source": self.price_source,
            "price_date": self.price_date,
            "is_proxy": self.is_proxy,
            "days_reserved": self.days_reserved,
            "num_segments": self.num_segments,
            "num_instances_bought": self.num_instances_bought,
            "parts_usd": {name: float(usd) for name, usd in self.parts_usd.items()},
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPurchasable:
    """What the run needs is not sold. The reason is for people."""

    reason: str


def terms_for(
    catalog: Catalog,
    instance: Instance,
    pricing: PricingKind,
    *,
    region: str | None = None,
    usd_per_instance_hour: Decimal | None = None,
    overheads: Overheads | None = None,
) -> Terms | NoPrice:
    """How `instance` is paid for, or why it has no price (see advisor.price.quote)."""
    found = quote(
        catalog, instance, pricing, region=region, usd_per_instance_hour=usd_per_instance_hour
    )
    if isinstance(found, NoPrice):
        return found
    published = pricing == "on_demand" and usd_per_instance_hour is None
    remark = sagemaker_on_demand(catalog, instance) if published else ""
    return Terms(instance=instance, quote=found, overheads=overheads or Overheads(), remark=remark)


def checkpoint_s(terms: Terms, *, num_instances: int, checkpoint_bytes: int) -> float:
    """Seconds that training waits for one checkpoint, written by all instances at once."""
    return checkpoint_bytes / (terms.overheads.checkpoint_bytes_per_s * num_instances)


def failure_fraction(terms: Terms, *, num_instances: int) -> float:
    """Seconds lost to failures per second of training and checkpoints."""
    num_gpus = num_instances * terms.instance.num_gpus
    return terms.overheads.failures_per_gpu_s * num_gpus * terms.overheads.lost_per_failure_s


def stretch(terms: Terms, *, num_instances: int, checkpoint_bytes: int) -> Stretch:
    """Wall clock of a run on num_instances as a line in its training seconds."""
    one = checkpoint_s(terms, num_instances=num_instances, checkpoint_bytes=checkpoint_bytes)
    checkpoints = 1.0 + one / terms.overheads.checkpoint_interval_s
    failures = 1.0 + failure_fraction(terms, num_instances=num_instances)
    return Stretch(fixed_s=terms.overheads.start_up_s + one, slope=checkpoints * failures)


def cost_of(
    terms: Terms, *, num_instances: int, training_s: float, checkpoint_bytes: int = 0
) -> Cost | NotPurchasable:
    """The cost of training for training_s seconds of steady steps on num_instances.

    checkpoint_bytes: bytes of one checkpoint of the whole model. Returns NotPurchasable when so
    many instances or days are not sold.
    """
    bought = terms.bought(num_instances)
    if bought is None:
        return NotPurchasable(reason=_too_many(terms, num_instances))
    line = stretch(terms, num_instances=num_instances, checkpoint_bytes=checkpoint_bytes)
    wall_s = line.wall_s(training_s)
    days = None
    if terms.whole_days:
        days = days_to_buy(terms, wall_s)
        if days is None:
            return NotPurchasable(
                reason=f"the run takes {wall_s / DAY_S:,.1f} days; reservations end at "
                f"{terms.day_choices[-1]} days"
            )
    paid_s = days * DAY_S if days is not None else math.ceil(wall_s)
    quoted = terms.quote
    total = _cents(quoted.usd_per_instance_hour * bought * paid_s / HOUR_S)
    return Cost(
        total_usd=total,
        hours=wall_s / HOUR_S,
        paid_hours=paid_s / HOUR_S,
        usd_per_instance_hour=quoted.usd_per_instance_hour,
        pricing=quoted.kind,
        region=quoted.region,
        price_source=quoted.source,
        price_date=quoted.retrieved,
        is_proxy=quoted.is_proxy,
        days_reserved=days,
        num_segments=terms.overheads.num_segments if days is not None else 1,
        num_instances=num_instances,
        num_instances_bought=bought,
        parts_usd=_parts(terms, total, num_instances, training_s, checkpoint_bytes),
        notes=notes(terms, num_instances=num_instances, bought=bought),
    )


def days_to_buy(terms: Terms, wall_s: float) -> int | None:
    """The fewest days on sale that hold wall_s; None when none do."""
    choices = terms.day_choices
    index = bisect_left(choices, (wall_s + terms.end_margin_s) / DAY_S)
    return choices[index] if index < len(choices) else None


def affordable_training_s(
    terms: Terms, *, num_instances: int, budget_usd: Decimal, checkpoint_bytes: int = 0
) -> float:
    """The most seconds of steady training on num_instances that budget_usd pays for.

    0 when it pays for none, or when so many instances are not sold. The cost of the answer is at
    most the budget; by the second two seconds more exceed it, in whole days any more does (unless
    the longest reservation is the limit).
    """
    bought = terms.bought(num_instances)
    if bought is None:
        return 0.0
    budget_micro = int(budget_usd.quantize(CENT, rounding=ROUND_DOWN) * MICRO_PER_USD)
    hour_micro = terms.quote.micro_usd_per_instance_hour * bought
    line = stretch(terms, num_instances=num_instances, checkpoint_bytes=checkpoint_bytes)
    if not terms.whole_days:
        return line.training_s(budget_micro * HOUR_S // hour_micro)
    index = bisect_right(terms.day_choices, budget_micro // (hour_micro * DAY_HOURS))
    return line.training_s(terms.usable_s(terms.day_choices[index - 1])) if index else 0.0


def deadline_training_s(
    terms: Terms, *, num_instances: int, deadline_hours: float, checkpoint_bytes: int = 0
) -> float:
    """The most seconds of steady training that end within deadline_hours of wall clock.

    Counted from the start of the instances; a reservation that starts later is not in it. 0 when
    there is no room, or when so many instances are not sold.
    """
    if terms.bought(num_instances) is None:
        return 0.0
    wall_s = deadline_hours * HOUR_S
    if terms.whole_days:
        wall_s = min(wall_s, terms.usable_s(terms.day_choices[-1]))
    line = stretch(terms, num_instances=num_instances, checkpoint_bytes=checkpoint_bytes)
    return line.training_s(wall_s)


def notes(terms: Terms, *, num_instances: int, bought: int) -> tuple[str, ...]:
    """What the reader of a price should know, in sentences without a full stop."""
    found = list(terms.quote.notes)
    if terms.remark:
        found.append(terms.remark)
    if terms.quote.kind == "spot":
        found.append(
            "spot prices change by the hour; interruptions have no public model and are left out"
        )
    if bought != num_instances:
        spares = terms.instance.spares(bought)
        words = f", {spares} of them spare" if spares else ""
        found.append(f"{bought} instances are the fewest on sale for {num_instances}{words}")
    return tuple(found)


def assumptions(overheads: Overheads) -> tuple[str, ...]:
    """The overheads in words, each with its reference or marked as ours."""
    gpu_hours = 1 / (overheads.failures_per_gpu_s * HOUR_S) if overheads.failures_per_gpu_s else 0
    failures = (
        f"one failure in {gpu_hours:,.0f} GPU-hours loses {overheads.lost_per_failure_s / 60:g} "
        "minutes (half a checkpoint interval and a restart); default rate: 419 unexpected "
        "interruptions in 54 days of 16,384 GPUs (arXiv:2407.21783, section 3.3.4)"
        if gpu_hours
        else "no failures"
    )
    return (
        f"start-up takes {overheads.start_up_s / 60:g} minutes (our assumption)",
        f"a checkpoint every {overheads.checkpoint_interval_s / 60:g} minutes, written at "
        f"{overheads.checkpoint_bytes_per_s / 1e9:g} GB/s per instance while training waits "
        "(our assumption)",
        failures,
    )


def _parts(
    terms: Terms, total: Decimal, num_instances: int, training_s: float, checkpoint_bytes: int
) -> Mapping[str, Decimal]:
    """The total by what it pays for, in whole cents, summing to the total."""
    usd_per_s = terms.quote.usd_per_instance_hour * num_instances / HOUR_S
    one = checkpoint_s(terms, num_instances=num_instances, checkpoint_bytes=checkpoint_bytes)
    interval = terms.overheads.checkpoint_interval_s
    periodic_s = training_s * one / interval
    seconds = {
        "training": training_s,
        "start_up": terms.overheads.start_up_s,
        "checkpoints": one + periodic_s,
        "failures": failure_fraction(terms, num_instances=num_instances)
        * (training_s + periodic_s),
    }
    usd = {name: _cents(usd_per_s * Decimal(value)) for name, value in seconds.items()}
    # By the second nothing is idle: what is left is the last second's rounding.
    usd["idle"] = max(total - sum(usd.values()), _ZERO) if terms.whole_days else _ZERO
    usd[max(usd, key=lambda name: usd[name])] += total - sum(usd.values())
    return MappingProxyType(usd)


def _too_many(terms: Terms, num_instances: int) -> str:
    counts = terms.instance.reservable_counts
    return (
        f"{num_instances} instances of {terms.instance.name} are more than one reservation can "
        f"train on (sold in {', '.join(map(str, counts))})"
    )


def _cents(usd: Decimal) -> Decimal:
    return usd.quantize(CENT, rounding=ROUND_HALF_UP)
