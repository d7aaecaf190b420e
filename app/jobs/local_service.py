"""LocalService: jobs on this machine, each a torchrun that outlives the service."""

import fcntl
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.jobs.failures import exit_status_in
from app.jobs.local_fit import Fitted, fit
from app.jobs.local_machine import LocalMachine, read_machine
from app.jobs.local_preflight import local_checks
from app.jobs.local_runner import write_json
from app.jobs.order import JobOrder
from app.jobs.progress import progress_in
from app.jobs.training_service import (
    Check,
    JobNotFound,
    JobStatus,
    Observation,
    Progress,
    Refused,
    StatusTransition,
)

TAIL_BYTES = 64 * 1024
MAX_RESULT_BYTES = 16 * 1024**2
# The trainer needs none of these, and some are secrets.
WITHHELD = ("SHARDWISE_", "AWS_")


class LocalService:
    """Jobs of this machine, under one folder."""

    name = "local"

    def __init__(
        self,
        folder: Path,
        *,
        max_processes: int = 0,
        machine: Callable[[], LocalMachine] = read_machine,
    ) -> None:
        """folder: each job has a folder of its name in it. max_processes: 0: as the machine has."""
        self._folder = folder
        self._max_processes = max_processes
        self._machine = machine

    def fitted(self, order: JobOrder) -> Fitted:
        """The order as this machine would run it."""
        return fit(order, self._machine(), max_processes=self._max_processes)

    def preflight(self, order: JobOrder) -> tuple[Check, ...]:
        """What can be known before the run."""
        machine = self._machine()
        fitted = fit(order, machine, max_processes=self._max_processes)
        return local_checks(order, machine, fitted, self._folder)

    def files(self, order: JobOrder) -> Mapping[str, str]:
        """The command as it would run on this machine."""
        return {"local.sh": shlex.join(self.argv(order, self.fitted(order))) + "\n"}

    def argv(self, order: JobOrder, fitted: Fitted) -> list[str]:
        """The torchrun command of a job."""
        job = self._of(order)
        settings = {
            **fitted.settings,
            "data": order.data_uri,
            "output_dir": str(job / "out"),
            "checkpoint_dir": order.checkpoint_uri,
        }
        words = [word for key, value in settings.items() for word in (f"--{key}", value)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, f"--nproc-per-node={fitted.num_processes}", "-m", "trainer", *words]

    def submit(self, order: JobOrder) -> None:
        """Start the runner of a job; what was started once is never started again."""
        job = self._of(order)
        if not (job / "started.json").exists():
            self._write_order(job, order)
            done = subprocess.run(
                [sys.executable, "-m", "app.jobs.local_runner", str(job)],
                cwd=_package_folder(),
                env=self._environment(order),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            if done.returncode:
                raise Refused("runner", "the process beside the job could not be started")

    def observe(self, order: JobOrder) -> Observation:
        """What the files of a job say now. Raises JobNotFound."""
        job = self._of(order)
        started = _read(job / "started.json")
        ended = _read(job / "ended.json")
        if started is None and not _is_locked(job / "lock"):
            raise JobNotFound(order.name)
        changes = tuple((_read(job / "order.json") or {}).get("changes", ()))
        started_at = None if started is None else datetime.fromisoformat(started["at"])
        if ended is None:
            if _is_locked(job / "lock"):
                status = JobStatus.STOPPING if (job / "stop").exists() else JobStatus.RUNNING
                return _observation(status, started_at, None, changes, _progress(job))
            ended = _read(job / "ended.json") or {
                "at": _last_sign(job),
                "reason": "the process was killed, or the machine went down",
            }
        status, reason = _outcome(job, ended)
        ended_at = datetime.fromisoformat(ended["at"])
        return _observation(status, started_at, ended_at, changes, _progress(job), reason=reason)

    def stop(self, order: JobOrder) -> None:
        """Ask the runner to let the run save and end."""
        job = self._of(order)
        if not job.is_dir():
            raise JobNotFound(order.name)
        (job / "stop").touch()

    def result(self, order: JobOrder) -> Mapping[str, Any] | None:
        """result.json of the run."""
        path = self._of(order) / "out" / "result.json"
        if not path.is_file() or path.stat().st_size > MAX_RESULT_BYTES:
            return None
        return _read(path)

    def log_tail(self, order: JobOrder, *, num_lines: int) -> tuple[str, ...]:
        """The newest lines of the run's output."""
        return tuple(_tail(self._of(order) / "log").splitlines()[-num_lines:])

    def _of(self, order: JobOrder) -> Path:
        return self._folder.resolve() / order.name

    def _write_order(self, job: Path, order: JobOrder) -> None:
        fitted = self.fitted(order)
        try:
            job.mkdir(parents=True, exist_ok=True)
            told = {"changes": fitted.changes, "num_steps": fitted.num_steps}
            write_json(job / "order.json", {**order.as_json(), **told})
            write_json(
                job / "command.json",
                {
                    "argv": self.argv(order, fitted),
                    "cwd": str(_package_folder()),
                    "environment": self._environment(order),
                    "max_runtime_s": order.max_runtime_s,
                },
            )
        except OSError as error:
            raise Refused("folder", f"{job} cannot be written: {error.strerror}") from error

    @staticmethod
    def _environment(order: JobOrder) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(WITHHELD)}
        # One thread a process unless the user says more: several would fight for the cores.
        return {"OMP_NUM_THREADS": "1", **kept, **order.environment}


