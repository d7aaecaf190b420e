"""Costs over arrays: shapes, and what is not sold."""

from decimal import Decimal

import numpy as np

from advisor.catalog import find_instance, load_catalog
from advisor.cost import Terms, terms_for
from advisor.cost_columns import CostColumns
from advisor.workload import PricingKind


def columns(instance: str, pricing: PricingKind) -> CostColumns:
    terms = terms_for(load_catalog(), find_instance(instance), pricing)
    assert isinstance(terms, Terms)
    return CostColumns(terms=terms)


def test_arrays_broadcast() -> None:
    table = columns("p5", "training_plan").total_usd(
        np.array([[1e4], [1e5], [1e6]]), np.array([1, 2, 4, 8]), 10**11
    )
    assert table.shape == (3, 4)
    assert table.dtype == np.float64


def test_a_scalar_is_a_zero_dimensional_array() -> None:
    assert columns("p5", "on_demand").total_usd(3600.0, 1).shape == ()


def test_what_is_not_sold_costs_infinitely_much_and_buys_nothing() -> None:
    plan = columns("p5", "training_plan")
    assert np.isinf(plan.total_usd(3600.0, [65, 128])).all()
    assert np.isinf(plan.total_usd(200 * 86400.0, 1))
    assert np.isinf(plan.days_reserved(200 * 86400.0, 1))
    assert (plan.affordable_training_s([65, 1], Decimal(10**6)) > 0).tolist() == [False, True]
    assert (plan.deadline_training_s([65, 1], 100.0) > 0).tolist() == [False, True]


def test_by_the_second_any_number_is_sold() -> None:
    assert np.isfinite(columns("p5", "on_demand").total_usd(200 * 86400.0, [3, 65])).all()


def test_days_are_the_ones_on_sale() -> None:
    block = columns("p5", "capacity_block")
    days = block.days_reserved([3600.0, 13.9 * 86400, 14.5 * 86400], 1)
    assert days.tolist() == [1.0, 14.0, 21.0]
