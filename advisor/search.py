"""recommend(): enumerate every plan, reject what does not fit, rank the rest; deterministic."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from advisor.candidate import build_candidate
from advisor.catalog import Catalog
from advisor.cost import Terms, assumptions, terms_for
from advisor.errors import InvalidField
from advisor.evidence import Evidence
from advisor.field import Field, build_fields, offers
from advisor.grid import build_grid
from advisor.hardware import Instance
from advisor.miss import nearest_miss
from advisor.pool import Pool
from advisor.price import NoPrice
from advisor.reasons import reasons
from advisor.recommendation import Candidate, Reason, Recommendation
from advisor.stack import Stack, load_stacks
from advisor.workload import Constraints, Workload

OWN_STACK = "shardwise"
INSTANCE_COUNTS = (1, 2, 4, 8, 16, 32, 64)
# The safest alternative may cost, or take, this much more than the best.
SAFEST_WITHIN = 1.25
FIRST = {"cheapest": "usd", "fastest": "hours", "most_tokens": "tokens"}


def recommend(
    workload: Workload, constraints: Constraints, catalog: Catalog, evidence: Evidence
) -> Recommendation:
    """The best settings for a workload under constraints, with alternatives and reasons.

    Nothing that fits is not an error: best is then None and nearest_miss says why, and what would.
    Raises InvalidField when the constraints contradict each other or nothing allowed has a price.
    """
    _check(workload, constraints)
    stack = load_stacks()[OWN_STACK]
    sold, unsold = _terms(constraints, catalog)
    fields = _fields(workload, constraints, sold, stack, evidence)
    fitting = [offers(each, workload, constraints, evidence.throughput.factor) for each in fields]
    pool = Pool.of(fitting)
    chosen = _chosen(pool, workload, constraints, evidence, stack)
    miss = None
    if not chosen:

        def fits(other: Workload, looser: Constraints) -> bool:
            allowed, _ = _terms(looser, catalog)
            return any(
                each.fits(looser.max_oom_probability).any()
                for each in _fields(other, looser, allowed, stack, evidence)
            )

        miss = nearest_miss(workload, constraints, fields, fitting, evidence, stack, fits)
    return Recommendation(
        best=chosen.pop("best", None),
        alternatives=tuple(chosen.items()),
        nearest_miss=miss,
        num_candidates=sum(field.grid.size for field in fields),
        num_fitting=int(pool.usd.size),
        assumptions=(*workload.assumptions, *assumptions(sold[0].overheads), *unsold),
        catalog_version=catalog.version,
        calibration_version=evidence.version,
    )


def fitting_plans(
    workload: Workload, constraints: Constraints, catalog: Catalog, evidence: Evidence
) -> Pool:
    """Every plan that fits in memory, with its cost and hours. Raises as recommend() does."""
    _check(workload, constraints)
    sold, _ = _terms(constraints, catalog)
    fields = _fields(workload, constraints, sold, load_stacks()[OWN_STACK], evidence)
    return Pool.of(
        [offers(each, workload, constraints, evidence.throughput.factor) for each in fields]
    )


def _check(workload: Workload, constraints: Constraints) -> None:
    pins = constraints.pins
    if pins.sharding == "none" and pins.reshard_after_forward is False:
        raise InvalidField(
            "reshard_after_forward",
            "says nothing with sharding none: no weights are gathered; leave one of them open",
        )
    if pins.sharding == "hybrid" and constraints.max_instances == 1:
        raise InvalidField(
            "sharding", "hybrid shards within each of several instances, and max_instances is 1"
        )
    if constraints.min_instances > constraints.max_instances:
        raise InvalidField(
            "min_instances",
            f"{constraints.min_instances} is more than the {constraints.max_instances} at most",
        )
    if constraints.objective == "most_tokens":
        if constraints.budget_usd is None and constraints.deadline_hours is None:
            raise InvalidField(
                "objective", "most_tokens needs a limit: give budget_usd or deadline_hours"
            )
    elif workload.num_tokens is None:
        raise InvalidField("num_tokens", f"is needed for the objective {constraints.objective}")


def _terms(constraints: Constraints, catalog: Catalog) -> tuple[list[Terms], list[str]]:
    """How each allowed instance type is paid for; and which have no price, in words."""
    names = constraints.instances or tuple(catalog.instances)
    sold, unsold = [], []
    for name in names:
        terms = terms_for(
            catalog,
            catalog.instance(name),
            constraints.pricing,
            region=constraints.region,
            usd_per_instance_hour=constraints.usd_per_instance_hour,
        )
        if isinstance(terms, NoPrice):
            unsold.append(f"left out: {terms.reason}")
        else:
            sold.append(terms)
    if not sold:
        raise InvalidField("pricing", f"no allowed instance has such a price: {'; '.join(unsold)}")
    return sold, unsold


def _fields(
    workload: Workload,
    constraints: Constraints,
    sold: Sequence[Terms],
    stack: Stack,
    evidence: Evidence,
) -> list[Field]:
    grids = [
        (
            build_grid(
                workload, constraints.pins, terms.instance, _counts(terms.instance, constraints)
            ),
            terms,
        )
        for terms in sold
    ]
    if not any(grid.precisions for grid, _ in grids):
        raise InvalidField(
            "precision",
            f"{constraints.pins.precision} is not supported by the GPU of any allowed instance",
        )
    return build_fields(
        workload, [(grid, terms) for grid, terms in grids if grid.size], stack, evidence
    )


def _counts(instance: Instance, constraints: Constraints) -> tuple[int, ...]:
    """Instance counts to try: the usual ones, and those that fill a reservation with spares."""
    usable = (n - instance.spares(n) for n in instance.reservable_counts)
    least, most = constraints.min_instances, constraints.max_instances
    counts = {*INSTANCE_COUNTS, *usable, least, most}
    return tuple(sorted(n for n in counts if least <= n <= most))


def _chosen(
    pool: Pool, workload: Workload, constraints: Constraints, evidence: Evidence, stack: Stack
) -> dict[str, Candidate]:
    """Best and alternatives by label; empty when nothing meets the constraints."""
    within = np.flatnonzero(_within(pool, constraints))
    if not within.size:
        return {}
    picks = _picks(pool, within, constraints)
    chosen = {
        label: build_candidate(*pool.find(place), workload, evidence, stack)
        for label, place in picks.items()
    }
    first = picks["best"]
    speed_factor = evidence.throughput.factor
    why = reasons(*pool.find(first), workload, constraints, speed_factor)
    rivals = _instance_reason(pool, within, first, constraints)
    return {**chosen, "best": replace(chosen["best"], why=(rivals, *why))}


def _within(pool: Pool, constraints: Constraints) -> NDArray[np.bool_]:
    """Plans that can be bought, within budget and deadline, and that train at all."""
    allowed = np.isfinite(pool.usd) & (pool.num_tokens > 0)
    if constraints.budget_usd is not None:
        # Half a cent: the exact price is in whole cents.
        allowed &= pool.usd <= float(constraints.budget_usd) + 0.005
    if constraints.deadline_hours is not None:
        allowed &= pool.hours <= constraints.deadline_hours * (1 + 1e-12)
    return allowed


def _picks(pool: Pool, within: NDArray[np.int64], constraints: Constraints) -> dict[str, int]:
    """Places in the pool of the best plan and of the alternatives.

    Each minimises one measure and breaks ties by the others, so none is dominated by any plan.
    """
    first = FIRST[constraints.objective]
    best = pool.least(first, within)
    picks = {"best": best}
    limit = _near(float(pool.measure(first, np.asarray([best]))[0]))
    near = within[pool.measure(first, within) <= limit]
    # Where the budget decides how much is trained, a run that trains far less is no alternative,
    # and what counts is the price and the time of a token.
    is_open = constraints.objective == "most_tokens"
    others, each = (near, "_per_token") if is_open else (within, "")
    for label, measure, among in (
        ("cheapest", f"usd{each}", others),
        ("fastest", f"hours{each}", others),
        ("safest", "risk", near),
        ("fewest_instances", "instances", others),
    ):
        place = pool.least(measure, among)
        value, best_value = (pool.measure(measure, np.asarray([at]))[0] for at in (place, best))
        if place not in picks.values() and value < best_value:
            picks[label] = place
    return picks


def _near(value: float) -> float:
    """The worst value that still counts as near the best one."""
    return value * SAFEST_WITHIN if value > 0 else value / SAFEST_WITHIN


def _instance_reason(
    pool: Pool, within: NDArray[np.int64], best: int, constraints: Constraints
) -> Reason:
    """The instance type against the best plan of the next best type."""
    number = pool.which(best)
    first, last = np.searchsorted(within, pool.starts[number : number + 2])
    others = np.concatenate([within[:first], within[last:]])
    next_best = None
    if others.size:
        rival = pool.least(FIRST[constraints.objective], others)
        other = pool.find(rival)[0].field.grid.instance.name
        next_best = (
            f"{other}: {pool.usd[rival]:,.2f} USD, {pool.hours[rival]:,.1f} hours, "
            f"{pool.num_tokens[rival] / 1e9:,.2f}B tokens on {pool.num_instances[rival]:.0f}"
        )
    return Reason(
        setting="instance_type",
        value=pool.offers[number].field.grid.instance.name,
        reason="best for the objective among the instance types allowed",
        next_best=next_best,
    )
