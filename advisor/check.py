"""Check: predictions against a file of results, none of them fitted on its own source."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from advisor.case import Case, OutOfScope, case_of
from advisor.evidence import (
    Evidence,
    Interval,
    capacity_bytes,
    memory_interval,
    predict_memory,
    speed_interval,
)
from advisor.result import Result

EVEN_ODDS = 0.5


def check_results(results: Sequence[Result], stored: Sequence[Result]) -> dict[str, Any]:
    """Rows and summary of how the laws predict `results`.

    Each row is predicted with the calibration of `stored` without the row's own source. Errors are
    fractions: predicted / measured − 1.
    """
    stored_cases = [case for case in map(case_of, stored) if isinstance(case, Case)]
    calibrations: dict[str, Evidence] = {}
    rows = []
    for result in results:
        case = case_of(result)
        if isinstance(case, OutOfScope):
            rows.append(_row(result, in_scope=False, why_not=case.why_not))
            continue
        if result.source not in calibrations:
            others = [other for other in stored_cases if other.result.source != result.source]
            calibrations[result.source] = Evidence.from_cases(others, without=result.source)
        rows.append(_predicted_row(case, calibrations[result.source]))
    return {"rows": rows, "summary": summarise(rows)}


def _row(result: Result, *, in_scope: bool, why_not: str | None) -> dict[str, Any]:
    return {
        "id": result.id,
        "in_scope": in_scope,
        "why_not": why_not,
        "peak_mem_gib": result.peak_mem_gib,
        "predicted_mem_gib": None,
        "predicted_mem_interval_gib": None,
        "tokens_per_s_per_gpu": result.tokens_per_s_per_gpu,
        "predicted_tokens_per_s_per_gpu": None,
        "predicted_tokens_per_s_per_gpu_interval": None,
        "oom": result.oom,
        "out_of_memory_probability": None,
    }


def _predicted_row(case: Case, evidence: Evidence) -> dict[str, Any]:
    reasons = [reason for reason in (case.why_not_memory, case.why_not_throughput) if reason]
    row = _row(case.result, in_scope=len(reasons) < 2, why_not="; ".join(reasons) or None)
    if case.why_not_memory is None:
        memory = memory_interval(case, evidence)
        row["predicted_mem_gib"] = memory.value
        row["predicted_mem_interval_gib"] = [memory.low, memory.high]
        row["out_of_memory_probability"] = float(
            evidence.out_of_memory_probability(
                predict_memory(case).active_bytes, case.settings, capacity_bytes(case.gpu)
            )
        )
    if case.why_not_throughput is None:
        speed = speed_interval(case, evidence)
        row["predicted_tokens_per_s_per_gpu"] = speed.value
        row["predicted_tokens_per_s_per_gpu_interval"] = [speed.low, speed.high]
    return row


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Error figures of rows with a prediction and a measurement."""
    ran = [row for row in rows if not row["oom"] and row["out_of_memory_probability"] is not None]
    died = [row for row in rows if row["oom"] and row["out_of_memory_probability"] is not None]
    return {
        "rows": len(rows),
        "in_scope": sum(row["in_scope"] for row in rows),
        "memory": _errors(rows, "peak_mem_gib", "predicted_mem_gib", "predicted_mem_interval_gib"),
        "throughput": _errors(
            rows,
            "tokens_per_s_per_gpu",
            "predicted_tokens_per_s_per_gpu",
            "predicted_tokens_per_s_per_gpu_interval",
        ),
        "oom": {
            "ran": len(ran),
            "ran_but_predicted_oom": sum(
                row["out_of_memory_probability"] > EVEN_ODDS for row in ran
            ),
            "ran_out_of_memory": len(died),
            "oom_but_predicted_fit": sum(
                row["out_of_memory_probability"] < EVEN_ODDS for row in died
            ),
        },
    }


def _errors(
    rows: Sequence[dict[str, Any]], measured: str, predicted: str, interval: str
) -> dict[str, Any]:
    pairs = [row for row in rows if row[measured] is not None and row[predicted] is not None]
    if not pairs:
        return {
            "count": 0,
            "median_abs_error": None,
            "p90_abs_error": None,
            "worst": None,
            "interval_coverage": None,
        }
    errors = [row[predicted] / row[measured] - 1.0 for row in pairs]
    sizes = np.abs(errors)
    worst = int(np.argmax(sizes))
    covered = [row[interval][0] <= row[measured] <= row[interval][1] for row in pairs]
    return {
        "count": len(pairs),
        "median_abs_error": float(np.median(sizes)),
        "p90_abs_error": float(np.quantile(sizes, 0.9)),
        "worst": {"id": pairs[worst]["id"], "error": errors[worst]},
        "interval_coverage": math.fsum(covered) / len(covered),
    }


__all__ = ["Interval", "check_results", "summarise"]
