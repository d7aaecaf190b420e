"""A table of simulated peaks over shapes and plans, resumable: rows that are there are not redone.

python -m trainer.sweep PATH.csv
"""

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from trainer.config import config_of
from trainer.profile import profile_config
from trainer.settings import ModelSettings, PlanSettings

INSTANTS = (
    *("forward", "loss", "first block backward", "last block backward"),
    *("embedding backward", "optimizer"),
)
CATEGORIES = (
    *("parameters", "optimizer", "gradients", "gathered parameters", "gather buffer"),
    *("reduction", "activations", "logits", "temporaries", "workspace", "inputs", "buffers"),
)

_LLAMA: Mapping[str, str] = {
    "gated_mlp": "true",
    "activation": "silu",
    "norm": "rmsnorm",
    "positions": "rope",
    "qkv_bias": "false",
    "attn_out_bias": "false",
    "mlp_bias": "false",
    "qk_norm": "false",
}
# Dimensions from the models' config.json on huggingface.co.
SHAPES: Mapping[str, Mapping[str, str]] = {
    "smollm-135m": {
        **_LLAMA,
        "hidden_size": "576",
        "num_layers": "30",
        "num_heads": "9",
        "num_kv_heads": "3",
        "head_dim": "64",
        "ffn_size": "1536",
        "vocab_size": "49152",
        "max_position": "2048",
        "tied_embeddings": "true",
    },
    "llama-3.2-1b": {
        **_LLAMA,
        "hidden_size": "2048",
        "num_layers": "16",
        "num_heads": "32",
        "num_kv_heads": "8",
        "head_dim": "64",
        "ffn_size": "8192",
        "vocab_size": "128256",
        "max_position": "131072",
        "tied_embeddings": "true",
    },
    "pythia-1.4b": {
        "hidden_size": "2048",
        "num_layers": "24",
        "num_heads": "16",
        "num_kv_heads": "16",
        "head_dim": "128",
        "ffn_size": "8192",
        "vocab_size": "50304",
        "max_position": "2048",
        "tied_embeddings": "false",
        "gated_mlp": "false",
        "activation": "gelu",
        "norm": "layernorm",
        "positions": "rope",
        "qk_norm": "false",
        "qkv_bias": "true",
        "attn_out_bias": "true",
        "mlp_bias": "true",
        "parallel_block": "separate",
        "rotary_fraction": "0.25",
    },
    "qwen3-4b": {
        **_LLAMA,
        "hidden_size": "2560",
        "num_layers": "36",
        "num_heads": "32",
        "num_kv_heads": "8",
        "head_dim": "128",
        "ffn_size": "9728",
        "vocab_size": "151936",
        "max_position": "40960",
        "tied_embeddings": "true",
        "qk_norm": "true",
    },
    "llama-3.1-8b": {
        **_LLAMA,
        "hidden_size": "4096",
        "num_layers": "32",
        "num_heads": "32",
        "num_kv_heads": "8",
        "head_dim": "128",
        "ffn_size": "14336",
        "vocab_size": "128256",
        "max_position": "131072",
        "tied_embeddings": "false",
    },
}
PLAN: Mapping[str, str] = {
    "precision": "bf16",
    "activation_checkpointing": "selective",
    "checkpoint_every": "0",
    "micro_batch": "2",
    "seq_len": "2048",
    "accumulation_steps": "1",
    "gradient_sync": "each",
    "shard_degree": "8",
    "replica_degree": "1",
    "reshard_after_forward": "true",
    "loss_chunks": "1",
    "optimizer": "adamw",
    "compile": "false",
}
_SIZES = (("1", "2048"), ("4", "2048"), ("2", "4096"), ("1", "8192"))
_WAYS = ("none", "selective", "full")


def cells() -> Iterator[dict[str, str]]:
    """Changes to PLAN: a product of the settings that matter most, then the others one by one."""
    for way in _WAYS:
        for micro_batch, seq_len in _SIZES:
            for chunks in ("1", "8"):
                yield {
                    "activation_checkpointing": way,
                    "loss_chunks": chunks,
                    "micro_batch": micro_batch,
                    "seq_len": seq_len,
                }
    for way in _WAYS:
        base = {"activation_checkpointing": way, "loss_chunks": "8"}
        yield {**base, "precision": "fp8"}
        yield {**base, "reshard_after_forward": "false"}
        yield {**base, "accumulation_steps": "4"}
        yield {**base, "accumulation_steps": "4", "gradient_sync": "last"}
        yield {**base, "optimizer": "adamw_bf16"}
        yield {**base, "optimizer": "adamw_8bit"}
        yield {**base, "shard_degree": "1"}
        yield {**base, "shard_degree": "64"}
        yield {**base, "shard_degree": "8", "replica_degree": "4"}
    for every in ("2", "4"):
        yield {"checkpoint_every": every, "loss_chunks": "8"}


def run(path: Path) -> int:
    """Append the rows that are missing; the number of them."""
    done = _rows_in(path)
    columns = _columns()
    written = 0
    todo = [(name, change) for change in cells() for name in SHAPES]
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not done:
            writer.writeheader()
        for name, change in todo:
            settings = {**SHAPES[name], **PLAN, **change}
            row = _row(name, settings, done)
            if row is not None:
                writer.writerow(row)
                file.flush()
                written += 1
    return written


def _columns() -> list[str]:
    settings = [item.name for group in (ModelSettings, PlanSettings) for item in fields(group)]
    measured = ["world_size", "num_parameters", "peak_bytes", "instant", "torch"]
    measured += [f"{name.replace(' ', '_')}_peak_bytes" for name in INSTANTS]
    measured += [f"{name.replace(' ', '_')}_bytes" for name in CATEGORIES]
    return ["model", *settings, *measured]


def _row(name: str, settings: Mapping[str, str], done: set[tuple[str, ...]]) -> Any:
    config = config_of(settings)
    world_size = config.plan.shard_degree * config.plan.replica_degree
    strings = config.as_strings()
    if _key({"model": name, **strings}) in done:
        return None
    result = profile_config(config, world_size)
    row = {key: strings[key] for key in strings if key in _columns()}
    row |= {"model": name, "world_size": str(world_size), "instant": result["instant"]}
    row |= {"peak_bytes": result["peak_bytes"], "torch": result["torch"]}
    row["num_parameters"] = result["num_parameters"]
    for instant in INSTANTS:
        found = result["instants"].get(instant, {"peak_bytes": ""})
        row[f"{instant.replace(' ', '_')}_peak_bytes"] = found["peak_bytes"]
    for category in CATEGORIES:
        row[f"{category.replace(' ', '_')}_bytes"] = result["categories"].get(category, 0)
    return row


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    """Settings that a file does not have yet were at their defaults."""
    defaults = config_of({}).as_strings()
    names = [item.name for group in (ModelSettings, PlanSettings) for item in fields(group)]
    return (row["model"], *(row.get(name, defaults[name]) for name in names))


def _rows_in(path: Path) -> set[tuple[str, ...]]:
    if not path.exists() or path.stat().st_size == 0:
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {_key(row) for row in csv.DictReader(file)}


def main(arguments: Sequence[str]) -> int:
    """Command line; the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m trainer.sweep PATH.csv\n")
        return 2
    os.nice(10)
    sys.stdout.write(f"{run(Path(arguments[0]))} rows\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
