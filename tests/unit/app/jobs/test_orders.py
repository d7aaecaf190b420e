"""From a request to an order: only what a stored recommendation holds, and only what fits."""

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from advisor.errors import InvalidField
from app.jobs.order import JobOrder
from app.jobs.orders import Ordered, ordered, request_hash
from app.jobs.schemas import JobRequest
from app.settings import Settings

ROLE = "arn:aws:iam::123456789012:role/training"
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/mine"
AWS = {
    "backend": "sagemaker",
    "role_arn": ROLE,
    "output_s3_uri": "s3://bucket/out",
    "checkpoint_s3_uri": "s3://bucket/ckpt/",
    "training_plan_arn": PLAN,
}
IDENTITY = "0123456789abcdef" * 2


def order_with(content: dict[str, Any], **given: Any) -> Ordered:
    request = JobRequest(recommendation_id=content["id"], **given)
    return ordered(request, content, Settings(), identity=IDENTITY)


def test_an_order_survives_storage(made: Ordered) -> None:
    assert JobOrder.from_json(json.loads(json.dumps(made.order.as_json()))) == made.order


def test_the_order_has_the_settings_of_the_candidate(
    content: dict[str, Any], made: Ordered
) -> None:
    settings = content["best"]["settings"]
    for name in ("precision", "micro_batch", "shard_degree", "activation_checkpointing"):
        assert made.order.hyperparameters[name] == str(settings[name])
    assert made.order.num_instances == settings["num_instances"]
    assert made.order.hyperparameters["num_tokens"] == str(content["best"]["num_tokens"])
    assert "probe" not in made.order.hyperparameters


def test_a_probe_measures_twenty_steps(content: dict[str, Any]) -> None:
    order = order_with(content, kind="probe").order
    assert order.hyperparameters["probe"] == "20"
    assert order.predicted_s is None
    assert order.max_runtime_s == 2 * 3600


def test_the_name_is_what_sagemaker_takes(content: dict[str, Any], made: Ordered) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", made.order.name)
    odd = {**content, "model": {**content["model"], "name": "Ünï/–_" * 30 + "x"}}
    name = order_with(odd).order.name
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)


def test_a_run_on_sagemaker_has_its_limit_by_the_prediction(content: dict[str, Any]) -> None:
    made = order_with(content, **AWS)
    slowest_s = content["best"]["num_tokens"] / made.predicted["interval_tokens_per_s"][0]
    assert slowest_s < made.order.max_runtime_s <= 28 * 86400
    assert made.order.region == "us-west-2"
    assert made.order.checkpoint_uri == "s3://bucket/ckpt"
    rate = content["best"]["cost"]["usd_per_instance_hour"]
    instances = made.order.num_instances
    assert made.max_usd is not None
    assert float(made.max_usd) == pytest.approx(rate * instances * made.order.max_runtime_s / 3600)


def test_a_run_here_costs_nothing(made: Ordered) -> None:
    assert made.max_usd == 0


def test_a_candidate_must_be_there(content: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="candidates 0") as found:
        order_with(content, candidate=len(content["alternatives"]) + 1)
    assert found.value.field == "candidate"


def test_an_alternative_can_be_run(content: dict[str, Any]) -> None:
    made = order_with(content, candidate=1)
    assert made.predicted["settings"] == content["alternatives"][0]["settings"]


def test_nothing_runs_where_nothing_fits(content: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match="nothing fits"):
        order_with({**content, "best": None})


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("role_arn", {"role_arn": ROLE}),
        ("training_plan_arn", {"training_plan_arn": PLAN}),
        ("data", {"data": "s3://bucket/data"}),
        ("environment.LD_PRELOAD", {"environment": {"LD_PRELOAD": "x.so"}}),
        ("role_arn", {**AWS, "role_arn": None}),
        ("output_s3_uri", {**AWS, "output_s3_uri": None}),
        ("data", {**AWS, "data": "/home/me"}),
        ("vpc", {**AWS, "data": "fsx://fs-0123456789abcdef0/data"}),
        ("region", {**AWS, "training_plan_arn": None}),
    ],
)
def test_what_does_not_fit_the_backend_is_named(
    content: dict[str, Any], field: str, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidField) as found:
        order_with(content, **given)
    assert found.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("training_plan_arn", "arn:aws:ec2:us-west-2:123456789012:capacity-reservation/cr-1"),
        ("training_plan_arn", PLAN + " "),
        ("role_arn", "arn:aws:iam::12:role/x"),
        ("role_arn", "me"),
        ("image_uri", "http://evil/x y"),
        ("output_s3_uri", "https://example.org/x"),
        ("checkpoint_s3_uri", "s3://B/x"),
        ("max_runtime_hours", 673),
        ("max_runtime_hours", 0),
        ("candidate", -1),
        ("candidate", True),
        ("kind", "evaluate"),
        ("environment", {"1A": "x"}),
        ("environment", {"API_TOKEN": "x"}),
        ("environment", {"WEBHOOK": "https://hooks.slack.com/services/T/B/x"}),
        ("environment", {"A": "x" * 513}),
        ("tags", {"aws:x": "y"}),
        ("recommendation_id", "../../etc"),
        ("idempotency_key", ""),
        ("vpc", {"subnets": [], "security_group_ids": ["sg-1"]}),
    ],
)
def test_wrong_values_are_refused_at_their_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as found:
        JobRequest.model_validate({"recommendation_id": "0" * 24, field: value})
    assert found.value.errors()[0]["loc"][0] == field


def test_two_requests_differ_in_their_hash() -> None:
    one = JobRequest(recommendation_id="0" * 24)
    assert request_hash(one) == request_hash(JobRequest(recommendation_id="0" * 24))
    assert request_hash(one) != request_hash(JobRequest(recommendation_id="0" * 24, kind="probe"))
