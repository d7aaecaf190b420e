"""Evidence: what the stored results say of the laws, as factors, spreads, vetoes and neighbours."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.calibration import Point, calibrate, left_out_errors, with_spread_of
from advisor.case import Case, case_of
from advisor.guards import is_flagged
from advisor.hardware import Gpu
from advisor.memory import Memory, estimate_memory
from advisor.model import ModelShape
from advisor.neighbours import Neighbourhood
from advisor.residual import Residual, student_t4_cdf, student_t4_quantile
from advisor.result import Result
from advisor.settings import Number, Settings
from advisor.stack import Stack
from advisor.throughput import StepTime, fabric_for_case, step_time
from advisor.throughput_factors import ThroughputFactors, load_factors, num_rows_fitted
from advisor.throughput_fit import REFIT_ROUNDS, fit
from advisor.units import GIB

# Factors before any result is stored: of what PyTorch's caching allocator holds (its blocks are
# rounded to 2 MiB and more, and some stay split), and one for live bytes. Sharded programs gather
# and reduce in buffers of other streams, whose memory no other stream can use.
MEMORY_PRIORS = {
    "reserved/sharded": 1.05,
    "reserved/whole": 1.05,
    "active/sharded": 1.0,
    "active/whole": 1.0,
}
THROUGHPUT_PRIORS = {"tokens_per_s": 1.0}
# The engine of the plans that are recommended. Its runs are of many programs and formats, and are
# predicted less evenly than the long tables of the others: its interval is its own.
OWN_ENGINE = "fsdp2"
# A peak whose kind a source does not state is taken for the allocator's reserved bytes, which is
# what most logs print.
_KINDS = {"reserved": "reserved", "allocated": "active", "active": "active", "unknown": "reserved"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A prediction with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Calibration from stored results.

    memory: residuals by group of MEMORY_PRIORS. throughput: the one of tokens per second with the
    spread of programs on OWN_ENGINE; other_throughput: with that of all others.
    factors: the throughput model's. version names this calibration: a hash of its values and of
    the results. cases: the results in scope.
    fitted: GiB and tokens/s/GPU of cases by their result's id, as predicted with this calibration,
    None where out of scope; empty where nobody shows them.
    """

    memory: Mapping[str, Residual]
    throughput: Residual
    other_throughput: Residual
    factors: ThroughputFactors
    cases: tuple[Case, ...]
    neighbourhood: Neighbourhood
    version: str
    fitted: Mapping[str, tuple[float | None, float | None]]

    @classmethod
    def from_results(cls, results: Iterable[Result]) -> "Evidence":
        """Calibrate on these results. Those out of the laws' scope are passed over.

        The throughput factors are the shipped ones, fitted anew where other rows have a speed.
        """
        rows = tuple(results)
        cases = cases_of(rows)
        evidence = cls.from_cases(cases, factors=_factors_for(cases))
        version = calibration_version(evidence, rows)
        return replace(evidence, fitted=fitted_values(evidence), version=version)

    @classmethod
    def from_cases(
        cls,
        cases: Sequence[Case],
        *,
        without: str | None = None,
        factors: ThroughputFactors | None = None,
    ) -> "Evidence":
        """Calibrate on these cases; by default with the shipped factors, less one source's rows."""
        factors = load_factors(without) if factors is None else factors
        memory = calibrate(memory_points(cases), MEMORY_PRIORS)
        own_speed, other_speed = _speed_residuals(cases, factors)
        evidence = cls(
            memory=memory,
            throughput=own_speed,
            other_throughput=other_speed,
            factors=factors,
            cases=tuple(cases),
            neighbourhood=Neighbourhood.of(cases),
            version="",
            fitted={},
        )
        return replace(
            evidence, version=calibration_version(evidence, [case.result for case in cases])
        )

    def memory_residual(self, settings: Settings, kind: str = "reserved") -> Residual:
        """The residual of a kind of peak for one plan."""
        return self.memory[_memory_group(kind, sharded=bool(np.greater(settings.shard_degree, 1)))]

    def reserved_factor(self, settings: Settings) -> Number:
        """What the allocator holds over the law's estimate, for one plan or many."""
        return self._by_sharding(settings, "factor")

    def live_bytes_limit(
        self, settings: Settings, capacity_bytes: float, probability: float
    ) -> Number:
        """The live bytes up to which a plan runs out of memory with at most this probability."""
        scale = self._by_sharding(settings, "scale")
        return capacity_bytes * np.exp(-scale * student_t4_quantile(1.0 - probability))

    def out_of_memory_probability(
        self, active_bytes: Number, settings: Settings, capacity_bytes: float
    ) -> Number:
        """Probability that the live bytes of the peak are more than the GPU has.

        What the allocator holds beyond them it gives back before it fails, at the price of speed.
        """
        room = np.log(capacity_bytes / active_bytes)
        return 1.0 - student_t4_cdf(room / self._by_sharding(settings, "scale"))

    def _by_sharding(self, settings: Settings, name: str) -> Number:
        sharded, whole = (
            float(getattr(self.memory[_memory_group("reserved", sharded=sharded)], name))
            for sharded in (True, False)
        )
        return np.where(np.greater(settings.shard_degree, 1), sharded, whole)


