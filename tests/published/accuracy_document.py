"""docs/accuracy.md out of the accuracy report; run as a script, it rewrites it and the records."""

import csv
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor import __version__
from advisor.accuracy import HISTORY_COLUMNS, accuracy_history, accuracy_report, history_row
from advisor.evidence import Evidence
from advisor.factor_report import factor_lines
from advisor.result import load_shipped_results

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/accuracy.md"
PEERS = ROOT / "docs/peers.csv"
HISTORY = ROOT / "advisor/data/accuracy_history.csv"
INTRODUCTION = """\
# How accurate the predictions are

This file is made from the shipped results (`python tests/published/accuracy_document.py`); a test
fails when it is stale, and another when the figures are worse than the recorded ones. The service
shows the same for the results that it has stored, at `/accuracy`.

Each run is predicted with a calibration that has **not seen the run's source**: its rows are left
out of every fit (throughput factors, allocator factors, spreads). What a source's program does (its
loss, parameter type, attention) is declared in `advisor/data/stacks.toml` from its published code.
Errors are |predicted / measured − 1|. A result that physics rules out, or whose kind of peak is not
stated, is predicted and listed here, and never fitted.
"""
INTERVALS = """\
Intervals are split-conformal on errors of left-out sources. The coverage below is on rows whose
source the interval has not seen. Over all rows it is near the stated 90 %; a single stack with few
rows can be far from it, and a stack with very many regular rows lies above it.
"""
MODEL_WORDS = (
    "Residual factors multiply a whole prediction; their interval holds 90 % of single results. "
    "Factors of the law are inside it, and their interval is of the factor itself. Those without "
    "an interval are told by no row and stay at their prior."
)


def document(report: Mapping[str, Any]) -> str:
    """The whole file."""
    summary = report["summary"]
    evidence = Evidence.from_results(load_shipped_results())
    parts = [
        INTRODUCTION,
        f"{summary['rows']} results are shipped; {summary['in_scope']} are in the models' scope, "
        "and each of the others says why it is not (`GET /results?scope=out`).",
        _errors("all", [{"all": "all results", **{n: summary[n] for n in _NAMES}}]),
        "## By stack",
        INTERVALS,
        _errors("stack", report["groups"]["stack"]),
    ]
    for name in ("gpu", "precision", "source"):
        parts += [
            f"## By {name if name != 'gpu' else 'GPU'}",
            _errors(name, report["groups"][name]),
        ]
    parts += ["## Chance of running out of memory", _oom(summary["oom"]), _reliability(report)]
    parts += ["## Against other tools", PEER_WORDS, _peers()]
    parts += ["## Worst rows", *(_worst(name, report["worst"][name]) for name in _NAMES)]
    parts += ["## Factors", MODEL_WORDS, _factors(evidence)]
    parts += ["## Over the releases", _history(report["history"])]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


