"""The formulas follow every program on FSDP2, at each instant of a step; others are refused."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, product

import pytest
from explained_answers import CATALOG, evidence, python_value

from advisor.memory import PEAK_INSTANTS, estimate_memory
from advisor.memory_explanations import explain_memory
from advisor.memory_formulas import MemoryFormulas
from advisor.model_catalog import find_model
from advisor.plan import PRECISIONS, Plan
from advisor.settings import settings_of
from advisor.stack import Stack, load_stacks
from advisor.step_explanations import SPEED_FIGURES, explain_step
from advisor.throughput import fabric_of, step_time

OWN = load_stacks()["shardwise"]
# Facts that no program on FSDP2 has today, each in a variant of ours.
VARIANTS = (
    replace(OWN, name="fp8 gathers", fp8_gather=True, built_in_loss_chunks=4),
    replace(OWN, name="masters", weight_bytes=2, master_bytes=4, root_is_one_unit=True),
    replace(OWN, name="no embeddings", has_embeddings=False, optimizer_temporaries=4),
    replace(OWN, name="fused", optimized=True, fused_casts=True, block_extra_bytes=3),
)
STACKS = (*(each for each in load_stacks().values() if each.engine == "fsdp2"), *VARIANTS)
OTHERS = [each for each in load_stacks().values() if each.engine != "fsdp2"]
B200 = CATALOG.instance("p6-b200.48xlarge")
PLAN = Plan(
    instance_type=B200.name,
    num_instances=2,
    gpus_per_instance=8,
    precision="bf16",
    activation_checkpointing="none",
    micro_batch=2,
    seq_len=1024,
    shard_degree=16,
)
MODELS = ("llama-3.2-1b", "olmo-2-7b", "pythia-1.4b")
# Our own program with each kind of model, every other one with one of them.
PAIRS = [
    *(pytest.param(OWN, model, id=f"own-{model}") for model in MODELS),
    *(
        pytest.param(stack, model, id=f"{stack.name}-{model}")
        for stack, model in zip(STACKS, cycle(MODELS), strict=False)
    ),
]


def plans() -> Iterator[Plan]:
    checkpointings = (("none", 0), ("selective", 0), ("selective", 3), ("full", 0))
    for precision, compiled, (mode, every), reshard, chunks in product(
        PRECISIONS, (True, False), checkpointings, (True, False), (1, 8)
    ):
        yield replace(
            PLAN,
            precision=precision,
            compile=compiled,
            activation_checkpointing=mode,
            checkpoint_every=every,
            reshard_after_forward=reshard,
            loss_chunks=chunks,
            # Each of these with some of the choices above.
            accumulation_steps=1 if reshard else 4,
            gradient_sync="each" if compiled else "last",
            shard_degree=8 if chunks > 1 else 16,
            replica_degree=2 if chunks > 1 else 1,
        )


def name(stack: Stack) -> str:
    return stack.name


@pytest.mark.parametrize(("stack", "model"), PAIRS)
def test_each_term_of_each_instant_is_the_laws(stack: Stack, model: str) -> None:
    shape = find_model(model).shape
    for plan in plans():
        formulas = MemoryFormulas.of(shape, plan, stack)
        law = estimate_memory(shape, settings_of(plan), stack)
        for instant in PEAK_INSTANTS:
            for term, value in law.terms[instant].items():
                if float(value):
                    found = python_value(formulas.term(term, instant))
                    assert math.isclose(found, float(value), rel_tol=1e-12), (term, instant, plan)


@pytest.mark.parametrize("stack", STACKS, ids=name)
def test_live_bytes_are_the_laws(stack: Stack) -> None:
    shape = find_model("llama-3.2-1b").shape
    for plan in plans():
        law = estimate_memory(shape, settings_of(plan), stack)
        peak = evidence().memory_residual(settings_of(plan)).factor * float(law.reserved_bytes)
        found = explain_memory(shape, plan, stack, B200.gpu, evidence())["active_bytes"]
        wanted = min(float(law.active_bytes), peak)
        assert math.isclose(python_value(found), wanted, abs_tol=10), plan


def test_live_bytes_are_never_more_than_the_allocator_holds() -> None:
    shape = find_model("llama-3.2-1b").shape
    below = {key: replace(each, factor=0.5) for key, each in evidence().memory.items()}
    calibration = replace(evidence(), memory=below)
    found = explain_memory(shape, PLAN, OWN, B200.gpu, calibration)
    assert found["active_bytes"].formula == "peak"
    assert math.isclose(found["active_bytes"].value, found["peak_bytes"].value, abs_tol=1)


@pytest.mark.parametrize("stack", STACKS, ids=name)
def test_each_term_of_a_step_is_the_laws(stack: Stack) -> None:
    shape = find_model("pythia-1.4b" if stack.optimized else "llama-3.2-1b").shape
    factors, speed = evidence().factors, evidence().throughput.factor
    for plan in plans():
        law = step_time(shape, settings_of(plan), stack, B200.gpu, fabric_of(B200), factors)
        wanted = {name: float(value) / speed for name, value in law.terms.items() if value}
        found = explain_step(shape, plan, stack, B200, evidence())
        assert set(found) == {*wanted, *SPEED_FIGURES}
        for term, seconds in wanted.items():
            assert math.isclose(python_value(found[term]), seconds, rel_tol=1e-9), (term, plan)


@pytest.mark.parametrize("stack", OTHERS, ids=name)
def test_programs_on_other_engines_are_refused(stack: Stack) -> None:
    shape = find_model("llama-3.2-1b").shape
    with pytest.raises(ValueError, match="only fsdp2"):
        explain_memory(shape, PLAN, stack, B200.gpu, evidence())
    with pytest.raises(ValueError, match="only fsdp2"):
        explain_step(shape, PLAN, stack, B200, evidence())


def test_a_format_that_the_gpu_lacks_is_refused() -> None:
    shape = find_model("llama-3.2-1b").shape
    plan = replace(PLAN, precision="mxfp8")
    with pytest.raises(ValueError, match="has no mxfp8"):
        explain_step(shape, plan, OWN, CATALOG.instance("p5.48xlarge"), evidence())


def test_an_estimated_rate_says_so() -> None:
    shape = find_model("llama-3.2-1b").shape
    for instance, word in (("p6-b200.48xlarge", "kernels.csv"), ("g6e.48xlarge", "an estimate")):
        found = explain_step(shape, PLAN, OWN, CATALOG.instance(instance), evidence())
        assert word in found["matrix products"].source
