"""Preflight of a job on this machine: each check with its verdict and remedy."""

import shutil
from pathlib import Path

from app.formatting import gibibytes
from app.jobs.local_fit import Fitted
from app.jobs.local_machine import LocalMachine
from app.jobs.order import JobOrder
from app.jobs.training_service import Check

# fp32 weights, gradients and both Adam averages (Kingma & Ba 2015): what a run needs at least.
STATE_BYTES = 16
# A checkpoint has the weights and both averages; the newest two and one half-written are kept.
CHECKPOINT_BYTES = 12
NUM_CHECKPOINTS = 3
TIGHT_FRACTION = 0.6


def local_checks(
    order: JobOrder, machine: LocalMachine, fitted: Fitted, folder: Path
) -> tuple[Check, ...]:
    """Every check of a job that is to run here."""
    return (
        _program(machine),
        _hardware(order, fitted),
        _memory(order, machine),
        _disk(order, folder),
        _data(order),
    )


def _program(machine: LocalMachine) -> Check:
    if machine.has_torch:
        return Check(name="training program", verdict="pass", detail="torch is installed here")
    return Check(
        name="training program",
        verdict="fail",
        detail="torch is not installed where the service runs",
        remedy="pip install 'shardwise[trainer]' (in a checkout: make install), then restart",
    )


def _hardware(order: JobOrder, fitted: Fitted) -> Check:
    kind = f"{order.num_instances} × {order.instance_type}"
    return Check(
        name="hardware",
        verdict="warn",
        detail="; ".join(fitted.changes),
        remedy=f"predictions are for {kind}: speed and memory here are not comparable with them",
    )


def _memory(order: JobOrder, machine: LocalMachine) -> Check:
    if machine.num_gpus:
        return Check(
            name="memory",
            verdict="warn",
            detail="whether the settings fit into the GPUs of this machine is not known",
            remedy="start with a probe",
        )
    needed = STATE_BYTES * order.num_parameters
    free = machine.free_memory_bytes
    detail = (
        f"weights, gradients and optimizer states need {gibibytes(needed)} of the "
        f"{gibibytes(free)} that are free; activations and logits come on top"
    )
    if needed > free:
        remedy = "choose a smaller model for this machine, or another backend"
        return Check(name="memory", verdict="fail", detail=detail, remedy=remedy)
    if needed > TIGHT_FRACTION * free:
        remedy = "close other programs, or choose a smaller model"
        return Check(name="memory", verdict="warn", detail=detail, remedy=remedy)
    return Check(name="memory", verdict="pass", detail=detail)


def _disk(order: JobOrder, folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    needed = 0 if order.kind == "probe" else CHECKPOINT_BYTES * NUM_CHECKPOINTS
    needed *= order.num_parameters
    detail = f"checkpoints need up to {gibibytes(needed)}; {gibibytes(free)} are free in {existing}"
    if needed <= free:
        return Check(name="disk", verdict="pass", detail=detail)
    return Check(
        name="disk",
        verdict="fail",
        detail=detail,
        remedy="free space, or set SHARDWISE_JOBS_DIR to a folder on a larger disk",
    )


def _data(order: JobOrder) -> Check:
    if order.data_uri == "synthetic":
        return Check(name="data", verdict="pass", detail="synthetic: no data is read")
    if Path(order.data_uri).is_dir():
        return Check(name="data", verdict="pass", detail=f"{order.data_uri} is a folder here")
    return Check(
        name="data",
        verdict="fail",
        detail=f"{order.data_uri} is no folder of this machine",
        remedy='give a folder of .bin, .jsonl or .parquet shards, or "synthetic"',
    )
