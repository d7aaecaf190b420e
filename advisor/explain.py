"""explain(): every number of an answer with its formula, the values in it, and its source."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from advisor.catalog import Catalog
from advisor.cost import Overheads, Terms, terms_for
from advisor.cost_explanations import explain_cost, explain_steps
from advisor.evidence import Evidence
from advisor.explanation import Explanation
from advisor.memory_explanations import explain_memory
from advisor.model import ModelShape
from advisor.plan import Plan, plan_from
from advisor.price import NoPrice
from advisor.search import OWN_STACK
from advisor.stack import load_stacks
from advisor.step_explanations import SPEED_FIGURES, explain_step


def explain(
    shape: ModelShape, candidate: Mapping[str, Any], catalog: Catalog, evidence: Evidence
) -> dict[str, Explanation]:
    """Explanations by the place of their number in a candidate.

    candidate: as JSON has it (settings, memory, throughput, cost, num_tokens, num_steps).
    Keys: "memory.NAME" and "step.NAME" for terms; "memory.", "throughput." and "cost." before the
    name of any other figure ("interval low" and "interval high" for the ends of an interval),
    "cost.parts_usd.NAME" for parts; "num_steps". A cost without a price, or of what this catalogue
    does not sell, has no explanations.
    Catalogue and evidence are those that the candidate came from; another calibration gives other
    values. Raises UnknownName for an instance type that is not in the catalogue.
    """
    plan = plan_from(candidate["settings"])
    instance = catalog.instance(plan.instance_type)
    stack = load_stacks()[OWN_STACK]
    memory = explain_memory(shape, plan, stack, instance.gpu, evidence)
    speed = explain_step(shape, plan, stack, instance, evidence)
    return {
        **{f"memory.{name}": each for name, each in memory.items()},
        **{
            f"{'throughput' if name in SPEED_FIGURES else 'step'}.{name}": each
            for name, each in speed.items()
        },
        **_cost(shape, plan, candidate, catalog),
    }


def _cost(
    shape: ModelShape, plan: Plan, candidate: Mapping[str, Any], catalog: Catalog
) -> dict[str, Explanation]:
    """Explanations of steps and money; none of money where there is no price."""
    cost = candidate["cost"]
    steps = {"num_steps": explain_steps(plan, candidate["num_tokens"])}
    if cost["total_usd"] is None:
        return steps
    terms = _terms(plan, cost, catalog)
    if isinstance(terms, NoPrice):
        return steps
    explanations = explain_cost(
        shape,
        plan,
        terms,
        cost,
        num_steps=candidate["num_steps"],
        num_tokens=candidate["num_tokens"],
        step_s=candidate["throughput"]["step_s"],
    )
    return {**steps, **{f"cost.{name}": each for name, each in explanations.items()}}


def _terms(plan: Plan, cost: Mapping[str, Any], catalog: Catalog) -> Terms | NoPrice:
    """How the instances of a cost are paid for, at its own rate."""
    return terms_for(
        catalog,
        catalog.instance(plan.instance_type),
        cost["pricing"],
        usd_per_instance_hour=Decimal(str(cost["usd_per_instance_hour"])),
        overheads=Overheads(num_segments=cost["num_segments"]),
    )
