"""Messages: what people read in Slack of a job, as Block Kit with a plain text beside it.

Names and reasons come from users, logs and AWS: each is escaped, so that none can call a channel.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app import formatting as words
from app.jobs.measured import comparison
from app.jobs.tables import Job

# Limits of Block Kit: a header, a section's text, one of its fields.
MAX_HEADER, MAX_SECTION, MAX_FIELD = 150, 3000, 2000
MAX_REASON = 1500

KINDS: Mapping[str, str] = {
    "submitted": "Submitted",
    "running": "Started",
    "slower_than_predicted": "Slower than predicted",
    "fuller_than_predicted": "Fuller than predicted",
    "training_plan_dropped": "Runs without its training plan",
    "failed": "Failed",
    "stopped": "Stopped",
    "completed": "Completed",
    "plan_starts_soon": "Training plan starts soon",
    "plan_ends_in_2_hours": "Training plan ends in 2 hours",
    "plan_ends_in_45_minutes": "Training plan ends in 45 minutes",
    "plan_is_idle": "Training plan is active but idle",
}
_MARKS = {
    "failed": "🔴",
    "training_plan_dropped": "🔴",
    "stopped": "🟠",
    "slower_than_predicted": "🟠",
    "fuller_than_predicted": "🟠",
    "plan_is_idle": "🟠",
    "plan_ends_in_45_minutes": "🟠",
    "completed": "🟢",
}


def about_job(job: Job, now: datetime) -> dict[str, Any]:
    """What a message about a job may need, as it is now."""
    predicted = json.loads(job.predicted)
    settings = predicted["settings"]
    begun = job.started_at
    return {
        "job_id": job.id,
        "job": job.name,
        "kind_of_job": job.kind,
        "backend": job.backend,
        "model": predicted["model_name"],
        "machines": f"{settings['num_instances']} × {settings['instance_type']}",
        "reason": job.failure_reason,
        "remedy": job.remedy,
        "waited_s": _seconds_between(job.submitted_at or job.created_at, begun),
        "ran_s": _seconds_between(begun, job.ended_at or now),
        "usd": _cost_usd(job, predicted),
        "compared": comparison(job),
    }


def message_for(kind: str, payload: Mapping[str, Any], *, public_url: str = "") -> dict[str, Any]:
    """The message as Slack takes it."""
    subject = payload.get("job") or payload.get("training_plan") or "Shardwise"
    title = f"{_MARKS.get(kind, '🔵')} {KINDS[kind]}: {subject}"
    facts = [(name, value) for name, value in _facts(kind, payload) if value]
    blocks: list[dict[str, Any]] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": title[:MAX_HEADER], "emoji": True},
        }
    ]
    if facts:
        fields = [
            {"type": "mrkdwn", "text": f"*{name}*\n{escape(value)}"[:MAX_FIELD]}
            for name, value in facts[:10]
        ]
        blocks.append({"type": "section", "fields": fields})
    for name in ("reason", "remedy"):
        if payload.get(name) and kind in ("failed", "stopped"):
            told = f"*{name.capitalize()}*: {escape(str(payload[name])[:MAX_REASON])}"
            blocks.append(
                {"type": "section", "text": {"type": "mrkdwn", "text": told[:MAX_SECTION]}}
            )
    if public_url and payload.get("job_id"):
        link = f"<{public_url}/jobs/{payload['job_id']}|Open the job>"
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": link}]})
    return {"text": escape(title), "blocks": blocks}


def escape(text: str) -> str:
    """Text in which Slack finds no mention, link or channel call."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _facts(kind: str, payload: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    if "training_plan" in payload:
        return _plan_facts(payload)
    facts: list[tuple[str, str | None]] = [
        ("Model", payload.get("model")),
        ("On", _where(payload)),
    ]
    if kind == "running":
        facts.append(("Waited", _duration(payload.get("waited_s"))))
    if kind in ("failed", "stopped", "completed"):
        facts.append(("Ran", _duration(payload.get("ran_s"))))
        facts.append(("Cost", _usd(payload.get("usd"))))
    if kind in ("completed", "slower_than_predicted", "fuller_than_predicted"):
        facts += _compared(payload["compared"])
    if kind == "training_plan_dropped":
        facts.append(("Asked for", str(payload.get("asked_for"))))
        facts.append(("Runs with", str(payload.get("runs_with"))))
    return facts


def _where(payload: Mapping[str, Any]) -> str:
    if payload.get("backend") == "local":
        return f"one machine, with the settings of {payload.get('machines')}"
    return f"{payload.get('machines')}, {payload.get('backend')}"


def _plan_facts(payload: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [
        ("Instances", payload.get("instances")),
        ("Starts", payload.get("starts_at")),
        ("Ends", payload.get("ends_at")),
        ("Jobs", payload.get("jobs")),
    ]


def _compared(compared: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    if not compared["is_comparable"]:
        speed = compared["tokens_per_s"]["measured"]
        return [
            ("Tokens/s", None if speed is None else f"{words.whole(speed)} (other hardware)"),
        ]
    speed, peak = compared["tokens_per_s"], compared["peak_bytes"]
    facts: list[tuple[str, str | None]] = []
    if speed["measured"] is not None:
        told = f"{words.whole(speed['measured'])}, predicted {words.whole(speed['predicted'])}"
        facts.append(("Tokens/s", told))
    if peak["measured"] is not None:
        told = (
            f"{words.gibibytes(peak['measured'])}, predicted {words.gibibytes(peak['predicted'])}"
        )
        facts.append(("Peak memory", told))
    return facts


def _seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else max(0.0, (end - start).total_seconds())


def _cost_usd(job: Job, predicted: Mapping[str, Any]) -> float | None:
    """At the rate of the recommendation; None where the job runs here, or nothing is known."""
    rate = predicted["usd_per_instance_hour"]
    if job.backend == "local" or rate is None or job.billable_s is None:
        return None
    return float(rate) * int(predicted["settings"]["num_instances"]) * job.billable_s / 3600


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else words.duration(seconds / 3600)


def _usd(amount: float | None) -> str | None:
    return None if amount is None else words.usd(amount)
