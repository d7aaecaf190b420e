"""Measured beside predicted: what a job shows, and when it is outside of what was predicted."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from app.jobs.tables import Job
from app.jobs.training_service import Observation, Progress

# The first steps compile and fill caches: no speed is judged by them.
SETTLED_STEPS = 10


def comparison(job: Job) -> dict[str, Any]:
    """Speed and memory, measured and predicted. Where hardware differs, why they say nothing."""
    predicted = json.loads(job.predicted)
    result = json.loads(job.result or "{}")
    progress = json.loads(job.progress or "{}")
    speed = result.get("tokens_per_s")
    if speed is None and progress.get("tokens_per_s_per_gpu") is not None and not job.changes_list:
        speed = progress["tokens_per_s_per_gpu"] * predicted["settings"]["num_gpus"]
    peak = result.get("peak_reserved_bytes") or progress.get("peak_reserved_bytes")
    return {
        "is_comparable": not job.changes_list,
        "why_not": "; ".join(job.changes_list) or None,
        "tokens_per_s": _beside(
            speed, predicted["tokens_per_s"], predicted["interval_tokens_per_s"]
        ),
        "peak_bytes": _beside(peak, predicted["peak_bytes"], predicted["interval_bytes"]),
    }


def surprises(job: Job, seen: Observation) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a running job shows that lies outside of the prediction's interval, for the worse."""
    progress = seen.progress or Progress()
    if seen.changes or progress.step is None or progress.step < SETTLED_STEPS:
        return
    predicted = json.loads(job.predicted)
    slowest, fullest = predicted["interval_tokens_per_s"][0], predicted["interval_bytes"][1]
    told = asdict(progress)
    if progress.tokens_per_s_per_gpu is not None:
        speed = progress.tokens_per_s_per_gpu * predicted["settings"]["num_gpus"]
        if speed < slowest:
            yield "slower_than_predicted", {"tokens_per_s": speed, "predicted": slowest, **told}
    peak = progress.peak_reserved_bytes
    if peak is not None and peak > fullest:
        yield "fuller_than_predicted", {"peak_bytes": peak, "predicted": fullest, **told}


def _beside(measured: float | None, predicted: float, interval: list[float]) -> dict[str, Any]:
    ratio = None if measured is None else measured / predicted
    within = None if measured is None else interval[0] <= measured <= interval[1]
    return {
        "measured": measured,
        "predicted": predicted,
        "interval": interval,
        "measured_over_predicted": ratio,
        "is_within_interval": within,
    }
