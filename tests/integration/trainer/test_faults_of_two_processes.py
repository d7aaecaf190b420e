"""Faults in one of two processes: both end by name, and the last checkpoint is intact."""

import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from trainer_processes import (
    TINY,
    checkpointed,
    finish,
    losses,
    outputs,
    plan,
    result,
    start,
    wait_for,
)

from trainer.stop import EXPIRATION

EVERY_5 = ("--checkpoint_every_steps", "5", *plan())


def test_a_full_disk_ends_both_and_the_run_goes_on_from_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    finish(start(2, *checkpointed(tmp_path / "whole", *EVERY_5, steps=20)))
    cut = tmp_path / "cut"
    processes = start(2, *checkpointed(cut, *EVERY_5, steps=20))
    wait_for(cut / "checkpoints", pattern="step-00000005", processes=processes)
    for process in processes:
        # Room for a line of metrics, and for no part of a checkpoint.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    output = outputs(processes)
    assert [process.returncode for process in processes] == [5, 5], output
    assert "CheckpointError: step-" in output
    assert "earlier checkpoints are intact" in output
    complete = [path for path in (cut / "checkpoints").iterdir() if path.suffix != ".partial"]
    assert complete
    finish(start(2, *checkpointed(cut, *EVERY_5, steps=20)))
    assert losses(cut) == losses(tmp_path / "whole")


def test_a_process_that_stands_still_is_a_hang_with_stacks(tmp_path: Path) -> None:
    settings = checkpointed(tmp_path, *EVERY_5, "--hang_after_s", "8", steps=100_000)
    processes = start(2, *settings)
    wait_for(tmp_path / "checkpoints", pattern="step-00000005", processes=processes)
    processes[1].send_signal(signal.SIGSTOP)
    try:
        output = processes[0].communicate(timeout=100)[0]
    finally:
        processes[1].kill()
        processes[1].communicate(timeout=60)
    assert processes[0].returncode == 7, output
    assert "hang: no step within 8 s; stacks follow" in output
    assert "trainer/train.py" in output
    assert list((tmp_path / "checkpoints").glob("step-*"))


def test_all_stop_where_one_is_told_that_the_reservation_ends(tmp_path: Path) -> None:
    settings = checkpointed(tmp_path, *plan(), steps=100_000)
    ends = {EXPIRATION: str(int(time.time()) + 39 * 60)}
    finish(start(2, *settings, of_the_last=ends))
    found = result(tmp_path)
    assert found["outcome"] == "stopped: another rank asked to"
    assert found["num_steps"] == 1
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    ("num_tokens", "told"),
    [(0, "has no .bin, .jsonl or .parquet shard"), (10, "10 tokens are fewer than the 17")],
    ids=["none", "too short"],
)
def test_data_that_is_not_there_ends_both(num_tokens: int, told: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if num_tokens:
        np.arange(num_tokens, dtype="<u2").tofile(data / "a.bin")
    out = ("--output_dir", str(tmp_path / "out"), "--num_steps", "2")
    processes = start(2, *TINY, *plan(), *out, "--data", str(data))
    output = outputs(processes)
    assert [process.returncode for process in processes] == [4, 4], output
    assert output.count(f"DataError: {'data folder' if not num_tokens else 'a.bin'}") == 2
    assert told in output
    assert not (tmp_path / "out/result.json").exists()
