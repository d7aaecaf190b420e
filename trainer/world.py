"""The processes of a run: who they are, how they meet, and what they agree on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from trainer.errors import FileError, LostRank
from trainer.machine import own_device

# How long a rank waits for the others before the run is given up.
TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """This process among all: `rank` of `size`, on `device`; num_nodes as torchrun says."""

    rank: int
    local_rank: int
    size: int
    device: torch.device
    num_nodes: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0


@contextmanager
def joined() -> Iterator[World]:
    """Join the processes that torchrun started; alone where it did not. Leaves them at the end."""
    variables = os.environ
    rank, size = int(variables.get("RANK", "0")), int(variables.get("WORLD_SIZE", "1"))
    local_rank = int(variables.get("LOCAL_RANK", "0"))
    device = own_device(variables)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        use_growing_segments()
    else:
        # Said aloud, or MKL takes fewer threads when others are busy, and sums in another order:
        # a resumed run would not be the same bit for bit.
        torch.set_num_threads(torch.get_num_threads())
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    if "MASTER_ADDR" in variables:
        dist.init_process_group(backend, timeout=TIMEOUT)
    else:
        store = HashStore()
        dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=TIMEOUT)
    try:
        yield World(
            rank=rank,
            local_rank=local_rank,
            size=size,
            device=device,
            num_nodes=int(variables.get("GROUP_WORLD_SIZE", "1")),
        )
    finally:
        dist.destroy_process_group()


@contextmanager
def naming_lost_ranks() -> Iterator[None]:
    """What a collective raises when another process is gone, as LostRank."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text:
            first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
            raise LostRank(f"another process of the run is gone: {first}") from error
        raise


@contextmanager
def naming_files() -> Iterator[None]:
    """What the system raises for a file, as FileError; the newest complete checkpoint is intact."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        raise FileError(f"{error.filename or 'a file'}: {error.strerror}") from error


def use_growing_segments() -> None:
    """Let the CUDA allocator grow its segments, which lose little to fragmentation.

    Before the first allocation; a setting in the environment goes first.
    """
    if "PYTORCH_ALLOC_CONF" not in os.environ and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")


def any_rank(flag: bool) -> bool:
    """Whether any rank says so; every rank must ask. On the CPU, so no GPU work is waited for."""
    vote = torch.tensor([int(flag)])
    dist.all_reduce(vote, op=dist.ReduceOp.MAX)
    return bool(vote.item())


def sum_over_ranks(value: float) -> float:
    """The sum of a number over the ranks, exact for whole numbers below 2^53."""
    total = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(total)
    return float(total.item())
