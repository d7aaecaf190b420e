"""The search: what it refuses, what it picks, and what it says beside the best plan."""

from dataclasses import replace
from decimal import Decimal

import pytest

from advisor.catalog import load_catalog
from advisor.errors import InvalidField
from advisor.evidence import Evidence
from advisor.model_catalog import find_model
from advisor.reasons import SETTINGS
from advisor.result import load_shipped_results
from advisor.search import recommend
from advisor.workload import Constraints, Pins, Workload, build_workload

CATALOG = load_catalog()
EVIDENCE = Evidence.from_results(load_shipped_results())


def workload_of(name: str = "llama-3.1-8b", num_tokens: int | None = 10**11) -> Workload:
    return build_workload(
        find_model(name).shape,
        num_tokens=num_tokens,
        seq_len=None,
        global_batch_tokens=None,
        training="pretrain",
        open_ended=num_tokens is None,
    )


def test_most_tokens_needs_a_limit() -> None:
    with pytest.raises(InvalidField) as refused:
        recommend(
            workload_of(num_tokens=None), Constraints(objective="most_tokens"), CATALOG, EVIDENCE
        )
    assert refused.value.field == "objective"


@pytest.mark.parametrize("objective", ["cheapest", "fastest"])
def test_other_objectives_need_tokens(objective: str) -> None:
    wanted = Constraints(objective=objective)  # type: ignore[arg-type] # drawn from the literals
    with pytest.raises(InvalidField) as refused:
        recommend(workload_of(num_tokens=None), wanted, CATALOG, EVIDENCE)
    assert refused.value.field == "num_tokens"


def test_a_precision_that_no_allowed_gpu_has_is_refused_at_the_field() -> None:
    wanted = Constraints(
        objective="cheapest", instances=("p4d.24xlarge",), pins=Pins(precision="fp8")
    )
    with pytest.raises(InvalidField) as refused:
        recommend(workload_of(), wanted, CATALOG, EVIDENCE)
    assert refused.value.field == "precision"


def test_instances_without_such_a_price_are_refused_or_named() -> None:
    alone = Constraints(objective="cheapest", instances=("g6e.48xlarge",), pricing="training_plan")
    with pytest.raises(InvalidField) as refused:
        recommend(workload_of(), alone, CATALOG, EVIDENCE)
    assert refused.value.field == "pricing"
    answer = recommend(workload_of(), Constraints(objective="cheapest"), CATALOG, EVIDENCE)
    assert any("g6e" in text for text in answer.assumptions)


def test_every_setting_has_a_reason_and_rivals_are_compared() -> None:
    best = recommend(workload_of(), Constraints(objective="cheapest"), CATALOG, EVIDENCE).best
    assert best is not None
    assert [reason.setting for reason in best.why] == ["instance_type", *SETTINGS]
    told = [reason.next_best for reason in best.why if reason.next_best]
    assert len(told) >= 5
    for reason in best.why:
        assert reason.value
        if reason.setting not in ("instance_type", "sharding", "activation_checkpointing"):
            value = getattr(best.plan, reason.setting)
            shown = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            assert reason.value == shown


def test_fastest_is_not_slower_and_cheapest_not_dearer() -> None:
    cheap = recommend(workload_of(), Constraints(objective="cheapest"), CATALOG, EVIDENCE).best
    fast = recommend(workload_of(), Constraints(objective="fastest"), CATALOG, EVIDENCE).best
    assert cheap is not None
    assert fast is not None
    assert fast.cost["hours"] < cheap.cost["hours"]
    assert cheap.cost["total_usd"] < fast.cost["total_usd"]


def test_a_model_too_big_for_what_is_allowed_is_a_miss_with_a_remedy_that_helps() -> None:
    wanted = Constraints(
        objective="cheapest", instances=("p4d.24xlarge",), max_instances=1, pricing="on_demand"
    )
    answer = recommend(workload_of("llama-3.1-70b"), wanted, CATALOG, EVIDENCE)
    miss = answer.nearest_miss
    assert answer.best is None
    assert miss is not None
    assert miss.candidate is not None
    assert miss.candidate.verdict == "does_not_fit"
    assert miss.change == "allow other instance types"
    helped = recommend(
        workload_of("llama-3.1-70b"), replace(wanted, instances=()), CATALOG, EVIDENCE
    )
    assert helped.num_fitting > 0


