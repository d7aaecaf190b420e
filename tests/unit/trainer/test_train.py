"""The loop on one process: ends, saves, resumes, and says what is wrong."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader

from trainer.build import build_model
from trainer.checkpoint import Checkpoints, Progress, complete_checkpoints
from trainer.config import Config, config_of
from trainer.errors import CheckpointError, ConfigError, DataError, NonFiniteLoss
from trainer.initial import initialise
from trainer.optimizer import create_states, make_optimizer
from trainer.parallel import make_mesh, parallelize
from trainer.settings import ModelSettings, PlanSettings
from trainer.stop import EXPIRATION
from trainer.train import steps_of, train
from trainer.world import World

SHAPE = ModelSettings(
    hidden_size=32,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    ffn_size=48,
    # Just so large that its averages are kept in 8 bits where that is asked for.
    vocab_size=128,
    max_position=32,
)
PLAN = PlanSettings(micro_batch=2, seq_len=16, accumulation_steps=2)


def config(folder: Path, *, plan: PlanSettings = PLAN, **run: str) -> Config:
    settings = {"num_steps": "6", "output_dir": str(folder), **run}
    return replace(config_of(settings), model=SHAPE, plan=plan)


def losses(folder: Path) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines)}


PLANS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16 states": {"optimizer": "adamw_bf16", "precision": "bf16"},
    "8-bit states": {"optimizer": "adamw_8bit"},
    "fp8 gathered": {"precision": "fp8", "low_precision_emulation": True, "fp8_gather": True},
}


@pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
@pytest.mark.parametrize("name", PLANS)
def test_resumed_is_as_if_never_stopped(name: str, alone: World, tmp_path: Path) -> None:
    plan = replace(PLAN, **PLANS[name])
    folder = tmp_path / "checkpoints"
    saved = {"checkpoint_dir": str(folder), "checkpoint_every_steps": "4"}
    with torch.compiler.set_stance("force_eager"):
        train(config(tmp_path / "whole", plan=plan, **saved), alone)
        newest = complete_checkpoints(folder)[-1]
        assert newest.name == "step-00000006"
        resume = str(folder / "step-00000004")
        other = {"checkpoint_dir": str(tmp_path / "other"), "resume": resume}
        train(config(tmp_path / "resumed", plan=plan, **other), alone)
    whole, resumed = losses(tmp_path / "whole"), losses(tmp_path / "resumed")
    assert list(resumed) == [4, 5]
    assert resumed == {step: whole[step] for step in (4, 5)}
    stored = FileSystemReader(folder / "step-00000004").read_metadata().state_dict_metadata
    assert any(key.endswith("exp_avg.codes") for key in stored) == (name == "8-bit states")


def test_never_resuming_begins_anew(alone: World, tmp_path: Path) -> None:
    saved = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    train(config(tmp_path / "a", **saved), alone)
    train(config(tmp_path / "b", resume="never", **saved), alone)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    done = train(config(tmp_path / "c", **saved), alone)
    assert done["num_steps"] == 0
    assert done["outcome"] == "complete"


def test_a_loss_that_is_not_finite_stops_with_the_state_before_it(
    alone: World, tmp_path: Path
) -> None:
    wild = config(
        tmp_path,
        learning_rate="1e30",
        grad_clip="0",
        checkpoint_dir=str(tmp_path / "checkpoints"),
    )
    with pytest.raises(NonFiniteLoss, match="the state before it was saved"):
        train(wild, alone)
    (saved,) = complete_checkpoints(tmp_path / "checkpoints")
    assert saved.name == f"step-{len(losses(tmp_path)):08d}"


def test_the_end_of_the_reservation_saves_and_stops(
    alone: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EXPIRATION, "1000")
    result = train(config(tmp_path, checkpoint_dir=str(tmp_path / "checkpoints")), alone)
    assert result["num_steps"] == 1
    assert "expires" in result["outcome"]
    assert [path.name for path in complete_checkpoints(tmp_path / "checkpoints")] == [
        "step-00000001"
    ]


def test_an_export_is_written_at_the_end(alone: World, tmp_path: Path) -> None:
    train(config(tmp_path, num_steps="1", export_to=str(tmp_path / "hf")), alone)
    described = json.loads((tmp_path / "hf/config.json").read_text(encoding="utf-8"))
    assert described["model_type"] == "llama"
    assert (tmp_path / "hf/model.safetensors.index.json").is_file()


def test_tokens_on_disk_are_trained_on_with_documents_apart(alone: World, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (np.arange(2000) % 60).astype("<u2").tofile(folder / "a.bin")
    run = {"data": str(folder), "num_steps": "30", "learning_rate": "1e-2"}
    apart = {"document_mask": "true", "end_of_text": "0"}
    plain = train(config(tmp_path / "a", **run), alone)
    masked = train(config(tmp_path / "b", **run, **apart), alone)
    assert plain["loss_last"] < 0.7 * plain["loss_first"]
    assert masked["loss_first"] != plain["loss_first"]


@pytest.mark.parametrize(
    ("data", "word"), [("missing", "does not exist"), ("empty", "has no .bin, .jsonl or .parquet")]
)
def test_missing_data_is_named(data: str, word: str, alone: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=word):
        train(config(tmp_path, data=str(tmp_path / data)), alone)


def test_a_plan_for_another_number_of_processes_is_refused(alone: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not the number of processes, 1"):
        train(config(tmp_path, plan=replace(PLAN, shard_degree=8)), alone)


def test_steps_come_from_steps_tokens_or_probe(tmp_path: Path) -> None:
    assert steps_of(config(tmp_path), 64) == 6
    assert steps_of(config(tmp_path, num_steps="0", num_tokens="129"), 64) == 3
    assert steps_of(config(tmp_path, probe="5"), 64) == 7
    with pytest.raises(ConfigError, match="num_steps, num_tokens or probe"):
        steps_of(config(tmp_path, num_steps="0"), 64)


@contextmanager
def disk_of(num_bytes: int) -> Iterator[None]:
    """No file may grow beyond this, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_last_checkpoint_intact(alone: World, tmp_path: Path) -> None:
    chosen = config(tmp_path, checkpoint_dir=str(tmp_path / "checkpoints"))
    model = build_model(chosen)
    parallelize(model, PLAN, make_mesh(PLAN, alone.size, "cpu"))
    model.to_empty(device="cpu")
    initialise(model, seed=0)
    optimizer = make_optimizer(model, "adamw", chosen.run)
    create_states(optimizer)
    checkpoints = Checkpoints(chosen, is_first=True)
    checkpoints.save(model, optimizer, Progress(num_steps=1))
    checkpoints.finish()
    with disk_of(4000):
        checkpoints.save(model, optimizer, Progress(num_steps=2))
        with pytest.raises(CheckpointError, match=r"step-00000002 .*too large.*intact"):
            checkpoints.finish()
    (left,) = complete_checkpoints(tmp_path / "checkpoints")
    assert left.name == "step-00000001"
    again = Checkpoints(chosen, is_first=True)
    assert again.find("auto") == left
    assert again.load(left, model, optimizer) == Progress(num_steps=1)
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        again.load(tmp_path / "nowhere", model, optimizer)
