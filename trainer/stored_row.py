"""A measurement as one row of the stored-result format, whose columns the advisor imports.

    python -m trainer.stored_row out/result.json > rows.csv

takes result.json, and the JSON lines of trainer.profile, trainer.measure and trainer.matrix. Each
cell is text; empty means that it is not known.
"""

import csv
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from trainer.config import Config
from trainer.errors import ConfigError

COLUMNS: tuple[str, ...] = (
    *("id", "source_url", "source_repo_path", "commit_or_date", "framework", "gpu", "gpus_total"),
    *("nodes", "model_name", "params_b", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab"),
    *("mlp_type", "tied_embeddings", "seq_len", "micro_batch_per_gpu", "grad_accum"),
    *("global_batch_seqs", "param_dtype", "compute_dtype", "optimizer", "activation_checkpointing"),
    *("sharding", "cpu_offload", "compile", "flash_attention", "tokens_per_s_per_gpu", "mfu_pct"),
    *("tflops_per_gpu", "peak_mem_gib", "peak_mem_kind", "oom", "notes"),
)
SOURCE = "shardwise:trainer"
FRAMEWORK = "shardwise"
GIB = 1024**3
_OPTIMIZERS = {
    "adamw": "adamw fused (fp32 states)",
    "adamw_bf16": "adamw (bf16 states)",
    "adamw_8bit": "adamw 8-bit states",
}
_ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run, a stand-in or a simulation found; None where it does not say.

    kind: measured | measured-one-rank | simulated. gpu: as torch names it, "CPU" on a CPU.
    peak_kind: reserved | allocated. flops_per_token: of the model, recomputation not counted.
    on_date: UTC, as 2026-01-31. remarks: plain sentences that belong to the figures.
    """

    kind: str
    world_size: int
    num_parameters: int | None
    num_nodes: int | None = None
    gpu: str | None = None
    peak_bytes: int | None = None
    peak_kind: str = "reserved"
    tokens_per_s_per_gpu: float | None = None
    mfu_fraction: float | None = None
    flops_per_token: int | None = None
    oom: bool = False
    on_date: str = ""
    remarks: tuple[str, ...] = ()


def stored_row(config: Config, found: Measured) -> dict[str, str]:
    """The row: exactly COLUMNS. Its id follows from all other cells and the settings."""
    cells = {**_about_the_model(config, found), **_about_the_plan(config, found)}
    cells |= _about_the_run(found)
    notes = (f"kind = {found.kind}", *_remarks_on_the_plan(config), *found.remarks)
    cells |= {"notes": "; ".join(notes)}
    row = {name: _text(cells.get(name)) for name in COLUMNS}
    told = json.dumps([row, config.as_strings()], sort_keys=True)
    number = int(hashlib.sha256(told.encode()).hexdigest()[:12], 16)
    return {**row, "id": f"shardwise-{found.kind}-{number:015d}"}


def _about_the_model(config: Config, found: Measured) -> dict[str, Any]:
    model = config.model
    count = found.num_parameters
    return {
        "params_b": count / 1e9 if count else None,
        "hidden": model.hidden_size,
        "layers": model.num_layers,
        "heads": model.num_heads,
        "kv_heads": model.num_kv_heads,
        "ffn": model.ffn_size,
        "vocab": model.vocab_size,
        "mlp_type": _mlp_type(model.activation, gated=model.gated_mlp),
        "tied_embeddings": model.tied_embeddings,
    }


def _mlp_type(activation: str, *, gated: bool) -> str:
    kind = activation.partition("_")[0]
    if gated:
        return {"silu": "swiglu", "gelu": "geglu"}.get(kind, f"gated {kind}")
    return kind


def _about_the_plan(config: Config, found: Measured) -> dict[str, Any]:
    plan, model = config.plan, config.model
    masked = config.run.document_mask or (model.sliding_window or plan.seq_len) < plan.seq_len
    return {
        "seq_len": plan.seq_len,
        "micro_batch_per_gpu": plan.micro_batch,
        "grad_accum": plan.accumulation_steps,
        "global_batch_seqs": plan.micro_batch * plan.accumulation_steps * found.world_size,
        "param_dtype": "fp32",
        "compute_dtype": plan.precision,
        "optimizer": _OPTIMIZERS[plan.optimizer],
        "activation_checkpointing": plan.activation_checkpointing,
        "sharding": _sharding(config, found.world_size),
        "cpu_offload": False,
        "compile": plan.compile and found.kind != "simulated",
        "flash_attention": not masked if found.gpu != "CPU" else None,
    }


def _sharding(config: Config, world_size: int) -> str:
    plan = config.plan
    shards = plan.shard_degree or world_size // plan.replica_degree
    if shards == 1:
        return "none"
    if plan.replica_degree > 1:
        return "hybrid"
    return "full" if plan.reshard_after_forward else "shard_grad_op"


def _about_the_run(found: Measured) -> dict[str, Any]:
    speed, flops = found.tokens_per_s_per_gpu, found.flops_per_token
    return {
        "source_url": SOURCE,
        "commit_or_date": found.on_date,
        "framework": FRAMEWORK,
        "gpu": found.gpu,
        "gpus_total": found.world_size,
        "nodes": found.num_nodes,
        "tokens_per_s_per_gpu": speed,
        "mfu_pct": 100 * found.mfu_fraction if found.mfu_fraction else None,
        "tflops_per_gpu": speed * flops / 1e12 if speed and flops else None,
        "peak_mem_gib": found.peak_bytes / GIB if found.peak_bytes else None,
        "peak_mem_kind": found.peak_kind if found.peak_bytes else None,
        "oom": found.oom,
    }


def _remarks_on_the_plan(config: Config) -> list[str]:
    """What has no column, in the words that the advisor knows from other programs' results."""
    plan, every = config.plan, config.plan.checkpoint_every
    per_operation = plan.activation_checkpointing == "selective" and not every
    gathered = ", gathered in fp8" if plan.fp8_gather else ""
    remarks = (
        (plan.loss_chunks > 1, f"chunked cross-entropy ({plan.loss_chunks} slices)"),
        (every > 0, f"every {_ORDINALS.get(every, f'{every}th')} block is recomputed whole"),
        (per_operation, "checkpointing per operation"),
        (plan.accumulation_steps > 1, f"gradient_sync {plan.gradient_sync}"),
        (plan.precision == "fp8", f"fp8 {plan.fp8_recipe}{gathered}"),
        (plan.low_precision_emulation, "low precision emulated"),
        (config.model.positions == "learned", "learned position embeddings"),
        (config.run.document_mask, "document-masked"),
        (True, f"shard degree {plan.shard_degree or 'all'}, replicas {plan.replica_degree}"),
        (True, f"head_dim {config.model.head_dim}"),
    )
    return [text for holds, text in remarks if holds]


def _text(value: object) -> str:
    """A cell: empty for None, true and false in lower case, no exponent for whole numbers."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_csv(rows: Iterable[Mapping[str, str]], file: TextIO) -> None:
    """A header and the rows, as `shardwise results import` takes them."""
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def rows_in(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON document, or of JSON lines. Raises ConfigError where there is none."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    try:
        documents = _documents(text)
    except ValueError as error:
        raise ConfigError([f"{path} is neither JSON nor JSON lines: {error}"]) from error
    rows = [document["row"] for document in documents if "row" in document]
    if not rows:
        raise ConfigError([f"{path} has no measurement; give a result.json or lines of them"])
    return rows


def _documents(text: str) -> list[dict[str, Any]]:
    try:
        whole = json.loads(text)
    except ValueError:
        whole = [json.loads(line) for line in text.splitlines() if line.strip()]
    documents = whole if isinstance(whole, list) else [whole]
    return [document for document in documents if isinstance(document, dict)]


def main(arguments: Sequence[str]) -> int:
    """Command line; the exit status. Prints CSV."""
    if not arguments:
        sys.stderr.write("usage: python -m trainer.stored_row RESULT.json... > ROWS.csv\n")
        return ConfigError.exit_status
    try:
        rows = [row for name in arguments for row in rows_in(Path(name))]
    except ConfigError as error:
        sys.stderr.write("\n".join(error.problems) + "\n")
        return error.exit_status
    write_csv(rows, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
