"""Failures: what the end of a log says of the cause, and what to do about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE_CHARS = 300
# How torchrun reports the status of a rank that failed.
_EXIT_STATUS = re.compile(r"exitcode\s*:\s*(-?\d+)")
# Words of torch, of the CUDA driver and of the kernel.
_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|cudaErrorMemoryAllocation"
    r"|OutOfMemory:",
)
# What the trainer's exit statuses mean (docs/trainer.md, "Ends"): the remedy of each.
_REMEDIES = {
    2: "a setting of the job cannot be obeyed by the training program: see the log's last lines",
    3: "this hardware or software cannot do what the settings ask: choose another image, or pin "
    "another precision or optimizer and ask for a new recommendation",
    4: "mend the data (the log names the file), then start the job again",
    5: "the checkpoint cannot be used: give the job another checkpoint address, or none of before",
    6: "the loss was not a finite number; the state before it was saved: resume with a lower "
    "learning rate, or look at the data of that step",
    7: "a step did not come in time: one rank hangs; look at the stacks in the log, then resume",
    8: "another process of the run was lost: look at its log, then resume from the checkpoint",
    9: "the GPU's memory was not enough: ask for a recommendation with a smaller micro batch or "
    "fuller activation checkpointing; this result is stored as evidence",
    10: "a file could not be read or written: free space or mend rights, then resume",
}
_KILLED = "the process was killed (SIGKILL): often the main memory was not enough"
_PHRASES = (
    (
        re.compile(r"InsufficientCapacity", re.IGNORECASE),
        "AWS had no free instances: use a training plan, another region, or try again later",
    ),
    (
        re.compile(r"AccessDenied|not authorized to perform", re.IGNORECASE),
        "the job's role lacks a permission that the message names: add it, then start again",
    ),
    (
        re.compile(r"NoSuchBucket|NoSuchKey", re.IGNORECASE),
        "an S3 address of the job does not exist: correct it and start again",
    ),
    (
        re.compile(r"MaxRuntimeExceeded", re.IGNORECASE),
        "the time limit was too short: resume with a larger max_runtime_hours",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a job failed, in its own words, what may help, and whether memory was not enough."""

    reason: str
    remedy: str
    is_out_of_memory: bool


def diagnose(reason: str | None, log_tail: Sequence[str]) -> Diagnosis:
    """What the backend's reason and the newest lines of the log say."""
    log = "\n".join(log_tail)
    status = exit_status_in(log)
    out_of_memory = status == 9 or bool(_OUT_OF_MEMORY.search(f"{reason or ''}\n{log}"))
    if out_of_memory:
        remedy = _REMEDIES[9]
    elif status is not None and status in _REMEDIES:
        remedy = _REMEDIES[status]
    elif status == -9:
        remedy = _KILLED
    else:
        remedy = next(
            (text for pattern, text in _PHRASES if pattern.search(f"{reason or ''}\n{log}")),
            "look at the log's last lines; a job with checkpoints can be resumed",
        )
    told = reason or "the backend gives no reason"
    line = _telling_line(log_tail)
    return Diagnosis(
        reason=f"{told}: {line}" if line and line not in told else told,
        remedy=remedy,
        is_out_of_memory=out_of_memory,
    )


def exit_status_in(log: str) -> int | None:
    """The status of the rank that torchrun blames; None where it blames none."""
    found = _EXIT_STATUS.findall(log)
    return int(found[-1]) if found else None


def _telling_line(log_tail: Sequence[str]) -> str | None:
    """The last line that names an error, which torchrun's own report follows."""
    errors = [
        line.strip()
        for line in log_tail
        if re.match(
            r"\s*(\[rank\d+\]:\s*)?[\w.]*(Error|Exception|OutOfMemory|Loss|Hang|Rank):? ", line
        )
        and "ChildFailedError" not in line
    ]
    return errors[-1][:MAX_LINE_CHARS] if errors else None
