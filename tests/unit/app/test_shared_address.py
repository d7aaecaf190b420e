"""Addresses to share: the form they fill in asks what the request asked."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.plan import Plan
from app.forms import parse_form
from app.recommendations import echo
from app.schemas import RecommendRequest
from app.shared_address import form_values, page_address, pinned_values

CATALOG = load_catalog()
PLAN = Plan(
    instance_type="p5.48xlarge",
    num_instances=4,
    gpus_per_instance=8,
    precision="fp8",
    activation_checkpointing="selective",
    checkpoint_every=4,
    micro_batch=2,
    seq_len=8192,
    accumulation_steps=8,
    shard_degree=32,
    loss_chunks=8,
)
MODELS = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["llama-3.1-8b", "Qwen/Qwen3-14B"])}),
    st.fixed_dictionaries({"size_b": st.floats(0.1, 72.0)}),
    st.just({"config": {"model_type": "llama", "hidden_size": 2048, "note": 'ü "&=+ '}}),
)
OPEN = {
    "num_tokens": st.integers(1, 10**15),
    "seq_len": st.integers(1, 2**20),
    "training": st.sampled_from(["pretrain", "finetune"]),
    "budget_usd": st.floats(0.01, 1e8),
    "deadline_hours": st.floats(0.001, 17_000.0),
    "objective": st.sampled_from(["cheapest", "fastest", "most_tokens"]),
    "instances": st.lists(st.sampled_from(list(CATALOG.instances)), min_size=1, unique=True),
    "min_instances": st.integers(1, 64),
    "max_instances": st.integers(1, 64),
    "pricing": st.sampled_from(
        [
            "spot",
            "on_demand",
            "training_plan",
            {"usd_per_instance_hour": 30.25},
            {"kind": "capacity_block", "usd_per_instance_hour": 1e-05},
        ]
    ),
    "region": st.sampled_from(["us-west-2", "us-east-1"]),
    "max_oom_probability": st.floats(1e-9, 0.999),
    "precision": st.sampled_from(["bf16", "fp8"]),
    "compile": st.booleans(),
    "loss_chunking": st.booleans(),
    "gradient_sync": st.sampled_from(["each", "last"]),
}


@given(st.fixed_dictionaries({"model": MODELS}, optional=OPEN))
def test_a_filled_in_form_asks_the_same(body: dict[str, object]) -> None:
    request = RecommendRequest.model_validate(body)
    values = form_values(echo(request))
    parsed = parse_form(values, CATALOG)
    assert parsed.request == request, parsed


def test_an_address_too_long_for_a_browser_is_none() -> None:
    assert page_address({"model_config": ["x" * 7000]}) is None
    assert page_address({"model_name": ["a&b"]}) == "/?model_name=a%26b"


@pytest.mark.parametrize(
    ("plan", "sharding"),
    [
        (PLAN, "full"),
        (replace(PLAN, shard_degree=8, replica_degree=4), "hybrid"),
        (replace(PLAN, shard_degree=1, replica_degree=32), "none"),
    ],
)
def test_a_plan_is_asked_for_by_its_settings(plan: Plan, sharding: str) -> None:
    asked = echo(
        RecommendRequest.model_validate(
            {"model": {"name": "llama-3.1-8b"}, "budget_usd": 5, "objective": "most_tokens"}
        )
    )
    parsed = parse_form(pinned_values(asked, plan, 10**9), CATALOG)
    request = parsed.request
    assert request is not None, parsed
    assert (request.budget_usd, request.objective, request.num_tokens) == (None, None, 10**9)
    assert (request.instances, request.min_instances, request.max_instances) == (
        ["p5.48xlarge"],
        4,
        4,
    )
    assert (request.sharding, request.precision, request.micro_batch) == (sharding, "fp8", 2)
    assert request.loss_chunking is True
    # Without shards nothing is gathered, so there is nothing to say about it.
    assert request.reshard_after_forward == (None if sharding == "none" else True)


def test_money_keeps_its_cents() -> None:
    request = RecommendRequest.model_validate(
        {"model": {"size_b": 8.0}, "budget_usd": 20000.55, "num_tokens": 5}
    )
    values = form_values(echo(request))
    assert Decimal(values["budget_usd"][0]) == Decimal("20000.55")