def test_a_deadline_that_cannot_be_met_names_the_hours_that_can() -> None:
    wanted = Constraints(objective="cheapest", deadline_hours=0.5)
    miss = recommend(workload_of(), wanted, CATALOG, EVIDENCE).nearest_miss
    assert miss is not None
    assert miss.candidate is not None
    assert miss.change.startswith("raise deadline_hours to ")
    hours = float(miss.change.rpartition(" ")[2].replace(",", ""))
    assert recommend(workload_of(), replace(wanted, deadline_hours=hours), CATALOG, EVIDENCE).best


def test_a_batch_smaller_than_one_step_names_the_batch_that_is_not() -> None:
    small = replace(workload_of(), global_batch_tokens=4096)
    miss = recommend(small, Constraints(objective="cheapest"), CATALOG, EVIDENCE).nearest_miss
    assert miss is not None
    assert miss.candidate is None
    assert miss.change == f"raise global_batch_tokens to {8 * small.seq_len:,}"
    enough = replace(small, global_batch_tokens=8 * small.seq_len)
    assert recommend(enough, Constraints(objective="cheapest"), CATALOG, EVIDENCE).best


def test_a_budget_alone_is_spent_on_tokens() -> None:
    answers = [
        recommend(
            workload_of(num_tokens=None),
            Constraints(objective="most_tokens", budget_usd=Decimal(budget)),
            CATALOG,
            EVIDENCE,
        ).best
        for budget in (20_000, 80_000)
    ]
    few, many = answers
    assert few is not None
    assert many is not None
    assert few.cost["total_usd"] <= 20_000
    assert many.num_tokens > 2 * few.num_tokens


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-14b", "llama-3.1-70b"])
def test_a_default_question_searches_a_large_space(name: str) -> None:
    answer = recommend(workload_of(name), Constraints(objective="cheapest"), CATALOG, EVIDENCE)
    assert answer.num_candidates >= 100_000


@pytest.mark.parametrize(
    ("pins", "max_instances", "field"),
    [
        (Pins(sharding="none", reshard_after_forward=False), 64, "reshard_after_forward"),
        (Pins(sharding="hybrid"), 1, "sharding"),
    ],
)
def test_pins_that_contradict_are_refused_at_the_field(
    pins: Pins, max_instances: int, field: str
) -> None:
    wanted = Constraints(objective="cheapest", pins=pins, max_instances=max_instances)
    with pytest.raises(InvalidField) as refused:
        recommend(workload_of(), wanted, CATALOG, EVIDENCE)
    assert refused.value.field == field


def test_a_pin_that_no_plan_can_have_is_told_with_what_to_leave_open() -> None:
    one_step = replace(workload_of(), global_batch_tokens=64 * 8192)
    wanted = Constraints(
        objective="cheapest",
        instances=("p5.48xlarge",),
        max_instances=1,
        pins=Pins(gradient_sync="last", micro_batch=8),
    )
    miss = recommend(one_step, wanted, CATALOG, EVIDENCE).nearest_miss
    assert miss is not None
    assert miss.reason == "no plan agrees with all that is pinned at once"
    assert miss.change.startswith("leave gradient_sync open")


def test_a_rival_that_only_the_allocator_rejects_is_not_said_to_run_out_of_memory() -> None:
    wanted = Constraints(objective="fastest", max_instances=16)
    best = recommend(workload_of("qwen3-14b", 3 * 10**11), wanted, CATALOG, EVIDENCE).best
    assert best is not None
    limit = f"probability {wanted.max_oom_probability:.0%}"
    told = [reason.next_best for reason in best.why if reason.next_best]
    assert any("the allocator would give memory back" in text for text in told)
    assert not any(text.endswith(("probability 0%", "probability 1%", limit)) for text in told)
