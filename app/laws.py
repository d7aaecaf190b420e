"""The advisor's laws, imported when they are first used: numpy would delay the service's start."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from advisor.catalog import Catalog
from advisor.errors import InvalidField
from advisor.hardware import Instance
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.recommendation import Recommendation
from advisor.result import Result
from advisor.workload import Constraints, PricingKind, Sharding, Workload

if TYPE_CHECKING:
    from advisor.evidence import Evidence
    from advisor.explanation import Explanation
    from advisor.explicit import Figures
    from advisor.factor_report import FactorLine
    from advisor.landscape import Landscape

# ruff: noqa: PLC0415 - late imports are what this module is for


def evidence_of(results: Sequence[Result]) -> "Evidence":
    """The calibration on these results."""
    from advisor.evidence import Evidence

    return Evidence.from_results(results)


def calibration_values(evidence: "Evidence") -> dict[str, Any]:
    """Every fitted number of a calibration, ready for JSON."""
    from advisor.stored_calibration import values_of

    return values_of(evidence)


def evidence_from_values(
    values: Mapping[str, Any], results: Sequence[Result], version: str
) -> "Evidence":
    """advisor.stored_calibration.evidence_from."""
    from advisor.stored_calibration import evidence_from

    return evidence_from(values, results, version)


def factor_lines(evidence: "Evidence") -> "tuple[FactorLine, ...]":
    """advisor.factor_report.factor_lines."""
    from advisor.factor_report import factor_lines as lines

    return lines(evidence)


def accuracy_report(results: Sequence[Result]) -> dict[str, Any]:
    """advisor.accuracy.accuracy_report."""
    from advisor.accuracy import accuracy_report as report

    return report(results)


def recommendation(
    workload: Workload, constraints: Constraints, catalog: Catalog, evidence: "Evidence"
) -> Recommendation:
    """advisor.search.recommend."""
    from advisor.search import recommend

    return recommend(workload, constraints, catalog, evidence)


def plans_around(
    workload: Workload,
    constraints: Constraints,
    catalog: Catalog,
    evidence: "Evidence",
    *,
    num_tokens: int,
) -> "Landscape":
    """advisor.landscape.landscape."""
    from advisor.landscape import landscape

    return landscape(workload, constraints, catalog, evidence, num_tokens=num_tokens)


def explanations(
    shape: ModelShape, candidate: Mapping[str, Any], catalog: Catalog, evidence: "Evidence"
) -> "Mapping[str, Explanation]":
    """advisor.explain.explain."""
    from advisor.explain import explain

    return explain(shape, candidate, catalog, evidence)


def memory_by_instant(
    plan: Plan, shape: ModelShape, evidence: "Evidence"
) -> dict[str, dict[str, float]]:
    """Bytes by term at each instant of a step of our own trainer, as the allocator holds them."""
    from advisor.memory import estimate_memory
    from advisor.search import OWN_STACK
    from advisor.settings import settings_of
    from advisor.stack import load_stacks

    settings = settings_of(plan)
    memory = estimate_memory(shape, settings, load_stacks()[OWN_STACK])
    factor = evidence.memory_residual(settings).factor
    return {
        instant: {name: factor * float(value) for name, value in terms.items()}
        for instant, terms in memory.terms.items()
    }


def shard_degree(sharding: Sharding, *, num_gpus: int, gpus_per_instance: int) -> int:
    """advisor.explicit.shard_degree_of."""
    from advisor.explicit import shard_degree_of

    return shard_degree_of(sharding, num_gpus=num_gpus, gpus_per_instance=gpus_per_instance)


def plan_figures(
    plan: Plan,
    shape: ModelShape,
    instance: Instance,
    evidence: "Evidence",
    *,
    field: str,
    max_oom_probability: float,
) -> "Figures":
    """The figures of a plan of our own trainer. Raises InvalidField below `field`."""
    from advisor.explicit import figures_of
    from advisor.search import OWN_STACK
    from advisor.stack import load_stacks

    try:
        return figures_of(
            plan,
            shape,
            instance,
            evidence,
            load_stacks()[OWN_STACK],
            max_oom_probability=max_oom_probability,
        )
    except InvalidField as error:
        raise InvalidField(f"{field}.{error.field}", error.detail) from None


def plan_cost(
    catalog: Catalog,
    instance: Instance,
    pricing: PricingKind,
    *,
    plan: Plan,
    shape: ModelShape,
    training_s: float,
    region: str | None,
    usd_per_instance_hour: Decimal | None,
    num_tokens: int,
) -> dict[str, Any]:
    """What a plan costs, ready for JSON; without figures and with a note where nothing is sold."""
    from advisor.cost import Cost, cost_of, terms_for
    from advisor.field import WEIGHT_BYTES
    from advisor.price import NoPrice
    from advisor.settings import STATE_BYTES

    terms = terms_for(
        catalog, instance, pricing, region=region, usd_per_instance_hour=usd_per_instance_hour
    )
    if isinstance(terms, NoPrice):
        return {"total_usd": None, "hours": None, "notes": [terms.reason]}
    state_bytes = WEIGHT_BYTES + STATE_BYTES[plan.optimizer]
    cost = cost_of(
        terms,
        num_instances=plan.num_instances,
        training_s=training_s,
        checkpoint_bytes=round(shape.num_parameters * state_bytes),
    )
    if isinstance(cost, Cost):
        return cost.as_mapping(num_tokens)
    return {"total_usd": None, "hours": None, "notes": [cost.reason]}


def scope_of(result: Result) -> tuple[bool, str | None]:
    """Whether the advisor can predict memory or speed of this run; what it cannot, and why."""
    from advisor.case import OutOfScope, case_of

    case = case_of(result)
    if isinstance(case, OutOfScope):
        return False, case.why_not
    reasons = [reason for reason in (case.why_not_memory, case.why_not_throughput) if reason]
    return len(reasons) < 2, "; ".join(reasons) or None


def flags_text(result: Result) -> str | None:
    """Why figures of this run are shown and not fitted; None for most."""
    from advisor.case import Case, case_of
    from advisor.guards import flags_of

    case = case_of(result)
    flags = flags_of(case) if isinstance(case, Case) else ()
    return "; ".join(f"{flag.figure} not fitted: {flag.why}" for flag in flags) or None


def refuse_contradiction(result: Result, *, field: str) -> None:
    """Raise InvalidField for more machines than GPUs, or a scoped run without finite prediction.

    One such row among the evidence could leave every later answer without a number.
    """
    import numpy as np

    from advisor.case import OutOfScope, case_of
    from advisor.evidence import memory_points, throughput_points
    from advisor.throughput_factors import load_factors

    if (result.nodes or 0) > (result.gpus_total or math.inf):
        raise InvalidField(
            f"{field}.nodes", f"{result.nodes} are more than the {result.gpus_total} GPUs"
        )
    case = case_of(result)
    if isinstance(case, OutOfScope):
        return
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            points = [*memory_points([case]), *throughput_points([case], load_factors())]
    except (ArithmeticError, ValueError):
        points = None
    if points is None or not all(math.isfinite(point.error) for point in points):
        raise InvalidField(
            field,
            "its values contradict each other: check gpus_total, nodes, heads, hidden, the batch",
        )
