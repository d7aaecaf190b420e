"""TrainingService: what a backend must be able to do. Only the worker calls one.

BackendError
├── JobNotFound   no job of this name is known there
├── Refused       the backend understood and said no: asking again is useless
├── Throttled     too many calls: ask later, ever more slowly
└── Unavailable   no answer that can be trusted: the call may have had its effect or not
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from app.jobs.order import JobOrder

Verdict = Literal["pass", "warn", "fail"]


class JobStatus(StrEnum):
    """Where a job is. The last three are final."""

    QUEUED = "queued"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


class BackendError(Exception):
    """A call to a backend had no good end."""


class JobNotFound(BackendError):
    """The backend knows no job of this name."""


class Refused(BackendError):
    """The backend refuses; `code` is its own word for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Throttled(BackendError):
    """The backend asks for fewer calls."""


class Unavailable(BackendError):
    """The backend cannot be reached, failed, or gave no answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of preflight. name: words that stay the same, such as "training plan status"."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusTransition:
    """One entry of the backend's own history, as it gave it."""

    status: str
    message: str = ""
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest step that the run reported; None where it has said nothing yet."""

    step: int | None = None
    num_steps: int | None = None
    tokens_per_s_per_gpu: float | None = None
    peak_reserved_bytes: int | None = None
    loss: float | None = None
    remaining_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a backend says of a job now.

    status: one of SUBMITTED, RUNNING, STOPPING, COMPLETED, FAILED, STOPPED. backend_status: the
    backend's own words. transitions: its whole history so far. training_plan_arn: the reservation
    that it really uses. changes: how the run differs from what was ordered, in plain sentences.
    """

    status: JobStatus
    backend_status: str
    backend_arn: str | None = None
    transitions: tuple[StatusTransition, ...] = ()
    failure_reason: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    billable_s: int | None = None
    training_plan_arn: str | None = None
    instance_type: str | None = None
    num_instances: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    progress: Progress | None = None


class TrainingService(Protocol):
    """A place where jobs run. Every call may raise BackendError."""

    @property
    def name(self) -> str:
        """ "sagemaker" or "local"."""
        ...

    def preflight(self, order: JobOrder) -> tuple[Check, ...]:
        """What can be known before a job is submitted. It changes nothing there."""
        ...

    def files(self, order: JobOrder) -> Mapping[str, str]:
        """What people who launch the job themselves would use, by file name."""
        ...

    def submit(self, order: JobOrder) -> None:
        """Start a job. A job of this name with the same shardwise tag is success: it is ours.

        Raises Refused when it cannot start, Unavailable when it is not known whether it did.
        """
        ...

    def observe(self, order: JobOrder) -> Observation:
        """What is known of a job now. Raises JobNotFound."""
        ...

    def stop(self, order: JobOrder) -> None:
        """Ask a job to save and end; nothing happens when it has ended. Raises JobNotFound."""
        ...

    def result(self, order: JobOrder) -> Mapping[str, Any] | None:
        """The trainer's result.json of an ended job; None when there is none."""
        ...

    def log_tail(self, order: JobOrder, *, num_lines: int) -> tuple[str, ...]:
        """The newest lines that the job wrote; empty where there are none yet."""
        ...
