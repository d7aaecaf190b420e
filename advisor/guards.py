"""Guards: figures of a result that physics rules out, or that leave open what was measured."""

from dataclasses import dataclass
from typing import Literal

from advisor.case import Case
from advisor.hardware import Gpu
from advisor.kernels import peak_of
from advisor.memory import units_of
from advisor.plan import PRECISIONS
from advisor.units import GIB

Figure = Literal["memory", "throughput"]
# A source prints its peak with few digits.
_ROUNDING = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A figure of a result that is stored and shown, and not fitted, with the reason."""

    figure: Figure
    why: str


def flags_of(case: Case) -> tuple[Flag, ...]:
    """The flags of a result; none for most."""
    found = (_unknown_kind(case), *(check(case) for check in _IMPOSSIBLE))
    return tuple(flag for flag in found if flag is not None)


def is_impossible(case: Case) -> bool:
    """Whether physics rules out a figure of a result: it is evidence for nothing."""
    return any(check(case) is not None for check in _IMPOSSIBLE)


def is_flagged(case: Case, figure: Figure) -> bool:
    """Whether this figure of a result is left out of every fit."""
    return any(flag.figure == figure for flag in flags_of(case))


def model_state_bytes(case: Case) -> float:
    """Bytes per GPU of what a run keeps between steps: weights, master copy, optimizer states."""
    total = units_of(case.shape, case.stack).total
    settings, stack = case.settings, case.stack
    states = stack.master_bytes + float(settings.state_bytes)
    if stack.master_bytes:
        # A distributed optimizer shards these over all GPUs (as in advisor.memory).
        return total * (
            stack.weight_bytes / float(settings.shard_degree) + states / float(settings.num_gpus)
        )
    return total * (stack.weight_bytes + states) / float(settings.shard_degree)


def model_flops_per_token(case: Case) -> float:
    """FLOPs that the model itself needs for one token: 6 per matrix parameter, causal attention.

    Recomputation is not in it, so a real run does more: the bound is safe.
    """
    shape = case.shape
    head = shape.head_matmul_parameters if case.stack.has_embeddings else 0
    matmul = shape.num_layers * shape.block_matmul_parameters + head
    attended = shape.attended_tokens(case.settings.seq_len)
    return float(6.0 * (matmul + 2.0 * shape.num_layers * shape.q_size * attended))


def best_peak_flops(gpu: Gpu, precision: int) -> float:
    """The higher of the dense peaks of a run's format and of bf16, per GPU and second."""
    return max(peak_of(gpu, "bf16"), peak_of(gpu, PRECISIONS[precision]))


def _unknown_kind(case: Case) -> Flag | None:
    result = case.result
    if result.peak_mem_gib is None or result.peak_mem_kind not in (None, "unknown"):
        return None
    return Flag(
        figure="memory",
        why="the source does not say whether its peak is of reserved or of live bytes",
    )


def _below_states(case: Case) -> Flag | None:
    measured = case.result.peak_mem_gib
    if measured is None or case.why_not_memory is not None:
        return None
    states = model_state_bytes(case)
    if measured * GIB >= _ROUNDING * states:
        return None
    return Flag(
        figure="memory",
        why=f"a peak of {measured:.1f} GiB is below the model states alone, {states / GIB:.1f} GiB",
    )


def _above_capacity(case: Case) -> Flag | None:
    measured, capacity = case.result.peak_mem_gib, case.gpu.memory_bytes / GIB
    if measured is None or measured <= capacity:
        return None
    return Flag(
        figure="memory",
        why=f"a peak of {measured:,.1f} GiB is more than the {capacity:.1f} GiB of {case.gpu.name}",
    )


def _above_peak(case: Case) -> Flag | None:
    measured = case.result.tokens_per_s_per_gpu
    if measured is None:
        return None
    flops = measured * model_flops_per_token(case)
    peak = best_peak_flops(case.gpu, int(case.settings.precision))
    if flops <= peak:
        return None
    return Flag(
        figure="throughput",
        why=f"{flops / 1e12:,.0f} TFLOP/s per GPU are above the peak of {case.gpu.name}, "
        f"{peak / 1e12:,.0f}",
    )


_IMPOSSIBLE = (_below_states, _above_capacity, _above_peak)
