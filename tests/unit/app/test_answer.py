"""The answer: its names, its id, its bytes."""

import json
from typing import Any

import pytest

from advisor.catalog import load_catalog
from advisor.errors import InvalidField, UnknownName
from advisor.result import load_shipped_results
from app import terminal, views
from app.knowledge import Knowledge, knowledge_of
from app.recommendations import answer, constraints_of, known_model
from app.schemas import RecommendRequest

SETTINGS = {
    *("instance_type", "num_instances", "precision", "activation_checkpointing"),
    *("checkpoint_every", "micro_batch", "seq_len", "accumulation_steps", "gradient_sync"),
    *("shard_degree", "replica_degree", "reshard_after_forward", "loss_chunks", "optimizer"),
    *("compile", "global_batch_tokens"),
}
MEMORY = {
    *("peak_bytes", "capacity_bytes", "headroom_bytes", "peak_instant", "terms", "instants"),
    *("interval_bytes", "out_of_memory_probability", "active_bytes"),
}


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return knowledge_of(load_shipped_results())


@pytest.fixture(scope="module")
def content(knowledge: Knowledge) -> dict[str, Any]:
    return answer(asked(budget_usd=20000), knowledge).content


def asked(**fields: Any) -> RecommendRequest:
    return RecommendRequest.model_validate({"model": {"name": "llama-3.1-8b"}, **fields})


def test_the_promised_names_are_there(content: dict[str, Any]) -> None:
    best = content["best"]
    assert set(best["settings"]) >= SETTINGS
    assert set(best["memory"]) >= MEMORY
    assert {"tokens_per_s", "tokens_per_s_per_gpu", "step_s", "mfu_fraction", "terms"} <= set(
        best["throughput"]
    )
    assert {"total_usd", "hours", "usd_per_billion_tokens", "price_source"} <= set(best["cost"])
    assert {"id", "request", "model", "workload", "alternatives", "nearest_miss"} <= set(content)
    assert {"assumptions", "catalog_version", "calibration_version"} <= set(content)
    assert content["searched"]["num_candidates"] >= 100_000
    assert best["why"]
    assert best["evidence"]


def test_the_published_count_is_shown(content: dict[str, Any]) -> None:
    model = content["model"]
    assert model["num_parameters"] == model["num_parameters_published"] == 8_030_261_248


def test_the_same_question_has_the_same_bytes(knowledge: Knowledge) -> None:
    first, second = (answer(asked(budget_usd=500), knowledge) for _ in range(2))
    assert (first.id, first.body) == (second.id, second.body)
    assert json.loads(first.body) == first.content


def test_other_questions_have_other_ids(knowledge: Knowledge) -> None:
    assert (
        answer(asked(budget_usd=500), knowledge).id != answer(asked(budget_usd=501), knowledge).id
    )


def test_nothing_that_fits_is_an_answer(knowledge: Knowledge) -> None:
    content = answer(asked(budget_usd=1, num_tokens=10**12), knowledge).content
    assert content["best"] is None
    assert content["nearest_miss"]["change"]
    assert "Nothing that is allowed" in views.headline(content)
    assert content["nearest_miss"]["reason"] in terminal.recommendation_text(content)


def test_a_size_says_its_rules() -> None:
    model = known_model(RecommendRequest.model_validate({"model": {"size_b": 14}}).model)
    assert model.rules
    assert model.num_parameters_published is None


def test_instances_are_known_by_family_and_counted_once() -> None:
    constraints = constraints_of(asked(instances=["P5", "ml.p5.48xlarge"]), load_catalog())
    assert constraints.instances == ("p5.48xlarge",)


def test_an_unknown_instance_is_told_at_its_place() -> None:
    with pytest.raises(UnknownName) as caught:
        constraints_of(asked(instances=["p5", "p9"]), load_catalog())
    assert caught.value.field == "instances.1"


def test_a_precision_that_no_gpu_has_is_told(knowledge: Knowledge) -> None:
    with pytest.raises(InvalidField) as caught:
        answer(asked(instances=["p4d"], precision="fp8"), knowledge)
    assert caught.value.field == "precision"


def test_bars_fill_their_scale(content: dict[str, Any]) -> None:
    best = content["best"]
    step = views.step_bar(best["throughput"])
    assert sum(part.width for part in step.segments) == pytest.approx(views.BAR_WIDTH, rel=1e-3)
    memory = views.memory_bar(best["memory"])
    assert sum(part.width for part in memory.segments) == pytest.approx(
        memory.marks["peak"], rel=1e-3
    )
    assert max(memory.marks.values()) == pytest.approx(views.BAR_WIDTH)
    assert len(memory.segments) <= views.MAX_SEGMENTS + 1


def test_every_setting_is_shown_once(content: dict[str, Any]) -> None:
    names = [row[0] for row in views.setting_rows(content["best"])]
    assert len(names) == len(set(names))
    assert set(names) >= SETTINGS


def test_only_web_addresses_are_linked() -> None:
    assert views.as_web_link("https://example.org/a") == "https://example.org/a"
    assert not views.as_web_link("javascript:alert(1)")


def test_the_terminal_shows_the_same_figures(content: dict[str, Any]) -> None:
    text = terminal.recommendation_text(content)
    for part in (views.headline(content), "Alternatives", content["calibration_version"]):
        assert part in text
