"""ActedService: a backend whose jobs do what a test says. It outlives the worker, as AWS does."""
# ruff: noqa: ARG002 - the interface of a backend

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from app.jobs.order import JobOrder
from app.jobs.training_service import (
    BackendError,
    Check,
    JobNotFound,
    JobStatus,
    Observation,
    StatusTransition,
)

START = datetime(2026, 12, 4, 8, 0, tzinfo=UTC)
RUNNING = Observation(
    status=JobStatus.RUNNING,
    backend_status="Training",
    transitions=(StatusTransition(status="Training", started_at=START),),
    started_at=START,
)
COMPLETED = replace(
    RUNNING,
    status=JobStatus.COMPLETED,
    backend_status="Completed",
    ended_at=START.replace(hour=9),
    billable_s=3600,
)


@dataclass
class ActedService:
    """seen: what observe() says, step by step, the last for ever. trouble: of the next calls."""

    name: str = "local"
    seen: list[Observation] = field(default_factory=lambda: [RUNNING, COMPLETED])
    document: Mapping[str, Any] | None = None
    log: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    trouble: list[BackendError | None] = field(default_factory=list)
    # Called before and after each call takes effect, so that a test can end the worker there.
    at: Callable[[str], None] = lambda _where: None
    created: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    _place: dict[str, int] = field(default_factory=dict)

    def preflight(self, order: JobOrder) -> tuple[Check, ...]:
        self._call("preflight")
        return self.checks

    def files(self, order: JobOrder) -> Mapping[str, str]:
        return {"script": order.name}

    def submit(self, order: JobOrder) -> None:
        self._call("submit")
        if order.name not in self._place:
            self.created.append(order.name)
            self._place[order.name] = 0
        self.at("submitted")

    def observe(self, order: JobOrder) -> Observation:
        self._call("observe")
        if order.name not in self._place:
            raise JobNotFound(order.name)
        place = self._place[order.name]
        self._place[order.name] = min(place + 1, len(self.seen) - 1)
        self.at("observed")
        if order.name in self.stopped:
            return replace(COMPLETED, status=JobStatus.STOPPED, failure_reason="stopped as asked")
        return self.seen[place]

    def stop(self, order: JobOrder) -> None:
        self._call("stop")
        if order.name not in self._place:
            raise JobNotFound(order.name)
        self.stopped.append(order.name)
        self.at("stopped")

    def result(self, order: JobOrder) -> Mapping[str, Any] | None:
        self._call("result")
        return self.document

    def log_tail(self, order: JobOrder, *, num_lines: int) -> tuple[str, ...]:
        self._call("log_tail")
        return self.log[-num_lines:]

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.at(name)
        if self.trouble:
            error = self.trouble.pop(0)
            if error is not None:
                raise error
