"""The landscape: fronts that nothing beats, the fastest of each count, whatever the limits say."""

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest

from advisor.catalog import load_catalog
from advisor.evidence import Evidence
from advisor.landscape import Landscape, landscape
from advisor.model_catalog import find_model
from advisor.result import load_shipped_results
from advisor.search import recommend
from advisor.workload import Constraints, build_workload

CATALOG = load_catalog()
EVIDENCE = Evidence.from_results(load_shipped_results())
NUM_TOKENS = 10**11
WORKLOAD = build_workload(
    find_model("llama-3.1-8b").shape,
    num_tokens=NUM_TOKENS,
    seq_len=None,
    global_batch_tokens=None,
    training="pretrain",
    open_ended=False,
)
CONSTRAINTS = Constraints(objective="cheapest")


@pytest.fixture(scope="module")
def around() -> Landscape:
    return landscape(WORKLOAD, CONSTRAINTS, CATALOG, EVIDENCE, num_tokens=NUM_TOKENS)


def test_a_front_gets_cheaper_as_it_gets_slower(around: Landscape) -> None:
    types = {spot.plan.instance_type for spot in around.front}
    assert len(types) > 3
    for name in types:
        front = [spot for spot in around.front if spot.plan.instance_type == name]
        for quick, slow in pairwise(front):
            assert quick.hours < slow.hours
            assert quick.usd is not None
            assert slow.usd is not None
            assert quick.usd > slow.usd


def test_the_best_are_beaten_by_nothing_of_any_type(around: Landscape) -> None:
    for spot in around.front:
        assert spot.usd is not None
        beaten = any(
            other.usd is not None
            and (other.usd, other.hours) != (spot.usd, spot.hours)
            and other.usd <= spot.usd
            and other.hours <= spot.hours
            for other in around.front
        )
        assert spot.is_best is not beaten


@pytest.mark.parametrize("objective", ["cheapest", "fastest"])
def test_the_recommended_plan_is_an_end_of_the_front(around: Landscape, objective: str) -> None:
    constraints = replace(CONSTRAINTS, objective=objective)
    best = recommend(WORKLOAD, constraints, CATALOG, EVIDENCE).best
    assert best is not None
    spots = [spot for spot in around.front if spot.usd is not None]
    if objective == "cheapest":
        assert float(best.cost["total_usd"]) == pytest.approx(min(spot.usd or 0 for spot in spots))
    else:
        assert best.cost["hours"] == pytest.approx(min(spot.hours for spot in spots))


def test_each_count_has_one_spot(around: Landscape) -> None:
    counts = [(spot.plan.instance_type, spot.plan.num_instances) for spot in around.by_count]
    assert len(set(counts)) == len(counts)
    alone = [spot for spot in around.by_count if spot.plan.num_instances == 1]
    assert all(0.0 <= spot.communication_fraction < 1.0 for spot in around.by_count)
    assert alone
    assert all(spot.tokens_per_s > 0 for spot in alone)


def test_limits_of_the_question_do_not_narrow_it(around: Landscape) -> None:
    narrow = replace(CONSTRAINTS, budget_usd=Decimal(100), deadline_hours=1.0)
    again = landscape(WORKLOAD, narrow, CATALOG, EVIDENCE, num_tokens=NUM_TOKENS)
    assert again == around
