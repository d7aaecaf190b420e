"""The comparison's page: its form, its answer, and its errors at the fields."""

import re

import pytest
from fastapi.testclient import TestClient

from advisor.catalog import load_catalog
from app.compare_form import parse_comparison
from app.what_if_schemas import CompareRequest, Current, Fixed

HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
TODAY = (
    "/compare?model_name=llama-3.1-8b&instance_type=p4d.24xlarge&num_instances=4&micro_batch=1"
    "&activation_checkpointing=full&num_tokens=100B"
)


def test_the_form_is_empty_at_first(client: TestClient) -> None:
    page = client.get("/compare", headers=HTML)
    assert page.status_code == 200
    assert 'role="alert"' not in page.text
    for name in ("instance_type", "micro_batch", "measured_tokens_per_s", "pricing"):
        assert f'name="{name}"' in page.text


def test_every_field_of_a_cluster_can_be_given() -> None:
    text = {
        "model_name": "llama-3.1-8b",
        "instance_type": "p5.48xlarge",
        "num_instances": "2",
        "micro_batch": "3",
        "activation_checkpointing": "selective",
        "precision": "fp8",
        "seq_len": "4k",
        "accumulation_steps": "5",
        "optimizer": "adamw_8bit",
        "loss_chunks": "8",
        "compile": "false",
        "measured_tokens_per_s": "12.5k",
        "num_tokens": "1.5T",
        "pricing": "on_demand",
    }
    parsed = parse_comparison({name: [value] for name, value in text.items()}, load_catalog())
    assert not parsed.errors
    assert parsed.request is not None
    assert parsed.request.current == Current(
        instance_type="p5.48xlarge",
        num_instances=2,
        micro_batch=3,
        activation_checkpointing="selective",
        measured_tokens_per_s=12500.0,
        settings=Fixed(
            precision="fp8",
            optimizer="adamw_8bit",
            accumulation_steps=5,
            loss_chunks=8,
            compile=False,
        ),
    )
    assert isinstance(parsed.request, CompareRequest)
    assert (parsed.request.seq_len, parsed.request.num_tokens) == (4000, 15 * 10**11)


def test_the_page_says_what_the_json_says(client: TestClient) -> None:
    page = client.get(TODAY, headers=HTML)
    assert page.status_code == 200
    question = {
        "model": {"name": "llama-3.1-8b"},
        "num_tokens": 10**11,
        "current": {
            "instance_type": "p4d.24xlarge",
            "num_instances": 4,
            "micro_batch": 1,
            "activation_checkpointing": "full",
        },
    }
    sides = client.post("/compare", json=question).json()["sides"]
    assert len(sides) == 4
    for side in sides:
        assert f"{side['tokens_per_s']:,.0f}" in page.text
        for words in (side["against_current"] or {}).get("explanation", ()):
            assert words in page.text


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("instance_type=p5.48xlarge&micro_batch=1", "model_name", "give exactly one"),
        (TODAY.partition("?")[2] + "&precision=fp8", "precision", "A100"),
        (TODAY.partition("?")[2].replace("llama-3.1-8b", "lama"), "model_name", "unknown model"),
        (
            TODAY.partition("?")[2].replace("micro_batch=1", "micro_batch=x"),
            "micro_batch",
            "number",
        ),
        (TODAY.partition("?")[2] + "&seq_len=999999999", "seq_len", "4,194,304"),
    ],
)
def test_what_is_wrong_is_said_at_the_field(
    client: TestClient, query: str, field: str, words: str
) -> None:
    page = client.get(f"/compare?{query}", headers=HTML)
    assert page.status_code == 422
    found = re.search(rf'id="{field}-error">([^<]*)', page.text)
    assert found is not None
    assert words in found[1]


def test_an_unknown_field_is_named(client: TestClient) -> None:
    page = client.get("/compare?colour=red", headers=HTML)
    assert page.status_code == 422
    assert "&#39;colour&#39; is not a field" in page.text
