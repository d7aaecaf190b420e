"""The memory timeline: its terms, its instants and what each setting does to them."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.memory import Memory, estimate_memory
from advisor.model import ModelShape
from advisor.model_catalog import find_model
from advisor.plan import Optimizer, Plan
from advisor.settings import settings_of, total
from advisor.stack import load_stacks
from advisor.units import GIB

LLAMA_8B = find_model("llama-3-8b").shape
PLAN = Plan(
    instance_type="p5.48xlarge",
    num_instances=1,
    gpus_per_instance=8,
    precision="bf16",
    activation_checkpointing="selective",
    micro_batch=1,
    seq_len=8192,
    shard_degree=8,
)


def memory_of(plan: Plan, shape: ModelShape = LLAMA_8B, stack: str = "shardwise") -> Memory:
    return estimate_memory(shape, settings_of(plan), load_stacks()[stack])


def test_terms_of_each_instant_sum_to_it() -> None:
    memory = memory_of(PLAN)
    for name, value in memory.instants.items():
        assert float(total(memory.terms[name])) == pytest.approx(float(value))
    assert float(memory.reserved_bytes) == max(float(v) for v in memory.instants.values())


def test_model_states_are_sixteen_bytes_a_parameter_over_the_shards() -> None:
    terms = memory_of(PLAN).terms["loss"]
    states = terms["parameters"] + terms["optimizer"] + terms["gradients"]
    assert float(states) == pytest.approx(16 * LLAMA_8B.num_parameters / 8)


def test_plain_loss_costs_twelve_bytes_a_logit_in_eager_mode() -> None:
    logits = memory_of(replace(PLAN, compile=False)).terms["loss"]["logits"]
    assert float(logits) == 12 * 8192 * 128256


def test_slicing_the_loss_lowers_a_peak_that_the_logits_make() -> None:
    plan = replace(PLAN, compile=False, activation_checkpointing="full", micro_batch=4)
    whole, sliced = memory_of(plan), memory_of(replace(plan, loss_chunks=8))
    saved = 12 * 4 * 8192 * 128256 * 7 / 8
    assert float(whole.instants["loss"] - sliced.instants["loss"]) == pytest.approx(saved, rel=0.05)
    assert float(sliced.reserved_bytes) < float(whole.reserved_bytes)


def test_deferred_reduction_costs_a_whole_fp32_gradient() -> None:
    each = replace(PLAN, accumulation_steps=4)
    last = replace(each, gradient_sync="last")
    more = float(memory_of(last).terms["loss"]["gradients"]) - float(
        memory_of(each).terms["loss"]["gradients"]
    )
    assert more == pytest.approx(4 * LLAMA_8B.num_parameters * (1 - 1 / 8))


def test_keeping_gathered_weights_costs_all_blocks_in_bf16() -> None:
    kept = memory_of(replace(PLAN, reshard_after_forward=False)).terms["loss"]
    freed = memory_of(PLAN).terms["loss"]
    more = float(kept["gathered parameters"] - freed["gathered parameters"])
    assert more == pytest.approx(2 * 32 * LLAMA_8B.block_parameters)


def test_low_precision_does_not_change_model_states() -> None:
    for precision in ("fp8", "mxfp8", "nvfp4"):
        low = memory_of(replace(PLAN, precision=precision)).terms["loss"]
        assert low["parameters"] == memory_of(PLAN).terms["loss"]["parameters"]


@pytest.mark.parametrize(("optimizer", "per_parameter"), [("adamw_bf16", 4.0), ("adamw", 8.0)])
def test_optimizer_states(optimizer: Optimizer, per_parameter: float) -> None:
    terms = memory_of(replace(PLAN, optimizer=optimizer)).terms["loss"]
    assert float(terms["optimizer"]) == per_parameter * LLAMA_8B.num_parameters / 8


def test_arrays_give_what_single_plans_give() -> None:
    plans = [replace(PLAN, micro_batch=m, seq_len=s) for m in (1, 2, 8) for s in (2048, 8192)]
    one = settings_of(PLAN)
    many = replace(
        one,
        micro_batch=np.array([[1.0], [2.0], [8.0]]),
        seq_len=np.array([[2048.0, 8192.0]]),
    )
    together = estimate_memory(LLAMA_8B, many, load_stacks()["shardwise"])
    apart = [float(memory_of(plan).reserved_bytes) for plan in plans]
    assert np.ravel(together.reserved_bytes) == pytest.approx(apart, rel=1e-12)


def test_a_stored_torchtitan_run_is_near() -> None:
    """torchtitan commit b4087730b's era: 49.6 GiB reserved, eager, selective, 8 GPUs."""
    memory = memory_of(replace(PLAN, compile=False), stack="torchtitan-2024-10")
    assert float(memory.reserved_bytes) / GIB == pytest.approx(49.6, rel=0.12)
