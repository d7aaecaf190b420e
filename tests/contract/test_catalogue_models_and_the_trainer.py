"""Every model of the catalogue has the advisor's parameter count in the trainer."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.hyperparameters import hyperparameters
from advisor.model_catalog import load_models
from advisor.plan import Plan
from trainer.build import build_model
from trainer.config import config_of
from trainer.errors import Unsupported
from trainer.simulate import count_parameters

DOCS = Path(__file__).parents[2] / "docs/trainer.md"
PLAN = Plan(
    instance_type="p5.48xlarge",
    num_instances=1,
    gpus_per_instance=8,
    precision="bf16",
    activation_checkpointing="full",
    checkpoint_every=0,
    micro_batch=1,
    seq_len=1024,
    accumulation_steps=1,
    gradient_sync="each",
    shard_degree=8,
    replica_degree=1,
    reshard_after_forward=True,
    loss_chunks=1,
    optimizer="adamw",
    compile=False,
)
# Models that are counted and cannot be trained, by the setting that says so.
NOT_TRAINED = dict.fromkeys(("gemma-2-2b", "gemma-2-9b", "gemma-2-27b"), "attn_softcap")


@pytest.mark.parametrize("name", sorted(load_models()))
def test_the_count_is_the_advisors(name: str) -> None:
    model = load_models()[name]
    config = config_of(hyperparameters(model.shape, PLAN, num_tokens=1000))
    # Blocks have equal parameters, so two depths tell any other; building all takes minutes.
    alike = replace(config.model, num_windowed_layers=None, num_unrotated_layers=0)
    one, two = (
        count_parameters(replace(config, model=replace(alike, num_layers=depth)))
        for depth in (1, 2)
    )
    assert one + (model.shape.num_layers - 1) * (two - one) == model.num_parameters_exact
    assert model.num_parameters_exact == model.shape.num_parameters


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "gpt2-xl", "gemma-3-27b", "exaone-4.0-32b", "smollm3-3b"]
)
def test_the_count_at_full_depth_is_the_advisors(name: str) -> None:
    shape = load_models()[name].shape
    config = config_of(hyperparameters(shape, PLAN, num_tokens=1000))
    assert count_parameters(config) == shape.num_parameters


@pytest.mark.parametrize("name", sorted(NOT_TRAINED))
def test_what_has_a_count_and_no_training_is_named_and_documented(name: str) -> None:
    config = config_of(hyperparameters(load_models()[name].shape, PLAN, num_tokens=1000))
    with pytest.raises(Unsupported, match=NOT_TRAINED[name]):
        build_model(config)
    row = next(
        line for line in DOCS.read_text(encoding="utf-8").splitlines() if f"`{name}`" in line
    )
    assert NOT_TRAINED[name] in row
