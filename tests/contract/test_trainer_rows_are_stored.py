"""What the trainer measures loads through the advisor, and the service stores it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from advisor.case import stack_of
from advisor.result import RESULT_COLUMNS, Result, parse_result, read_results
from app.cli import main as shardwise
from trainer.config import config_of
from trainer.measure import measure
from trainer.metrics import Reporter, Step
from trainer.profile import profile_config
from trainer.settings import PlanSettings
from trainer.stored_row import COLUMNS, Measured, main, stored_row
from trainer.train import train
from trainer.world import joined

CPU = torch.device("cpu")
GIB = 1024**3


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """result.json of a probe on this CPU."""
    folder = tmp_path_factory.mktemp("out")
    with joined() as world:
        train(config_of({"probe": "2", "output_dir": str(folder)}), world)
    return folder / "result.json"


def row_of(document: dict[str, Any]) -> Result:
    return parse_result(document["row"], "row")


def test_the_columns_are_the_advisors() -> None:
    assert COLUMNS == RESULT_COLUMNS


def test_a_run_on_this_machine_is_a_stored_result(probed: Path) -> None:
    document = json.loads(probed.read_text(encoding="utf-8"))
    found = row_of(document)
    assert tuple(document["row"]) == RESULT_COLUMNS
    assert found.gpu == "CPU"
    assert found.oom is False
    assert found.tokens_per_s_per_gpu == document["tokens_per_s_per_gpu"]
    assert (found.hidden, found.layers, found.vocab) == (128, 4, 2048)
    assert found.params_b == pytest.approx(0.001000576)
    assert found.peak_mem_gib is None
    assert found.notes is not None
    assert "kind = measured" in found.notes
    assert "2 steps after 2 of warm-up" in found.notes


def test_a_measured_peak_arrives_in_gibibytes() -> None:
    config = config_of({})
    plan = PlanSettings(
        precision="bf16", activation_checkpointing="selective", checkpoint_every=2, loss_chunks=8
    )
    found = Measured(
        kind="measured",
        world_size=16,
        num_nodes=2,
        num_parameters=8_030_261_248,
        gpu="NVIDIA H100 80GB HBM3",
        peak_bytes=40 * GIB,
        tokens_per_s_per_gpu=9000.0,
        mfu_fraction=0.45,
        flops_per_token=50_000_000_000,
        on_date="2026-01-31",
    )
    result = parse_result(stored_row(replace(config, plan=plan), found), "row")
    assert (result.peak_mem_gib, result.peak_mem_kind) == (40.0, "reserved")
    assert (result.gpus_total, result.nodes) == (16, 2)
    assert (result.mfu_pct, result.tflops_per_gpu) == (45.0, 450.0)
    assert (result.sharding, result.activation_checkpointing) == ("full", "selective")
    assert stack_of(result).engine == "fsdp2"
    assert result.notes is not None
    assert "every 2nd block" in result.notes


def test_other_measurements_have_other_ids() -> None:
    config = config_of({})
    one = Measured(kind="measured", world_size=8, num_parameters=1)
    rows = [
        stored_row(config, one),
        stored_row(config, replace(one, world_size=16)),
        stored_row(replace(config, run=replace(config.run, seed=1)), one),
    ]
    assert len({row["id"] for row in rows}) == len(rows)
    assert stored_row(config, one) == rows[0]
    assert parse_result(rows[0], "row").source == "shardwise-measured"


def test_what_runs_out_of_memory_is_evidence_too(tmp_path: Path) -> None:
    reporter = Reporter(
        config_of({"output_dir": str(tmp_path)}),
        writes=True,
        world_size=8,
        num_parameters=1,
        num_steps=5,
    )
    step = Step(number=0, loss=1.0, grad_norm=1.0, learning_rate=0.1, seconds=1.0, tokens=10)
    reporter.report(step, CPU)
    found = row_of(reporter.result(CPU, outcome="out of memory", oom=True))
    assert found.oom is True
    assert found.tokens_per_s_per_gpu is None
    assert found.peak_mem_gib is None


def test_a_stand_in_and_a_simulation_say_so_and_give_no_speed() -> None:
    config = config_of({"skip_steps": "0"})
    measured = row_of(measure(config, 8, CPU, steps=1))
    simulated = row_of(profile_config(config, 8))
    for found, kind in ((measured, "measured-one-rank"), (simulated, "simulated")):
        assert found.source == f"shardwise-{kind}"
        assert found.gpus_total == 8
        assert found.tokens_per_s_per_gpu is None
        assert found.notes is not None
        assert f"kind = {kind}" in found.notes
    assert simulated.peak_mem_gib is not None
    assert (simulated.peak_mem_kind, simulated.gpu) == ("allocated", None)


def test_rows_become_a_file_that_the_service_imports(
    probed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text(json.dumps(profile_config(config_of({}), 8)) + "\n\n", encoding="utf-8")
    assert main([str(probed), str(lines)]) == 0
    text = capsys.readouterr().out
    assert len(list(read_results(text.splitlines(keepends=True)))) == 2
    file = tmp_path / "rows.csv"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", f"sqlite:///{tmp_path / 'test.db'}")
    assert shardwise(["results", "import", str(file)]) == 0
    assert "2 results added" in capsys.readouterr().out
    assert shardwise(["results", "import", str(file)]) == 0
    assert "0 results added, 2 were there already" in capsys.readouterr().out


def test_what_is_no_measurement_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    (tmp_path / "b.json").write_text("{}", encoding="utf-8")
    assert main([str(tmp_path / "a.json")]) == 2
    assert "neither JSON nor JSON lines" in capsys.readouterr().err
    assert main([str(tmp_path / "b.json")]) == 2
    assert "has no measurement" in capsys.readouterr().err
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
