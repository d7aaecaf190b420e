"""8-bit averages go into checkpoints as plain tensors, and come back on any number of ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from trainer.eight_bit import BLOCK, Incoming, is_eight_bit, stored_form

pytestmark = pytest.mark.filterwarnings("ignore")  # torchao warns while it is imported
ROWS, WIDTH = 64, 128


@contextmanager
def rank_of(rank: int, size: int) -> Iterator[Any]:
    """The mesh of one of several processes, with collectives that do nothing."""
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (size,))
    finally:
        dist.destroy_process_group()


def eight_bit(values: Tensor, *, signed: bool = True) -> Any:
    state = import_module("torchao.optim.subclass_8bit").OptimState8bit.zeros(
        values.shape, signed=signed
    )
    state.copy_(values)
    return state


def sharded(local: Any, mesh: Any, rows: int) -> DTensor:
    shape = torch.Size((rows, WIDTH))
    return DTensor.from_local(
        local, mesh, (Shard(0),), run_check=False, shape=shape, stride=(WIDTH, 1)
    )


@pytest.fixture
def values() -> Tensor:
    return torch.randn((ROWS, WIDTH), generator=torch.Generator().manual_seed(0))


def read(incoming: Incoming, state: DTensor, stored: dict[str, Tensor] | Tensor) -> None:
    """What loading does: fill the targets with what is stored, and bring them in."""
    target = incoming.tree({"exp_avg": state}, ("optimizer",))["exp_avg"]
    if isinstance(stored, Tensor):
        target.to_local().copy_(stored)
    else:
        for name, tensor in stored.items():
            whole = target[name]
            (whole.to_local() if isinstance(whole, DTensor) else whole).copy_(tensor)
    incoming.fill()


CODED = [f"optimizer.exp_avg.{name}" for name in ("codes", "scale", "qmap")]


@pytest.mark.parametrize("rank", [0, 1])
def test_codes_and_scales_go_to_another_number_of_ranks_unchanged(
    rank: int, values: Tensor
) -> None:
    whole = eight_bit(values)
    half = slice(rank * ROWS // 2, (rank + 1) * ROWS // 2)
    with rank_of(rank, 2) as mesh:
        state = sharded(eight_bit(torch.zeros(ROWS // 2, WIDTH)), mesh, ROWS)
        codes = {"codes": whole.codes[half], "scale": whole.scale, "qmap": whole.qmap}
        read(Incoming(CODED), state, codes)
        local: Any = state.to_local()
    assert torch.equal(local.codes, whole.codes[half])
    assert torch.equal(local.dequantize(), whole.dequantize()[half])


@pytest.mark.parametrize("signed", [True, False])
def test_a_shard_too_small_for_eight_bits_takes_their_values(signed: bool, values: Tensor) -> None:
    whole = eight_bit(values if signed else values.square(), signed=signed)
    with rank_of(2, 4) as mesh:
        state = sharded(torch.zeros(ROWS // 4, WIDTH), mesh, ROWS)
        part = slice(2 * ROWS // 4, 3 * ROWS // 4)
        codes = {"codes": whole.codes[part], "scale": whole.scale, "qmap": whole.qmap}
        read(Incoming(CODED), state, codes)
        assert torch.equal(state.to_local(), whole.dequantize()[part])


def test_equal_shards_are_stored_as_codes_and_scales(values: Tensor) -> None:
    with rank_of(0, 2) as mesh:
        state = sharded(eight_bit(values), mesh, 2 * ROWS)
        assert is_eight_bit(state)
        form = stored_form(state)
        assert isinstance(form, dict)
        assert form["codes"].shape == (2 * ROWS, WIDTH)
        assert form["scale"].shape == (2 * ROWS * WIDTH // BLOCK,)
        # They are the state's own memory: nothing is copied twice.
        codes = form["codes"]
        assert isinstance(codes, DTensor)
        local: Any = state.to_local()
        assert codes.to_local().data_ptr() == local.codes.data_ptr()


def test_unequal_shards_are_stored_and_read_as_values(values: Tensor) -> None:
    with rank_of(0, 2) as mesh:
        state = sharded(eight_bit(values), mesh, 2 * ROWS - 1)
        form = stored_form(state)
        local: Any = state.to_local()
        assert isinstance(form, DTensor)
        assert torch.equal(form.to_local(), local.dequantize())
        again = sharded(eight_bit(torch.zeros(ROWS, WIDTH)), mesh, 2 * ROWS - 1)
        read(Incoming(["optimizer.exp_avg"]), again, form.to_local())
        found: Any = again.to_local()
        torch.testing.assert_close(found.dequantize(), local.dequantize(), rtol=0.02, atol=1e-3)


def test_what_is_not_in_eight_bits_is_left_alone(values: Tensor) -> None:
    with rank_of(0, 2) as mesh:
        plain = sharded(values, mesh, 2 * ROWS)
        states = {"state": {"w": {"exp_avg": plain, "step": 3}}, "param_groups": [{"lr": 0.1}]}
        assert Incoming(["optimizer.state.w.exp_avg"]).tree(states, ("optimizer",)) == states
        assert not is_eight_bit(plain)
        assert not is_eight_bit(values)
