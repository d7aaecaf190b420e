"""POST /sweep and POST /compare: the guide's experiment and its comparison, one call each."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

SWEEP: dict[str, Any] = {
    "model": {"name": "llama-3.2-1b"},
    "seq_len": 8192,
    "settings": {"precision": "mxfp8"},
}
COMPARE: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "num_tokens": 10**9,
    "current": {
        "instance_type": "p4d.24xlarge",
        "num_instances": 4,
        "micro_batch": 1,
        "activation_checkpointing": "full",
    },
}


def test_sweep_has_a_cell_for_each_combination(client: TestClient) -> None:
    answer = client.post("/sweep", json=SWEEP).json()
    assert len(answer["cells"]) == 15
    cells = {
        (cell["settings"]["activation_checkpointing"], cell["settings"]["micro_batch"]): cell
        for cell in answer["cells"]
    }
    assert cells["full", 16]["peak_bytes"] < cells["none", 16]["peak_bytes"]
    assert cells["none", 1]["peak_bytes"] < cells["none", 16]["peak_bytes"]
    assert cells["full", 1]["tokens_per_s"] < cells["none", 1]["tokens_per_s"]
    fastest = max(
        (cell for cell in answer["cells"] if cell["fits"]), key=lambda cell: cell["tokens_per_s"]
    )
    assert answer["best"] == fastest


def test_sweep_tells_checkpointing_and_batch_apart(client: TestClient) -> None:
    asked = {**SWEEP, "micro_batches": [1, 16], "activation_checkpointing": ["none", "full"]}
    effects = client.post("/sweep", json=asked).json()["effects"]
    alone = {(each["changed"], *each["at"].values()): each for each in effects}
    assert len(alone) == 4
    assert alone["activation_checkpointing", 16]["tokens_per_s_factor"] < 1
    assert alone["micro_batch", "none"]["tokens_per_s_factor"] > 1
    assert alone["micro_batch", "none"]["peak_bytes_factor"] > 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"micro_batches": []}, "micro_batches"),
        ({"micro_batches": [0]}, "micro_batches.0"),
        ({"activation_checkpointing": ["some"]}, "activation_checkpointing.0"),
        ({"instance_type": "p9.48xlarge"}, "instance_type"),
        ({"seq_len": 10**6}, "seq_len"),
        ({"batch_size": 4}, "batch_size"),
        ({"settings": {"num_layers": 24}}, "settings.num_layers"),
        ({"instance_type": "p5.48xlarge"}, "settings.precision"),
        ({"model": {"name": "no-such-model"}}, "model.name"),
    ],
)
def test_sweep_refuses_at_the_field(client: TestClient, change: dict[str, Any], field: str) -> None:
    answer = client.post("/sweep", json={**SWEEP, **change})
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_compare_sets_speed_hours_cost_and_memory_side_by_side(client: TestClient) -> None:
    answer = client.post("/compare", json=COMPARE).json()
    sides = {side["label"]: side for side in answer["sides"]}
    assert list(sides)[:2] == ["current", "same_settings_on_one_p6_b200"]
    for side in sides.values():
        assert side["tokens_per_s"] > 0
        assert side["peak_bytes"] > 0
    now, node = sides["current"], sides["same_settings_on_one_p6_b200"]
    assert now["against_current"] is None
    assert node["settings"]["accumulation_steps"] == 4
    assert node["settings"]["global_batch_tokens"] == now["settings"]["global_batch_tokens"]
    factor = node["against_current"]["tokens_per_s_factor"]
    assert factor == pytest.approx(node["tokens_per_s"] / now["tokens_per_s"])
    assert "0.25 × as many GPUs" in node["against_current"]["explanation"]
    best = sides["best_found"]
    assert float(best["total_usd"]) <= float(sides["best_on_one_p6_b200"]["total_usd"])


def test_a_measured_speed_counts_for_today_and_is_held_against_the_prediction(
    client: TestClient,
) -> None:
    predicted = client.post("/compare", json=COMPARE).json()["sides"][0]
    speed = predicted["tokens_per_s"]
    current = {**COMPARE["current"], "measured_tokens_per_s": speed / 2}
    now = client.post("/compare", json={**COMPARE, "current": current}).json()["sides"][0]
    assert now["tokens_per_s"] == speed / 2
    assert now["measured_over_predicted"] == pytest.approx(0.5)
    assert now["measured_is_within_interval"] is False
    assert now["hours"] > predicted["hours"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"instance_type": "nothing"}, "current.instance_type"),
        ({"micro_batch": 0}, "current.micro_batch"),
        ({"measured_tokens_per_s": -1}, "current.measured_tokens_per_s"),
        ({"settings": {"precision": "fp8"}}, "current.settings.precision"),
    ],
)
def test_compare_refuses_at_the_field(
    client: TestClient, change: dict[str, Any], field: str
) -> None:
    answer = client.post("/compare", json={**COMPARE, "current": {**COMPARE["current"], **change}})
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_what_is_not_found_says_why(client: TestClient) -> None:
    asked = {**COMPARE, "model": {"name": "llama-3.1-70b"}, "max_oom_probability": 1e-9}
    answer = client.post("/compare", json=asked)
    assert answer.status_code == 200
    content = answer.json()
    assert {side["label"] for side in content["sides"]} | set(content["not_found"]) == {
        *("current", "same_settings_on_one_p6_b200", "best_on_one_p6_b200", "best_found")
    }


def test_a_named_plan_has_the_figures_of_the_same_recommended_plan(client: TestClient) -> None:
    asked = {
        "model": {"name": "llama-3.1-8b"},
        "instances": ["p5.48xlarge"],
        "budget_usd": 9000,
        "activation_checkpointing": "full",
        "gradient_sync": "each",
    }
    best = client.post("/recommend", json=asked).json()["best"]
    settings = best["settings"]
    fixed = {
        name: settings[name]
        for name in ("precision", "optimizer", "loss_chunks", "compile", "reshard_after_forward")
    }
    fixed["accumulation_steps"] = settings["accumulation_steps"]
    is_full = settings["shard_degree"] == settings["num_gpus"]
    fixed["sharding"] = "full" if is_full else "hybrid"
    sweep = client.post(
        "/sweep",
        json={
            "model": asked["model"],
            "instance_type": settings["instance_type"],
            "num_instances": settings["num_instances"],
            "seq_len": settings["seq_len"],
            "micro_batches": [settings["micro_batch"]],
            "activation_checkpointing": [settings["activation_checkpointing"]],
            "settings": fixed,
        },
    ).json()
    (cell,) = sweep["cells"]
    assert cell["settings"] == settings
    assert cell["peak_bytes"] == best["memory"]["peak_bytes"]
    assert cell["out_of_memory_probability"] == best["memory"]["out_of_memory_probability"]
    assert cell["tokens_per_s"] == pytest.approx(best["throughput"]["tokens_per_s"])
