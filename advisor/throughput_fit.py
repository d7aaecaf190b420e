"""Fit of the throughput model's few factors on stored results, and its report.

`python -m advisor.throughput_fit` prints, for each source, the errors of predictions that left the
source out of the fit, and the factors with their spread; with `--write` it renews
data/throughput_factors.toml and the table in docs/throughput.md.
"""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
BEGIN, END = "<!-- errors -->", "<!-- end of errors -->"


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
    factors = start
    for _ in range(rounds):
        normal, towards = _normal_equations(cases, factors)
        step = np.linalg.solve(normal, towards)
        factors = _moved(factors, np.clip(step, -LONGEST_STEP, LONGEST_STEP))
    return factors


def _normal_equations(
    cases: Sequence[Case], factors: ThroughputFactors
) -> tuple[FloatArray, FloatArray]:
    """Curvature (fitted, fitted) and slope (fitted) of the loss at these factors."""
    rows = Counter(case.result.source for case in cases)
    own = np.asarray([1.0 / math.sqrt(rows[case.result.source]) for case in cases])
    spread = np.asarray(list(FITTED.values()))
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
    return normal, (slopes.T * weights) @ errors - apart / spread**2


def deviations(cases: Sequence[Case], factors: ThroughputFactors) -> dict[str, float]:
    """Standard deviation of the logarithm of each fitted factor, by the curvature of the loss.

    Without any cases it is that of the prior: a factor that no row tells stays as wide as it was.
    """
    if not cases:
        return dict(FITTED)
    normal, _ = _normal_equations(cases, factors)
    return dict(zip(FITTED, np.sqrt(np.diag(np.linalg.inv(normal))).tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Factors fitted without one source, and the errors of its rows under them (as errors_of)."""

    factors: ThroughputFactors
    errors: FloatArray


def left_out(cases: Sequence[Case]) -> dict[str, Fold]:
    """The fold of each source.

    Each starts from the fit on all rows, which is near: two rounds reach the same minimum.
    """
    start = fit(cases)
    found = {}
    for source in sorted({case.result.source for case in cases}):
        own = [case for case in cases if case.result.source == source]
        others = [case for case in cases if case.result.source != source]
        factors = fit(others, start, REFIT_ROUNDS)
        found[source] = Fold(factors=factors, errors=errors_of(own, factors))
    return found


def table(folds: Mapping[str, Fold]) -> str:
    """Markdown: errors by source of predictions that left it out; bias is measured / predicted."""
    lines = [
        "| source | rows | median error | 90th percentile | median measured / predicted |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [_row(source, fold.errors) for source, fold in folds.items()]
    lines.append(_row("all", np.concatenate([fold.errors for fold in folds.values()])))
    return "\n".join(lines) + "\n"


def _row(name: str, errors: FloatArray) -> str:
    size = np.abs(np.expm1(-errors))
    return (
        f"| {name} | {errors.size} | {np.median(size):.1%} | {np.quantile(size, 0.9):.1%}"
        f" | {math.exp(float(np.median(errors))):.2f} |"
    )


def factors_toml(folds: Mapping[str, Fold]) -> str:
    """data/throughput_factors.toml: the fit on all rows; spread is that over the folds, a ratio."""
    cases = training_cases()
    lines = [
        "# Factors of the throughput model: value, rows fitted on (0: the prior stands), and the",
        "# largest ratio between fits that left one source out. [without.SOURCE] has the factors",
        "# of such a fit. Renew with `python -m advisor.throughput_fit --write`.",
    ]
    for name, value in asdict(fit(cases)).items():
        values = [getattr(fold.factors, name) for fold in folds.values()]
        lines += [
            "",
            f"[{name}]",
            f"value = {value:.4g}",
            f"count = {len(cases) if name in FITTED else 0}",
            f"spread = {max(values) / min(values):.3f}",
        ]
    for source, fold in folds.items():
        lines += ["", f"[without.{source}]"]
        lines += [f"{name} = {getattr(fold.factors, name):.4g}" for name in FITTED]
    return "\n".join(lines) + "\n"


def with_table(document: str, folds: Mapping[str, Fold]) -> str:
    """docs/throughput.md with the table of these folds. Raises ValueError without its place."""
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError("the document has no place for the table of errors")
    return f"{before}{BEGIN}\n{table(folds)}{END}{after}"


def main(arguments: Sequence[str]) -> None:
    folds = left_out(training_cases())
    text = factors_toml(folds)
    sys.stdout.write(f"{table(folds)}\n{text}")
    if "--write" in arguments:
        package = Path(__file__).parent
        (package / "data" / "throughput_factors.toml").write_text(text, encoding="utf-8")
        document = package.parent / "docs" / "throughput.md"
        document.write_text(
            with_table(document.read_text(encoding="utf-8"), folds), encoding="utf-8"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
