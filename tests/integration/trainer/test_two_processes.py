"""The program under torchrun: two processes on the CPU, interrupted, resumed, and resized."""

import signal
from pathlib import Path

import pytest
from trainer_processes import (
    TINY,
    checkpointed,
    finish,
    losses,
    outputs,
    plan,
    result,
    run,
    start,
    wait_for,
)


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
    # The very samples that two processes would have taken.
    whole = run(tmp_path / "whole", 1, "--warmup_steps", "3", *alone, steps=8)
    for step, loss in whole.items():
        assert found[step] == pytest.approx(loss, rel=2e-4), step
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
