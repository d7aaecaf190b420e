"""Sharding on one process: what is wrapped, what is kept, and what does not fit together."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from trainer.errors import ConfigError
from trainer.initial import clean_name, initialise
from trainer.loss import LossSettings
from trainer.model import Model
from trainer.optimizer import clip_gradients
from trainer.parallel import PRODUCTS, degrees, make_mesh, parallelize, per_operation
from trainer.settings import ModelSettings, PlanSettings
from trainer.world import World, any_rank, sum_over_ranks

SHAPE = ModelSettings(
    hidden_size=32,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    ffn_size=48,
    vocab_size=64,
    max_position=32,
)
PLAN = PlanSettings(precision="fp32")


def gradients(plan: PlanSettings, shape: ModelSettings = SHAPE) -> dict[str, torch.Tensor]:
    """Whole gradients by name after one backward."""
    with torch.device("meta"):
        model = Model(shape, loss=LossSettings(chunks=plan.loss_chunks))
    # Captures and differentiates as the default compiler does, and spares its code generation.
    parallelize(model, plan, make_mesh(plan, 1, "cpu"), compiler="aot_eager")
    model.to_empty(device="cpu")
    model.make_tables(torch.device("cpu"))
    initialise(model, seed=0)
    tokens = torch.randint(64, (2, 17), generator=torch.Generator().manual_seed(0))
    model(tokens[:, :-1], tokens[:, 1:]).backward()
    clip_gradients(model, 0.0)
    found = {}
    for name, parameter in model.named_parameters():
        assert isinstance(parameter.grad, DTensor)
        found[clean_name(name)] = parameter.grad.full_tensor()
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_checkpointing": "full"},
        {"activation_checkpointing": "selective"},
        {"activation_checkpointing": "selective", "checkpoint_every": 2},
        {"loss_chunks": 4, "reshard_after_forward": False},
    ],
    ids=str,
)
def test_gradients_are_those_of_the_plain_plan(alone: World, changes: dict[str, object]) -> None:
    del alone
    plain = gradients(PLAN)
    found = gradients(replace(PLAN, **changes))  # type: ignore[arg-type]  # a test's shorthand
    assert found.keys() == plain.keys()
    for name, grad in plain.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # the compiler warns about its own parts
def test_compiled_blocks_have_the_same_gradients(alone: World) -> None:
    del alone
    plain = gradients(PLAN)
    found = gradients(replace(PLAN, compile=True, activation_checkpointing="selective"))
    for name, grad in plain.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-6)


def test_blocks_embedding_and_head_are_units_of_their_own(alone: World) -> None:
    del alone
    units = {}
    for tied in (True, False):
        with torch.device("meta"):
            model = Model(replace(SHAPE, tied_embeddings=tied))
        parallelize(model, PLAN, make_mesh(PLAN, 1, "cpu"))
        units[tied] = {
            name for name, module in model.named_modules() if isinstance(module, FSDPModule)
        }
    blocks = {f"blocks.{number}" for number in range(4)}
    assert units[True] == {"", *blocks}
    assert units[False] == {"", "embed", "head", *blocks}


def test_each_kth_block_is_wrapped(alone: World) -> None:
    del alone
    plan = replace(PLAN, activation_checkpointing="selective", checkpoint_every=2)
    with torch.device("meta"):
        model = Model(SHAPE)
    parallelize(model, plan, make_mesh(plan, 1, "cpu"))
    wrapped = ["CheckpointWrapper" in type(block).__name__ for block in model.blocks]
    kinds = [any("_checkpoint_wrapped" in n for n, _ in b.named_modules()) for b in model.blocks]
    assert (wrapped if any(wrapped) else kinds) == [True, False, True, False]


class CountProducts(TorchDispatchMode):
    """How many matrix products run."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in PRODUCTS
        return func(*args, **(kwargs or {}))


def test_selective_recomputes_every_second_product() -> None:
    weight = torch.randn(4, 4)

    def block(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = (x @ weight).sin()
        return x

    x = torch.randn(4, 4, requires_grad=True)
    with set_checkpoint_early_stop(enable=False):
        y = checkpoint(
            block, x, use_reentrant=False, context_fn=per_operation, preserve_rng_state=False
        )
        with CountProducts() as counted:
            y.sum().backward()
    # Four products give the gradient by x; the second and the fourth are done again.
    assert counted.count == 4 + 2


def test_degrees_must_make_up_the_world() -> None:
    assert degrees(PLAN, 8) == (1, 8)
    assert degrees(replace(PLAN, replica_degree=2), 8) == (2, 4)
    assert degrees(replace(PLAN, shard_degree=4, replica_degree=2), 8) == (2, 4)
    with pytest.raises(ConfigError, match=r"4 × replica_degree 1 is not .* 8"):
        degrees(replace(PLAN, shard_degree=4), 8)
    with pytest.raises(ConfigError):
        degrees(replace(PLAN, replica_degree=3), 8)


def test_ranks_agree(alone: World) -> None:
    assert (alone.rank, alone.size, alone.is_first) == (0, 1, True)
    assert any_rank(alone.is_first)
    assert not any_rank(alone.size > 1)
    assert sum_over_ranks(3.5) == 3.5