def _package_folder() -> Path:
    """Where `-m app` and `-m trainer` are found, also in a checkout that is not installed."""
    return Path(__file__).resolve().parents[2]


def _observation(
    status: JobStatus,
    started_at: datetime | None,
    ended_at: datetime | None,
    changes: tuple[str, ...],
    progress: Progress | None,
    *,
    reason: str | None = None,
) -> Observation:
    times = [] if started_at is None else [("Training", started_at, ended_at)]
    if ended_at is not None:
        times.append((status.value.capitalize(), ended_at, None))
    seconds = None
    if started_at is not None and ended_at is not None:
        seconds = max(0, round((ended_at - started_at).total_seconds()))
    return Observation(
        status=status,
        backend_status=status.value,
        transitions=tuple(
            StatusTransition(status=name, started_at=begin, ended_at=end)
            for name, begin, end in times
        ),
        failure_reason=reason,
        started_at=started_at,
        ended_at=ended_at,
        billable_s=seconds,
        changes=changes,
        progress=progress,
    )


def _outcome(job: Path, ended: Mapping[str, Any]) -> tuple[JobStatus, str | None]:
    """How a run ended, and why where that is not plain success."""
    told = (_read(job / "out" / "result.json") or {}).get("outcome", "")
    if told == "complete":
        return JobStatus.COMPLETED, None
    reason = ended.get("reason")
    if told.startswith("stopped"):
        return JobStatus.STOPPED, reason or told
    if reason == "stopped as asked":
        return JobStatus.STOPPED, "stopped as asked, before its first step was done"
    if reason:
        return JobStatus.FAILED, reason
    lines = _tail(job / "log")
    status = exit_status_in(lines) or ended.get("exit_status")
    return JobStatus.FAILED, f"the program ended with status {status}"


def _progress(job: Path) -> Progress | None:
    num_steps = (_read(job / "order.json") or {}).get("num_steps")
    return progress_in(_tail(job / "out" / "metrics.jsonl"), num_steps)


def _last_sign(job: Path) -> str:
    """When the run last wrote to its log, which it opens before it starts."""
    return datetime.fromtimestamp((job / "log").stat().st_mtime, tz=UTC).isoformat()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _is_locked(path: Path) -> bool:
    """Whether a runner lives. The lock is only tried for, and given back at once."""
    try:
        with path.open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            return False
    except OSError:
        return False
