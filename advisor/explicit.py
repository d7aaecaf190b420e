"""Explicit plans: the figures of a plan that someone named, recommended or not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.errors import InvalidField
from advisor.evidence import Evidence, capacity_bytes, vetoed
from advisor.hardware import Instance
from advisor.kernels import peak_of
from advisor.memory import estimate_memory
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.settings import settings_of
from advisor.stack import Stack
from advisor.throughput import fabric_of, step_time
from advisor.workload import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Memory of one GPU and speed of one plan, as advisor.recommendation names them.

    vetoed: a stored result of this very plan ran out of memory. fits: the chance of running out of
    memory is within the limit, the peak is within the capacity, and nothing vetoes it.
    terms: exposed seconds of one step by name.
    """

    plan: Plan
    peak_bytes: int
    active_bytes: int
    interval_bytes: tuple[int, int]
    capacity_bytes: int
    peak_instant: str
    out_of_memory_probability: float
    vetoed: bool
    fits: bool
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    interval_tokens_per_s: tuple[float, float]
    step_s: float
    mfu_fraction: float
    terms: Mapping[str, float]


def figures_of(
    plan: Plan,
    shape: ModelShape,
    instance: Instance,
    evidence: Evidence,
    stack: Stack,
    *,
    max_oom_probability: float,
) -> Figures:
    """The figures of one plan. Raises InvalidField for a precision that the GPU lacks."""
    gpu = instance.gpu
    if peak_of(gpu, plan.precision) == 0:
        raise InvalidField("precision", f"{gpu.name} has no {plan.precision}; choose another")
    settings = settings_of(plan)
    memory = estimate_memory(shape, settings, stack)
    residual = evidence.memory_residual(settings)
    peak = residual.factor * float(memory.reserved_bytes)
    wide = math.exp(residual.interval)
    capacity = capacity_bytes(gpu)
    chance = float(evidence.out_of_memory_probability(memory.active_bytes, settings, capacity))
    is_vetoed = bool(vetoed(evidence, shape, settings, stack, gpu))
    step = step_time(shape, settings, stack, gpu, fabric_of(instance), evidence.factors)
    factor, spread = evidence.throughput.factor, math.exp(evidence.throughput.interval)
    tokens_per_s = factor * float(step.tokens_per_s)
    return Figures(
        plan=plan,
        peak_bytes=round(peak),
        active_bytes=round(min(float(memory.active_bytes), peak)),
        interval_bytes=(round(peak / wide), round(peak * wide)),
        capacity_bytes=capacity,
        peak_instant=max(memory.instants, key=lambda name: float(memory.instants[name])),
        out_of_memory_probability=chance,
        vetoed=is_vetoed,
        fits=chance <= max_oom_probability and peak <= capacity and not is_vetoed,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_gpu=tokens_per_s / plan.num_gpus,
        interval_tokens_per_s=(tokens_per_s / spread, tokens_per_s * spread),
        step_s=float(step.step_s) / factor,
        mfu_fraction=factor * float(step.mfu_fraction),
        terms={name: float(value) / factor for name, value in step.terms.items() if float(value)},
    )


def shard_degree_of(sharding: Sharding, *, num_gpus: int, gpus_per_instance: int) -> int:
    """GPUs that hold one copy of the model: all, those of one instance, or one."""
    return {"full": num_gpus, "hybrid": gpus_per_instance, "none": 1}[sharding]
