"""Which status may follow which. A final one is followed by none."""

from collections.abc import Mapping

from app.jobs.training_service import JobStatus

_S = JobStatus
FINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.STOPPED})
UNFINISHED = tuple(status for status in JobStatus if status not in FINAL)
FOLLOWING: Mapping[JobStatus, frozenset[JobStatus]] = {
    # A job that was not submitted yet can be stopped, or refused by preflight, without its backend.
    _S.QUEUED: frozenset({_S.SUBMITTING, _S.STOPPED}),
    # What is found out after a crash may be well ahead of what was written before it.
    _S.SUBMITTING: frozenset({_S.SUBMITTED, _S.RUNNING, _S.STOPPING} | FINAL),
    _S.SUBMITTED: frozenset({_S.RUNNING, _S.STOPPING} | FINAL),
    # A reservation that pauses between two segments sends its job back to waiting.
    _S.RUNNING: frozenset({_S.SUBMITTED, _S.STOPPING} | FINAL),
    # A job may have ended by itself before it heard that it should stop.
    _S.STOPPING: FINAL,
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.STOPPED: frozenset(),
}


def may_follow(now: JobStatus, then: JobStatus) -> bool:
    """Whether a job may go from one status to another."""
    return then in FOLLOWING[now]
