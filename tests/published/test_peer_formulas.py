"""The reference formulas of other tools give what those tools themselves print."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from advisor.model_catalog import find_model

SCRIPT = Path(__file__).parents[1] / "benchmark/bench_peers.py"
TOLERANCE = 0.035


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_peers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCH = script()
CELLS = [(name, mode, gib) for name, cells in BENCH.PRINTED.items() for mode, gib in cells.items()]


@pytest.mark.parametrize(("name", "mode", "printed_gib"), CELLS)
def test_formula_gives_what_the_tool_prints(name: str, mode: str, printed_gib: float) -> None:
    job = BENCH.Job(
        shape=find_model("llama-3-8b").shape, num_gpus=8.0, seq_len=4096.0, tokens=4096.0, mode=mode
    )
    assert BENCH.PEERS[name](job) / 2**30 == pytest.approx(printed_gib, rel=TOLERANCE)


def test_the_committed_table_is_that_of_the_formulas() -> None:
    cases = BENCH.comparable()
    with BENCH.OUT.open(newline="") as file:
        rows = {row["tool"]: row for row in csv.DictReader(file)}
    for name, formula in BENCH.PEERS.items():
        assert rows[name] == BENCH.line(name, BENCH.peer_answers(formula, cases))


def test_no_tool_is_within_ten_percent_more_often() -> None:
    with BENCH.OUT.open(newline="") as file:
        rows = list(csv.DictReader(file))
    hits = {row["tool"]: int(row["within_10_percent"]) for row in rows}
    own = hits.pop("Shardwise")
    assert own > max(hits.values())
