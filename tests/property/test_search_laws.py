"""Laws that the search keeps for every model and every question."""

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.cost import Cost, cost_of, terms_for
from advisor.cost import Terms as Payment
from advisor.evidence import Evidence, capacity_bytes
from advisor.field import checkpoint_bytes
from advisor.grid import CHECKPOINTINGS, MICRO_BATCHES
from advisor.memory import estimate_memory
from advisor.model_catalog import find_model
from advisor.model_size import shape_from_size
from advisor.plan import Plan
from advisor.recommendation import Candidate, Recommendation
from advisor.result import load_shipped_results
from advisor.search import INSTANCE_COUNTS, OWN_STACK, recommend
from advisor.settings import settings_of
from advisor.stack import load_stacks
from advisor.throughput import fabric_of, step_time
from advisor.workload import Constraints, Objective, Pins, Workload, build_workload

CATALOG = load_catalog()
EVIDENCE = Evidence.from_results(load_shipped_results())
STACK = load_stacks()[OWN_STACK]
OBJECTIVES: tuple[Objective, ...] = ("cheapest", "fastest", "most_tokens")
FEW = settings(max_examples=25, deadline=None)

workloads = st.builds(
    lambda size, tokens, seq_len, batch: build_workload(
        shape_from_size(size).shape,
        num_tokens=tokens,
        seq_len=seq_len,
        global_batch_tokens=batch,
        training="pretrain",
        open_ended=False,
    ),
    st.floats(0.5, 64),
    st.integers(10**8, 10**12),
    st.sampled_from([1024, 2048, 4096, 8192, 16384]),
    st.sampled_from([2**19, 2**20, 2**21, 2**22]),
)
pins = st.builds(
    Pins,
    activation_checkpointing=st.sampled_from([None, "none", "selective", "full"]),
    precision=st.sampled_from([None, "bf16", "fp8"]),
    optimizer=st.sampled_from([None, "adamw", "adamw_8bit"]),
    sharding=st.sampled_from([None, "full", "hybrid"]),
)
constraints = st.builds(
    Constraints,
    objective=st.sampled_from(OBJECTIVES),
    budget_usd=st.integers(1_000, 10**7).map(Decimal),
    deadline_hours=st.none() | st.floats(24, 4000),
    max_instances=st.sampled_from([1, 2, 8, 64]),
    pricing=st.sampled_from(["training_plan", "on_demand"]),
    max_oom_probability=st.sampled_from([0.005, 0.02, 0.2]),
    pins=pins,
    instances=st.sampled_from([(), ("p5.48xlarge",), ("p6-b200.48xlarge", "p4de.24xlarge")]),
).filter(lambda wanted: wanted.max_instances > 1 or wanted.pins.sharding != "hybrid")


def ask(workload: Workload, wanted: Constraints) -> Recommendation:
    return recommend(workload, wanted, CATALOG, EVIDENCE)


def worth(candidate: Candidate, objective: Objective) -> float:
    """Less is better."""
    return {
        "cheapest": float(candidate.cost["total_usd"]),
        "fastest": float(candidate.cost["hours"]),
        "most_tokens": -float(candidate.num_tokens),
    }[objective]


def measures(candidate: Candidate) -> tuple[float, ...]:
    return (
        -float(candidate.num_tokens),
        float(candidate.cost["total_usd"]),
        float(candidate.cost["hours"]),
        candidate.memory.out_of_memory_probability,
        float(candidate.plan.num_instances),
    )


def offered(answer: Recommendation) -> list[Candidate]:
    return [] if answer.best is None else [answer.best, *(c for _, c in answer.alternatives)]


@FEW
@given(workloads, constraints)
def test_everything_offered_meets_the_constraints_and_fits(
    workload: Workload, wanted: Constraints
) -> None:
    answer = ask(workload, wanted)
    assert (answer.best is None) == (answer.nearest_miss is not None)
    for candidate in offered(answer):
        assert candidate.cost["total_usd"] <= (wanted.budget_usd or 0) + Decimal("0.01")
        assert candidate.cost["hours"] <= (wanted.deadline_hours or math.inf) * (1 + 1e-9)
        assert candidate.memory.out_of_memory_probability <= wanted.max_oom_probability
        assert candidate.memory.peak_bytes <= candidate.memory.capacity_bytes
        assert candidate.plan.num_instances <= wanted.max_instances
        assert candidate.verdict != "does_not_fit"
        assert candidate.num_tokens > 0
        for name in ("activation_checkpointing", "precision", "optimizer"):
            assert getattr(wanted.pins, name) in (None, getattr(candidate.plan, name))


