"""The form: numbers as people write them, and errors under the field's name."""

from typing import Any

import pytest

from advisor.catalog import load_catalog
from app.forms import form_field, groups, labels, parse_form
from app.schemas import RecommendRequest

CATALOG = load_catalog()


def parsed(**texts: str) -> RecommendRequest:
    form = parse_form({name: [text] for name, text in texts.items()}, CATALOG)
    assert form.request is not None, form
    return form.request


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("15B", 15 * 10**9),
        ("1.5T", 1_500_000_000_000),
        ("2e12", 2 * 10**12),
        ("10,000", 10_000),
        ("300 m", 300_000_000),
        ("1_000k", 1_000_000),
    ],
)
def test_tokens_as_people_write_them(text: str, number: int) -> None:
    assert parsed(model_name="llama-3.1-8b", num_tokens=text).num_tokens == number


def test_dollars_may_have_a_sign_and_cents() -> None:
    assert parsed(model_name="llama-3.1-8b", budget_usd="$20,000.50").budget_usd == 20000.5


@pytest.mark.parametrize("text", ["-3", "many", "1e999", "1" * 60, "0x10", "1.2.3", "٣"])
def test_other_numbers_are_refused_at_the_field(text: str) -> None:
    form = parse_form({"model_name": ["llama-3.1-8b"], "budget_usd": [text]}, CATALOG)
    assert form.request is None
    assert list(form.errors) == ["budget_usd"]


def test_every_wrong_field_is_told_at_once() -> None:
    form = parse_form(
        {"model_size_b": ["8"], "budget_usd": ["x"], "precision": ["fp3"], "seq_len": ["-"]},
        CATALOG,
    )
    assert set(form.errors) == {"budget_usd", "precision", "seq_len"}


def test_no_model_is_told_at_the_model() -> None:
    assert list(parse_form({"budget_usd": ["5"]}, CATALOG).errors) == ["model_name"]


def test_a_broken_config_is_told_at_the_config() -> None:
    form = parse_form({"model_config": ["{"]}, CATALOG)
    assert "line 1" in form.errors["model_config"]


def test_a_config_that_is_no_object_is_told_at_the_config() -> None:
    assert list(parse_form({"model_config": ["[1]"]}, CATALOG).errors) == ["model_config"]


def test_an_unknown_field_is_told() -> None:
    assert parse_form({"modell": ["x"]}, CATALOG).unplaced == (
        "'modell' is not a field of this form",
    )


def test_the_own_rate_keeps_the_way_of_paying() -> None:
    request = parsed(model_name="llama-3.1-8b", pricing="training_plan", usd_per_instance_hour="60")
    assert request.pricing.kind == "training_plan"
    assert request.pricing.usd_per_instance_hour == 60


def test_flags_have_three_states() -> None:
    assert parsed(model_name="llama-3.1-8b", compile="false").compile is False
    assert parsed(model_name="llama-3.1-8b").compile is None


def test_several_instances() -> None:
    form = parse_form(
        {"model_name": ["llama-3.1-8b"], "instances": ["p5.48xlarge", "p4d.24xlarge"]}, CATALOG
    )
    assert form.request is not None
    assert form.request.instances == ["p5.48xlarge", "p4d.24xlarge"]


def test_the_form_has_every_field_of_the_request() -> None:
    offered = set(labels(CATALOG))
    model = {"model_name", "model_size_b", "model_config"}
    assert offered - model - {"usd_per_instance_hour"} == set(RecommendRequest.model_fields) - {
        "model"
    }
    assert model <= offered


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("model", "model_name"),
        ("model.name", "model_name"),
        ("model.size_b", "model_size_b"),
        ("model.config.num_hidden_layers", "model_config"),
        ("pricing", "pricing"),
        ("pricing.usd_per_instance_hour", "usd_per_instance_hour"),
        ("instances.3", "instances"),
        ("seq_len", "seq_len"),
    ],
)
def test_paths_of_the_request_lead_to_fields(path: str, name: str) -> None:
    assert form_field(path) == name
    assert name in labels(CATALOG)


def test_every_instance_type_can_be_ticked() -> None:
    choices: dict[str, Any] = {
        each.name: each.choices for group in groups(CATALOG) for each in group.fields
    }
    assert [value for value, _ in choices["instances"]] == list(CATALOG.instances)
