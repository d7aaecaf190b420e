"""The rate of one instance-hour, for a way of paying and a region; or why there is none."""

from dataclasses import dataclass
from decimal import Decimal

from advisor.catalog import MICRO_USD, Catalog, Price
from advisor.errors import InvalidField
from advisor.hardware import Instance
from advisor.workload import PricingKind

# Where no region is asked for: the cheapest in the United States, on a tie in this order.
DEFAULT_REGIONS = ("us-west-2", "us-east-1", "us-east-2", "us-west-1")
MAX_USD_PER_INSTANCE_HOUR = Decimal(1_000_000)

OWN_RATE_NOTE = "your own rate is billed by the second, on the instances that train"
RESERVED_KINDS: tuple[PricingKind, ...] = ("training_plan", "capacity_block")
_WORDS = {
    "on_demand": "on-demand",
    "capacity_block": "Capacity Block",
    "spot": "spot",
    "training_plan": "training plan",
    "custom": "custom",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One rate, with where and when it was read.

    is_proxy: the rate of something else that stands in, because this one is not published.
    retrieved: ISO date on which it was read; None for the user's own figure.
    region: None when neither the user nor the source names one.
    """

    kind: PricingKind
    usd_per_instance_hour: Decimal
    region: str | None
    is_proxy: bool
    source: str
    retrieved: str | None
    notes: tuple[str, ...]

    @property
    def micro_usd_per_instance_hour(self) -> int:
        return int(self.usd_per_instance_hour / MICRO_USD)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrice:
    """There is no rate: not sold this way, or not published. The reason is for people."""

    reason: str


def quote(
    catalog: Catalog,
    instance: Instance,
    pricing: PricingKind,
    *,
    region: str | None = None,
    usd_per_instance_hour: Decimal | None = None,
) -> Quote | NoPrice:
    """The rate of `instance`, or why there is none.

    usd_per_instance_hour: the user's own rate; it replaces the published one, the rules of the way
        of paying stay. Required with "custom".
    region: None takes the cheapest region in the United States that has a published rate.
    Raises UnknownName for a region of no instance type, InvalidField for a rate out of bounds.
    """
    region = None if region is None else catalog.region(region)
    if pricing == "training_plan" and not instance.plan_eligible:
        return NoPrice(reason=f"{instance.name} is not sold in SageMaker training plans")
    if pricing == "capacity_block" and not instance.reservable_counts:
        return NoPrice(reason=f"{instance.name} is not sold in Capacity Blocks")
    if usd_per_instance_hour is not None:
        return _own(pricing, usd_per_instance_hour, region)
    if pricing == "custom":
        raise InvalidField("pricing.usd_per_instance_hour", "is needed with your own price")
    if pricing == "training_plan":
        return _proxy(_published(catalog, instance, "capacity_block", region), instance)
    return _published(catalog, instance, pricing, region)


def sagemaker_on_demand(catalog: Catalog, instance: Instance) -> str:
    """How the rate of a managed on-demand training job differs from EC2's, in words."""
    for price in catalog.prices:
        if price.instance == instance.name and price.kind == "sagemaker_on_demand":
            return (
                "EC2 rate; a SageMaker on-demand training job is "
                f"{price.usd_per_instance_hour} USD per instance-hour "
                f"({', '.join(price.regions)}, read on {price.retrieved})"
            )
    return (
        f"EC2 rate; no SageMaker on-demand rate of {instance.name} is published "
        "(it is above EC2's where one is)"
    )


def _own(pricing: PricingKind, usd: Decimal, region: str | None) -> Quote:
    if not usd.is_finite() or not MICRO_USD <= usd <= MAX_USD_PER_INSTANCE_HOUR:
        raise InvalidField(
            "pricing.usd_per_instance_hour",
            f"must be between {MICRO_USD:f} and {MAX_USD_PER_INSTANCE_HOUR:,}, got {usd}",
        )
    return Quote(
        kind=pricing,
        usd_per_instance_hour=usd.quantize(MICRO_USD),
        region=region,
        is_proxy=False,
        source="your own figure",
        retrieved=None,
        notes=(OWN_RATE_NOTE,) if pricing == "custom" else (),
    )


def _proxy(found: Quote | NoPrice, instance: Instance) -> Quote | NoPrice:
    """The Capacity Block rate in place of the training plan's, which AWS does not publish."""
    if isinstance(found, NoPrice):
        return NoPrice(
            reason=f"no rate of training plans is published, and the stand-in fails: {found.reason}"
        )
    note = (
        f"no rate of SageMaker training plans is published for {instance.name}: this is the "
        f"Capacity Block rate read on {found.retrieved}; the offering that AWS shows you decides"
    )
    return Quote(
        kind="training_plan",
        usd_per_instance_hour=found.usd_per_instance_hour,
        region=found.region,
        is_proxy=True,
        source=found.source,
        retrieved=found.retrieved,
        notes=(note, *found.notes),
    )


def _published(
    catalog: Catalog, instance: Instance, kind: PricingKind, region: str | None
) -> Quote | NoPrice:
    prices = [p for p in catalog.prices if p.instance == instance.name and p.kind == kind]
    if not prices:
        return NoPrice(reason=f"no {_WORDS[kind]} rate of {instance.name} is published")
    if region is not None and region not in instance.regions:
        known = ", ".join(instance.regions)
        return NoPrice(reason=f"{instance.name} is not known in {region} (known in {known})")
    tiers = _default_places(instance) if region is None else ((region,),)
    for places in tiers:
        offers = [(price, place) for place in places for price in prices if price.covers(place)]
        if offers:
            # min keeps the first of equals, so the order of the places breaks ties.
            price, place = min(offers, key=lambda offer: offer[0].usd_per_instance_hour)
            return _quote_of(price, kind, place if price.regions else region)
    named = ", ".join(sorted({name for price in prices for name in price.regions}))
    return NoPrice(
        reason=f"no {_WORDS[kind]} rate of {instance.name} in {region or 'its regions'} is "
        f"published (published for {named})"
    )


def _quote_of(price: Price, kind: PricingKind, place: str | None) -> Quote:
    unnamed = "" if price.regions else "the source names no region"
    return Quote(
        kind=kind,
        usd_per_instance_hour=price.usd_per_instance_hour,
        region=place,
        is_proxy=False,
        source=price.source,
        retrieved=price.retrieved,
        notes=tuple(text for text in (price.note, unnamed) if text),
    )


def _default_places(instance: Instance) -> tuple[tuple[str, ...], ...]:
    """Where to look when no region is asked for: the United States first, then anywhere."""
    american = tuple(region for region in DEFAULT_REGIONS if region in instance.regions)
    return american, instance.regions
