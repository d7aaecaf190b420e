"""Candidate, NearestMiss, Recommendation: the answer, ready to be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from advisor.plan import Plan

Verdict = Literal["fits", "edge", "does_not_fit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Peak memory of one GPU.

    peak_bytes: reserved bytes at the peak, as torch.cuda.max_memory_reserved would report.
    active_bytes: bytes of live tensors at the peak (torch.cuda.max_memory_allocated).
    capacity_bytes: what torch can use on this GPU. headroom_bytes: capacity − peak.
    terms: bytes by name at the instant of the peak; they sum to peak_bytes.
    instants: active bytes by instant of the step; the peak is the largest.
    interval_bytes: 90 % interval of peak_bytes from the residuals on stored results.
    """

    peak_bytes: int
    active_bytes: int
    capacity_bytes: int
    headroom_bytes: int
    peak_instant: str
    terms: Mapping[str, int]
    instants: Mapping[str, int]
    interval_bytes: tuple[int, int]
    out_of_memory_probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputEstimate:
    """Speed of one step.

    terms: exposed seconds of one step by name; they sum to step_s.
    mfu_fraction: model FLOPs utilisation; 6 FLOPs per matmul parameter and token plus causal
        attention, over the dense bf16 peak.
    interval_tokens_per_s: 90 % interval from the residuals on stored results.
    """

    tokens_per_s: float
    tokens_per_s_per_gpu: float
    step_s: float
    mfu_fraction: float
    terms: Mapping[str, float]
    interval_tokens_per_s: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a setting has its value, and what the next best value would cost."""

    setting: str
    value: str
    reason: str
    next_best: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A stored result near the plan, its difference in words, predicted beside measured."""

    result_id: str
    source_url: str
    difference: str
    distance: float
    measured_mem_gib: float | None
    predicted_mem_gib: float | None
    measured_tokens_per_s_per_gpu: float | None
    predicted_tokens_per_s_per_gpu: float | None
    oom: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One plan with its figures. `cost` is advisor.cost.Cost as a mapping ready for JSON."""

    plan: Plan
    num_tokens: int
    num_steps: int
    memory: MemoryEstimate
    throughput: ThroughputEstimate
    cost: Mapping[str, Any]
    verdict: Verdict
    why: tuple[Reason, ...] = ()
    evidence: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestMiss:
    """The plan that comes closest when nothing meets the constraints, and the change that would."""

    candidate: Candidate | None
    reason: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The whole answer. `alternatives` are labelled, mutually undominated and differ from best."""

    best: Candidate | None
    alternatives: tuple[tuple[str, Candidate], ...]
    nearest_miss: NearestMiss | None
    num_candidates: int
    num_fitting: int
    assumptions: tuple[str, ...]
    catalog_version: str
    calibration_version: str
