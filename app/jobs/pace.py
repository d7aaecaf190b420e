"""Pace: how long a worker leaves a job alone before it looks again."""

import json
import random
from datetime import datetime

from app.jobs.tables import Job

# AWS throttles Describe calls of an account, and changes there take seconds at best.
YOUNG_S, STEADY_S = 30.0, 90.0
YOUNG_FOR_S = 900.0
LOCAL_S = 1.0
MAX_TROUBLE_S = 600.0
# So that jobs of one start are not all looked at in the same second for ever.
JITTER = 0.2


def next_look_s(job: Job, now: datetime) -> float:
    """Seconds until the next look at a job that is well."""
    if job.backend == "local":
        return LOCAL_S
    begun = job.started_at or job.submitted_at or job.created_at
    is_young = (now - begun).total_seconds() < YOUNG_FOR_S
    return _jittered(YOUNG_S if is_young or _is_ending(job) else STEADY_S)


def after_trouble_s(num_troubles: int) -> float:
    """Seconds until the next try after failed calls in a row: doubled each time, to ten minutes."""
    return _jittered(min(MAX_TROUBLE_S, 2.0 ** min(num_troubles, 20)))


def _is_ending(job: Job) -> bool:
    if job.status == "stopping":
        return True
    remaining = json.loads(job.progress or "{}").get("remaining_s")
    return remaining is not None and remaining < YOUNG_FOR_S


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
