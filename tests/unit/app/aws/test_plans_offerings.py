"""Offerings of AWS beside a recommended run: what to ask for, what each costs, what fits."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from advisor.catalog import load_catalog
from app.aws.offerings import (
    Offering,
    Run,
    SeenOfferings,
    Wish,
    offering_json,
    run_of,
    search_for,
    search_offerings,
)
from app.aws.training_plans import Segment
from app.errors import Conflict, NotFound

NOW = datetime(2026, 12, 4, 12, tzinfo=UTC)
WISH = Wish(recommendation_id="r", candidate=0, region="us-west-2")
COST = {
    "total_usd": 4744.32,
    "hours": 40.0,
    "usd_per_instance_hour": 98.84,
    "parts_usd": {"training": 3900.0, "start_up": 33.6, "failures": 20.0, "idle": 790.72},
}
RUN = Run(
    instance_type="ml.p6-b200.48xlarge",
    num_instances=1,
    num_tokens=20 * 10**9,
    hours=40.0,
    slow_hours=50.0,
    cost=COST,
)


def at(hours: float) -> datetime:
    return NOW + timedelta(hours=hours)


def offering(*times: tuple[float, float], fee: str = "5000.00", count: int = 1) -> Offering:
    return Offering(
        id="tpo-1",
        region="us-west-2",
        instance_type="ml.p6-b200.48xlarge",
        num_instances=count,
        segments=tuple(
            Segment(
                start_at=at(start), end_at=at(end), availability_zone="us-west-2a", num_instances=1
            )
            for start, end in times
        ),
        upfront_fee=fee,
        currency="USD",
    )


@pytest.mark.parametrize(
    ("hours", "days"), [(40.0, 2), (47.5, 2), (47.6, 3), (1.0, 1), (24 * 182 - 0.5, 182)]
)
def test_whole_days_that_hold_the_run_and_the_time_aws_takes(hours: float, days: int) -> None:
    search = search_for(replace(RUN, hours=hours), WISH, catalog=load_catalog(), now=NOW)
    assert search.days == days
    assert search.as_request() == {
        "InstanceType": "ml.p6-b200.48xlarge",
        "InstanceCount": 1,
        "DurationHours": days * 24,
        "StartTimeAfter": NOW,
        "TargetResources": ["training-job"],
    }


def test_a_length_of_ones_own_is_rounded_up_to_days() -> None:
    wish = replace(WISH, duration_hours=25)
    assert search_for(RUN, wish, catalog=load_catalog(), now=NOW).days == 2


@pytest.mark.parametrize(("asked", "sold"), [(1, 1), (3, 4), (5, 8), (64, 64)])
def test_quantities_are_powers_of_two(asked: int, sold: int) -> None:
    run = replace(RUN, num_instances=asked)
    assert search_for(run, WISH, catalog=load_catalog(), now=NOW).num_instances == sold


@pytest.mark.parametrize(
    ("run", "wish", "said"),
    [
        (replace(RUN, num_instances=65), WISH, "at most 64 instances; the run has 65"),
        (replace(RUN, hours=5000), WISH, "at most 182 days; the run needs 209"),
        (replace(RUN, instance_type="ml.g6e.48xlarge"), WISH, "not sold in training plans"),
        (replace(RUN, instance_type="ml.p6e-gb200.36xlarge"), WISH, "whole UltraServers"),
        (RUN, replace(WISH, start_after=at(24 * 57)), "8 weeks"),
        # No such time exists in UTC.
        (
            RUN,
            replace(WISH, start_after=datetime.fromisoformat("9999-12-31T23:59:59-14:00")),
            "8 weeks",
        ),
    ],
)
def test_what_is_not_sold(run: Run, wish: Wish, said: str) -> None:
    with pytest.raises(Conflict, match=said):
        search_for(run, wish, catalog=load_catalog(), now=NOW)


def test_a_start_in_the_past_is_now() -> None:
    wish = replace(WISH, start_after=at(-5), max_wait_hours=10)
    search = search_for(RUN, wish, catalog=load_catalog(), now=NOW)
    assert search.start_after == NOW
    assert search.as_request()["EndTimeBefore"] == at(10 + 3 * 24)


@dataclass(slots=True)
class Shop:
    """SageMaker that offers two plans."""

    asked: list[dict[str, Any]] = field(default_factory=list)

    def client(self, name: str, region: str | None = None) -> "Shop":
        assert (name, region) == ("sagemaker", "us-west-2")
        return self

    def search_training_plan_offerings(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return {
            "TrainingPlanOfferings": [
                {
                    "TrainingPlanOfferingId": identity,
                    "UpfrontFee": "5000.00",
                    "CurrencyCode": "USD",
                    "ReservedCapacityOfferings": [
                        {"StartTime": at(start), "EndTime": at(start + 48), "InstanceCount": 1}
                    ],
                }
                for identity, start in (("tpo-late", 100), ("tpo-soon", 2))
            ]
        }


def test_what_starts_too_late_is_left_out() -> None:
    search = search_for(RUN, WISH, catalog=load_catalog(), now=NOW)
    assert [each.id for each in search_offerings(Shop(), search)] == ["tpo-soon", "tpo-late"]
    patient = replace(search, max_wait=timedelta(hours=99))
    assert [each.id for each in search_offerings(Shop(), patient)] == ["tpo-soon"]


def test_an_offering_beside_the_run() -> None:
    shown = offering_json(offering((10, 58)), RUN, NOW)
    assert shown["total_usd"] == 5000.0
    assert (shown["waiting_hours"], shown["paid_hours"], shown["usable_hours"]) == (10, 48, 47.5)
    assert shown["usd_per_usable_hour"] == 105.26
    assert shown["usd_per_billion_tokens"] == 250.0
    # 40 hours fit into 47.5, the 50 of the slow end do not.
    assert shown["fits"] == "probably"
    assert shown["needs_checkpoints"] is False
    assert shown["ends_at"] == at(50).isoformat()
    assert offering_json(offering((10, 61)), RUN, NOW)["fits"] == "yes"


def test_the_real_fee_replaces_the_estimate() -> None:
    cost = offering_json(offering((10, 58)), RUN, NOW)["cost"]
    assert cost["usd_per_instance_hour"] == 104.17
    assert cost["difference_usd"] == 255.68
    assert cost["estimated_usd"] == 4744.32
    assert sum(Decimal(str(usd)) for usd in cost["parts_usd"].values()) == Decimal("5000.00")
    # 3900 USD at 98.84 an hour are 4110.18 at 5000/48.
    assert cost["parts_usd"]["training"] == 4110.18
    assert cost["is_proxy"] is False


def test_two_segments_need_checkpoints() -> None:
    shown = offering_json(offering((0, 24), (48, 72)), RUN, NOW)
    assert (shown["usable_hours"], shown["needs_checkpoints"]) == (47.0, True)
    assert shown["ends_at"] == at(48 + 40 - 23.5).isoformat()


def test_a_run_that_does_not_fit() -> None:
    shown = offering_json(offering((0, 20.5), fee="2000.00"), RUN, NOW)
    assert (shown["fits"], shown["ends_at"], shown["cost"]) == ("no", None, None)
    # Half of the tokens are trained in half of the hours.
    assert shown["usd_per_billion_tokens"] == 200.0


def test_a_price_in_another_currency_is_not_made_up() -> None:
    shown = offering_json(replace(offering((10, 58)), currency="EUR"), RUN, NOW)
    assert shown["upfront_fee"] == "5000.00"
    assert shown["total_usd"] is None
    assert shown["usd_per_billion_tokens"] is None
    assert shown["cost"] is None


def test_instances_that_are_bought_beyond_the_run_are_idle() -> None:
    run = replace(RUN, num_instances=3)
    cost = offering_json(offering((10, 58), fee="20000.00", count=4), run, NOW)["cost"]
    assert cost["usd_per_instance_hour"] == 104.17
    assert cost["num_instances_bought"] == 4


def test_a_candidate_of_a_recommendation() -> None:
    settings = {"instance_type": "p5.48xlarge", "num_instances": 2}
    speed = {"tokens_per_s": 100.0, "interval_tokens_per_s": [80.0, 120.0]}
    best = {"settings": settings, "throughput": speed, "num_tokens": 7, "cost": COST}
    content = {"best": best, "alternatives": [{**best, "num_tokens": 8}]}
    run = run_of(content, 1)
    assert (run.instance_type, run.num_tokens, run.slow_hours) == ("ml.p5.48xlarge", 8, 50.0)
    with pytest.raises(NotFound, match="0 to 1, not 2"):
        run_of(content, 2)
    with pytest.raises(NotFound, match="no candidate"):
        run_of({"best": None, "alternatives": []}, 0)


def test_what_was_shown_is_remembered_for_a_while() -> None:
    times = [NOW]
    seen = SeenOfferings(lambda: times[0])
    seen.remember([offering((10, 58))])
    times[0] = at(0.5)
    assert seen.recall("us-west-2", "tpo-1") == offering((10, 58))
    assert seen.recall("us-east-1", "tpo-1") is None
    times[0] = at(0.51)
    assert seen.recall("us-west-2", "tpo-1") is None


def test_the_memory_does_not_grow_without_end() -> None:
    seen = SeenOfferings(lambda: NOW)
    seen.remember([replace(offering((10, 58)), id=f"tpo-{number}") for number in range(1001)])
    assert seen.recall("us-west-2", "tpo-0") is None
    assert seen.recall("us-west-2", "tpo-1") is not None
