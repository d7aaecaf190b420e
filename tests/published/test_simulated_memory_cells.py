"""The stored simulated peaks are those of the program as it is, and obey what must hold."""

import csv
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from trainer.config import config_of
from trainer.profile import profile_config
from trainer.settings import ModelSettings, PlanSettings
from trainer.sweep import SHAPES, cells

PATH = Path(__file__).parent / "data/simulated_memory.csv"
NAMES = [item.name for group in (ModelSettings, PlanSettings) for item in fields(group)]


def rows() -> list[dict[str, str]]:
    with PATH.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def find(model: str, **changes: str) -> Mapping[str, str]:
    plan = {
        "precision": "bf16",
        "micro_batch": "2",
        "seq_len": "2048",
        "loss_chunks": "8",
        "accumulation_steps": "1",
        "optimizer": "adamw",
        "checkpoint_every": "0",
        "reshard_after_forward": "True",
        "shard_degree": "8",
        "replica_degree": "1",
        **changes,
    }
    (row,) = [
        row
        for row in rows()
        if row["model"] == model and all(row[k].lower() == v.lower() for k, v in plan.items())
    ]
    return row


# torch decides what it saves, so the figures are those of the version in the row.
@pytest.mark.parametrize(
    "row",
    [
        find("smollm-135m", activation_checkpointing="selective", shard_degree="64"),
        find("pythia-1.4b", activation_checkpointing="full", reshard_after_forward="false"),
        find(
            "llama-3.2-1b",
            activation_checkpointing="none",
            accumulation_steps="4",
            gradient_sync="last",
        ),
    ],
    ids=lambda row: str(row["model"]),
)
def test_a_cell_is_what_the_program_gives_now(row: Mapping[str, str]) -> None:
    config = config_of({name: row[name] for name in NAMES})
    result = profile_config(config, int(row["world_size"]))
    assert result["num_parameters"] == int(row["num_parameters"])
    assert result["instant"] == row["instant"]
    assert result["peak_bytes"] == pytest.approx(int(row["peak_bytes"]), rel=1e-3)


def test_every_cell_is_there_once() -> None:
    keys = [(row["model"], *(row[name] for name in NAMES)) for row in rows()]
    assert len(keys) == len(set(keys)) == len(SHAPES) * len(list(cells())) >= 200


def test_the_parts_of_each_cell_sum_to_its_peak() -> None:
    for row in rows():
        parts = [int(v) for k, v in row.items() if k.endswith("_bytes") and "peak" not in k]
        assert sum(parts) == pytest.approx(int(row["peak_bytes"]), rel=1e-6), row["model"]
        instants = [int(v) for k, v in row.items() if k.endswith("_peak_bytes") and v]
        assert max(instants) == int(row["peak_bytes"]), row["model"]


@pytest.mark.parametrize("model", SHAPES)
def test_checkpointing_and_slices_save_memory(model: str) -> None:
    by_way = [
        int(find(model, activation_checkpointing=way, micro_batch="4")["peak_bytes"])
        for way in ("full", "selective", "none")
    ]
    assert by_way == sorted(by_way)
    whole = find(model, activation_checkpointing="full", micro_batch="4", loss_chunks="1")
    assert int(whole["peak_bytes"]) > by_way[0]
