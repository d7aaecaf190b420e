"""Schemas: strict types, exact bounds, and echoes that mean the same."""

from dataclasses import fields
from typing import Any

import pytest
from pydantic import ValidationError

from advisor.result import RESULT_COLUMNS, Result
from advisor.workload import Pins
from app.recommendations import PIN_FIELDS, echo
from app.schemas import RecommendRequest, ResultRow, ResultUpload

MODEL = {"name": "llama-3.1-8b"}


def wrong_field(body: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        RecommendRequest.model_validate(body)
    return ".".join(str(part) for part in caught.value.errors()[0]["loc"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "model"),
        ({"model": "llama"}, "model"),
        ({"model": {}}, "model"),
        ({"model": {"name": "a", "size_b": 1}}, "model"),
        ({"model": {"size_b": True}}, "model.size_b"),
        ({"model": {"size_b": "8"}}, "model.size_b"),
        ({"model": {"name": ""}}, "model.name"),
        ({"model": MODEL, "num_tokens": True}, "num_tokens"),
        ({"model": MODEL, "num_tokens": 1.5}, "num_tokens"),
        ({"model": MODEL, "num_tokens": 0}, "num_tokens"),
        ({"model": MODEL, "num_tokens": 10**30}, "num_tokens"),
        ({"model": MODEL, "num_tokens": 1e300}, "num_tokens"),
        ({"model": MODEL, "budget_usd": -1}, "budget_usd"),
        ({"model": MODEL, "budget_usd": float("nan")}, "budget_usd"),
        ({"model": MODEL, "budget_usd": float("inf")}, "budget_usd"),
        ({"model": MODEL, "deadline_hours": 0}, "deadline_hours"),
        ({"model": MODEL, "max_oom_probability": 1}, "max_oom_probability"),
        ({"model": MODEL, "max_instances": 65}, "max_instances"),
        ({"model": MODEL, "min_instances": 0}, "min_instances"),
        ({"model": MODEL, "instances": []}, "instances"),
        ({"model": MODEL, "instances": "p5"}, "instances"),
        ({"model": MODEL, "compile": "yes"}, "compile"),
        ({"model": MODEL, "compile": 1}, "compile"),
        ({"model": MODEL, "precision": "fp16"}, "precision"),
        ({"model": MODEL, "pricing": "cheap"}, "pricing.kind"),
        ({"model": MODEL, "pricing": "custom"}, "pricing"),
        (
            {"model": MODEL, "pricing": {"usd_per_instance_hour": 0}},
            "pricing.usd_per_instance_hour",
        ),
        ({"model": MODEL, "pricing": {"kind": "spot", "usd_per_instance_hour": 9}}, "pricing"),
        ({"model": MODEL, "budget": 5}, "budget"),
    ],
)
def test_refused_at_the_field(body: dict[str, Any], field: str) -> None:
    assert wrong_field(body) == field


def test_a_whole_float_is_a_whole_number() -> None:
    assert RecommendRequest.model_validate({"model": MODEL, "num_tokens": 2e12}).num_tokens == (
        2 * 10**12
    )


@pytest.mark.parametrize(
    "pricing",
    [
        "spot",
        "on_demand",
        {"usd_per_instance_hour": 30.5},
        {"kind": "training_plan", "usd_per_instance_hour": 30.5},
    ],
)
def test_the_echo_is_the_same_question(pricing: Any) -> None:
    request = RecommendRequest.model_validate({"model": MODEL, "pricing": pricing})
    assert echo(request)["pricing"] == pricing
    assert RecommendRequest.model_validate(echo(request)) == request


def test_every_pin_of_the_advisor_is_a_field() -> None:
    assert {each.name for each in fields(Pins)} == set(PIN_FIELDS)
    assert set(PIN_FIELDS) <= set(RecommendRequest.model_fields)


def test_a_row_has_the_columns_of_a_result() -> None:
    assert tuple(ResultRow.model_fields) == RESULT_COLUMNS
    row = ResultRow(id="mine-1", source_url="https://example.org/run")
    assert Result(**row.model_dump()) == Result(id="mine-1", source_url="https://example.org/run")


@pytest.mark.parametrize(
    "sent",
    [
        {"id": "mine-1", "source_url": "x"},
        [{"id": "mine-1", "source_url": "x"}],
        {"rows": [{"id": "mine-1", "source_url": "x"}], "uploaded_by": "me"},
        {"id": "mine-1", "source_url": "x", "uploaded_by": "me"},
    ],
)
def test_one_row_or_many(sent: Any) -> None:
    assert [row.id for row in ResultUpload.model_validate(sent).rows] == ["mine-1"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "mine-1"},
        {"id": "mine-1", "source_url": " "},
        {"id": "../x", "source_url": "x"},
        {"id": "mine-1", "source_url": "x", "peak_mem_gib": 0},
        {"id": "mine-1", "source_url": "x", "peak_mem_gib": float("nan")},
        {"id": "mine-1", "source_url": "x", "oom": "no"},
        {"id": "mine-1", "source_url": "x", "gpus_total": 2.5},
        {"id": "mine-1", "source_url": "x", "sharding": "some"},
        {"id": "mine-1", "source_url": "x", "speed": 1},
    ],
)
def test_rows_are_strict(row: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ResultUpload.model_validate(row)
