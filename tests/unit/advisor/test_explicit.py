"""Explicit plans: figures of a named plan, and what it is refused for."""

from dataclasses import replace

import pytest

from advisor.catalog import load_catalog
from advisor.errors import InvalidField
from advisor.evidence import Evidence
from advisor.explicit import Figures, figures_of, shard_degree_of
from advisor.model_catalog import find_model
from advisor.plan import Plan
from advisor.result import load_shipped_results
from advisor.stack import load_stacks
from advisor.workload import Sharding

EVIDENCE = Evidence.from_results(load_shipped_results())
PLAN = Plan(
    instance_type="p5.48xlarge",
    num_instances=1,
    gpus_per_instance=8,
    precision="bf16",
    activation_checkpointing="full",
    micro_batch=1,
    seq_len=8192,
    shard_degree=8,
)


def figures(plan: Plan, risk: float = 0.02) -> Figures:
    return figures_of(
        plan,
        find_model("llama-3.1-8b").shape,
        load_catalog().instance(plan.instance_type),
        EVIDENCE,
        load_stacks()["shardwise"],
        max_oom_probability=risk,
    )


def test_a_small_plan_fits_and_a_huge_one_does_not() -> None:
    assert figures(PLAN).fits
    huge = figures(replace(PLAN, micro_batch=64, activation_checkpointing="none"))
    assert not huge.fits
    assert huge.out_of_memory_probability > 0.99


def test_the_accepted_risk_decides_at_the_edge() -> None:
    at_edge = next(
        found
        for batch in range(1, 200)
        if (found := figures(replace(PLAN, micro_batch=batch))).out_of_memory_probability > 1e-6
    )
    chance = at_edge.out_of_memory_probability
    assert not figures(at_edge.plan, chance * 0.9).fits


def test_a_format_that_the_gpu_lacks_is_refused() -> None:
    with pytest.raises(InvalidField) as refused:
        figures(replace(PLAN, precision="mxfp8"))
    assert refused.value.field == "precision"
    assert "H100" in refused.value.detail


@pytest.mark.parametrize(("sharding", "degree"), [("full", 16), ("hybrid", 8), ("none", 1)])
def test_shard_degrees(sharding: Sharding, degree: int) -> None:
    assert shard_degree_of(sharding, num_gpus=16, gpus_per_instance=8) == degree
