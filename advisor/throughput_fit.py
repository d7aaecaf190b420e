"""Fit of the throughput model's few factors on stored results, and its report.

`python -m advisor.throughput_fit` prints, for each source, the errors of predictions that left the
source out of the fit, and the factors with their spread; with `--write` it renews
data/throughput_factors.toml.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from advisor.case import Case, case_of
from advisor.result import load_shipped_results
from advisor.settings import FloatArray
from advisor.throughput import fabric_for_case, step_time
from advisor.throughput_factors import PRIOR, ThroughputFactors

# Standard deviation of a factor's logarithm around its prior.
PRIOR_SPREAD = 0.25
# Errors beyond this count linearly (Huber), so that runs with an unknown defect do not decide.
HUBER = 0.10
# Factors that rows do not tell apart from others keep their prior.
FITTED = ("matmul", "attention", "eager_traffic", "cast_bytes", "contention", "inter_link")
ROUNDS = 3
STEPS = (0.2, 0.1, 0.05, 0.02)


def training_cases() -> list[Case]:
    """Cases with a speed; a run that a source lists twice (once per memory kind) counts once."""
    cases = []
    seen = set()
    for result in load_shipped_results():
        case = case_of(result)
        if not isinstance(case, Case) or case.why_not_throughput:
            continue
        run = (result.source, result.model_name, result.tokens_per_s_per_gpu, result.gpus_total)
        if run not in seen:
            seen.add(run)
            cases.append(case)
    return cases


def errors_of(cases: Sequence[Case], factors: ThroughputFactors) -> FloatArray:
    """log(measured / predicted) tokens per second of each case."""
    return np.asarray([_error(case, factors) for case in cases])


def _error(case: Case, factors: ThroughputFactors) -> float:
    step = step_time(
        case.shape, case.settings, case.stack, case.gpu, fabric_for_case(case), factors
    )
    measured = case.result.tokens_per_s_per_gpu or math.nan
    return math.log(measured / float(step.tokens_per_s_per_gpu))


def fit(cases: Sequence[Case]) -> ThroughputFactors:
    """Factors with the least Huber loss of the errors and of their distance from the priors.

    Coordinate descent in fixed steps: deterministic, and needs no derivative.
    """
    rows = Counter(case.result.source for case in cases)
    weights = np.asarray([1.0 / math.sqrt(rows[case.result.source]) for case in cases])
    factors = PRIOR
    best = _loss(cases, weights, factors)
    for step in STEPS:
        for _ in range(ROUNDS):
            for name in FITTED:
                for direction in (math.exp(step), math.exp(-step)):
                    moved = replace(factors, **{name: getattr(factors, name) * direction})
                    loss = _loss(cases, weights, moved)
                    if loss < best:
                        factors, best = moved, loss
                        break
    return factors


def _loss(cases: Sequence[Case], weights: FloatArray, factors: ThroughputFactors) -> float:
    size = np.abs(errors_of(cases, factors))
    huber = np.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER))
    apart = [
        math.log(getattr(factors, name) / getattr(PRIOR, name)) / PRIOR_SPREAD for name in FITTED
    ]
    return float(np.sum(weights * huber) + 0.5 * HUBER**2 * sum(x * x for x in apart))


def left_out(cases: Sequence[Case]) -> dict[str, tuple[ThroughputFactors, FloatArray]]:
    """By source: factors fitted without it, and the errors of its rows under them."""
    found = {}
    for source in sorted({case.result.source for case in cases}):
        own = [case for case in cases if case.result.source == source]
        factors = fit([case for case in cases if case.result.source != source])
        found[source] = (factors, errors_of(own, factors))
    return found


def report() -> str:
    """Table of the errors by source and of the factors."""
    cases = training_cases()
    folds = left_out(cases)
    lines = ["source          rows  median  p90   bias"]
    for source, (_, errors) in folds.items():
        size = np.abs(np.expm1(-errors))
        lines.append(
            f"{source:15s} {errors.size:4d} {np.median(size):6.3f} {np.quantile(size, 0.9):6.3f}"
            f" {np.median(errors):+.3f}"
        )
    size = np.abs(np.expm1(-np.concatenate([errors for _, errors in folds.values()])))
    lines.append(f"{'all':15s} {size.size:4d} {np.median(size):6.3f} {np.quantile(size, 0.9):6.3f}")
    lines.append(_toml(fit(cases), [factors for factors, _ in folds.values()], len(cases)))
    return "\n".join(lines)


def _toml(factors: ThroughputFactors, folds: Sequence[ThroughputFactors], count: int) -> str:
    """The factors as the data file has them; spread is that over the folds, as a ratio."""
    lines = [
        "# Factors of the throughput model: value, rows fitted on (0: the prior stands), and the",
        "# largest ratio between fits that left one source out. Renew with",
        "# `python -m advisor.throughput_fit --write`.",
    ]
    for name, value in asdict(factors).items():
        values = [getattr(fold, name) for fold in folds]
        rows = count if name in FITTED else 0
        lines += [
            "",
            f"[{name}]",
            f"value = {value:.6g}",
            f"count = {rows}",
            f"spread = {max(values) / min(values):.4f}",
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    text = report()
    sys.stdout.write(text)
    if "--write" in arguments:
        path = Path(__file__).parent / "data" / "throughput_factors.toml"
        path.write_text(text[text.index("# Factors") :], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
