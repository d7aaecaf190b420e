"""Candidate from a place in a field: the exact figures of one plan, ready to be shown."""

import math
from typing import Any

import numpy as np

from advisor.case import Case
from advisor.cost import Cost, NotPurchasable, cost_of
from advisor.evidence import Evidence, capacity_bytes
from advisor.field import WEIGHT_BYTES, Offers
from advisor.hardware import Gpu
from advisor.memory import Memory, estimate_memory
from advisor.neighbours import traits_of
from advisor.recommendation import (
    Candidate,
    MemoryEstimate,
    Neighbour,
    ThroughputEstimate,
    Verdict,
)
from advisor.residual import Residual
from advisor.settings import Settings, settings_of
from advisor.stack import Stack
from advisor.throughput import StepTime, fabric_of, step_time
from advisor.workload import Workload

NUM_NEIGHBOURS = 3
ALLOCATOR_TERM = "allocator rounding and fragmentation"


def build_candidate(
    offers: Offers, position: int, workload: Workload, evidence: Evidence, stack: Stack
) -> Candidate:
    """The candidate at a position of some offers."""
    grid, terms = offers.field.grid, offers.field.terms
    plan = grid.plan(int(offers.index[position]))
    settings = settings_of(plan)
    gpu = grid.instance.gpu
    memory = _memory(workload, settings, stack, gpu, evidence)
    step = step_time(
        workload.shape, settings, stack, gpu, fabric_of(grid.instance), evidence.factors
    )
    throughput = _throughput(step, evidence.throughput)
    num_steps = round(float(offers.num_tokens[position]) / plan.tokens_per_step)
    cost = cost_of(
        terms,
        num_instances=plan.num_instances,
        training_s=num_steps * throughput.step_s,
        checkpoint_bytes=round(
            workload.shape.num_parameters * (WEIGHT_BYTES + float(settings.state_bytes))
        ),
    )
    num_tokens = num_steps * plan.tokens_per_step
    return Candidate(
        plan=plan,
        num_tokens=num_tokens,
        num_steps=num_steps,
        memory=memory,
        throughput=throughput,
        cost=_cost(cost, num_tokens),
        verdict=_verdict(memory),
        evidence=tuple(
            _neighbour(case, evidence, distance, words)
            for case, distance, words in evidence.neighbourhood.nearest(
                traits_of(workload.shape, settings, stack, gpu), NUM_NEIGHBOURS
            )
        ),
    )


def _cost(cost: Cost | NotPurchasable, num_tokens: int) -> dict[str, Any]:
    """The cost ready for JSON; what cannot be bought has a note and no figures."""
    if isinstance(cost, Cost):
        return cost.as_mapping(max(num_tokens, 1))
    return {
        "total_usd": None,
        "hours": None,
        "usd_per_billion_tokens": None,
        "notes": [cost.reason],
    }


def _neighbour(case: Case, evidence: Evidence, distance: float, difference: str) -> Neighbour:
    result = case.result
    memory, speed = evidence.fitted[result.id]
    return Neighbour(
        result_id=result.id,
        source_url=result.source_url,
        difference=difference,
        distance=round(distance, 3),
        measured_mem_gib=result.peak_mem_gib,
        predicted_mem_gib=None if memory is None else round(memory, 2),
        measured_tokens_per_s_per_gpu=result.tokens_per_s_per_gpu,
        predicted_tokens_per_s_per_gpu=None if speed is None else round(speed, 1),
        oom=result.oom,
    )


def _memory(
    workload: Workload, settings: Settings, stack: Stack, gpu: Gpu, evidence: Evidence
) -> MemoryEstimate:
    raw = estimate_memory(workload.shape, settings, stack)
    residual = evidence.memory_residual(settings)
    peak = residual.factor * float(raw.reserved_bytes)
    instant = max(raw.instants, key=lambda name: float(raw.instants[name]))
    capacity = capacity_bytes(gpu)
    spread = math.exp(residual.interval)
    return MemoryEstimate(
        peak_bytes=round(peak),
        active_bytes=round(min(float(raw.active_bytes), peak)),
        capacity_bytes=capacity,
        headroom_bytes=capacity - round(peak),
        peak_instant=instant,
        terms=_terms(raw, instant, round(peak), residual.factor),
        instants={
            name: round(residual.factor * float(value)) for name, value in raw.instants.items()
        },
        interval_bytes=(round(peak / spread), round(peak * spread)),
        out_of_memory_probability=float(
            evidence.out_of_memory_probability(raw.active_bytes, settings, capacity)
        ),
    )


def _terms(raw: Memory, instant: str, peak: int, factor: float) -> dict[str, int]:
    """Bytes by name at the peak, summing to it: the rest is the allocator's."""
    scale = min(factor, 1.0)
    terms = {name: round(scale * float(value)) for name, value in raw.terms[instant].items()}
    shown = {name: value for name, value in terms.items() if value > 0}
    shown[ALLOCATOR_TERM] = peak - sum(shown.values())
    return shown


def _throughput(step: StepTime, residual: Residual) -> ThroughputEstimate:
    factor = residual.factor
    spread = math.exp(residual.interval)
    tokens_per_s = float(step.tokens_per_s) * factor
    return ThroughputEstimate(
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_gpu=float(step.tokens_per_s_per_gpu) * factor,
        step_s=float(step.step_s) / factor,
        mfu_fraction=float(step.mfu_fraction) * factor,
        terms={name: float(value) / factor for name, value in step.terms.items() if np.all(value)},
        interval_tokens_per_s=(tokens_per_s / spread, tokens_per_s * spread),
    )


def _verdict(memory: MemoryEstimate) -> Verdict:
    if memory.peak_bytes > memory.capacity_bytes:
        return "does_not_fit"
    return "fits" if memory.interval_bytes[1] <= memory.capacity_bytes else "edge"