def cases_of(results: Iterable[Result]) -> list[Case]:
    """The cases of the results in scope, in their order."""
    resolved = (case_of(result) for result in results)
    return [case for case in resolved if isinstance(case, Case)]


def timed_cases(cases: Iterable[Case]) -> list[Case]:
    """Cases whose speed is fitted: in scope, not flagged; a run that is listed twice counts once.

    Sources list a run once for each kind of memory that they print.
    """
    kept: dict[tuple[object, ...], Case] = {}
    for case in cases:
        measured = case.result.tokens_per_s_per_gpu
        if case.why_not_throughput or measured is None or is_flagged(case, "throughput"):
            continue
        run = (case.result.source, case.result.model_name, measured, case.result.gpus_total)
        kept.setdefault(run, case)
    return list(kept.values())


def _factors_for(cases: Sequence[Case]) -> ThroughputFactors:
    """The shipped factors where they were fitted on as many rows; else a fit that starts there."""
    timed = timed_cases(cases)
    if not timed or len(timed) == num_rows_fitted():
        return load_factors()
    return fit(timed, load_factors(), REFIT_ROUNDS)


def _speed_residuals(
    cases: Sequence[Case], factors: ThroughputFactors
) -> tuple[Residual, Residual]:
    """One factor on tokens per second, with the spread of OWN_ENGINE and of all other engines.

    The spreads are of errors under law factors that were fitted without the point's own source, as
    any new source is predicted.
    """
    pooled = calibrate(throughput_points(cases, factors), THROUGHPUT_PRIORS)["tokens_per_s"]
    by_source: dict[str, list[Case]] = {}
    for case in cases:
        by_source.setdefault(case.result.source, []).append(case)
    points = [
        point
        for source, own in by_source.items()
        for point in throughput_points(own, load_factors(source))
    ]
    engines = {case.result.id: case.stack.engine for case in cases}
    errors: dict[bool, list[float]] = {True: [], False: []}
    for point, error in zip(points, left_out_errors(points, THROUGHPUT_PRIORS), strict=True):
        errors[engines[point.result_id] == OWN_ENGINE].append(error)
    return with_spread_of(pooled, errors[True]), with_spread_of(pooled, errors[False])


def _memory_group(kind: str, *, sharded: bool) -> str:
    """The name of a group of MEMORY_PRIORS."""
    return f"{kind}/{'sharded' if sharded else 'whole'}"


def peak_kind(result: Result) -> str:
    """Whether a result's peak is of reserved or of live bytes."""
    return _KINDS[result.peak_mem_kind or "unknown"]


def predict_memory(case: Case) -> Memory:
    """The law's estimate for a case, before any factor."""
    return estimate_memory(case.shape, case.settings, case.stack)


def predict_step(case: Case, factors: ThroughputFactors) -> StepTime:
    """The law's step time for a case."""
    fabric = fabric_for_case(case)
    return step_time(case.shape, case.settings, case.stack, case.gpu, fabric, factors)


def memory_interval(case: Case, evidence: Evidence) -> Interval:
    """Predicted peak of a case in GiB, of the kind that its result reports, with its interval."""
    memory = predict_memory(case)
    kind = peak_kind(case.result)
    raw = memory.reserved_bytes if kind == "reserved" else memory.active_bytes
    return _interval(float(raw) / GIB, evidence.memory_residual(case.settings, kind))


