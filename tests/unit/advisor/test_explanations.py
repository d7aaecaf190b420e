"""Every number of an answer has a formula that gives it, on every plan and way of paying."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from explained_answers import (
    CATALOG,
    OWN_RATE,
    Question,
    assert_explained,
    candidates,
    evidence,
    python_value,
    shape_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.candidate import ALLOCATOR_TERM
from advisor.errors import UnknownName
from advisor.explain import explain
from advisor.model_size import shape_from_size
from advisor.search import recommend
from advisor.workload import Constraints, Pins, build_workload
from app.answer import candidate_json

# Candidates of each question.
NUMBER = 48
QUESTIONS = (
    Question(model="llama-3.1-8b", instance="p5.48xlarge"),
    Question(model="llama-3.1-8b", instance="p6-b200.48xlarge", pricing="capacity_block"),
    Question(model="llama-3.2-1b", instance="p4d.24xlarge", pricing="on_demand"),
    Question(model="llama-3.2-1b", instance="p6-b200.48xlarge", pricing="spot"),
    Question(model="qwen3-4b", instance="p5.48xlarge", pricing="custom"),
    Question(model="gemma-3-1b", instance="p6-b300.48xlarge", pricing="on_demand"),
    Question(model="olmo-2-7b", instance="p6e-gb200.36xlarge"),
    Question(model="pythia-1.4b", instance="g6e.48xlarge", pricing="on_demand"),
    Question(model="opt-350m", instance="p4de.24xlarge", pricing="capacity_block"),
    # Long runs, whose Capacity Blocks are sold by the week, and small steps, which wait for hosts.
    Question(
        model="llama-3.1-8b",
        instance="p4d.24xlarge",
        pricing="capacity_block",
        num_tokens=2 * 10**11,
    ),
    Question(
        model="smollm-135m",
        instance="p5.48xlarge",
        pricing="on_demand",
        seq_len=128,
        global_batch_tokens=2**13,
        num_tokens=10**7,
    ),
    # Large blocks and few tokens: the peak is at a gradient.
    Question(
        model="llama-2-70b",
        instance="p5.48xlarge",
        seq_len=128,
        global_batch_tokens=2**14,
        num_tokens=10**8,
    ),
    Question(
        model="llama-3.1-8b",
        instance="p6-b200.48xlarge",
        pins=Pins(precision="nvfp4", optimizer="adamw_8bit"),
    ),
    Question(
        model="pythia-1.4b",
        instance="p5.48xlarge",
        pins=Pins(compile=False, optimizer="adamw_bf16"),
    ),
    Question(model="llama-3.2-1b", instance="p6-b200.48xlarge", pins=Pins(compile=False)),
)


def name(question: Question) -> str:
    return f"{question.model} {question.instance} {question.pricing}"


@pytest.mark.parametrize("question", QUESTIONS, ids=name)
def test_every_number_of_any_plan_is_explained(question: Question) -> None:
    found = list(candidates(question, NUMBER, evidence()))
    assert len(found) >= NUMBER // 2
    for candidate in found:
        explanations = explain(shape_of(question), candidate, CATALOG, evidence())
        assert_explained(candidate, explanations)


def test_the_questions_reach_every_term_and_every_choice() -> None:
    every = [each for question in QUESTIONS for each in candidates(question, NUMBER, evidence())]
    terms = {term for each in every for term in each["memory"]["terms"]}
    assert terms == {
        *("parameters", "optimizer", "gradients", "gather buffer", "activations"),
        *("last hidden states", "gathered parameters", "logits", "loss slices"),
        *("recomputed block", "block temporaries", "gradient reduction", ALLOCATOR_TERM),
    }
    assert {term for each in every for term in each["throughput"]["terms"]} == {
        *("optimizer", "memory-bound work", "loss", "attention", "precision casts"),
        *("matrix products", "recomputation", "host launches", "all-gather"),
        *("reduce-scatter", "all-reduce of copies", "loss slices"),
    }
    assert {each["memory"]["peak_instant"] for each in every} >= {
        "loss",
        "first block backward",
        "last block backward",
        "embedding backward",
    }
    chosen = [each["settings"] for each in every]
    for setting, choices in {
        "precision": {"bf16", "fp8", "mxfp8", "nvfp4"},
        "gradient_sync": {"each", "last"},
        "reshard_after_forward": {True, False},
        "loss_chunks": {1, 8},
        "checkpoint_every": {0, 2, 4},
    }.items():
        assert {each[setting] for each in chosen} == choices
    assert max(each["cost"].get("days_reserved") or 0 for each in every) > 14


def first_candidate(question: Question) -> dict[str, Any]:
    return next(candidates(question, 1, evidence()))


def test_results_below_the_law_scale_its_terms() -> None:
    below = {key: replace(each, factor=0.9) for key, each in evidence().memory.items()}
    calibration = replace(evidence(), memory=below)
    for candidate in candidates(QUESTIONS[0], 20, calibration):
        explanations = explain(shape_of(QUESTIONS[0]), candidate, CATALOG, calibration)
        assert_explained(candidate, explanations)
        assert explanations["memory.parameters"].formula == "f * w * P / F"


def test_the_own_rate_is_in_the_price() -> None:
    question = replace(QUESTIONS[0], pricing="custom")
    candidate = first_candidate(question)
    total = explain(shape_of(question), candidate, CATALOG, evidence())["cost.total_usd"]
    assert total.source == "your own figure"
    (rate,) = [symbol for symbol in total.symbols if symbol.name == "r"]
    assert rate.value == float(OWN_RATE)
    assert "your own figure" in rate.meaning


def test_a_price_names_its_source_and_its_day() -> None:
    candidate = first_candidate(QUESTIONS[0])
    total = explain(shape_of(QUESTIONS[0]), candidate, CATALOG, evidence())["cost.total_usd"]
    assert total.source == candidate["cost"]["price_source"]
    assert any(candidate["cost"]["price_date"] in symbol.meaning for symbol in total.symbols)


def test_what_has_no_price_explains_no_money() -> None:
    candidate = first_candidate(QUESTIONS[0])
    unsold = {**candidate, "cost": {"total_usd": None, "hours": None, "notes": ["too many"]}}
    explanations = explain(shape_of(QUESTIONS[0]), unsold, CATALOG, evidence())
    assert_explained(unsold, explanations)
    assert not [key for key in explanations if key.startswith("cost.")]


def test_what_is_sold_no_longer_explains_no_money() -> None:
    question = Question(model="llama-3.2-1b", instance="g6e.48xlarge", pricing="on_demand")
    candidate = first_candidate(question)
    candidate["cost"]["pricing"] = "training_plan"
    explanations = explain(shape_of(question), candidate, CATALOG, evidence())
    assert not [key for key in explanations if key.startswith("cost.")]
    assert "num_steps" in explanations


def test_an_unknown_instance_type_is_refused() -> None:
    candidate = first_candidate(QUESTIONS[0])
    candidate["settings"]["instance_type"] = "p99.48xlarge"
    with pytest.raises(UnknownName):
        explain(shape_of(QUESTIONS[0]), candidate, CATALOG, evidence())


def test_another_calibration_gives_other_formulas_values() -> None:
    candidate = first_candidate(QUESTIONS[0])
    slower = replace(evidence(), throughput=replace(evidence().throughput, factor=0.5))
    step = explain(shape_of(QUESTIONS[0]), candidate, CATALOG, slower)["throughput.step_s"]
    as_answered = candidate["throughput"]["step_s"] * evidence().throughput.factor
    assert python_value(step) == pytest.approx(as_answered / 0.5)


@settings(max_examples=12, deadline=None)
@given(
    size=st.floats(0.5, 40),
    budget_usd=st.integers(2_000, 10**6),
    seq_len=st.sampled_from([1024, 4096, 8192]),
    pricing=st.sampled_from(["training_plan", "capacity_block", "on_demand", "spot"]),
)
def test_answers_to_random_questions_are_explained(
    size: float, budget_usd: int, seq_len: int, pricing: Any
) -> None:
    workload = build_workload(
        shape_from_size(size).shape,
        num_tokens=None,
        seq_len=seq_len,
        global_batch_tokens=None,
        training="pretrain",
        open_ended=True,
    )
    wanted = Constraints(
        objective="most_tokens",
        budget_usd=Decimal(budget_usd),
        pricing=pricing,
        instances=("p5.48xlarge", "p6-b200.48xlarge"),
        max_instances=8,
    )
    answer = recommend(workload, wanted, CATALOG, evidence())
    found = [answer.best, *(each for _, each in answer.alternatives)]
    for each in (candidate_json(candidate) for candidate in found if candidate is not None):
        assert_explained(each, explain(workload.shape, each, CATALOG, evidence()))
