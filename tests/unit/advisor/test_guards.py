"""Figures that physics rules out are flagged with the reason, and not fitted."""

from collections.abc import Callable

import pytest

from advisor.case import Case, case_of
from advisor.evidence import Evidence, cases_of, memory_points, throughput_points, timed_cases
from advisor.guards import flags_of, model_flops_per_token, model_state_bytes
from advisor.neighbours import Neighbourhood
from advisor.result import Result, load_shipped_results
from advisor.throughput_factors import load_factors

ResultWith = Callable[..., Result]


def case_for(result: Result) -> Case:
    case = case_of(result)
    assert isinstance(case, Case)
    return case


def test_a_plausible_result_has_no_flag(result_with: ResultWith) -> None:
    assert flags_of(case_for(result_with())) == ()


def test_model_states_by_hand(result_with: ResultWith) -> None:
    """Llama 3.1 8B: 8,030,261,248 parameters of 4 + 8 bytes over 8 GPUs."""
    assert model_state_bytes(case_for(result_with())) == 12 * 8_030_261_248 / 8


def test_model_flops_by_hand(result_with: ResultWith) -> None:
    """6 × matrix parameters (all but the embedding and norms) + 12 · layers · width · (s+1)/2."""
    case = case_for(result_with())
    matrices = 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    assert model_flops_per_token(case) == pytest.approx(
        6 * matrices + 12 * 32 * 4096 * 8193 / 2, rel=1e-3
    )


def test_more_than_the_peak_is_flagged(result_with: ResultWith) -> None:
    case = case_for(result_with(tokens_per_s_per_gpu=30_000.0))
    (flag,) = flags_of(case)
    assert flag.figure == "throughput"
    assert "H100" in flag.why
    assert throughput_points([case], load_factors()) == []
    assert len(memory_points([case])) == 1


def test_less_than_the_model_states_is_flagged(result_with: ResultWith) -> None:
    case = case_for(result_with(peak_mem_gib=10.0))
    (flag,) = flags_of(case)
    assert flag.figure == "memory"
    assert "11.2 GiB" in flag.why
    assert memory_points([case]) == []
    assert len(throughput_points([case], load_factors())) == 1


def test_more_than_the_gpu_has_is_flagged_and_shown_to_nobody(result_with: ResultWith) -> None:
    case = case_for(result_with(peak_mem_gib=5000.0))
    (flag,) = flags_of(case)
    assert flag.figure == "memory"
    assert "5,000.0 GiB is more than the" in flag.why
    assert memory_points([case]) == []
    assert Neighbourhood.of([case]).cases == ()
    assert len(Neighbourhood.of([case_for(result_with())]).cases) == 1


@pytest.mark.parametrize("kind", ["unknown", None])
def test_a_peak_of_unknown_kind_is_flagged(result_with: ResultWith, kind: str | None) -> None:
    case = case_for(result_with(peak_mem_kind=kind))
    (flag,) = flags_of(case)
    assert "reserved or of live" in flag.why
    assert memory_points([case]) == []


def test_warm_up_and_adapters_say_why_they_are_not_fitted(result_with: ResultWith) -> None:
    timed = case_for(result_with(notes="five iterations, warm-up included"))
    assert timed.why_not_throughput is not None
    assert "warm-up" in timed.why_not_throughput
    assert not isinstance(case_of(result_with(notes="LoRA rank 16")), Case)


def test_two_memory_kinds_of_one_run_count_once_for_speed(result_with: ResultWith) -> None:
    twice = [
        case_for(result_with()),
        case_for(result_with(id="mine-2", peak_mem_kind="active", peak_mem_gib=43.0)),
    ]
    assert len(timed_cases(twice)) == 1
    assert {point.group for point in memory_points(twice)} == {
        *("reserved/sharded", "active/sharded")
    }


def test_flagged_rows_move_nothing(result_with: ResultWith) -> None:
    shipped = load_shipped_results()[:80]
    wrong = result_with(
        id="wrong-1", tokens_per_s_per_gpu=50_000.0, peak_mem_gib=5.0, peak_mem_kind="reserved"
    )
    before, after = (Evidence.from_cases(cases_of(rows)) for rows in (shipped, (*shipped, wrong)))
    assert before.memory == after.memory
    assert before.throughput == after.throughput
    assert before.version != after.version
