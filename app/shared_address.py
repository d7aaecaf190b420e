"""Addresses of questions: the form's fields that ask what a request asks, as a link to share."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from advisor.plan import Plan
from advisor.workload import MAX_INSTANCES
from app.forms import FormValues

# Browsers and proxies take addresses of about 8,000 characters; a longer config.json is posted.
MAX_ADDRESS = 6000
# What the form starts from anyway.
_DEFAULTS = {
    "training": "pretrain",
    "pricing": "training_plan",
    "max_instances": MAX_INSTANCES,
    "max_oom_probability": 0.02,
}
_MODEL_FIELDS = {"name": "model_name", "size_b": "model_size_b", "config": "model_config"}


def form_values(request: Mapping[str, Any]) -> FormValues:
    """The fields of the form for a request as an answer states it; those left open are left out."""
    asked = {name: value for name, value in request.items() if _DEFAULTS.get(name) != value}
    values: FormValues = {}
    for name, value in asked.pop("model").items():
        values[_MODEL_FIELDS[name]] = [_text(value)]
    pricing = asked.pop("pricing", None)
    if isinstance(pricing, dict):
        values["usd_per_instance_hour"] = [_text(pricing["usd_per_instance_hour"])]
        pricing = pricing.get("kind", "custom")
    if pricing is not None:
        values["pricing"] = [pricing]
    values["instances"] = asked.pop("instances", [])
    values |= {name: [_text(value)] for name, value in asked.items() if value is not None}
    return {name: texts for name, texts in values.items() if texts}


def page_address(values: Mapping[str, list[str]], path: str = "/") -> str | None:
    """The page with a form filled in; None where it would be too long for an address."""
    query = urlencode([(name, text) for name, texts in values.items() for text in texts])
    return f"{path}?{query}" if len(query) <= MAX_ADDRESS else None


def pinned_values(request: Mapping[str, Any], plan: Plan, num_tokens: int) -> FormValues:
    """The question whose answer is this plan: its instances and settings, whatever it costs."""
    open_ = {
        name: value
        for name, value in request.items()
        if name not in ("budget_usd", "deadline_hours", "objective")
    }
    sharding = (
        "none" if plan.shard_degree == 1 else "full" if plan.replica_degree == 1 else "hybrid"
    )
    pins: dict[str, Any] = {
        "num_tokens": num_tokens,
        "instances": [plan.instance_type],
        "min_instances": plan.num_instances,
        "max_instances": plan.num_instances,
        "precision": plan.precision,
        "activation_checkpointing": plan.activation_checkpointing,
        "micro_batch": plan.micro_batch,
        "optimizer": plan.optimizer,
        "sharding": sharding,
        "compile": plan.compile,
        "loss_chunking": plan.loss_chunks > 1,
    }
    if plan.shard_degree > 1:
        pins["reshard_after_forward"] = plan.reshard_after_forward
    if plan.accumulation_steps > 1:
        pins["gradient_sync"] = plan.gradient_sync
    return form_values({**open_, **pins})


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return repr(value) if isinstance(value, float) else str(value)
