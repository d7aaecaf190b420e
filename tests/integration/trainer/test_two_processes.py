"""The program under torchrun: two processes on the CPU, interrupted, resumed, and resized."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
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


def start(processes: int, *settings: str, torchrun: bool = False) -> Processes:
    """torchrun, or the processes that it would start (which spares its own start)."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    program = ["-m", "trainer", *settings]
    if torchrun:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        return [popen([*launcher, f"--nproc-per-node={processes}", *program], environment)]
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment |= {"WORLD_SIZE": str(processes)}
    return [
        popen(program, {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
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


def test_the_probe_works_as_it_stands(tmp_path: Path) -> None:
    command = ["--probe", "3", "--data", "synthetic", "--output_dir", str(tmp_path / "out")]
    output = finish(start(2, *command, torchrun=True))
    found = result(tmp_path / "out")
    assert found["world_size"] == 2
    assert found["num_steps_measured"] == 3
    assert found["num_warmup_steps_excluded"] == 2
    assert found["tokens_per_s_per_gpu"] > 0
    assert found["peak_reserved_bytes"] is None
    assert found["loss_last"] < found["loss_first"]
    assert found["settings"]["probe"] == "3"
    assert "tokens/s/GPU" in output


def run(folder: Path, processes: int, *settings: str) -> dict[int, float]:
    finish(start(processes, *TINY, "--num_steps", "6", "--output_dir", str(folder), *settings))
    return losses(folder)


def test_plans_change_the_machine_not_the_mathematics(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", 1, *plan(micro_batch="4", shard_degree="1"))
    assert alone[5] < alone[0]
    others = {
        "deferred": plan(
            micro_batch="1",
            accumulation_steps="2",
            gradient_sync="last",
            activation_checkpointing="selective",
            loss_chunks="3",
            reshard_after_forward="false",
        ),
        "replicas": plan(shard_degree="1", replica_degree="2", activation_checkpointing="full"),
    }
    for name, settings in others.items():
        found = run(tmp_path / name, 2, *settings)
        assert found.keys() == alone.keys()
        for step, loss in alone.items():
            assert found[step] == pytest.approx(loss, rel=2e-4), (name, step)


def checkpointed(folder: Path, *settings: str, steps: int = 40) -> list[str]:
    return [
        *TINY,
        *("--num_steps", str(steps), "--output_dir", str(folder)),
        *("--checkpoint_dir", str(folder / "checkpoints"), "--warmup_steps", "3"),
        *settings,
    ]


def test_killed_and_resumed_is_as_if_never_killed(tmp_path: Path) -> None:
    every = ("--checkpoint_every_steps", "5", *plan())
    finish(start(2, *checkpointed(tmp_path / "whole", *every)))
    whole = losses(tmp_path / "whole")

    processes = start(2, *checkpointed(tmp_path / "cut", *every))
    wait_for(tmp_path / "cut/checkpoints", pattern="step-00000010", processes=processes)
    # The other process notices, says so, and ends by itself.
    processes[1].kill()
    output = outputs(processes)
    assert processes[0].returncode == 8, output
    assert "LostRank: another process of the run is gone" in output

    # What a kill can leave behind is cleared away and never resumed from.
    (tmp_path / "cut/checkpoints/step-99999999.partial").mkdir()
    finish(start(2, *checkpointed(tmp_path / "cut", *every)))
    resumed = losses(tmp_path / "cut")
    assert resumed == whole
    kept = sorted(path.name for path in (tmp_path / "cut/checkpoints").iterdir())
    assert kept == ["step-00000035", "step-00000040"]


def test_resumed_on_another_number_of_processes(tmp_path: Path) -> None:
    finish(start(2, *checkpointed(tmp_path / "a", *plan(), steps=4)))
    alone = plan(micro_batch="4", shard_degree="1")
    finish(start(1, *checkpointed(tmp_path / "a", *alone, steps=8)))
    found = losses(tmp_path / "a")
    assert sorted(found) == list(range(8))
    assert result(tmp_path / "a")["num_steps"] == 4

    # A checkpoint of another shape is refused by name, and stays.
    other = [word if word != "64" else "96" for word in TINY]
    processes = start(
        1,
        *other,
        *("--num_steps", "9", "--output_dir", str(tmp_path / "b")),
        *("--checkpoint_dir", str(tmp_path / "a/checkpoints"), *alone),
    )
    output = outputs(processes)
    assert processes[0].returncode == 5
    assert "CheckpointError: step-00000008 is of another model: ffn_size '64' there" in output
    assert (tmp_path / "a/checkpoints/step-00000008/run.json").is_file()


def test_sigterm_saves_and_ends_well(tmp_path: Path) -> None:
    settings = checkpointed(tmp_path, *plan(), steps=100_000)
    processes = start(2, *settings, torchrun=True)
    wait_for(tmp_path, pattern="metrics.jsonl", processes=processes)
    processes[0].send_signal(signal.SIGTERM)
    outputs(processes)
    found = result(tmp_path)
    assert found["outcome"] == "stopped: SIGTERM"
    (saved,) = (tmp_path / "checkpoints").iterdir()
    assert saved.name == f"step-{found['num_steps']:08d}"
