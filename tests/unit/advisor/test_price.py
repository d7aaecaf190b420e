"""Rates: what is published, what stands in, what is not known."""

from decimal import Decimal

import pytest

from advisor.catalog import find_instance, load_catalog
from advisor.errors import InvalidField, UnknownName
from advisor.price import NoPrice, Quote, quote
from advisor.workload import PricingKind


def quoted(instance: str, pricing: PricingKind, region: str | None = None) -> Quote:
    found = quote(load_catalog(), find_instance(instance), pricing, region=region)
    assert isinstance(found, Quote)
    return found


def refused(instance: str, pricing: PricingKind, region: str | None = None) -> str:
    found = quote(load_catalog(), find_instance(instance), pricing, region=region)
    assert isinstance(found, NoPrice)
    return found.reason


def test_a_training_plan_is_priced_by_its_marked_proxy() -> None:
    plan, block = quoted("p6-b200", "training_plan"), quoted("p6-b200", "capacity_block")
    assert plan.usd_per_instance_hour == block.usd_per_instance_hour == Decimal("98.84")
    assert plan.is_proxy
    assert not block.is_proxy
    assert plan.kind == "training_plan"
    assert plan.retrieved == "2026-09-19"
    assert "Capacity Block rate read on 2026-09-19" in plan.notes[0]


def test_the_users_rate_replaces_the_proxy_but_not_the_rules() -> None:
    found = quote(
        load_catalog(),
        find_instance("p6-b200"),
        "training_plan",
        usd_per_instance_hour=Decimal("70.5"),
    )
    assert isinstance(found, Quote)
    assert (found.kind, found.usd_per_instance_hour) == ("training_plan", Decimal("70.5"))
    assert not found.is_proxy
    assert found.retrieved is None


def test_no_region_means_the_cheapest_in_the_united_states() -> None:
    assert quoted("p5", "capacity_block").region == "us-west-2"
    assert quoted("p5", "capacity_block").usd_per_instance_hour == Decimal("41.528")
    assert quoted("p5", "capacity_block", "eu-north-1").usd_per_instance_hour == Decimal("37.76")
    assert quoted("g6e", "on_demand").region == "us-east-1"


def test_a_region_has_its_own_rate() -> None:
    assert quoted("p5en", "on_demand", "eu-south-2").usd_per_instance_hour == Decimal("68.35968")


def test_a_source_without_a_region_says_so() -> None:
    spot = quoted("p6-b200", "spot")
    assert spot.region is None
    assert "the source names no region" in spot.notes


@pytest.mark.parametrize(
    ("instance", "pricing", "region", "reason"),
    [
        ("p5e", "on_demand", None, "no on-demand rate of p5e.48xlarge is published"),
        ("p6e-gb200", "spot", None, "no spot rate"),
        ("g6e", "training_plan", None, "not sold in SageMaker training plans"),
        ("g6e", "capacity_block", None, "not sold in Capacity Blocks"),
        ("p6-b200", "on_demand", "eu-north-1", "not known in eu-north-1"),
        ("p6-b200", "on_demand", "ap-south-1", "published for us-east-1, us-east-2, us-west-2"),
        ("p6-b200", "training_plan", "eu-north-1", "stand-in fails"),
    ],
)
def test_what_is_not_published_is_not_invented(
    instance: str, pricing: PricingKind, region: str | None, reason: str
) -> None:
    assert reason in refused(instance, pricing, region)


def test_an_unknown_region_is_an_error() -> None:
    with pytest.raises(UnknownName):
        quote(load_catalog(), find_instance("p5"), "on_demand", region="mars-1")


def test_custom_needs_a_rate_within_bounds() -> None:
    catalog, instance = load_catalog(), find_instance("p5")
    with pytest.raises(InvalidField):
        quote(catalog, instance, "custom")
    for usd in ("0", "-1", "NaN", "Infinity", "1e9"):
        with pytest.raises(InvalidField) as refusal:
            quote(catalog, instance, "custom", usd_per_instance_hour=Decimal(usd))
        assert refusal.value.field == "pricing.usd_per_instance_hour"
