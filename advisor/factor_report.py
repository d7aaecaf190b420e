"""Factor report: each factor between the laws and the stored results, in words, with its rows."""

import math
from dataclasses import asdict, dataclass

from advisor.evidence import (
    MEMORY_PRIORS,
    THROUGHPUT_PRIORS,
    Evidence,
    memory_points,
    throughput_points,
    timed_cases,
)
from advisor.residual import QUANTILE_90_NORMAL
from advisor.throughput_factors import PRIOR
from advisor.throughput_fit import FITTED, deviations

MEMORY_WORDS = {
    "reserved/sharded": "bytes reserved by the allocator over the estimate, sharded programs",
    "reserved/whole": "bytes reserved by the allocator over the estimate, unsharded programs",
    "active/sharded": "live bytes over the estimate, sharded programs",
    "active/whole": "live bytes over the estimate, unsharded programs",
}
SPEED_WORDS = {
    "tokens_per_s": "tokens per second over the estimate; interval of FSDP2 programs",
    "tokens_per_s/other": "the same factor; interval of all other programs",
}
FACTOR_WORDS = {
    "matmul": "rate of matrix products in a step over that of the kernel alone",
    "attention": "rate of attention in a step over that of the kernel alone",
    "attention_backward": "loss of rate of attention's backward",
    "eager_traffic": "bytes that eager element-wise work moves over those counted",
    "cast_bytes": "bytes moved per element quantised to fp8",
    "launch_s": "host seconds per kernel launch",
    "step_s": "seconds of a step outside its kernels",
    "intra_link": "bandwidth of collectives over that of the links within a machine",
    "inter_link": "bandwidth of collectives over that of the network",
    "call_s": "seconds of latency of one collective",
    "hop_s": "seconds of latency of each further rank in a ring",
    "contention": "share of communication beside compute that slows the compute",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorLine:
    """One factor.

    kind: "residual" (multiplies a whole prediction; low and high hold 90 % of single results) or
    "law" (inside the throughput law; low and high hold the factor itself with 90 %, by the
    curvature of the fit). low and high are None for a factor that the rows do not tell and that
    stays at its prior. result_ids: the rows behind it.
    """

    name: str
    meaning: str
    kind: str
    value: float
    prior: float
    low: float | None
    high: float | None
    count: int
    num_sources: int
    result_ids: tuple[str, ...]


def factor_lines(evidence: Evidence) -> tuple[FactorLine, ...]:
    """Every factor of a calibration, those of memory first."""
    return (*_residual_lines(evidence), *_law_lines(evidence))


def _residual_lines(evidence: Evidence) -> list[FactorLine]:
    points = [
        *memory_points(evidence.cases),
        *throughput_points(evidence.cases, evidence.factors),
    ]
    residuals = {
        **evidence.memory,
        "tokens_per_s": evidence.throughput,
        "tokens_per_s/other": evidence.other_throughput,
    }
    lines = []
    for name, residual in residuals.items():
        spread = math.exp(residual.interval)
        lines.append(
            FactorLine(
                name=name,
                meaning={**MEMORY_WORDS, **SPEED_WORDS}[name],
                kind="residual",
                value=residual.factor,
                prior=MEMORY_PRIORS.get(name, THROUGHPUT_PRIORS["tokens_per_s"]),
                low=residual.factor / spread,
                high=residual.factor * spread,
                count=residual.count,
                num_sources=residual.num_sources,
                result_ids=tuple(
                    point.result_id
                    for point in points
                    if point.group == name.removesuffix("/other")
                ),
            )
        )
    return lines


def _law_lines(evidence: Evidence) -> list[FactorLine]:
    timed = timed_cases(evidence.cases)
    wide = deviations(timed, evidence.factors)
    ids = tuple(case.result.id for case in timed)
    sources = len({case.result.source for case in timed})
    priors = asdict(PRIOR)
    lines = []
    for name, value in asdict(evidence.factors).items():
        fitted = name in FITTED
        spread = math.exp(QUANTILE_90_NORMAL * wide[name]) if fitted else None
        lines.append(
            FactorLine(
                name=name,
                meaning=FACTOR_WORDS[name],
                kind="law",
                value=value,
                prior=priors[name],
                low=None if spread is None else value / spread,
                high=None if spread is None else value * spread,
                count=len(timed) if fitted else 0,
                num_sources=sources if fitted else 0,
                result_ids=ids if fitted else (),
            )
        )
    return lines
