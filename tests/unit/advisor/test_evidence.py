"""Evidence: vetoes, chances, kinds of peak, and versions that name numbers and results."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from advisor.case import Case, case_of
from advisor.evidence import (
    MEMORY_PRIORS,
    Evidence,
    cases_of,
    memory_interval,
    peak_kind,
    predict_memory,
    speed_interval,
    vetoed,
)
from advisor.result import Result, load_shipped_results
from advisor.stack import load_stacks
from advisor.throughput_factors import load_factors

ResultWith = Callable[..., Result]
SHIPPED = load_shipped_results()
EVIDENCE = Evidence.from_results(SHIPPED)


def case_for(result: Result) -> Case:
    case = case_of(result)
    assert isinstance(case, Case)
    return case


def test_nothing_stored_leaves_priors_with_wide_intervals() -> None:
    empty = Evidence.from_results([])
    assert {name: each.factor for name, each in empty.memory.items()} == MEMORY_PRIORS
    assert all(each.interval == math.log(1.25) for each in empty.memory.values())
    assert empty.throughput.factor == 1.0
    assert empty.factors == load_factors()


def test_a_stored_out_of_memory_of_this_very_plan_vetoes_it(result_with: ResultWith) -> None:
    died = case_for(result_with(oom=True, peak_mem_gib=None, tokens_per_s_per_gpu=None))
    evidence = Evidence.from_cases([died])
    stack = load_stacks()["shardwise"]
    plan = died.settings
    assert bool(vetoed(evidence, died.shape, plan, stack, died.gpu))
    for other in (
        replace(plan, micro_batch=2.0),
        replace(plan, seq_len=4096.0),
        replace(plan, shard_degree=16.0),
        replace(plan, kept_fraction=1.0, op_fraction=0.0),
    ):
        assert not bool(vetoed(evidence, died.shape, other, stack, died.gpu))
    assert not bool(vetoed(EVIDENCE, died.shape, plan, stack, died.gpu))
    bigger = case_for(result_with(gpu="B200-180GB")).gpu
    assert not bool(vetoed(evidence, died.shape, plan, stack, bigger))


def test_chance_is_one_half_where_live_bytes_fill_the_gpu() -> None:
    settings = EVIDENCE.cases[0].settings
    assert EVIDENCE.out_of_memory_probability(80e9, settings, 80e9) == pytest.approx(0.5)
    assert EVIDENCE.out_of_memory_probability(60e9, settings, 80e9) < 0.01
    assert EVIDENCE.out_of_memory_probability(100e9, settings, 80e9) > 0.99


@pytest.mark.parametrize(
    ("kind", "read_as"),
    [("reserved", "reserved"), ("active", "active"), ("allocated", "active"), (None, "reserved")],
)
def test_kinds_of_peak(result_with: ResultWith, kind: str | None, read_as: str) -> None:
    assert peak_kind(result_with(peak_mem_kind=kind)) == read_as


def test_reserved_is_predicted_above_live(result_with: ResultWith) -> None:
    reserved = memory_interval(case_for(result_with()), EVIDENCE)
    live = memory_interval(case_for(result_with(peak_mem_kind="active")), EVIDENCE)
    assert live.value < reserved.value
    assert reserved.low < reserved.value < reserved.high


def test_each_kind_of_program_has_the_speed_interval_of_its_own(result_with: ResultWith) -> None:
    own = speed_interval(case_for(result_with()), EVIDENCE)
    other = speed_interval(case_for(result_with(framework="fsdp1")), EVIDENCE)
    assert own.high / own.low == pytest.approx(math.exp(2 * EVIDENCE.throughput.interval))
    assert other.high / other.low == pytest.approx(math.exp(2 * EVIDENCE.other_throughput.interval))
    assert EVIDENCE.throughput.factor == EVIDENCE.other_throughput.factor


def test_the_version_names_numbers_and_results(result_with: ResultWith) -> None:
    assert Evidence.from_results(SHIPPED).version == EVIDENCE.version
    died = result_with(oom=True, peak_mem_gib=None, tokens_per_s_per_gpu=None)
    more = Evidence.from_results([*SHIPPED, died])
    assert more.memory == EVIDENCE.memory
    assert more.version != EVIDENCE.version


def test_a_new_source_of_speeds_is_fitted_into_the_law(result_with: ResultWith) -> None:
    some = [result for result in SHIPPED if result.source in ("titan", "llmfoundry")][:60]
    mine = [
        result_with(id=f"mine-{n}", tokens_per_s_per_gpu=3000.0 + n, peak_mem_gib=None)
        for n in range(20)
    ]
    before, after = Evidence.from_results(some), Evidence.from_results([*some, *mine])
    assert after.factors != before.factors
    assert after.factors.matmul < before.factors.matmul


def test_what_is_left_out_teaches_nothing() -> None:
    cases = cases_of(SHIPPED)
    rest = Evidence.from_cases(
        [case for case in cases if case.result.source != "titan"], without="titan"
    )
    assert rest.factors == load_factors("titan") != load_factors()
    assert rest.throughput.count < EVIDENCE.throughput.count


def test_neighbours_that_may_be_shown_have_their_predictions() -> None:
    for case in EVIDENCE.neighbourhood.cases:
        memory, speed = EVIDENCE.fitted[case.result.id]
        assert (memory is None) == (case.why_not_memory is not None)
        assert (speed is None) == (case.why_not_throughput is not None)
        assert predict_memory(case).active_bytes > 0