def speed_interval(case: Case, evidence: Evidence) -> Interval:
    """Predicted tokens per second per GPU of a case with its interval."""
    step = predict_step(case, evidence.factors)
    is_own = case.stack.engine == OWN_ENGINE
    residual = evidence.throughput if is_own else evidence.other_throughput
    return _interval(float(step.tokens_per_s_per_gpu), residual)


def fitted_values(evidence: Evidence) -> dict[str, tuple[float | None, float | None]]:
    """What is predicted for each neighbour that may be shown."""
    return {
        case.result.id: (
            None if case.why_not_memory else memory_interval(case, evidence).value,
            None if case.why_not_throughput else speed_interval(case, evidence).value,
        )
        for case in evidence.neighbourhood.cases
    }


def _interval(raw: float, residual: Residual) -> Interval:
    value = raw * residual.factor
    spread = math.exp(residual.interval)
    return Interval(value=value, low=value / spread, high=value * spread)


def capacity_bytes(gpu: Gpu) -> int:
    """What PyTorch's allocator can get on a GPU."""
    return gpu.usable_bytes


def memory_points(cases: Iterable[Case]) -> list[Point]:
    """log(measured / predicted) of every case with a memory that physics allows."""
    points = []
    for case in cases:
        measured = case.result.peak_mem_gib
        if case.why_not_memory or measured is None or case.result.oom:
            continue
        if is_flagged(case, "memory"):
            continue
        memory = predict_memory(case)
        kind = peak_kind(case.result)
        raw = float(memory.reserved_bytes if kind == "reserved" else memory.active_bytes) / GIB
        group = _memory_group(kind, sharded=bool(np.greater(case.settings.shard_degree, 1)))
        points.append(_point(case, group, measured / raw))
    return points


def throughput_points(cases: Iterable[Case], factors: ThroughputFactors) -> list[Point]:
    """log(measured / predicted) of every case with a speed that physics allows."""
    points = []
    for case in timed_cases(cases):
        predicted = float(predict_step(case, factors).tokens_per_s_per_gpu)
        measured = case.result.tokens_per_s_per_gpu or math.nan
        points.append(_point(case, "tokens_per_s", measured / predicted))
    return points


def _point(case: Case, group: str, ratio: float) -> Point:
    return Point(
        result_id=case.result.id, source=case.result.source, group=group, error=math.log(ratio)
    )


def shape_key(shape: ModelShape) -> tuple[int, ...]:
    """Dimensions that make two shapes the same model for memory."""
    return (
        shape.hidden_size,
        shape.num_layers,
        shape.q_size,
        shape.kv_size,
        shape.ffn_size,
        shape.vocab_size,
    )


def vetoed(
    evidence: Evidence, shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu
) -> NDArray[np.bool_]:
    """Where a stored out-of-memory shows that this very plan does not fit (arrays broadcast)."""
    veto = np.zeros((), dtype=bool)
    for case in evidence.cases:
        if not case.result.oom or case.gpu.name != gpu.name:
            continue
        if case.stack.engine != stack.engine or shape_key(case.shape) != shape_key(shape):
            continue
        same = np.ones((), dtype=bool)
        for name in _PLAN_FIELDS:
            same = same & np.equal(getattr(settings, name), getattr(case.settings, name))
        veto = np.logical_or(veto, same)
    return veto


_PLAN_FIELDS = (
    "micro_batch",
    "seq_len",
    "shard_degree",
    "kept_fraction",
    "op_fraction",
    "precision",
    "state_bytes",
    "reshard",
    "loss_chunks",
)


def calibration_version(evidence: Evidence, results: Iterable[Result]) -> str:
    """Short hash of the calibration's values, and of all results that were at hand for it."""
    residuals = {
        **evidence.memory,
        "tokens_per_s": evidence.throughput,
        "other tokens_per_s": evidence.other_throughput,
    }
    values: dict[str, object] = {name: asdict(residual) for name, residual in residuals.items()}
    values["factors"] = asdict(evidence.factors)
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for result in results:
        digest.update(repr(result).encode())
    return digest.hexdigest()[:12]
