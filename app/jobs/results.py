"""What a job measured, as a stored result: the evidence of the next recommendations."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from advisor.errors import InvalidField
from advisor.result import MAX_FIELD_CHARS, Result, parse_result
from app.jobs.order import JobOrder
from app.jobs.tables import Job

GIB = 1024**3
# Speeds of fewer steps say more of the warm-up than of the run.
MIN_STEPS = 3
# The trainer's settings as stored results call them.
_OPTIMIZERS = {
    "adamw": "adamw fused (fp32 states)",
    "adamw_bf16": "adamw (bf16 states)",
    "adamw_8bit": "adamw 8-bit states",
}


def result_of(job: Job, order: JobOrder, document: Mapping[str, Any]) -> Result | None:
    """The result in a trainer's result.json; None where it has none that can be stored.

    A document whose kind is not "measured" (a simulation, a stand-in) is not what the job measured.
    """
    row = document.get("row")
    if document.get("kind") != "measured" or not isinstance(row, Mapping):
        return None
    steps = document.get("num_steps_measured")
    has_speed = isinstance(steps, int) and steps >= MIN_STEPS
    if not has_speed and not document.get("oom") and not row.get("peak_mem_gib"):
        return None
    cells = {str(key): None if value is None else str(value) for key, value in row.items()}
    try:
        found = parse_result(cells, "row")
    except InvalidField:
        return None
    if not has_speed:
        found = replace(found, tokens_per_s_per_gpu=None, mfu_pct=None, tflops_per_gpu=None)
    return _with_provenance(found, job, order)


def out_of_memory_result(job: Job, order: JobOrder, now: datetime) -> Result | None:
    """The evidence of a job whose log shows that the GPU's memory was not enough.

    None for a job that ran on other hardware than the plan's: it says nothing of the plan.
    """
    if job.backend == "local":
        return None
    settings = order.hyperparameters
    num_gpus = order.num_instances * order.gpus_per_instance
    micro_batch, accumulation = int(settings["micro_batch"]), int(settings["accumulation_steps"])
    found = Result(
        id="unnamed",
        source_url="shardwise:job",
        commit_or_date=now.date().isoformat(),
        framework="shardwise",
        gpu=_gpu_of(job),
        gpus_total=num_gpus,
        nodes=order.num_instances,
        params_b=order.num_parameters / 1e9,
        hidden=int(settings["hidden_size"]),
        layers=int(settings["num_layers"]),
        heads=int(settings["num_heads"]),
        kv_heads=int(settings["num_kv_heads"]),
        ffn=int(settings["ffn_size"]),
        vocab=int(settings["vocab_size"]),
        mlp_type="swiglu" if settings["gated_mlp"] == "true" else settings["activation"],
        tied_embeddings=settings["tied_embeddings"] == "true",
        seq_len=int(settings["seq_len"]),
        micro_batch_per_gpu=float(micro_batch),
        grad_accum=accumulation,
        global_batch_seqs=float(micro_batch * accumulation * num_gpus),
        param_dtype="fp32",
        compute_dtype=settings["precision"],
        optimizer=_OPTIMIZERS[settings["optimizer"]],
        activation_checkpointing=settings["activation_checkpointing"],
        sharding=_sharding(settings),
        cpu_offload=False,
        compile=settings["compile"] == "true",
        oom=True,
        notes=_plan_notes(settings),
    )
    return _with_provenance(found, job, order)


def result_id(job_id: str) -> str:
    """The id of a job's result. All jobs are one source: what follows the last dash is a number."""
    return f"shardwise-job-{int(job_id[:12], 16):015d}"


def _with_provenance(found: Result, job: Job, order: JobOrder) -> Result:
    where = f"{order.num_instances} x {order.instance_type} asked for, backend {job.backend}"
    changes = "; ".join(json.loads(job.changes or "[]"))
    notes = f"{found.notes or ''}; job {job.name}, {where}"
    notes += f"; changed: {changes}" if changes else ""
    return replace(
        found,
        id=result_id(job.id),
        source_url=f"shardwise:jobs/{job.id}",
        model_name=json.loads(job.predicted)["model_name"][:MAX_FIELD_CHARS],
        notes=notes.removeprefix("; ")[:MAX_FIELD_CHARS],
    )


def _gpu_of(job: Job) -> str | None:
    name: str | None = json.loads(job.predicted).get("gpu")
    return name


def _sharding(settings: Mapping[str, str]) -> str:
    if settings["shard_degree"] == "1":
        return "none"
    if settings["replica_degree"] != "1":
        return "hybrid"
    return "full" if settings["reshard_after_forward"] == "true" else "shard_grad_op"


def _plan_notes(settings: Mapping[str, str]) -> str:
    """What has no column, in the words of the trainer's own rows."""
    notes = ["out of memory in the log; no result.json"]
    if settings["loss_chunks"] != "1":
        notes.append(f"chunked cross-entropy ({settings['loss_chunks']} slices)")
    if settings["activation_checkpointing"] == "selective":
        every = settings["checkpoint_every"]
        per_block = f"every {every}th block is recomputed whole"
        notes.append("checkpointing per operation" if every == "0" else per_block)
    if settings["accumulation_steps"] != "1":
        notes.append(f"gradient_sync {settings['gradient_sync']}")
    notes.append(f"shard degree {settings['shard_degree']}, replicas {settings['replica_degree']}")
    return "; ".join(notes)
