"""The simulated peak: exact parts, orders that must hold, and depth without running it."""

import pytest
import torch

from trainer.config import config_of
from trainer.profile import main, profile_config, profile_plan

SHAPE = {
    "hidden_size": "256",
    "num_layers": "2",
    "num_heads": "4",
    "num_kv_heads": "2",
    "head_dim": "64",
    "ffn_size": "512",
    "vocab_size": "4096",
    "max_position": "512",
    "tied_embeddings": "false",
    "gated_mlp": "true",
    "activation": "silu",
    "norm": "rmsnorm",
    "qkv_bias": "false",
    "attn_out_bias": "false",
    "mlp_bias": "false",
    "qk_norm": "false",
    "positions": "rope",
}
PLAN = {
    "precision": "bf16",
    "activation_checkpointing": "none",
    "checkpoint_every": "0",
    "micro_batch": "2",
    "seq_len": "512",
    "accumulation_steps": "1",
    "gradient_sync": "each",
    "shard_degree": "8",
    "replica_degree": "1",
    "reshard_after_forward": "true",
    "loss_chunks": "1",
    "optimizer": "adamw",
    "compile": "false",
}
PARAMETERS = 2 * 4096 * 256 + 256 + 2 * (256 * (4 + 2 * 2 + 4) * 64 + 3 * 256 * 512 + 2 * 256)


def settings(**changes: str) -> dict[str, str]:
    return {**SHAPE, **PLAN, **changes}


def peak(**changes: str) -> int:
    return int(profile_plan(settings(**changes))["peak_bytes"])


CHANGES: list[dict[str, str]] = [
    {"activation_checkpointing": "selective", "loss_chunks": "8"},
    {"accumulation_steps": "4", "gradient_sync": "last"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_deep_model_is_told_from_shallow_ones(changes: dict[str, str]) -> None:
    config = config_of(settings(**changes, num_layers="16"))
    short = profile_config(config, 8)
    whole = profile_config(config, 8, whole=True)
    assert short["num_blocks_run"] < whole["num_blocks_run"] == 16
    for key in ("peak_bytes", "instant", "categories", "num_parameters"):
        assert short[key] == whole[key], key
    for name, instant in short["instants"].items():
        assert instant["peak_bytes"] == whole["instants"][name]["peak_bytes"], name


def test_each_kth_block_is_told_from_shallow_ones_too() -> None:
    changes = {"activation_checkpointing": "selective", "checkpoint_every": "2"}
    config = config_of(settings(**changes, num_layers="21"))
    short, whole = profile_config(config, 8), profile_config(config, 8, whole=True)
    assert short["num_blocks_run"] < 21
    assert short["peak_bytes"] == whole["peak_bytes"]


def test_the_states_are_what_arithmetic_says() -> None:
    result = profile_plan(settings())
    assert result["num_parameters"] == PARAMETERS
    categories = result["instants"]["optimizer"]["categories"]
    # fp32 weights, fp32 gradients, two fp32 averages and a step count per tensor, over 8 shards.
    tensors = 3 + 2 * 9
    assert categories["parameters"] == pytest.approx(4 * PARAMETERS / 8, rel=1e-6)
    assert categories["gradients"] == pytest.approx(4 * PARAMETERS / 8, rel=1e-6)
    assert categories["optimizer"] == pytest.approx(8 * PARAMETERS / 8 + 4 * tensors, rel=1e-6)


def test_the_unsliced_loss_takes_twelve_bytes_a_logit() -> None:
    result = profile_plan(settings())
    assert result["instant"] == "loss"
    per_logit = result["categories"]["logits"] / (2 * 512 * 4096)
    assert 11.9 < per_logit < 13.0


def test_what_must_not_need_more_memory_does_not() -> None:
    none = peak(loss_chunks="8")
    selective = peak(loss_chunks="8", activation_checkpointing="selective")
    full = peak(loss_chunks="8", activation_checkpointing="full")
    assert full < selective < none < peak()
    assert peak(micro_batch="4") > peak()
    assert peak(optimizer="adamw_8bit") < peak(optimizer="adamw_bf16") < peak()
    assert peak(reshard_after_forward="false") > peak()


def test_more_shards_need_less_and_replicas_nothing() -> None:
    def with_degrees(shards: int, replicas: int) -> int:
        changes = {"shard_degree": str(shards), "replica_degree": str(replicas)}
        return int(profile_plan(settings(**changes), shards * replicas)["peak_bytes"])

    assert with_degrees(16, 1) < with_degrees(8, 1) < with_degrees(2, 1)
    states = 16 * PARAMETERS / 8
    assert abs(with_degrees(8, 2) - with_degrees(8, 1)) < states


def test_deferred_reduction_keeps_whole_gradients() -> None:
    each = profile_plan(settings(accumulation_steps="2"))
    last = profile_plan(settings(accumulation_steps="2", gradient_sync="last"))
    assert each["categories"]["gradients"] == pytest.approx(4 * PARAMETERS / 8, rel=1e-6)
    assert last["categories"]["gradients"] == pytest.approx(4 * PARAMETERS, rel=1e-6)
    # More micro steps than two change nothing.
    more = profile_plan(settings(accumulation_steps="8", gradient_sync="last"))
    assert more["peak_bytes"] == last["peak_bytes"]


def test_the_parts_sum_to_the_peak() -> None:
    for changes in CHANGES:
        result = profile_plan(settings(**changes))
        for name, instant in result["instants"].items():
            assert sum(instant["categories"].values()) == instant["peak_bytes"], name


def test_no_process_group_is_left_behind() -> None:
    peak(num_layers="1")
    assert not torch.distributed.is_initialized()


def test_the_command_prints_json_and_lists_problems(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--world_size", "8"]
    for key, value in settings(num_layers="2").items():
        arguments += [f"--{key}", value]
    assert main(arguments) == 0
    assert '"peak_bytes"' in capsys.readouterr().out
    assert main([*arguments, "--bad", "1", "--seed", "x"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == "unknown setting 'bad'"
    assert main([*arguments[:1], "4", *arguments[2:]]) == 2
    assert "not the number of processes" in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["mxfp8", "nvfp4"])
def test_kernels_of_a_gpu_alone_are_refused_by_name(
    precision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [w for k, v in settings(precision=precision).items() for w in (f"--{k}", v)]
    assert main(["--world_size", "8", *words]) == 3
    assert f"precision {precision}" in capsys.readouterr().err
