"""Cost: billing by the second and by whole days, overheads, and the way back from a budget."""

from decimal import Decimal

import pytest

from advisor.catalog import find_instance, load_catalog
from advisor.cost import (
    BLOCK_DAYS,
    PLAN_DAYS,
    Cost,
    NotPurchasable,
    Overheads,
    Terms,
    affordable_training_s,
    assumptions,
    cost_of,
    deadline_training_s,
    terms_for,
)
from advisor.price import NoPrice
from advisor.workload import PricingKind

NONE = Overheads(start_up_s=0.0, failures_per_gpu_s=0.0)
DAY = 86400.0


def terms(
    instance: str, pricing: PricingKind, *, overheads: Overheads | None = None, usd: str = ""
) -> Terms:
    found = terms_for(
        load_catalog(),
        find_instance(instance),
        pricing,
        usd_per_instance_hour=Decimal(usd) if usd else None,
        overheads=overheads,
    )
    assert isinstance(found, Terms)
    return found


def bought(found: Cost | NotPurchasable) -> Cost:
    assert isinstance(found, Cost)
    return found


def test_seconds_are_paid_as_they_pass() -> None:
    cost = bought(
        cost_of(terms("p5", "custom", usd="36", overheads=NONE), num_instances=3, training_s=100.0)
    )
    assert cost.total_usd == Decimal("3.00")
    assert cost.days_reserved is None
    assert cost.num_instances_bought == 3
    assert cost.paid_hours == cost.hours == 100 / 3600


def test_a_started_day_is_paid_whole() -> None:
    plan = terms("p6-b200", "training_plan", overheads=NONE)
    cost = bought(cost_of(plan, num_instances=1, training_s=3600.0))
    assert (cost.days_reserved, cost.paid_hours, cost.hours) == (1, 24.0, 1.0)
    assert cost.total_usd == Decimal("2372.16")
    assert cost.parts_usd["idle"] == Decimal("2372.16") - Decimal("98.84")


def test_the_last_half_hour_of_a_block_cannot_be_used() -> None:
    plan = terms("p6-b200", "training_plan", overheads=NONE)
    assert bought(cost_of(plan, num_instances=1, training_s=DAY - 1800)).days_reserved == 1
    assert bought(cost_of(plan, num_instances=1, training_s=DAY - 1799)).days_reserved == 2


def test_two_segments_lose_two_ends_and_an_ultraserver_an_hour() -> None:
    split = Overheads(start_up_s=0.0, failures_per_gpu_s=0.0, num_segments=2)
    plan = terms("p6-b200", "training_plan", overheads=split)
    assert plan.usable_s(2) == 2 * DAY - 3600
    assert terms("p6e-gb200", "training_plan", overheads=NONE).usable_s(1) == DAY - 3600


def test_blocks_go_by_weeks_after_two_of_them() -> None:
    assert list(PLAN_DAYS) == list(range(1, 183))
    assert BLOCK_DAYS[12:16] == (13, 14, 21, 28)
    assert BLOCK_DAYS[-1] == 182
    fifteen = 14.5 * DAY
    plan = terms("p5", "training_plan", overheads=NONE)
    block = terms("p5", "capacity_block", overheads=NONE)
    assert bought(cost_of(plan, num_instances=1, training_s=fifteen)).days_reserved == 15
    assert bought(cost_of(block, num_instances=1, training_s=fifteen)).days_reserved == 21


def test_what_is_bought_and_not_used_is_idle() -> None:
    cost = bought(
        cost_of(
            terms("p5", "training_plan", overheads=NONE), num_instances=3, training_s=DAY - 1800
        )
    )
    assert cost.num_instances_bought == 4
    hours = Decimal(4 * 24) - Decimal("23.5") * 3
    assert abs(cost.parts_usd["idle"] - hours * Decimal("41.528")) < Decimal("0.02")
    assert any("4 instances are the fewest on sale for 3" in note for note in cost.notes)


def test_an_ultraserver_is_bought_whole() -> None:
    plan = terms("p6e-gb200", "training_plan", overheads=NONE)
    cost = bought(cost_of(plan, num_instances=16, training_s=3600.0))
    assert cost.num_instances_bought == 18
    assert cost.total_usd == Decimal("18285.70")
    assert any("1 of them spare" in note for note in cost.notes)


def test_what_is_not_sold_has_a_reason() -> None:
    plan = terms("p5", "training_plan")
    many = cost_of(plan, num_instances=65, training_s=1.0)
    assert isinstance(many, NotPurchasable)
    assert "65 instances" in many.reason
    long = cost_of(plan, num_instances=1, training_s=183 * DAY)
    assert isinstance(long, NotPurchasable)
    assert "182 days" in long.reason
    assert affordable_training_s(plan, num_instances=65, budget_usd=Decimal(10**9)) == 0.0
    assert deadline_training_s(plan, num_instances=65, deadline_hours=100.0) == 0.0
    found = terms_for(load_catalog(), find_instance("p5e"), "on_demand")
    assert isinstance(found, NoPrice)


