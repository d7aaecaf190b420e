"""Sweeps: predicted memory and speed over micro batches and checkpointing, each moved by itself."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from advisor.errors import InvalidField
from advisor.hardware import Instance
from advisor.model import ModelShape
from advisor.plan import Checkpointing, Plan
from advisor.workload import default_seq_len
from app.answer import model_json
from app.knowledge import Knowledge
from app.laws import plan_figures, shard_degree
from app.recommendations import known_model
from app.what_if_schemas import Fixed, SweepRequest

if TYPE_CHECKING:
    from advisor.explicit import Figures


def sweep(request: SweepRequest, knowledge: Knowledge) -> dict[str, Any]:
    """A cell for each micro batch and checkpointing mode, the best that fits, and single effects.

    Raises AdvisorError at the field that cannot be used.
    """
    model = known_model(request.model)
    instance = knowledge.catalog.instance(request.instance_type, field="instance_type")
    seq_len = checked_seq_len(request.seq_len, model.shape)
    cells = [
        plan_figures(
            plan_of(
                request.settings,
                instance,
                num_instances=request.num_instances,
                micro_batch=micro_batch,
                seq_len=seq_len,
                mode=mode,
            ),
            model.shape,
            instance,
            knowledge.evidence,
            field="settings",
            max_oom_probability=request.max_oom_probability,
        )
        for mode in dict.fromkeys(request.activation_checkpointing)
        for micro_batch in sorted(set(request.micro_batches))
    ]
    fitting = [cell for cell in cells if cell.fits]
    best = max(fitting, key=lambda cell: cell.tokens_per_s, default=None)
    return {
        "request": request.model_dump(mode="json", exclude_none=True),
        "model": model_json(model),
        "instance_type": instance.name,
        "seq_len": seq_len,
        "cells": [figures_json(cell) for cell in cells],
        "best": None if best is None else figures_json(best),
        "effects": effects(cells),
        "catalog_version": knowledge.catalog.version,
        "calibration_version": knowledge.evidence.version,
    }


def checked_seq_len(asked: int | None, shape: ModelShape) -> int:
    """The sequence length asked for, or our convention. Raises InvalidField beyond the model's."""
    max_position = shape.max_position
    if asked is not None and asked > max_position:
        raise InvalidField(
            "seq_len", f"{asked:,} is more than the model's {max_position:,} positions; shorten it"
        )
    return asked or default_seq_len(shape, "pretrain")[0]


def plan_of(
    fixed: Fixed,
    instance: Instance,
    *,
    num_instances: int,
    micro_batch: int,
    seq_len: int,
    mode: Checkpointing,
    accumulation_steps: int | None = None,
) -> Plan:
    """The plan with these settings on this many instances."""
    num_gpus = num_instances * instance.num_gpus
    degree = shard_degree(fixed.sharding, num_gpus=num_gpus, gpus_per_instance=instance.num_gpus)
    return Plan(
        instance_type=instance.name,
        num_instances=num_instances,
        gpus_per_instance=instance.num_gpus,
        precision=fixed.precision,
        activation_checkpointing=mode,
        micro_batch=micro_batch,
        seq_len=seq_len,
        accumulation_steps=accumulation_steps or fixed.accumulation_steps,
        shard_degree=degree,
        replica_degree=num_gpus // degree,
        reshard_after_forward=fixed.reshard_after_forward,
        loss_chunks=fixed.loss_chunks,
        optimizer=fixed.optimizer,
        compile=fixed.compile,
    )


def figures_json(figures: "Figures") -> dict[str, Any]:
    """One plan and its figures as plain values."""
    content = asdict(figures)
    plan = content.pop("plan")
    content["interval_bytes"] = list(figures.interval_bytes)
    content["interval_tokens_per_s"] = list(figures.interval_tokens_per_s)
    settings = {**plan, "num_gpus": figures.plan.num_gpus}
    settings["global_batch_tokens"] = figures.plan.tokens_per_step
    return {"settings": settings, **content}


def effects(cells: Sequence["Figures"]) -> list[dict[str, Any]]:
    """What one change does alone: checkpointing at one micro batch, the batch in one mode.

    Factors are the second over the first. Each mode is compared with the first mode of the sweep,
    and each batch with the smallest.
    """
    modes = list(dict.fromkeys(cell.plan.activation_checkpointing for cell in cells))
    batches = sorted({cell.plan.micro_batch for cell in cells})
    at = {(cell.plan.activation_checkpointing, cell.plan.micro_batch): cell for cell in cells}
    found = [
        _effect("activation_checkpointing", at[modes[0], batch], at[mode, batch])
        for mode in modes[1:]
        for batch in batches
    ]
    found += [
        _effect("micro_batch", at[mode, batches[0]], at[mode, batch])
        for mode in modes
        for batch in batches[1:]
    ]
    return found


def _effect(changed: str, first: "Figures", second: "Figures") -> dict[str, Any]:
    same = "micro_batch" if changed == "activation_checkpointing" else "activation_checkpointing"
    return {
        "changed": changed,
        "from": getattr(first.plan, changed),
        "to": getattr(second.plan, changed),
        "at": {same: getattr(first.plan, same)},
        "tokens_per_s_factor": second.tokens_per_s / first.tokens_per_s,
        "peak_bytes_factor": second.peak_bytes / first.peak_bytes,
        "both_fit": first.fits and second.fits,
    }
