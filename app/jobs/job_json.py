"""A job as plain values, for programs and for pages."""

import json
from datetime import datetime
from typing import Any

from app.jobs.measured import comparison
from app.jobs.tables import Job

_TIMES = ("created_at", "submitted_at", "started_at", "ended_at", "stop_requested_at")
_TEXTS = (
    *("id", "name", "kind", "backend", "status", "recommendation_id", "candidate", "resumes_id"),
    *("created_by", "backend_status", "backend_arn", "training_plan_arn", "failure_reason"),
    *("remedy", "billable_s", "result_id", "trouble"),
)


def job_json(job: Job) -> dict[str, Any]:
    """A job for a list."""
    predicted = json.loads(job.predicted)
    return {
        **{name: getattr(job, name) for name in _TEXTS},
        **{name: _time(getattr(job, name)) for name in _TIMES},
        "model_name": predicted["model_name"],
        "settings": predicted["settings"],
        "max_usd": None if job.max_usd is None else float(job.max_usd),
        "progress": _loaded(job.progress, None),
        "changes": job.changes_list,
        "compared": comparison(job),
    }


def job_detail_json(job: Job) -> dict[str, Any]:
    """A job with everything that is known of it."""
    order = json.loads(job.ordered)
    return {
        **job_json(job),
        "predicted": json.loads(job.predicted),
        "order": order,
        "preflight": _loaded(job.preflight, []),
        "transitions": _loaded(job.transitions, []),
        "log_tail": (job.log_tail or "").splitlines(),
        "result": _loaded(job.result, None),
    }


def _loaded(text: str | None, default: Any) -> Any:
    return default if text is None else json.loads(text)


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")
