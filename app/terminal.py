"""Answers in a terminal: plain text, tables in columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from app import views
from app.formatting import gibibytes, percent, seconds, usd, whole


def recommendation_text(content: Mapping[str, Any]) -> str:
    """The whole answer."""
    parts = [views.headline(content)]
    best, miss = content["best"], content["nearest_miss"]
    if best is not None:
        parts += _candidate(best)
        rows = [tuple(row.values()) for row in views.choice_rows(content)]
        header = (
            *("choice", "instances", "precision", "checkpointing", "micro", "peak", "OOM"),
            *("tokens/s", "tokens", "time", "cost"),
        )
        parts += ["Alternatives", table(header, rows)]
        parts += ["Nearest stored results", _evidence(best["evidence"])]
    elif miss is not None:
        parts.append(f"What would fit: {miss['change']}.")
        if miss["candidate"] is not None:
            parts += ["The plan that comes closest", *_candidate(miss["candidate"])]
    model = content["model"]
    parts.append(
        f"Model: {model['name']}, {whole(model['num_parameters'])} parameters, {model['source']}"
    )
    parts.append("Assumptions\n" + "\n".join(f"  {text}" for text in content["assumptions"]))
    searched = content["searched"]
    parts.append(
        f"{whole(searched['num_candidates'])} plans searched, "
        f"{whole(searched['num_fitting'])} fit; catalogue {content['catalog_version']}, "
        f"calibration {content['calibration_version']}"
    )
    return "\n\n".join(parts)


def check_text(report: Mapping[str, Any]) -> str:
    """Rows with a prediction, then the summary."""
    predicted = [row for row in report["rows"] if row["in_scope"]]
    header = (
        *("result", "GiB", "predicted", "90 % interval", "error"),
        *("tok/s/GPU", "predicted", "error", "chance of OOM"),
    )
    rows = [_check_row(row) for row in predicted]
    left_out = len(report["rows"]) - len(predicted)
    return "\n\n".join(
        [
            table(header, rows),
            f"{len(predicted)} rows predicted, {left_out} out of scope (--json says why)",
            _summary(report["summary"]),
        ]
    )


def calibration_text(report: Mapping[str, Any]) -> str:
    """The version, its factors, and the error figures of predictions that left sources out."""
    rows = [
        (
            line["name"],
            f"{line['value']:.4g}",
            _range(line["low"], line["high"]),
            f"{line['prior']:.4g}",
            str(line["count"]),
            str(line["num_sources"]),
            line["meaning"],
        )
        for line in report["factors"]
    ]
    header = ("factor", "value", "90 % interval", "prior", "rows", "sources", "what it is")
    return "\n\n".join(
        [
            f"Calibration {report['version']} on {report['num_results']} stored results",
            table(header, rows),
            "Predictions without the row's own source:",
            _summary(report["accuracy"]),
        ]
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content, two spaces apart."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    lines = (header, tuple("-" * width for width in widths), *rows)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _candidate(candidate: Mapping[str, Any]) -> list[str]:
    rows = [
        (name, value, next_best) for name, value, _why, next_best in views.setting_rows(candidate)
    ]
    memory, throughput = candidate["memory"], candidate["throughput"]
    return [
        views.verdict(candidate),
        table(("setting", "value", "next best"), rows),
        f"Memory of one GPU at its peak ({memory['peak_instant']})\n"
        + _terms(memory["terms"], gibibytes),
        f"One step: {seconds(throughput['step_s'])}, {whole(throughput['tokens_per_s'])} tokens/s, "
        f"MFU {percent(throughput['mfu_fraction'])}\n" + _terms(throughput["terms"], seconds),
        _cost(candidate["cost"]),
    ]


def _cost(cost: Mapping[str, Any]) -> str:
    notes = "".join(f"\n  {note}" for note in cost["notes"])
    if cost["total_usd"] is None:
        return f"Cost: it cannot be bought{notes}"
    parts = ", ".join(f"{name} {usd(value)}" for name, value in cost["parts_usd"].items())
    return f"Cost: {usd(cost['total_usd'])} ({parts})\n  rate: {cost['price_source']}{notes}"


def _terms(terms: Mapping[str, float], text: Any) -> str:
    ordered = sorted(terms.items(), key=lambda item: -item[1])
    return "\n".join(f"  {name:<40}{text(value):>12}" for name, value in ordered)


def _evidence(neighbours: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            near["result_id"],
            "out of memory" if near["oom"] else _figure(near["measured_mem_gib"]),
            _figure(near["predicted_mem_gib"]),
            whole(near["measured_tokens_per_s_per_gpu"]),
            whole(near["predicted_tokens_per_s_per_gpu"]),
            near["difference"],
        )
        for near in neighbours
    ]
    header = ("result", "GiB", "predicted", "tok/s/GPU", "predicted", "how it differs")
    return table(header, rows)


def _check_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    interval = row["predicted_mem_interval_gib"]
    return (
        row["id"],
        "OOM" if row["oom"] else _figure(row["peak_mem_gib"]),
        _figure(row["predicted_mem_gib"]),
        "–" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}",
        _error(row["predicted_mem_gib"], row["peak_mem_gib"]),
        whole(row["tokens_per_s_per_gpu"]),
        whole(row["predicted_tokens_per_s_per_gpu"]),
        _error(row["predicted_tokens_per_s_per_gpu"], row["tokens_per_s_per_gpu"]),
        percent(row["out_of_memory_probability"]),
    )


def _summary(summary: Mapping[str, Any]) -> str:
    rows = []
    for name in ("memory", "throughput"):
        figures = summary[name]
        worst = figures["worst"]
        rows.append(
            (
                name,
                str(figures["count"]),
                percent(figures["median_abs_error"]),
                percent(figures["p90_abs_error"]),
                "–" if worst is None else f"{worst['id']} ({100 * worst['error']:+.0f} %)",
                percent(figures["interval_coverage"]),
            )
        )
    header = ("", "rows", "median error", "90th percentile", "worst", "in the 90 % interval")
    oom = "\n".join(f"{key.replace('_', ' ')}: {value}" for key, value in summary["oom"].items())
    return f"{table(header, rows)}\n\n{oom}"


def _range(low: float | None, high: float | None) -> str:
    return "held at its prior" if low is None else f"{low:.4g} to {high:.4g}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _error(predicted: float | None, measured: float | None) -> str:
    if predicted is None or not measured:
        return "–"
    return f"{100 * (predicted / measured - 1):+.1f} %"
