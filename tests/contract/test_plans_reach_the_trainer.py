"""Every plan that the advisor can emit arrives in the trainer's settings unchanged."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import product
from typing import Any

import pytest

from advisor.grid import CHECKPOINTINGS, LOSS_CHUNKS, MICRO_BATCHES, SYNCS
from advisor.hyperparameters import hyperparameters
from advisor.model import ModelShape
from advisor.model_catalog import find_model
from advisor.plan import OPTIMIZERS, PRECISIONS, Plan
from trainer.config import config_of
from trainer.errors import ConfigError
from trainer.settings import ModelSettings

SHAPE = find_model("llama-3-8b").shape
ELSEWHERE = ("instance_type", "num_instances", "gpus_per_instance")


def plans() -> Iterator[Plan]:
    """Every choice of the search's grid, each pair of neighbours in the product once."""
    for (way, every), precision, optimizer in product(CHECKPOINTINGS, PRECISIONS, OPTIMIZERS):
        for sync, chunks, reshard in product(SYNCS, LOSS_CHUNKS, (True, False)):
            for index, micro_batch in enumerate(MICRO_BATCHES):
                yield Plan(
                    instance_type="p5.48xlarge",
                    num_instances=2,
                    gpus_per_instance=8,
                    precision=precision,
                    activation_checkpointing=way,
                    checkpoint_every=every,
                    micro_batch=micro_batch,
                    seq_len=4096,
                    accumulation_steps=1 + index,
                    gradient_sync=sync,
                    shard_degree=(16, 8, 1)[index % 3],
                    replica_degree=(1, 2, 16)[index % 3],
                    reshard_after_forward=reshard,
                    loss_chunks=chunks,
                    optimizer=optimizer,
                    compile=bool(index % 2),
                )


def test_every_plan_of_the_grid_arrives_unchanged() -> None:
    for plan in plans():
        arrived = config_of(hyperparameters(SHAPE, plan, num_tokens=10**12)).plan
        for item in fields(plan):
            if item.name not in ELSEWHERE:
                assert getattr(arrived, item.name) == getattr(plan, item.name), item.name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_embeddings": True, "qkv_bias": True, "rope_theta": None},
        {"positions": "learned", "norm": "layernorm", "gated_mlp": False, "activation": "gelu_new"},
        {"qk_norm": True, "sliding_window": 4096, "norm": "nonparametric"},
        {"mlp_bias": True, "attn_out_bias": True, "norm": "layernorm_no_bias"},
        {"norm_layout": "sandwich", "qk_norm": True, "qk_norm_kind": "all", "norm_eps": 1e-6},
        {"parallel_block": "separate", "rotary_fraction": 0.25, "head_bias": True},
        {"embedding_scale": 32.0, "attention_scale": 0.1, "logit_softcap": 30.0},
        {"residual_scale": 0.22, "logit_scale": 0.125},
        {"positions": "learned", "extra_positions": 2},
        {"positions": "alibi", "embedding_norm": True, "final_norm": False, "embedding_size": 512},
        {"sliding_window": 512, "num_windowed_layers": 24, "num_unrotated_layers": 8},
        {"gated_mlp": False, "activation": "xielu", "activation_parameters": 2},
        {"qk_norm": True, "qk_norm_kind": "each_head"},
        {"attn_softcap": 50.0, "rope_scaling": '{"factor": 8.0, "rope_type": "llama3"}'},
    ],
    ids=str,
)
def test_every_dimension_arrives_unchanged(changes: dict[str, Any]) -> None:
    kept = {item.name: getattr(SHAPE, item.name) for item in fields(SHAPE)}
    shape = ModelShape(**{**kept, **changes})
    config = config_of(hyperparameters(shape, next(plans()), num_tokens=10**12))
    assert config.run.num_tokens == 10**12
    for item in fields(shape):
        if item.name not in ("name", "family"):
            assert getattr(config.model, item.name) == getattr(shape, item.name), item.name


def test_a_key_more_or_less_is_refused() -> None:
    strings = hyperparameters(SHAPE, next(plans()), num_tokens=1000)
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        config_of({**strings, "colour": "red"})
    optional = ("rope_theta", "sliding_window", "num_tokens")
    for name in strings:
        if name not in optional:
            rest = {key: value for key, value in strings.items() if key != name}
            with pytest.raises(ConfigError, match=f"missing setting '{name}'"):
                config_of(rest)


def test_every_dimension_is_a_setting() -> None:
    settings = {item.name for item in fields(ModelSettings)}
    assert {item.name for item in fields(SHAPE)} - {"name", "family"} == settings
