"""Accuracy: how far predictions are from stored results whose own source they have not seen."""

import csv
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np

from advisor.case import OutOfScope, case_of
from advisor.check import check_results, summarise
from advisor.guards import flags_of
from advisor.plan import PRECISIONS
from advisor.result import Result

NUM_WORST = 10
# Bounds of the groups of the reliability table: chances of running out of memory.
CHANCES = (0.0, 0.02, 0.1, 0.5, 0.9, 1.0)
GROUPS = ("gpu", "precision", "stack", "source")
FIGURES = {
    "memory": ("peak_mem_gib", "predicted_mem_gib", "predicted_mem_interval_gib"),
    "throughput": (
        "tokens_per_s_per_gpu",
        "predicted_tokens_per_s_per_gpu",
        "predicted_tokens_per_s_per_gpu_interval",
    ),
}


def accuracy_report(results: Sequence[Result]) -> dict[str, Any]:
    """Predicted against measured for every stored result in scope.

    rows: those of advisor.check with what they are grouped by; errors are predicted / measured − 1.
    groups: error figures by GPU, precision, stack and source. worst: the largest errors.
    reliability: predicted chance of running out of memory against how often it happened.
    """
    checked = check_results(results, results)
    rows = [
        _described(result, row)
        for result, row in zip(results, checked["rows"], strict=True)
        if row["predicted_mem_gib"] is not None or row["predicted_tokens_per_s_per_gpu"] is not None
    ]
    return {
        "summary": {**checked["summary"], "out_of_scope": len(results) - len(rows)},
        "groups": {name: grouped(rows, name) for name in GROUPS},
        "worst": {name: _worst(rows, name) for name in FIGURES},
        "reliability": reliability(rows),
        "rows": rows,
        "history": accuracy_history(),
    }


def _described(result: Result, row: Mapping[str, Any]) -> dict[str, Any]:
    case = case_of(result)
    if isinstance(case, OutOfScope):
        raise TypeError("only rows with a prediction are described")
    return {
        **row,
        "gpu": case.gpu.name,
        "precision": PRECISIONS[int(case.settings.precision)],
        "stack": case.stack.name,
        "source": result.source,
        "source_url": result.source_url,
        "model_name": result.model_name,
        "flags": [flag.why for flag in flags_of(case)],
        "memory_error": _error(row, "memory"),
        "throughput_error": _error(row, "throughput"),
    }


def _error(row: Mapping[str, Any], figure: str) -> float | None:
    measured, predicted, _ = FIGURES[figure]
    if row[measured] is None or row[predicted] is None:
        return None
    return float(row[predicted] / row[measured] - 1.0)


def grouped(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Error figures of the rows by one of GROUPS, in alphabetical order."""
    values = sorted({row[name] for row in rows})
    return [
        {name: value, **_figures([row for row in rows if row[name] == value])} for value in values
    ]


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    summary = summarise(rows)
    return {"memory": summary["memory"], "throughput": summary["throughput"]}


def _worst(rows: Sequence[dict[str, Any]], figure: str) -> list[dict[str, Any]]:
    key = f"{figure}_error"
    measured, predicted, _ = FIGURES[figure]
    found = sorted(
        (row for row in rows if row[key] is not None), key=lambda row: (-abs(row[key]), row["id"])
    )
    return [
        {
            "id": row["id"],
            "source_url": row["source_url"],
            "model_name": row["model_name"],
            "gpu": row["gpu"],
            "stack": row["stack"],
            "measured": row[measured],
            "predicted": row[predicted],
            "error": row[key],
        }
        for row in found[:NUM_WORST]
    ]


def reliability(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By group of predicted chance: runs, the mean chance, and the share that ran out of memory."""
    known = [row for row in rows if row["out_of_memory_probability"] is not None]
    table = []
    for low, high in pairwise(CHANCES):
        inside = [row for row in known if _is_within(row["out_of_memory_probability"], low, high)]
        chances = [row["out_of_memory_probability"] for row in inside]
        table.append(
            {
                "from": low,
                "to": high,
                "count": len(inside),
                "mean_probability": float(np.mean(chances)) if inside else None,
                "oom_fraction": float(np.mean([row["oom"] for row in inside])) if inside else None,
            }
        )
    return table


def _is_within(chance: float, low: float, high: float) -> bool:
    return low <= chance < high or (high == CHANCES[-1] and chance == high)


HISTORY_COLUMNS: Mapping[str, Callable[[str], str | int | float]] = {
    "version": str,
    "date": str,
    "memory_rows": int,
    "memory_median": float,
    "memory_p90": float,
    "memory_coverage": float,
    "throughput_rows": int,
    "throughput_median": float,
    "throughput_p90": float,
    "throughput_coverage": float,
    "ran_but_predicted_oom": int,
    "ran_out_of_memory": int,
    "oom_but_predicted_fit": int,
}


def history_row(summary: Mapping[str, Any], *, version: str, date: str) -> dict[str, Any]:
    """The figures of a summary as one row of data/accuracy_history.csv."""
    row: dict[str, Any] = {"version": version, "date": date}
    for figure in FIGURES:
        row[f"{figure}_rows"] = summary[figure]["count"]
        row[f"{figure}_median"] = summary[figure]["median_abs_error"]
        row[f"{figure}_p90"] = summary[figure]["p90_abs_error"]
        row[f"{figure}_coverage"] = summary[figure]["interval_coverage"]
    row.update((name, summary["oom"][name]) for name in HISTORY_COLUMNS if name in summary["oom"])
    return {name: row[name] for name in HISTORY_COLUMNS}


def accuracy_history() -> list[dict[str, Any]]:
    """Recorded figures by release, oldest first (data/accuracy_history.csv)."""
    path = resources.files("advisor").joinpath("data/accuracy_history.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return [{name: read(row[name]) for name, read in HISTORY_COLUMNS.items()} for row in rows]
