"""The training program as processes on this CPU: how tests start, watch and end them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TINY = [
    word
    for pair in {
        "--hidden_size": "32",
        "--num_layers": "2",
        "--num_heads": "4",
        "--num_kv_heads": "2",
        "--head_dim": "8",
        "--ffn_size": "64",
        "--vocab_size": "64",
        "--max_position": "64",
        "--tied_embeddings": "true",
        "--gated_mlp": "true",
        "--activation": "silu",
        "--norm": "rmsnorm",
        "--qkv_bias": "false",
        "--attn_out_bias": "false",
        "--mlp_bias": "false",
        "--qk_norm": "false",
        "--positions": "rope",
    }.items()
    for word in pair
]


def plan(**changes: str) -> list[str]:
    """The plan's settings: 4 sequences a step on 2 processes, unless changed."""
    settings = {
        "precision": "fp32",
        "activation_checkpointing": "none",
        "checkpoint_every": "0",
        "micro_batch": "2",
        "seq_len": "16",
        "accumulation_steps": "1",
        "gradient_sync": "each",
        "shard_degree": "2",
        "replica_degree": "1",
        "reshard_after_forward": "true",
        "loss_chunks": "1",
        "optimizer": "adamw",
        "compile": "false",
        **changes,
    }
    return [word for key, value in settings.items() for word in (f"--{key}", value)]


Processes = list[subprocess.Popen[str]]


def start(
    processes: int,
    *settings: str,
    torchrun: bool = False,
    of_the_last: Mapping[str, str] | None = None,
) -> Processes:
    """torchrun, or the processes that it would start (which spares its own start).

    of_the_last: what the environment of the last rank alone has.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = ["-m", "trainer", *settings]
    if torchrun:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        return [popen([*launcher, f"--nproc-per-node={processes}", *program], environment)]
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment |= {"WORLD_SIZE": str(processes)}
    own: list[Mapping[str, str]] = [{}] * (processes - 1) + [of_the_last or {}]
    return [
        popen(program, {**environment, **own[rank], "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(processes)
    ]


def popen(words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def finish(processes: Processes) -> str:
    """All output, once every process ended well."""
    output = outputs(processes)
    assert [process.returncode for process in processes] == [0] * len(processes), output
    return output


def outputs(processes: Processes) -> str:
    """All output; processes that do not end are ended."""
    found = []
    for process in processes:
        try:
            found.append(process.communicate(timeout=100)[0])
        except subprocess.TimeoutExpired:
            process.terminate()
            found.append(process.communicate(timeout=60)[0])
    return "".join(found)


def losses(folder: Path) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines)}


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def wait_for(path: Path, *, pattern: str, processes: Processes) -> None:
    for _ in range(600):
        if path.exists() and list(path.glob(pattern)):
            return
        assert all(process.poll() is None for process in processes), outputs(processes)
        time.sleep(0.05)
    pytest.fail(f"no {pattern} in {path}")


def run(folder: Path, processes: int, *settings: str, steps: int = 6) -> dict[int, float]:
    """The losses of an uninterrupted run."""
    where = ("--num_steps", str(steps), "--output_dir", str(folder))
    finish(start(processes, *TINY, *where, *settings))
    return losses(folder)


def checkpointed(folder: Path, *settings: str, steps: int = 40) -> list[str]:
    return [
        *TINY,
        *("--num_steps", str(steps), "--output_dir", str(folder)),
        *("--checkpoint_dir", str(folder / "checkpoints"), "--warmup_steps", "3"),
        *settings,
    ]
