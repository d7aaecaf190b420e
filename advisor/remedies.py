"""Remedies: changes of a question, mildest first, any of which may let a plan fit."""

from collections.abc import Iterator
from dataclasses import replace

from advisor.workload import MAX_INSTANCES, Constraints, Pins, Workload

MIN_SEQ_LEN = 512
# Of one instance of most types: a step trains on at least one sequence on each.
GPUS = 8
# Pins that cost memory, the cheapest to give up first, and what to pin instead, if one must.
_LEANER = (
    ("loss_chunking", "true"),
    ("reshard_after_forward", "true"),
    ("gradient_sync", "each"),
    ("micro_batch", "less"),
    ("activation_checkpointing", "full"),
    ("sharding", "full"),
    ("precision", "bf16"),
    ("compile", "true"),
)


def remedies(
    workload: Workload, constraints: Constraints
) -> Iterator[tuple[str, Workload, Constraints]]:
    """What to change, in words, and the question with that change."""
    pins = constraints.pins
    pinned = [(name, value) for name, value in _LEANER if getattr(pins, name) is not None]
    for name, value in pinned:
        now = _text(getattr(pins, name))
        words = f"leave {name} open"
        words += f" or pin {value} instead of {now}" if value != now else ""
        yield words, workload, replace(constraints, pins=replace(pins, **{name: None}))
    if len(pinned) > 1:
        free = Pins(optimizer=pins.optimizer)
        names = ", ".join(name for name, _ in pinned)
        yield f"leave {names} open", workload, replace(constraints, pins=free)
    one_step = GPUS * (pins.micro_batch or 1) * workload.seq_len
    if workload.global_batch_tokens < one_step:
        larger = replace(workload, global_batch_tokens=one_step)
        yield f"raise global_batch_tokens to {one_step:,}", larger, constraints
    if constraints.instances:
        yield (
            "allow other instance types",
            workload,
            replace(constraints, instances=()),
        )
    if constraints.max_instances < MAX_INSTANCES:
        yield (
            f"raise max_instances above {constraints.max_instances}",
            workload,
            replace(constraints, max_instances=MAX_INSTANCES),
        )
    if pins.optimizer != "adamw_8bit":
        smaller = replace(constraints, pins=replace(pins, optimizer="adamw_8bit"))
        yield "pin optimizer to adamw_8bit", workload, smaller
    seq_len = workload.seq_len // 2
    while seq_len >= MIN_SEQ_LEN:
        yield f"shorten seq_len to {seq_len:,}", replace(workload, seq_len=seq_len), constraints
        seq_len //= 2
    yield (
        "leave all settings open and allow every instance type and count",
        workload,
        replace(constraints, instances=(), max_instances=MAX_INSTANCES, pins=Pins()),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
