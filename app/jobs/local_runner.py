"""The process beside one local job: starts torchrun, passes on a wish to stop, writes how it ended.

    python -m app.jobs.local_runner FOLDER

FOLDER/command.json has the command, its environment and its time limit. At most one runner works
on a folder: it and torchrun hold a lock on FOLDER/lock for as long as either lives, which the
kernel takes back however they end. So a runner that is started twice does nothing the second time,
and whoever finds the lock free and no ended.json knows that both were killed.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

POLL_S = 0.2
LOCK_TRIES = 10
# What a stopped run has for saving its state before it is killed; SageMaker gives as much.
GRACE_S = 120.0


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    partial = path.with_suffix(f".{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def run(folder: Path) -> None:
    """Run the job of a folder to its end, unless another runner does or has done so."""
    with (folder / "lock").open("a") as lock:
        if not _take(lock.fileno()):
            return
        # A runner that died left processes of torchrun; a second run beside them would harm both.
        if (folder / "started.json").exists():
            return
        write_json(folder / "started.json", {"at": _now()})
        ended = _supervise(
            folder, lock.fileno(), json.loads((folder / "command.json").read_text("utf-8"))
        )
        write_json(folder / "ended.json", {"at": _now(), **ended})


def _take(lock: int) -> bool:
    """Take the lock. Whoever looks whether it is held has it for an instant: that is waited for."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(POLL_S)
        else:
            return True
    return False


def _supervise(folder: Path, lock: int, command: Mapping[str, Any]) -> dict[str, Any]:
    with (folder / "log").open("ab") as log:
        try:
            # A group of its own: what is sent to it reaches torchrun and every rank.
            process = subprocess.Popen(
                command["argv"],
                cwd=command["cwd"],
                env=command["environment"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
        except OSError as error:
            return {"exit_status": None, "reason": f"it could not be started: {error}"}
        reason = _wait(folder, process, time.monotonic() + command["max_runtime_s"])
        return {"exit_status": process.returncode, "reason": reason}


def _wait(folder: Path, process: "subprocess.Popen[bytes]", end_s: float) -> str | None:
    """Wait for the end; why the process was made to stop, or None where it ended by itself."""
    reason: str | None = None
    kill_s = float("inf")
    while process.poll() is None:
        if reason is None and (folder / "stop").exists():
            reason = "stopped as asked"
        if reason is None and time.monotonic() > end_s:
            reason = "the time limit is over"
        if reason is not None and kill_s == float("inf"):
            process.terminate()
            kill_s = time.monotonic() + GRACE_S
        if time.monotonic() > kill_s:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(POLL_S)
    return reason


def _now() -> str:
    return datetime.now(UTC).isoformat()


def main(folder: Path) -> None:
    """Leave the caller at once and work on as a process of one's own."""
    if os.fork():
        os._exit(0)
    os.setsid()
    run(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
