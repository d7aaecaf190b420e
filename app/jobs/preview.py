"""Preview of a job: its checks, its money, and what people who launch themselves would run."""

import shlex
from dataclasses import asdict
from typing import Any

from app.jobs.order import JobOrder
from app.jobs.store import NewJob
from app.jobs.training_service import Check, TrainingService


def preview_json(
    new: NewJob, service: TrainingService, before: tuple[Check, ...] = ()
) -> dict[str, Any]:
    """What POST /jobs would do, without doing it. Raises BackendError where the backend fails.

    before: checks of who asks, which come before those of the backend.
    """
    order = new.ordered.order
    checks = (*before, *service.preflight(order))
    return {
        "name": order.name,
        "backend": service.name,
        "verdict": verdict(checks),
        "preflight": [asdict(check) for check in checks],
        "max_usd": None if new.ordered.max_usd is None else float(new.ordered.max_usd),
        "max_runtime_hours": order.max_runtime_s / 3600,
        "predicted": new.ordered.predicted,
        "order": order.as_json(),
        "files": {"torchrun.sh": torchrun_script(order), **service.files(order)},
    }


def verdict(checks: tuple[Check, ...]) -> str:
    """The worst of the checks: fail, warn or pass."""
    found = {check.verdict for check in checks}
    return next((each for each in ("fail", "warn") if each in found), "pass")


def torchrun_script(order: JobOrder) -> str:
    """The command of each node of a cluster of one's own, as the plan has it."""
    settings = {
        **order.hyperparameters,
        "data": order.data_uri,
        "output_dir": "out",
        "checkpoint_dir": "checkpoints",
    }
    nodes = f'--nnodes={order.num_instances} --node-rank="$NODE_RANK"'
    where = (
        "--standalone"
        if order.num_instances == 1
        else f'{nodes} --master-addr="$MASTER_ADDR" --master-port=29500'
    )
    words = " \\\n  ".join(f"--{key} {shlex.quote(value)}" for key, value in settings.items())
    remark = (
        "# On each node, with NODE_RANK from 0 and MASTER_ADDR the first node's address; data,\n"
        "# out and checkpoints are folders that all nodes share.\n"
        if order.num_instances > 1
        else ""
    )
    return (
        f"#!/usr/bin/env bash\n# {order.name}: {order.num_instances} × {order.instance_type}\n"
        f"{remark}set -euo pipefail\n"
        f"exec torchrun {where} --nproc-per-node={order.gpus_per_instance} -m trainer \\\n"
        f"  {words}\n"
    )
