"""What a run reports."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trainer.config import Config, config_of
from trainer.errors import OutOfMemory
from trainer.metrics import Reporter, Step, flops_per_token

CPU = torch.device("cpu")


def config(folder: Path, **changes: str) -> Config:
    return config_of({"output_dir": str(folder), "probe": "3", **changes})


def step(number: int, seconds: float, loss: float = 1.0) -> Step:
    return Step(
        number=number, loss=loss, grad_norm=2.0, learning_rate=0.1, seconds=seconds, tokens=1000
    )


def reporter(chosen: Config, *, writes: bool = True) -> Reporter:
    return Reporter(chosen, writes=writes, world_size=2, num_parameters=10_000, num_steps=5)


def test_warm_up_is_left_out_and_stated(tmp_path: Path) -> None:
    found = reporter(config(tmp_path))
    for number, seconds in enumerate((60.0, 5.0, 1.0, 2.0, 1.0)):
        found.report(step(number, seconds, loss=9.0 - number), CPU)
    result = found.result(CPU, outcome="complete")
    assert result["num_warmup_steps_excluded"] == 2
    assert result["num_steps_measured"] == 3
    assert result["tokens_per_s_per_gpu"] == 3000 / 4.0 / 2
    assert result["tokens_per_s"] == 3000 / 4.0
    assert result["step_s_median"] == 1.0
    assert (result["loss_first"], result["loss_last"]) == (9.0, 5.0)
    assert result["peak_reserved_bytes"] is None
    assert result["versions"]["torch"] == torch.__version__
    assert result["settings"]["probe"] == "3"


def test_mfu_needs_a_stated_peak(tmp_path: Path) -> None:
    line = reporter(config(tmp_path)).report(step(0, 1.0), CPU)
    assert line is not None
    assert "MFU" not in line
    told = reporter(config(tmp_path, peak_flops_per_s="1e9"))
    assert "MFU" in (told.report(step(0, 1.0), CPU) or "")
    result = told.result(CPU, outcome="complete")
    wanted = told.flops_per_token * result["tokens_per_s_per_gpu"] / 1e9
    assert result["mfu_fraction"] == pytest.approx(wanted)


def test_flops_leave_out_a_looked_up_embedding(tmp_path: Path) -> None:
    tied = config(tmp_path)
    model, plan = tied.model, tied.plan
    attention = 6 * model.num_layers * model.num_heads * model.head_dim * plan.seq_len
    assert flops_per_token(tied, 1_000_000) == 6_000_000 + attention
    untied = replace(tied, model=replace(model, tied_embeddings=False))
    looked_up = model.vocab_size * model.hidden_size
    assert flops_per_token(untied, 1_000_000) == 6 * (1_000_000 - looked_up) + attention


def test_files_are_written_by_one_rank_and_are_valid_json(tmp_path: Path) -> None:
    silent = reporter(config(tmp_path / "b"), writes=False)
    assert silent.report(step(0, 1.0), CPU) is None
    silent.write_result({"loss": 1.0})
    assert not (tmp_path / "b").exists()
    loud = reporter(config(tmp_path / "a"))
    loud.report(step(0, 1.0), CPU)
    loud.write_result({"loss": math.nan, "more": [math.inf, 1]})
    text = (tmp_path / "a/result.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == {"loss": None, "more": [None, 1]}
    row = json.loads((tmp_path / "a/metrics.jsonl").read_text(encoding="utf-8"))
    assert row["tokens_per_s_per_gpu"] == 500


def test_progress_lines_come_as_often_as_asked(tmp_path: Path) -> None:
    found = reporter(config(tmp_path, log_every="2"))
    lines = [found.report(step(number, 1.0), CPU) for number in range(4)]
    assert [line is not None for line in lines] == [True, False, True, False]
    assert lines[0] is not None
    assert lines[0].startswith("step 1/5  loss 1.0000  500 tokens/s/GPU")


def test_running_out_of_memory_leaves_a_result_and_a_name(tmp_path: Path) -> None:
    found = reporter(config(tmp_path))
    told = "tried to allocate 2 GiB; take a smaller micro_batch"
    with pytest.raises(OutOfMemory, match=told), found.naming_out_of_memory(CPU):
        raise torch.OutOfMemoryError("tried to allocate 2 GiB\nand a long explanation")
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert (result["outcome"], result["oom"], result["row"]["oom"]) == (
        "out of memory",
        True,
        "true",
    )
