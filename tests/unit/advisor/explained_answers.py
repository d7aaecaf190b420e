"""Candidates of any grid as JSON has them, and the numbers in them that an explanation gives."""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np

from advisor.candidate import build_candidate
from advisor.catalog import Catalog, load_catalog
from advisor.cost import Terms, terms_for
from advisor.evidence import Evidence
from advisor.explanation import FUNCTIONS, MAX_NAME_LETTERS, Explanation
from advisor.field import build_fields, offers_at
from advisor.grid import build_grid
from advisor.model import ModelShape
from advisor.model_catalog import find_model
from advisor.result import load_shipped_results
from advisor.search import OWN_STACK
from advisor.stack import load_stacks
from advisor.workload import Constraints, Pins, PricingKind, Workload, build_workload
from app.answer import candidate_json

CATALOG: Catalog = load_catalog()
OWN_RATE = Decimal("31.4159")
# Terms at the peak are rounded to whole bytes one by one, and so are the parts of their sum.
BYTES_ROUNDED = 10.0
HALF_A_CENT = 0.0051
# A probability below is what is left of 1 in the last place of a float.
LEAST_PROBABILITY = 1e-14
_ALLOWED = (
    *(ast.Expression, ast.BinOp, ast.Call, ast.Name, ast.Load, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)


@cache
def evidence() -> Evidence:
    """The calibration on the shipped results."""
    return Evidence.from_results(load_shipped_results())


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Plans of one model on one instance type under one way of paying."""

    model: str
    instance: str
    pricing: PricingKind = "training_plan"
    pins: Pins = field(default_factory=Pins)
    counts: tuple[int, ...] = (1, 2, 8)
    seq_len: int = 2048
    global_batch_tokens: int = 2**19
    num_tokens: int = 10**10

    @property
    def workload(self) -> Workload:
        return build_workload(
            find_model(self.model).shape,
            num_tokens=self.num_tokens,
            seq_len=self.seq_len,
            global_batch_tokens=self.global_batch_tokens,
            training="pretrain",
            open_ended=False,
        )


def candidates(question: Question, number: int, calibration: Evidence) -> Iterator[dict[str, Any]]:
    """So many candidates spread over all plans of a question's grid, fitting or not."""
    workload = question.workload
    instance = CATALOG.instance(question.instance)
    terms = terms_for(
        CATALOG,
        instance,
        question.pricing,
        usd_per_instance_hour=OWN_RATE if question.pricing == "custom" else None,
    )
    assert isinstance(terms, Terms)
    grid = build_grid(workload, question.pins, instance, question.counts)
    stack = load_stacks()[OWN_STACK]
    (plans,) = build_fields(workload, [(grid, terms)], stack, calibration)
    meaningful = np.flatnonzero(np.broadcast_to(grid.valid(), grid.shape))
    # A stride without a common divisor with the axes passes through all of their choices.
    some = meaningful[(np.arange(number) * 7919) % meaningful.size]
    wanted = Constraints(objective="cheapest")
    found = offers_at(plans, workload, wanted, calibration.throughput.factor, np.unique(some))
    for position in range(found.index.size):
        yield candidate_json(build_candidate(found, position, workload, calibration, stack))


def answered(candidate: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Every number of a candidate by the key of its explanation, with what rounding leaves."""
    memory, speed, cost = candidate["memory"], candidate["throughput"], candidate["cost"]
    low, high = memory["interval_bytes"]
    slow, fast = speed["interval_tokens_per_s"]
    names = ("peak_bytes", "active_bytes", "capacity_bytes", "headroom_bytes")
    sizes = {**memory["terms"], **{name: memory[name] for name in names}}
    sizes |= {"interval low": low, "interval high": high}
    rates = ("tokens_per_s", "tokens_per_s_per_gpu", "step_s", "mfu_fraction")
    risk = memory["out_of_memory_probability"]
    return {
        **{f"memory.{name}": (value, BYTES_ROUNDED) for name, value in sizes.items()},
        "memory.out_of_memory_probability": (risk, LEAST_PROBABILITY),
        **{f"step.{name}": (value, 0.0) for name, value in speed["terms"].items()},
        **{f"throughput.{name}": (speed[name], 0.0) for name in rates},
        "throughput.interval low": (slow, 0.0),
        "throughput.interval high": (fast, 0.0),
        "num_steps": (candidate["num_steps"], 0.0),
        **_answered_cost(cost),
    }


def _answered_cost(cost: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    if cost["total_usd"] is None:
        return {}
    parts = dict(cost["parts_usd"])
    if cost["days_reserved"] is None:
        assert parts.pop("idle") == 0.0
    money = {name: cost[name] for name in ("total_usd", "usd_per_billion_tokens")}
    money |= {f"parts_usd.{name}": usd for name, usd in parts.items()}
    return {
        **{f"cost.{name}": (usd, HALF_A_CENT) for name, usd in money.items()},
        **{f"cost.{name}": (cost[name], 0.0) for name in ("hours", "paid_hours")},
    }


def python_value(explanation: Explanation) -> float:
    """The formula's value as Python itself has it, after a look at what is in it."""
    tree = ast.parse(explanation.formula, mode="eval")
    assert all(isinstance(node, _ALLOWED) for node in ast.walk(tree)), explanation.formula
    values = {symbol.name: symbol.value for symbol in explanation.symbols}
    functions = {"min": min, "max": max, "ceil": math.ceil}
    code = compile(tree, "formula", "eval")
    # Only the nodes above, and only these names.
    return float(eval(code, {"__builtins__": {}, **functions}, values))  # noqa: S307 - see above


def assert_well_formed(explanation: Explanation) -> None:
    """Each name is short, is there once, has a finite value and says what it is."""
    names = [symbol.name for symbol in explanation.symbols]
    assert len(set(names)) == len(names)
    used = set(re.findall(r"\b[A-Za-z]+\b", explanation.formula)) - set(FUNCTIONS)
    assert used == set(names)
    for symbol in explanation.symbols:
        assert re.fullmatch(rf"[A-Za-z]{{1,{MAX_NAME_LETTERS}}}", symbol.name)
        assert math.isfinite(symbol.value)
        assert symbol.meaning
    assert explanation.source
    assert explanation.unit in ("bytes", "s", "tokens/s", "USD", "h", "1")


def assert_explained(candidate: Mapping[str, Any], explanations: Mapping[str, Explanation]) -> None:
    """Every number of the candidate has an explanation that gives it, and there are no others."""
    numbers = answered(candidate)
    assert set(explanations) == set(numbers), candidate["settings"]
    for key, (number, rounded) in numbers.items():
        explanation = explanations[key]
        assert_well_formed(explanation)
        for value in (python_value(explanation), explanation.value):
            assert math.isclose(value, number, rel_tol=1e-6, abs_tol=rounded), (
                f"{key}: {explanation.formula} is {value}, the answer has {number}: "
                f"{candidate['settings']}"
            )


def shape_of(question: Question) -> ModelShape:
    """The model of a question."""
    return find_model(question.model).shape
