"""docs/trainer.md knows every setting, exit status and figure of a result."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from trainer import errors
from trainer.config import config_of
from trainer.errors import TrainerError
from trainer.metrics import Reporter, Step
from trainer.naming import FAMILIES
from trainer.settings import ModelSettings, PlanSettings, RunSettings

DOCS = Path(__file__).parents[3] / "docs/trainer.md"


@pytest.mark.parametrize("group", [ModelSettings, PlanSettings, RunSettings])
def test_every_setting_is_in_the_docs(group: type) -> None:
    text = DOCS.read_text(encoding="utf-8")
    strings = config_of({}).as_strings()
    for item in fields(group):
        row = f"| `{item.name}` | `{strings[item.name] or ' '}` |"
        assert row in text, item.name
        assert item.metadata["help"] in text, item.name


def test_every_exit_status_is_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    ends = " ".join(text.partition("**Ends.**")[2].partition("\n\n")[0].split())
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    statuses = {k.exit_status for k in kinds if issubclass(k, TrainerError) and k != TrainerError}
    assert statuses == set(range(2, 11))
    for status in statuses:
        assert f"{status} " in ends, status


def test_every_figure_of_a_result_is_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    reporter = Reporter(
        config_of({"probe": "1"}), writes=False, world_size=1, num_parameters=1, num_steps=1
    )
    for name in reporter.result(torch.device("cpu"), outcome="complete"):
        if name not in ("flops_convention", "num_steps"):
            assert f"`{name}`" in text, name


def test_every_family_is_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for family in FAMILIES:
        assert family in text, family


def test_every_figure_of_a_step_is_in_the_docs(tmp_path: Path) -> None:
    text = DOCS.read_text(encoding="utf-8")
    reporter = Reporter(
        config_of({"probe": "1", "output_dir": str(tmp_path)}),
        writes=True,
        world_size=1,
        num_parameters=1,
        num_steps=1,
    )
    step = Step(number=0, loss=1.0, grad_norm=1.0, learning_rate=0.1, seconds=1.0, tokens=1)
    reporter.report(step, torch.device("cpu"))
    for name in json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8")):
        assert f"`{name}`" in text, name