@FEW
@given(workloads, constraints)
def test_no_candidate_dominates_another(workload: Workload, wanted: Constraints) -> None:
    found = offered(ask(workload, wanted))
    for one in found:
        for other in found:
            better = [a <= b for a, b in zip(measures(one), measures(other), strict=True)]
            same = measures(one) == measures(other)
            assert one is other or not all(better) or same


@FEW
@given(workloads, constraints)
def test_the_same_question_has_the_same_answer(workload: Workload, wanted: Constraints) -> None:
    assert ask(workload, wanted) == ask(workload, wanted)


def loosened(wanted: Constraints) -> Iterator[Constraints]:
    """The question with each constraint loosened in turn."""
    yield replace(wanted, budget_usd=None if wanted.budget_usd is None else wanted.budget_usd * 2)
    yield replace(wanted, deadline_hours=None)
    yield replace(wanted, instances=())
    yield replace(wanted, max_oom_probability=0.5)
    yield replace(wanted, pins=replace(wanted.pins, activation_checkpointing=None))
    yield replace(wanted, pins=replace(wanted.pins, precision=None))
    yield replace(wanted, pins=replace(wanted.pins, sharding=None))
    yield replace(wanted, max_instances=64)


@FEW
@given(workloads, constraints)
def test_loosening_a_constraint_never_worsens_the_best(
    workload: Workload, wanted: Constraints
) -> None:
    before = ask(workload, wanted).best
    assume(before is not None)
    for looser in loosened(wanted):
        after = ask(workload, looser).best
        assert before is not None
        assert after is not None
        # Costs are rounded to cents and steps to whole ones.
        slack = (
            0.02 if wanted.objective == "cheapest" else 1e-9 * abs(worth(before, wanted.objective))
        )
        assert worth(after, wanted.objective) <= worth(before, wanted.objective) + slack


@FEW
@given(workloads, st.sampled_from(["p5.48xlarge", "p6-b200.48xlarge"]), st.floats(5, 200))
def test_twice_the_price_is_twice_the_cost_of_the_same_run(
    workload: Workload, name: str, usd: float
) -> None:
    rate = Decimal(f"{usd:.2f}")
    wanted = Constraints(
        objective="cheapest",
        instances=(name,),
        pricing="custom",
        usd_per_instance_hour=rate,
    )
    one = ask(workload, wanted).best
    assume(one is not None)
    two = ask(workload, replace(wanted, usd_per_instance_hour=2 * rate)).best
    assert one is not None
    assert two is not None
    assert two.plan == one.plan
    assert float(two.cost["total_usd"]) == pytest.approx(2 * float(one.cost["total_usd"]), abs=0.02)


@FEW
@given(workloads, constraints)
def test_parts_sum_to_the_whole(workload: Workload, wanted: Constraints) -> None:
    for candidate in offered(ask(workload, wanted)):
        memory, speed, cost = candidate.memory, candidate.throughput, candidate.cost
        assert sum(memory.terms.values()) == memory.peak_bytes
        assert max(memory.instants.values()) == memory.instants[memory.peak_instant]
        assert sum(speed.terms.values()) == pytest.approx(speed.step_s)
        assert sum(cost["parts_usd"].values()) == pytest.approx(cost["total_usd"])
        low, high = memory.interval_bytes
        assert low <= memory.peak_bytes <= high
        assert candidate.num_tokens == candidate.num_steps * candidate.plan.tokens_per_step


def plans(name: str, workload: Workload) -> Iterator[Plan]:
    """Every plan on one instance type with the pins below, drawn up plainly, one by one."""
    instance = CATALOG.instance(name)
    for count in INSTANCE_COUNTS[:3]:
        gpus = count * instance.num_gpus
        for micro_batch in MICRO_BATCHES:
            tokens = gpus * micro_batch * workload.seq_len
            steps = max(round(workload.global_batch_tokens / tokens), 1)
            if not 1 / 1.5 <= steps * tokens / workload.global_batch_tokens <= 1.5:
                continue
            for mode, every in CHECKPOINTINGS:
                for shards in {gpus, instance.num_gpus, 1}:
                    yield Plan(
                        instance_type=name,
                        num_instances=count,
                        gpus_per_instance=instance.num_gpus,
                        precision="bf16",
                        activation_checkpointing=mode,
                        checkpoint_every=every,
                        micro_batch=micro_batch,
                        seq_len=workload.seq_len,
                        accumulation_steps=steps,
                        gradient_sync="each",
                        shard_degree=shards,
                        replica_degree=gpus // shards,
                        reshard_after_forward=True,
                        loss_chunks=8,
                        optimizer="adamw",
                        compile=True,
                    )


