"""Check: a row's own source teaches nothing, and summaries count what they say."""

from collections.abc import Callable

import pytest

from advisor.check import check_results, summarise
from advisor.result import Result, load_shipped_results

ResultWith = Callable[..., Result]
SHIPPED = load_shipped_results()


def test_a_source_teaches_nothing_about_itself(result_with: ResultWith) -> None:
    mine = [
        result_with(id=f"mine-{n}", peak_mem_gib=60.0 + n / 10, tokens_per_s_per_gpu=3000.0 + n)
        for n in range(30)
    ]
    alone = check_results(mine[:1], SHIPPED)["rows"][0]
    among = check_results(mine[:1], [*SHIPPED, *mine])["rows"][0]
    assert alone == among


def test_other_sources_teach(result_with: ResultWith) -> None:
    others = [
        result_with(id=f"other{n}-1", peak_mem_gib=70.0 + n / 10, tokens_per_s_per_gpu=3000.0 + n)
        for n in range(30)
    ]
    alone = check_results([result_with()], SHIPPED)["rows"][0]
    among = check_results([result_with()], [*SHIPPED, *others])["rows"][0]
    assert among["predicted_mem_gib"] > alone["predicted_mem_gib"]
    assert among["predicted_tokens_per_s_per_gpu"] < alone["predicted_tokens_per_s_per_gpu"]


def test_rows_out_of_scope_say_why_and_have_no_figures(result_with: ResultWith) -> None:
    (row,) = check_results([result_with(gpu="abacus")], SHIPPED)["rows"]
    assert row["in_scope"] is False
    assert "abacus" in row["why_not"]
    assert row["predicted_mem_gib"] is None
    assert row["out_of_memory_probability"] is None


def test_a_run_out_of_memory_has_a_chance_and_no_error(result_with: ResultWith) -> None:
    died = result_with(
        oom=True, peak_mem_gib=None, tokens_per_s_per_gpu=None, micro_batch_per_gpu=16.0
    )
    report = check_results([died], SHIPPED)
    assert report["rows"][0]["out_of_memory_probability"] > 0.99
    assert report["summary"]["memory"]["count"] == 0
    assert report["summary"]["oom"] == {
        "ran": 0,
        "ran_but_predicted_oom": 0,
        "ran_out_of_memory": 1,
        "oom_but_predicted_fit": 0,
    }


def row(
    measured: float, predicted: float, chance: float = 0.0, *, oom: bool = False
) -> dict[str, object]:
    return {
        "id": f"row-{measured}",
        "in_scope": True,
        "oom": oom,
        "peak_mem_gib": None if oom else measured,
        "predicted_mem_gib": predicted,
        "predicted_mem_interval_gib": [0.9 * predicted, 1.1 * predicted],
        "tokens_per_s_per_gpu": None,
        "predicted_tokens_per_s_per_gpu": None,
        "predicted_tokens_per_s_per_gpu_interval": None,
        "out_of_memory_probability": chance,
    }


def test_summary_by_hand() -> None:
    summary = summarise(
        [row(10.0, 11.0), row(20.0, 19.0), row(40.0, 60.0, 0.6), row(80.0, 50.0, 0.4, oom=True)]
    )
    memory = summary["memory"]
    assert memory["count"] == 3
    assert memory["median_abs_error"] == pytest.approx(0.1)
    assert memory["worst"] == {"id": "row-40.0", "error": pytest.approx(0.5)}
    assert memory["interval_coverage"] == pytest.approx(2 / 3)
    assert summary["oom"]["ran_but_predicted_oom"] == 1
    assert summary["oom"]["oom_but_predicted_fit"] == 1
    assert summary["throughput"]["count"] == 0
    assert summary["throughput"]["median_abs_error"] is None
