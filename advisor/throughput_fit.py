"""Fit of the throughput model's few factors on stored results, and its report.

`python -m advisor.throughput_fit` prints, for each source, the errors of predictions that left the
source out of the fit, and the factors with their spread; with `--write` it renews
data/throughput_factors.toml.
"""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from advisor.case import Case, case_of
from advisor.result import load_shipped_results
from advisor.settings import FloatArray
from advisor.throughput import fabric_for_case, step_time
from advisor.throughput_factors import PRIOR, ThroughputFactors

# Factors that the rows tell apart, with the standard deviation of their logarithm around the prior;
# the others keep their prior.
FITTED = {
    "matmul": 0.10,
    "attention": 0.20,
    "eager_traffic": 0.30,
    "cast_bytes": 0.30,
    "inter_link": 0.15,
    "contention": 0.50,
}
# Spread that one row's error has of itself (programs differ in what is not modelled).
ROW_SPREAD = 0.12
# Errors beyond this count linearly (Huber), so that runs with an unknown defect do not decide.
HUBER = 0.08
ROUNDS, REFIT_ROUNDS = 5, 2
NUDGE, LONGEST_STEP = 0.02, 0.4


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


def _moved(start: ThroughputFactors, logs: FloatArray) -> ThroughputFactors:
    """Factors times exp(logs), in the order of FITTED."""
    pairs = zip(FITTED, logs, strict=True)
    return replace(
        start, **{name: getattr(start, name) * math.exp(float(log)) for name, log in pairs}
    )


def fit(
    cases: Sequence[Case], start: ThroughputFactors = PRIOR, rounds: int = ROUNDS
) -> ThroughputFactors:
    """Factors with the least loss: Huber's of the errors, squares of the distance to the priors.

    Gauss-Newton on reweighted squares (Huber 1964) with numeric derivatives: deterministic. A
    source counts with the square root of its rows, so that the largest does not decide alone.
    """
    rows = Counter(case.result.source for case in cases)
    own = np.asarray([1.0 / math.sqrt(rows[case.result.source]) for case in cases])
    spread = np.asarray(list(FITTED.values()))
    factors = start
    for _ in range(rounds):
        errors = errors_of(cases, factors)
        slopes = np.stack(
            [
                (errors - errors_of(cases, _moved(factors, NUDGE * unit))) / NUDGE
                for unit in np.eye(len(FITTED))
            ],
            axis=1,
        )
        weights = own / np.maximum(np.abs(errors) / HUBER, 1.0) / ROW_SPREAD**2
        apart = np.log([getattr(factors, name) / getattr(PRIOR, name) for name in FITTED])
        normal = (slopes.T * weights) @ slopes + np.diag(spread**-2.0)
        step = np.linalg.solve(normal, (slopes.T * weights) @ errors - apart / spread**2)
        factors = _moved(factors, np.clip(step, -LONGEST_STEP, LONGEST_STEP))
    return factors


def left_out(cases: Sequence[Case]) -> dict[str, tuple[ThroughputFactors, FloatArray]]:
    """By source: factors fitted without it, and the errors of its rows under them.

    Each starts from the fit on all rows, which is near: two rounds reach the same minimum.
    """
    start = fit(cases)
    found = {}
    for source in sorted({case.result.source for case in cases}):
        own = [case for case in cases if case.result.source == source]
        others = [case for case in cases if case.result.source != source]
        factors = fit(others, start, REFIT_ROUNDS)
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
    fitted = {source: factors for source, (factors, _) in folds.items()}
    lines.append(_toml(fit(cases), fitted, len(cases)))
    return "\n".join(lines)


def _toml(factors: ThroughputFactors, folds: Mapping[str, ThroughputFactors], count: int) -> str:
    """The factors as the data file has them; spread is that over the folds, as a ratio."""
    lines = [
        "# Factors of the throughput model: value, rows fitted on (0: the prior stands), and the",
        "# largest ratio between fits that left one source out. [without.SOURCE] has the factors",
        "# of such a fit. Renew with `python -m advisor.throughput_fit --write`.",
    ]
    for name, value in asdict(factors).items():
        values = [getattr(fold, name) for fold in folds.values()]
        rows = count if name in FITTED else 0
        lines += [
            "",
            f"[{name}]",
            f"value = {value:.6g}",
            f"count = {rows}",
            f"spread = {max(values) / min(values):.4f}",
        ]
    for source, fold in folds.items():
        lines += ["", f"[without.{source}]"]
        lines += [f"{name} = {getattr(fold, name):.6g}" for name in FITTED]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    text = report()
    sys.stdout.write(text)
    if "--write" in arguments:
        path = Path(__file__).parent / "data" / "throughput_factors.toml"
        path.write_text(text[text.index("# Factors") :], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
