"""Laws of cost that hold for every run, rate and way of paying."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.cost import (
    Cost,
    Overheads,
    Terms,
    affordable_training_s,
    cost_of,
    deadline_training_s,
    terms_for,
)
from advisor.cost_columns import CostColumns
from advisor.workload import PricingKind

KINDS: tuple[PricingKind, ...] = ("training_plan", "capacity_block", "on_demand", "spot")
ALL_TERMS = [
    terms
    for instance in load_catalog().instances.values()
    for kind in KINDS
    if isinstance(terms := terms_for(load_catalog(), instance, kind), Terms)
]

overheads = st.builds(
    Overheads,
    start_up_s=st.floats(0, 7200),
    checkpoint_interval_s=st.floats(60, 86400),
    checkpoint_bytes_per_s=st.floats(1e8, 1e11),
    failures_per_gpu_s=st.floats(0, 1e-7),
    num_segments=st.integers(1, 2),
)
some_terms = st.builds(
    lambda terms, extra: replace(terms, overheads=extra), st.sampled_from(ALL_TERMS), overheads
)
counts = st.integers(1, 64)
seconds = st.floats(0, 1.6e7)
bytes_ = st.integers(0, 2 * 10**12)
budgets = st.decimals(0, 10**8, places=3)


def cost(terms: Terms, count: int, training_s: float, checkpoint_bytes: int) -> Cost:
    found = cost_of(
        terms, num_instances=count, training_s=training_s, checkpoint_bytes=checkpoint_bytes
    )
    assume(isinstance(found, Cost))
    assert isinstance(found, Cost)
    return found


@given(some_terms, counts, seconds, bytes_)
def test_doubling_the_rate_doubles_the_cost(
    terms: Terms, count: int, training_s: float, checkpoint_bytes: int
) -> None:
    rate = terms.quote.usd_per_instance_hour * 2
    dear = replace(terms, quote=replace(terms.quote, usd_per_instance_hour=rate))
    single = cost(terms, count, training_s, checkpoint_bytes)
    double = cost(dear, count, training_s, checkpoint_bytes)
    # Each is rounded to the cent.
    assert abs(double.total_usd - 2 * single.total_usd) <= Decimal("0.02")
    assert double.days_reserved == single.days_reserved


@given(some_terms, counts, seconds, st.floats(0, 1e6), bytes_)
def test_more_training_never_costs_less(
    terms: Terms, count: int, training_s: float, more_s: float, checkpoint_bytes: int
) -> None:
    short = cost(terms, count, training_s, checkpoint_bytes)
    long = cost(terms, count, training_s + more_s, checkpoint_bytes)
    assert long.total_usd >= short.total_usd
    assert long.hours >= short.hours


@given(some_terms, counts, seconds, bytes_)
def test_parts_sum_to_the_whole_and_paid_covers_used(
    terms: Terms, count: int, training_s: float, checkpoint_bytes: int
) -> None:
    found = cost(terms, count, training_s, checkpoint_bytes)
    assert sum(found.parts_usd.values()) == found.total_usd
    assert min(found.parts_usd.values()) >= 0
    assert found.paid_hours >= found.hours >= training_s / 3600
    assert found.num_instances_bought >= count
    if found.days_reserved is not None:
        assert found.days_reserved in terms.day_choices
        assert found.num_instances_bought in terms.instance.reservable_counts


@given(some_terms, counts, budgets, budgets, bytes_)
def test_more_budget_never_buys_less(
    terms: Terms, count: int, budget: Decimal, more: Decimal, checkpoint_bytes: int
) -> None:
    small, large = (
        affordable_training_s(
            terms, num_instances=count, budget_usd=usd, checkpoint_bytes=checkpoint_bytes
        )
        for usd in (budget, budget + more)
    )
    assert large >= small


@given(some_terms, counts, budgets, bytes_)
def test_a_budget_buys_what_it_pays_for_and_no_more(
    terms: Terms, count: int, budget: Decimal, checkpoint_bytes: int
) -> None:
    training_s = affordable_training_s(
        terms, num_instances=count, budget_usd=budget, checkpoint_bytes=checkpoint_bytes
    )
    if training_s > 0:
        assert cost(terms, count, training_s, checkpoint_bytes).total_usd <= budget
    more = cost_of(
        terms,
        num_instances=count,
        training_s=training_s + 2.0,
        checkpoint_bytes=checkpoint_bytes,
    )
    assert not isinstance(more, Cost) or more.total_usd > budget


@given(some_terms, counts, st.floats(0.1, 4000), bytes_)
def test_a_deadline_is_met_and_used(
    terms: Terms, count: int, deadline_hours: float, checkpoint_bytes: int
) -> None:
    training_s = deadline_training_s(
        terms, num_instances=count, deadline_hours=deadline_hours, checkpoint_bytes=checkpoint_bytes
    )
    assume(training_s > 0)
    assert cost(terms, count, training_s, checkpoint_bytes).hours <= deadline_hours * (1 + 1e-15)
    assert cost(terms, count, training_s + 2, checkpoint_bytes).hours > deadline_hours


@given(some_terms, st.lists(st.tuples(counts, seconds, bytes_), min_size=1, max_size=8), budgets)
def test_arrays_equal_scalars(
    terms: Terms, rows: list[tuple[int, float, int]], budget: Decimal
) -> None:
    columns = CostColumns(terms=terms)
    count, training_s, checkpoint_bytes = (np.array(column) for column in zip(*rows, strict=True))
    totals = columns.total_usd(training_s, count, checkpoint_bytes)
    affordable = columns.affordable_training_s(count, budget, checkpoint_bytes)
    timely = columns.deadline_training_s(count, 99.5, checkpoint_bytes)
    for index, (one, one_s, one_bytes) in enumerate(rows):
        found = cost_of(terms, num_instances=one, training_s=one_s, checkpoint_bytes=one_bytes)
        if isinstance(found, Cost):
            assert float(found.total_usd) == pytest.approx(totals[index], rel=1e-12, abs=0.006)
        else:
            assert np.isinf(totals[index])
        assert affordable[index] == pytest.approx(
            affordable_training_s(
                terms, num_instances=one, budget_usd=budget, checkpoint_bytes=one_bytes
            ),
            rel=1e-12,
            abs=0 if terms.whole_days else 1.0,
        )
        assert timely[index] == deadline_training_s(
            terms, num_instances=one, deadline_hours=99.5, checkpoint_bytes=one_bytes
        )
