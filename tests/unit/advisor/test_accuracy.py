"""The accuracy report: groups add up, the worst come first, chances fall into their groups."""

from typing import Any

import pytest

from advisor.accuracy import (
    CHANCES,
    GROUPS,
    HISTORY_COLUMNS,
    accuracy_history,
    accuracy_report,
    history_row,
    reliability,
)
from advisor.result import load_shipped_results

REPORT = accuracy_report(load_shipped_results())


@pytest.mark.parametrize("name", GROUPS)
def test_groups_add_up(name: str) -> None:
    for figure in ("memory", "throughput"):
        counts = sum(group[figure]["count"] for group in REPORT["groups"][name])
        assert counts == REPORT["summary"][figure]["count"]


@pytest.mark.parametrize("figure", ["memory", "throughput"])
def test_the_worst_row_is_that_of_the_summary(figure: str) -> None:
    worst = REPORT["worst"][figure][0]
    assert REPORT["summary"][figure]["worst"] == {"id": worst["id"], "error": worst["error"]}
    assert worst["error"] == pytest.approx(worst["predicted"] / worst["measured"] - 1)
    assert worst["source_url"]


def chance(probability: float, *, oom: bool) -> dict[str, Any]:
    return {"out_of_memory_probability": probability, "oom": oom}


def test_reliability_by_hand() -> None:
    rows = [chance(0.01, oom=False), chance(0.6, oom=True), chance(0.8, oom=False)]
    table = reliability([*rows, chance(1.0, oom=True), {"out_of_memory_probability": None}])
    assert [row["count"] for row in table] == [1, 0, 0, 2, 1]
    assert table[3]["mean_probability"] == pytest.approx(0.7)
    assert table[3]["oom_fraction"] == 0.5
    assert table[1]["oom_fraction"] is None
    assert [row["from"] for row in table] == list(CHANCES[:-1])


def test_recorded_rows_have_every_column() -> None:
    row = history_row(REPORT["summary"], version="1", date="2026-01-01")
    assert list(row) == list(HISTORY_COLUMNS)
    assert all(list(each) == list(HISTORY_COLUMNS) for each in accuracy_history())
