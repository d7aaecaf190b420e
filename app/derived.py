"""Derived values: what an answer took for the fields that were left open, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app import formatting as words
from app.translations.catalogue import told

# Settings of the answer by the field that would pin them.
_PINNED = {
    "precision": "precision",
    "activation_checkpointing": "activation_checkpointing",
    "micro_batch": "micro_batch",
    "optimizer": "optimizer",
    "sharding": "sharding",
    "compile": "compile",
    "loss_chunking": "loss_chunks",
    "reshard_after_forward": "reshard_after_forward",
    "gradient_sync": "gradient_sync",
}
_RULES = ("seq_len", "num_tokens", "global_batch_tokens")
_FOLLOWS = {
    "optimizer": "AdamW with fp32 states unless pinned",
    "compile": "torch.compile of each block unless pinned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A value as a page writes it, and where it comes from; reason: "" where none is needed."""

    value: str
    reason: str


def derived_values(content: Mapping[str, Any]) -> dict[str, Derived]:
    """By the form's fields. A field that the question filled in has none."""
    found = _of_rules(content)
    if content["best"] is not None:
        found |= _of_plan(content["best"])
    request = content["request"]
    sent = {**request, "usd_per_instance_hour": _own_rate(request["pricing"])}
    asked = {name for name, value in sent.items() if value is not None}
    return {name: each for name, each in found.items() if name not in asked}


def _own_rate(pricing: object) -> object:
    return pricing["usd_per_instance_hour"] if isinstance(pricing, dict) else None


def _of_rules(content: Mapping[str, Any]) -> dict[str, Derived]:
    """Figures of the run, whose rules are among the assumptions as "name = value (rule)"."""
    workload = content["workload"]
    found = {}
    for text in content["assumptions"]:
        name, is_rule, _ = text.partition(" = ")
        if is_rule and name in _RULES:
            # Told whole: a part of a sentence is none that the catalogue knows.
            _, _, reason = told(text).partition("(")
            found[name] = Derived(
                value=words.whole(workload[name]), reason=reason.removesuffix(")")
            )
    return found


def _of_plan(best: Mapping[str, Any]) -> dict[str, Derived]:
    reasons = {each["setting"]: each for each in best["why"]}
    found = {}
    for field, setting in _PINNED.items():
        why = reasons.get(setting)
        value = why["value"] if why else words.setting(best["settings"].get(setting, ""))
        found[field] = Derived(
            value=value, reason=why["reason"] if why else _FOLLOWS.get(field, "")
        )
    cost = best["cost"]
    found["num_tokens"] = Derived(
        value=words.whole(best["num_tokens"]), reason="what budget and deadline pay for"
    )
    if cost["total_usd"] is not None:
        found["usd_per_instance_hour"] = Derived(
            value=words.usd(cost["usd_per_instance_hour"]), reason="the published rate"
        )
        if cost["region"]:
            found["region"] = Derived(value=cost["region"], reason="the cheapest that is allowed")
    found["instances"] = Derived(
        value=best["settings"]["instance_type"],
        reason=reasons["instance_type"]["reason"] if "instance_type" in reasons else "",
    )
    return found
