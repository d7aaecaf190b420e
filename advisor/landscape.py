"""Landscape: the plans around an answer: cost against time, and speed against instances."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Catalog
from advisor.evidence import Evidence
from advisor.field import Offers, flat
from advisor.plan import Plan
from advisor.pool import Pool
from advisor.search import fitting_plans
from advisor.units import TOKENS_PER_BILLION
from advisor.workload import Constraints, Workload

# Terms of a step in which the GPUs wait for each other.
COMMUNICATION = ("all-gather", "reduce-scatter", "all-reduce of copies")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One plan of a landscape.

    hours: wall clock for all tokens. usd: None where so much is not sold.
    communication_fraction: share of a step that waits for collectives.
    is_best: on the front of its instance type, no plan of any type is both cheaper and faster.
    """

    plan: Plan
    hours: float
    usd: float | None
    usd_per_billion_tokens: float | None
    tokens_per_s: float
    communication_fraction: float
    is_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """front: by instance type, each plan that no other of its type beats in cost and in time.

    by_count: the fastest plan for each instance type and number of instances.
    """

    num_tokens: int
    front: tuple[Spot, ...]
    by_count: tuple[Spot, ...]


def landscape(
    workload: Workload,
    constraints: Constraints,
    catalog: Catalog,
    evidence: Evidence,
    *,
    num_tokens: int,
) -> Landscape:
    """All plans that train num_tokens, whatever budget and deadline say.

    Raises InvalidField as advisor.search.recommend does.
    """
    pool = fitting_plans(
        replace(workload, num_tokens=num_tokens),
        replace(constraints, objective="cheapest", budget_usd=None, deadline_hours=None),
        catalog,
        evidence,
    )
    factor = evidence.throughput.factor
    sold = [each[np.isfinite(pool.usd[each])] for each in _by_type(pool)]
    fronts = [_front(pool.usd, pool.hours, each) for each in sold]
    best = set(_front(pool.usd, pool.hours, _joined(fronts)).tolist())
    return Landscape(
        num_tokens=num_tokens,
        front=tuple(
            replace(_spot(pool, place, factor), is_best=place in best)
            for each in fronts
            for place in each.tolist()
        ),
        by_count=tuple(
            _spot(pool, place, factor)
            for each in _by_type(pool)
            for place in _fastest_by_count(pool, each)
        ),
    )


def _by_type(pool: Pool) -> list[NDArray[np.int64]]:
    """Places of each instance type that has any."""
    bounds = zip(pool.starts[:-1], pool.starts[1:], strict=True)
    return [np.arange(first, last) for first, last in bounds if last > first]


def _joined(places: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *places])


def _front(
    usd: NDArray[np.float64], hours: NDArray[np.float64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Of some places those that none beats, from the fastest to the cheapest; of equals the first.

    The usual sweep: in the order of time, each that is cheaper than all before it.
    """
    ordered = places[np.lexsort((usd[places], hours[places]))]
    if not ordered.size:
        return ordered
    before = np.concatenate([[np.inf], np.minimum.accumulate(usd[ordered])[:-1]])
    return ordered[usd[ordered] < before]


def _fastest_by_count(pool: Pool, places: NDArray[np.int64]) -> list[int]:
    """For each number of instances the plan with the least hours, the cheaper one of equals."""
    return [
        pool.least("hours", places[pool.num_instances[places] == count])
        for count in np.unique(pool.num_instances[places])
    ]


def _spot(pool: Pool, place: int, speed_factor: float) -> Spot:
    offers, position = pool.find(place)
    index = offers.index[position : position + 1]
    usd = float(pool.usd[place])
    is_sold = bool(np.isfinite(usd))
    tokens = float(pool.num_tokens[place])
    step = offers.field.step
    waits = sum(_term(offers, step.terms[name], index) for name in COMMUNICATION)
    return Spot(
        plan=offers.field.grid.plan(int(index[0])),
        hours=float(pool.hours[place]),
        usd=round(usd, 2) if is_sold else None,
        usd_per_billion_tokens=round(usd * TOKENS_PER_BILLION / tokens, 2) if is_sold else None,
        tokens_per_s=_term(offers, step.tokens_per_s, index) * speed_factor,
        communication_fraction=waits / _term(offers, step.step_s, index),
    )


def _term(offers: Offers, values: object, index: NDArray[np.int64]) -> float:
    return float(flat(offers.field, values, index)[0])
