"""Progress: how far a run is, from the settings it has and the lines it writes."""

import json
import statistics
from collections.abc import Mapping
from math import ceil, prod

from app.jobs.training_service import Progress

# Of the steps' times, how many at the end tell the speed now.
RECENT_STEPS = 20
# What the trainer leaves out of the speed where it is not told otherwise (docs/trainer.md).
WARM_UP_STEPS = "2"


def num_steps_of(settings: Mapping[str, str], num_processes: int) -> int | None:
    """Optimizer steps that the trainer takes; None where the settings leave it open."""
    probed = int(settings.get("probe", "0"))
    if probed:
        return probed + int(settings.get("skip_steps", WARM_UP_STEPS))
    names = ("micro_batch", "seq_len", "accumulation_steps")
    tokens = prod(int(settings[name]) for name in names) * num_processes
    num_tokens = int(settings.get("num_tokens", "0"))
    return ceil(num_tokens / tokens) if num_tokens else None


def progress_in(metrics: str, num_steps: int | None) -> Progress | None:
    """The progress that the end of a metrics.jsonl tells; None where it has no whole line."""
    rows = []
    for line in metrics.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            # The first line of a tail is cut, and the last may be half written.
            continue
    if not rows:
        return None
    last = rows[-1]
    left_s = None
    if num_steps is not None:
        recent = statistics.median(row["step_s"] for row in rows[-RECENT_STEPS:])
        left_s = max(0, num_steps - last["step"] - 1) * recent
    return Progress(
        step=last["step"] + 1,
        num_steps=num_steps,
        tokens_per_s_per_gpu=last["tokens_per_s_per_gpu"],
        peak_reserved_bytes=last["peak_reserved_bytes"],
        loss=last["loss"],
        remaining_s=left_s,
    )