def test_overheads_lengthen_the_wall_clock_by_their_law() -> None:
    overheads = Overheads(
        start_up_s=600.0,
        checkpoint_interval_s=3600.0,
        checkpoint_bytes_per_s=1e9,
        failures_per_gpu_s=1e-8,
    )
    cost = bought(
        cost_of(
            terms("p5", "on_demand", overheads=overheads),
            num_instances=2,
            training_s=7200.0,
            checkpoint_bytes=72 * 10**9,
        )
    )
    # One checkpoint waits 36 s; 16 GPUs fail 1.6e-7 times a second and lose 2,400 s each time.
    wall_s = 600 + 36 + 7200 * 1.01 * (1 + 1.6e-7 * 2400)
    assert cost.hours == pytest.approx(wall_s / 3600, rel=1e-12)
    assert cost.parts_usd["checkpoints"] == pytest.approx(
        Decimal("55.04") * 2 * (36 + 72) / 3600, abs=Decimal("0.01")
    )


def test_parts_sum_to_the_total() -> None:
    for pricing in ("training_plan", "on_demand"):
        cost = bought(
            cost_of(
                terms("p6-b200", pricing),
                num_instances=2,
                training_s=123456.7,
                checkpoint_bytes=10**11,
            )
        )
        assert sum(cost.parts_usd.values()) == cost.total_usd
        assert set(cost.parts_usd) == {"training", "start_up", "checkpoints", "failures", "idle"}
        assert min(cost.parts_usd.values()) >= 0


def test_more_gpus_fail_more_often() -> None:
    hours = [
        bought(cost_of(terms("p5", "on_demand"), num_instances=count, training_s=1e6)).hours
        for count in (1, 8, 64)
    ]
    assert hours == sorted(set(hours))


def test_a_budget_below_one_day_buys_nothing() -> None:
    plan = terms("p6-b200", "training_plan")
    assert affordable_training_s(plan, num_instances=1, budget_usd=Decimal("2372.15")) == 0.0
    assert affordable_training_s(plan, num_instances=1, budget_usd=Decimal("2372.16")) > 0.0


def test_a_deadline_leaves_the_overheads_out() -> None:
    assert deadline_training_s(
        terms("p5", "on_demand", overheads=NONE), num_instances=1, deadline_hours=2.0
    ) == pytest.approx(7200.0)
    plan = terms("p5", "training_plan", overheads=NONE)
    longest = deadline_training_s(plan, num_instances=1, deadline_hours=1e6)
    assert longest == 182 * DAY - 1800
    assert deadline_training_s(terms("p5", "on_demand"), num_instances=1, deadline_hours=0.1) == 0.0


def test_dollars_per_billion_tokens_and_json() -> None:
    cost = bought(cost_of(terms("p6-b200", "training_plan"), num_instances=1, training_s=3600.0))
    assert cost.usd_per_billion_tokens(4_000_000_000) == Decimal("593.04")
    shown = cost.as_mapping(4_000_000_000)
    assert shown["total_usd"] == 2372.16
    assert shown["usd_per_billion_tokens"] == 593.04
    assert shown["is_proxy"] is True
    assert shown["price_date"] == "2026-09-19"
    assert sum(shown["parts_usd"].values()) == pytest.approx(2372.16)


def test_spot_and_on_demand_say_what_they_leave_out() -> None:
    spot = bought(cost_of(terms("p6-b200", "spot"), num_instances=1, training_s=1.0))
    assert any("interruptions have no public model" in note for note in spot.notes)
    rate = bought(cost_of(terms("p5", "on_demand"), num_instances=1, training_s=1.0))
    assert any("63.296 USD per instance-hour" in note for note in rate.notes)
    rate = bought(cost_of(terms("p6-b200", "on_demand"), num_instances=1, training_s=1.0))
    assert any("no SageMaker on-demand rate" in note for note in rate.notes)


def test_assumptions_are_in_words() -> None:
    words = " ".join(assumptions(Overheads()))
    assert "10 minutes" in words
    assert "50,677 GPU-hours" in words
    assert "no failures" in assumptions(NONE)


def test_a_fraction_of_a_cent_in_the_budget_buys_nothing() -> None:
    # 36 USD an hour is a cent a second: 10.009 USD pay for 1,000.9 seconds, billed as 1,001.
    rate = terms("p5", "custom", usd="36", overheads=NONE)
    training_s = affordable_training_s(rate, num_instances=1, budget_usd=Decimal("10.009"))
    assert training_s == 1000.0
