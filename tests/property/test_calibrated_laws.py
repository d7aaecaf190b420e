"""Laws that calibration must not break, whatever results it was made from."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.calibration import Point, calibrate
from advisor.catalog import load_catalog
from advisor.evidence import MEMORY_PRIORS, Evidence
from advisor.explicit import Figures, figures_of
from advisor.model import ModelShape
from advisor.model_catalog import find_model
from advisor.plan import CHECKPOINTINGS, OPTIMIZERS, Plan
from advisor.residual import Residual
from advisor.stack import load_stacks
from advisor.throughput_factors import PRIOR

CATALOG = load_catalog()
INSTANCES = ("p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge")
MODELS = ("llama-3.2-1b", "llama-3.1-8b", "qwen2.5-14b", "llama-3.1-70b")
EMPTY = Evidence.from_cases([])

residuals = st.builds(
    Residual,
    factor=st.floats(0.5, 2.0),
    scale=st.floats(0.001, 1.0),
    interval=st.floats(0.001, 1.0),
    count=st.integers(0, 1000),
    num_sources=st.integers(0, 20),
)


@st.composite
def calibrations(draw: st.DrawFn) -> Evidence:
    """Any calibration: factors, spreads and law factors that results could lead to."""
    moved = {
        name: getattr(PRIOR, name) * math.exp(draw(st.floats(-0.5, 0.5)))
        for name in ("matmul", "attention", "eager_traffic", "cast_bytes", "inter_link")
    }
    return replace(
        EMPTY,
        memory={name: draw(residuals) for name in MEMORY_PRIORS},
        throughput=draw(residuals),
        factors=replace(PRIOR, **moved),
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    name = draw(st.sampled_from(INSTANCES))
    instance = CATALOG.instance(name)
    num_instances = draw(st.sampled_from([1, 2, 4]))
    num_gpus = num_instances * instance.num_gpus
    degree = draw(st.sampled_from([2, 4, 8]))
    return Plan(
        instance_type=name,
        num_instances=num_instances,
        gpus_per_instance=instance.num_gpus,
        precision="bf16",
        activation_checkpointing=draw(st.sampled_from(CHECKPOINTINGS)),
        micro_batch=draw(st.integers(1, 32)),
        seq_len=draw(st.sampled_from([512, 2048, 8192])),
        accumulation_steps=draw(st.integers(1, 4)),
        shard_degree=degree,
        replica_degree=num_gpus // degree,
        loss_chunks=draw(st.sampled_from([1, 8])),
        optimizer=draw(st.sampled_from(OPTIMIZERS)),
        compile=draw(st.booleans()),
    )


shapes = st.sampled_from(MODELS).map(lambda name: find_model(name).shape)


def figures(plan: Plan, shape: ModelShape, evidence: Evidence) -> Figures:
    return figures_of(
        plan,
        shape,
        CATALOG.instance(plan.instance_type),
        evidence,
        load_stacks()["shardwise"],
        max_oom_probability=0.02,
    )


@given(calibrations(), shapes, plans())
@settings(max_examples=100, deadline=None)
def test_more_shards_never_need_more_memory_nor_risk_more(
    evidence: Evidence, shape: ModelShape, plan: Plan
) -> None:
    """Among sharded plans. An unsharded one has no gather buffers: it is another program."""
    before = figures(plan, shape, evidence)
    after = (
        figures(
            replace(
                plan, shard_degree=2 * plan.shard_degree, replica_degree=plan.replica_degree // 2
            ),
            shape,
            evidence,
        )
        if plan.replica_degree > 1
        else before
    )
    assert after.peak_bytes <= before.peak_bytes
    assert after.out_of_memory_probability <= before.out_of_memory_probability
    assert after.fits or not before.fits


@given(calibrations(), shapes, plans())
@settings(max_examples=100, deadline=None)
def test_a_larger_batch_never_needs_less_memory_nor_risks_less(
    evidence: Evidence, shape: ModelShape, plan: Plan
) -> None:
    before = figures(plan, shape, evidence)
    after = figures(replace(plan, micro_batch=plan.micro_batch + 1), shape, evidence)
    assert after.peak_bytes >= before.peak_bytes
    assert after.out_of_memory_probability >= before.out_of_memory_probability
    assert before.fits or not after.fits


@given(calibrations(), shapes, plans())
@settings(max_examples=100, deadline=None)
def test_parts_sum_to_the_step_and_intervals_hold_their_value(
    evidence: Evidence, shape: ModelShape, plan: Plan
) -> None:
    found = figures(plan, shape, evidence)
    assert math.isclose(sum(found.terms.values()), found.step_s, rel_tol=1e-9)
    assert math.isclose(found.tokens_per_s * found.step_s, plan.tokens_per_step, rel_tol=1e-9)
    assert found.interval_bytes[0] <= found.peak_bytes <= found.interval_bytes[1]
    low, high = found.interval_tokens_per_s
    assert low <= found.tokens_per_s <= high
    assert 0.0 <= found.out_of_memory_probability <= 1.0


@given(calibrations(), st.floats(1e-4, 0.4), st.floats(1e9, 1e12))
@settings(max_examples=100, deadline=None)
def test_the_limit_of_live_bytes_has_the_accepted_chance(
    evidence: Evidence, probability: float, capacity: float
) -> None:
    from advisor.settings import settings_of  # noqa: PLC0415 - hypothesis' settings has its name

    numeric = settings_of(
        Plan(
            instance_type="p5.48xlarge",
            num_instances=1,
            gpus_per_instance=8,
            precision="bf16",
            activation_checkpointing="none",
            micro_batch=1,
            seq_len=512,
            shard_degree=8,
        )
    )
    limit = evidence.live_bytes_limit(numeric, capacity, probability)
    chance = evidence.out_of_memory_probability(limit, numeric, capacity)
    assert math.isclose(float(chance), probability, rel_tol=1e-6)
    assert float(limit) < capacity


points = st.builds(
    Point,
    result_id=st.text("abc", min_size=1, max_size=3),
    source=st.sampled_from(["one", "two", "three"]),
    group=st.just("group"),
    error=st.floats(-1.0, 1.0),
)


@given(st.lists(points, max_size=60), st.floats(0.5, 2.0))
@settings(max_examples=200, deadline=None)
def test_a_factor_lies_between_its_prior_and_its_rows(drawn: list[Point], prior: float) -> None:
    residual = calibrate(drawn, {"group": prior})["group"]
    seen = [math.log(prior), *(point.error for point in drawn)]
    assert min(seen) - 1e-9 <= math.log(residual.factor) <= max(seen) + 1e-9
    assert residual.count == len(drawn)
    assert residual.interval > 0 or all(
        np.isclose(point.error, math.log(residual.factor)) for point in drawn
    )


@given(st.lists(points, min_size=1, max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_does_not_matter(drawn: list[Point], random: object) -> None:
    shuffled = list(drawn)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis' own random.Random
    first, second = (calibrate(each, {"group": 1.0})["group"] for each in (drawn, shuffled))
    assert math.isclose(first.factor, second.factor)
    assert math.isclose(first.interval, second.interval)