_NAMES = ("memory", "throughput")
PEER_WORDS = """\
Reference formulas of other tools, written anew from their published sources, on the same rows:
full-parameter sharded runs with fp32 weights whose memory is known. The script
`tests/benchmark/bench_peers.py` names each tool's commit and checks each formula against what the
tool prints. A tool without a mode for a row's checkpointing has no answer there. Caught:
out-of-memory rows predicted above the capacity (for Shardwise: with a chance above one half).
Refused: runs that ran, called out of memory.
"""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table whose first `words` columns are words, and the others figures."""
    rule = ["---"] * words + ["--:"] * (len(header) - words)
    lines = [header, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _errors(name: str, groups: Sequence[Mapping[str, Any]]) -> str:
    figures = ("count", "median_abs_error", "p90_abs_error", "interval_coverage")
    words = ("rows", "median", "90th percentile", "in the 90 % interval")
    header = (name, *(f"{kind}: {word}" for kind in ("memory", "speed") for word in words))
    rows = [
        (group[name], *(_figure(group[kind][figure]) for kind in _NAMES for figure in figures))
        for group in groups
    ]
    return _table(header, rows)


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{100 * value:.1f} %"


def _oom(figures: Mapping[str, int]) -> str:
    return (
        f"Of {figures['ran']} runs that ran, {figures['ran_but_predicted_oom']} would have been "
        f"called out of memory (chance above one half). Of {figures['ran_out_of_memory']} that ran "
        f"out of memory, {figures['oom_but_predicted_fit']} would have been called safe."
    )


def _reliability(report: Mapping[str, Any]) -> str:
    rows = [
        (
            f"{_figure(row['from'])} to {_figure(row['to'])}",
            str(row["count"]),
            _figure(row["mean_probability"]),
            _figure(row["oom_fraction"]),
        )
        for row in report["reliability"]
    ]
    return _table(("predicted chance", "runs", "mean prediction", "ran out of memory"), rows)


def _peers() -> str:
    with PEERS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    header = ("tool", "rows", "within ±10 %", "median error", "90th percentile")
    header = (*header, "out-of-memory rows caught", "runs refused that ran")
    return _table(
        header,
        [
            (
                row["tool"],
                row["rows"],
                row["within_10_percent"],
                _figure(float(row["median_abs_error"])),
                _figure(float(row["p90_abs_error"])),
                f"{row['oom_caught']} of {row['oom_rows']}",
                row["refused_that_ran"],
            )
            for row in rows
        ],
    )


def _worst(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    unit = "GiB" if name == "memory" else "tokens/s/GPU"
    header = (name, "model", "GPU", "stack", f"measured {unit}", "predicted", "error")
    return _table(
        header,
        [
            (
                f"[{row['id']}]({row['source_url']})",
                row["model_name"] or "–",
                row["gpu"],
                row["stack"],
                f"{row['measured']:.4g}",
                f"{row['predicted']:.4g}",
                f"{100 * row['error']:+.1f} %",
            )
            for row in rows
        ],
        words=4,
    )


def _factors(evidence: Evidence) -> str:
    rows = [
        (
            line.name,
            line.meaning,
            f"{line.value:.4g}",
            "–" if line.low is None or line.high is None else f"{line.low:.3g} to {line.high:.3g}",
            f"{line.prior:.4g}",
            str(line.count),
            str(line.num_sources),
        )
        for line in factor_lines(evidence)
    ]
    header = ("factor", "what it is", "value", "90 % interval", "prior", "rows", "sources")
    return _table(header, rows, words=2)


def _history(history: Sequence[Mapping[str, Any]]) -> str:
    header = ("version", "date", "memory median", "90th percentile")
    header = (*header, "speed median", "90th percentile")
    names = ("memory_median", "memory_p90", "throughput_median", "throughput_p90")
    rows = [
        (row["version"], row["date"], *(_figure(row[name]) for name in names)) for row in history
    ]
    return _table(header, rows, words=2)


def _record(summary: Mapping[str, Any]) -> None:
    """Put the figures in place of this version's, or after those of the versions before."""
    today = datetime.now(UTC).date().isoformat()
    kept = [row for row in accuracy_history() if row["version"] != __version__]
    rows = [*kept, history_row(summary, version=__version__, date=today)]
    with HISTORY.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(HISTORY_COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _rounded(value) for name, value in row.items()} for row in rows])


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def _renew_peers() -> None:
    path = ROOT / "tests/benchmark/bench_peers.py"
    spec = importlib.util.spec_from_file_location("bench_peers", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.main(["--write"])


def main() -> None:
    """Renew docs/peers.csv, the record of this version, and docs/accuracy.md."""
    _renew_peers()
    report = accuracy_report(load_shipped_results())
    _record(report["summary"])
    DOCUMENT.write_text(document({**report, "history": accuracy_history()}), encoding="utf-8")


if __name__ == "__main__":
    main()