def usd_of(plan: Plan, workload: Workload, wanted: Constraints) -> float | None:
    """What a plan costs, by the laws of one plan alone; None where it may not be offered."""
    instance = CATALOG.instance(plan.instance_type)
    view = settings_of(plan)
    memory = estimate_memory(workload.shape, view, STACK)
    capacity = capacity_bytes(instance.gpu)
    risk = EVIDENCE.out_of_memory_probability(memory.active_bytes, view, capacity)
    held = EVIDENCE.memory_residual(view).factor * float(memory.reserved_bytes)
    if float(risk) > wanted.max_oom_probability or held > capacity:
        return None
    step = step_time(
        workload.shape, view, STACK, instance.gpu, fabric_of(instance), EVIDENCE.factors
    )
    num_steps = math.ceil((workload.num_tokens or 0) / plan.tokens_per_step)
    terms = terms_for(CATALOG, instance, wanted.pricing)
    assert isinstance(terms, Payment)
    cost = cost_of(
        terms,
        num_instances=plan.num_instances,
        training_s=num_steps * float(step.step_s) / EVIDENCE.throughput.factor,
        checkpoint_bytes=round(checkpoint_bytes(workload, view)),
    )
    return float(cost.total_usd) if isinstance(cost, Cost) else None


@settings(max_examples=6, deadline=None)
@given(workloads, st.sampled_from([("p5.48xlarge",), ("p4d.24xlarge", "p6-b200.48xlarge")]))
def test_the_search_finds_what_trying_every_plan_finds(
    workload: Workload, names: tuple[str, ...]
) -> None:
    wanted = Constraints(
        objective="cheapest",
        instances=names,
        max_instances=INSTANCE_COUNTS[2],
        pricing="on_demand",
        pins=Pins(
            precision="bf16",
            loss_chunking=True,
            reshard_after_forward=True,
            gradient_sync="each",
        ),
    )
    costs = [
        usd
        for name in names
        for plan in plans(name, workload)
        if (usd := usd_of(plan, workload, wanted)) is not None
    ]
    best = ask(workload, wanted).best
    assert (best is None) == (not costs)
    if best is not None:
        assert float(best.cost["total_usd"]) == pytest.approx(min(costs), abs=0.02)


def test_a_budget_that_buys_nothing_is_answered_with_what_one_step_costs() -> None:
    shape = find_model("llama-3.1-8b").shape
    workload = build_workload(
        shape,
        num_tokens=None,
        seq_len=None,
        global_batch_tokens=None,
        training="pretrain",
        open_ended=True,
    )
    wanted = Constraints(objective="most_tokens", budget_usd=Decimal(20))
    miss = ask(workload, wanted).nearest_miss
    assert miss is not None
    assert miss.candidate is not None
    enough = Decimal(str(miss.candidate.cost["total_usd"]))
    assert f"{enough:,.2f}" in miss.change
    assert ask(workload, replace(wanted, budget_usd=enough)).best is not None


@FEW
@given(workloads, constraints)
def test_the_change_that_a_miss_names_is_one_that_helps(
    workload: Workload, wanted: Constraints
) -> None:
    tight = replace(wanted, pins=Pins(activation_checkpointing="none", micro_batch=64))
    miss = ask(workload, replace(tight, budget_usd=None, objective="cheapest")).nearest_miss
    assume(miss is not None)
    assert miss is not None
    words = ("leave", "allow", "raise", "pin", "shorten", "none of the single", "train on fewer")
    assert miss.change.startswith(words)
    if miss.change.startswith("leave micro_batch open or"):
        freed = replace(tight, pins=replace(tight.pins, micro_batch=None), budget_usd=None)
        assert ask(workload, replace(freed, objective="cheapest", deadline_hours=None)).num_fitting
