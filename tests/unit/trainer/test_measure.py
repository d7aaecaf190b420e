"""One device standing in for one rank of many, and the matrix of such measurements."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trainer.config import config_of
from trainer.errors import ConfigError, Unsupported
from trainer.matrix import LARGE, cells, main, run
from trainer.measure import driver_version, measure
from trainer.profile import take_world_size

CPU = torch.device("cpu")


def test_one_rank_of_eight_runs_alone() -> None:
    config = config_of({"skip_steps": "1"})
    row = measure(config, 8, CPU, steps=2)
    assert row["kind"] == "measured-one-rank"
    assert row["world_size"] == 8
    assert "nothing" in row["collectives"]
    assert row["num_steps_measured"] == 2
    assert row["num_warmup_steps_excluded"] == 1
    assert row["compute_tokens_per_s_per_gpu"] > 0
    assert row["num_parameters"] == 1000576
    assert row["oom"] is False
    assert not torch.distributed.is_initialized()


def test_what_the_device_cannot_is_named_before_anything_is_built() -> None:
    config = config_of({})
    low = replace(config, plan=replace(config.plan, precision="nvfp4"))
    with pytest.raises(Unsupported, match="nvfp4"):
        measure(low, 8, CPU, steps=1)


def test_the_matrix_covers_sizes_and_plans_and_is_understood() -> None:
    found = list(cells())
    assert len({json.dumps(cell, sort_keys=True) for cell in found}) == len(found) > 100
    for cell in found:
        assert config_of(cell).plan.shard_degree in (8, 64)
    assert {cell["precision"] for cell in found} == {"bf16", "fp8"}
    assert {cell["hidden_size"] for cell in found} >= {
        shape["hidden_size"] for shape in LARGE.values()
    }


def test_a_dry_run_checks_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(list(cells()))} cells" == f"{len(lines) - 1} cells"
    assert lines[0] == "1.2B  bf16  selective  1 x 4096  8 slices  8 shards"
    assert main([]) == 2


def test_rows_that_are_there_are_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"oom": False, "cell": cell}) for cell in cells()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run(path, 60.0) == 0
    assert run(tmp_path / "none.jsonl", -1.0) == 0


def test_the_world_size_is_no_setting() -> None:
    assert take_world_size(["--seed", "1"]) == (8, ["--seed", "1"])
    assert take_world_size(["--seed", "1", "--world_size", "64", "--probe", "2"]) == (
        64,
        ["--seed", "1", "--probe", "2"],
    )
    for wrong in (["--world_size"], ["--world_size", "0"], ["--world_size", "x"]):
        with pytest.raises(ConfigError, match="world_size"):
            take_world_size(wrong)


def test_no_driver_is_no_error() -> None:
    assert driver_version() is None or "." in str(driver_version())
