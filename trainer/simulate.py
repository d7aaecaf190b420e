"""One step of a plan without its hardware: shapes only, no numbers, no other process.

The real program runs under FakeTensorMode with a process group that does nothing, of any size.
What is simulated is one rank of an eager run; a compiled block cannot be simulated. The operations
are those that torch chooses on a CUDA GPU (kernels.CUDA_SAVED_TENSORS), the optimizer is fused,
and flash attention's backward takes the workspace that its CUDA kernel takes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer
from torch.testing._internal.distributed.fake_pg import FakeStore

from trainer.build import build_model
from trainer.config import Config
from trainer.errors import Unsupported
from trainer.kernels import CUDA_SAVED_TENSORS
from trainer.model import Model, num_parameters
from trainer.optimizer import clip_gradients, create_states, make_optimizer
from trainer.parallel import local, make_mesh, parallelize, synchronise_gradients
from trainer.storage import Instant, StorageTracker

_aten = torch.ops.aten
# Blocks at either end whose instants are recorded one by one.
EDGE_BLOCKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Peaks of one simulated step by label; `num_blocks` is the depth that was run."""

    instants: Mapping[str, Instant]
    num_blocks: int


def simulate(config: Config, world_size: int) -> Timeline:
    """Run one step of the plan on shapes; no process group may exist. Raises Unsupported."""
    if config.plan.precision == "mxfp8" and not config.plan.low_precision_emulation:
        raise Unsupported("precision mxfp8 cannot be simulated: its kernels exist on a GPU only")
    config = replace(config, plan=replace(config.plan, compile=False))
    with fake_world(world_size):
        mesh = make_mesh(config.plan, world_size, "cpu")
        return _run(config, mesh)


def _run(config: Config, mesh: DeviceMesh) -> Timeline:
    with FakeTensorMode():
        model = build_model(config, CUDA_SAVED_TENSORS)
        root = parallelize(model, config.plan, mesh)
        model.to_empty(device="cpu")
        model.make_tables(torch.device("cpu"))
        optimizer = _optimizer(model, config)
        tracker = StorageTracker(_workspace, _rules())
        _count_states(tracker, model, optimizer)
        _hook_labels(tracker, model, edge_of(config))
        with tracker:
            _step(config, model, root, optimizer, tracker)
    return Timeline(instants=tracker.instants, num_blocks=config.model.num_layers)


def count_parameters(config: Config) -> int:
    """Parameters of the model, a shared one counted once; nothing is allocated."""
    with torch.device("meta"):
        return num_parameters(Model(config.model, kernels=CUDA_SAVED_TENSORS))


def edge_of(config: Config) -> int:
    """Blocks at either end that are told apart: each kind of block is among them."""
    return max(EDGE_BLOCKS, config.plan.checkpoint_every + 2)


@contextmanager
def fake_world(world_size: int) -> Iterator[None]:
    """This process as the first of `world_size`, with collectives that do nothing."""
    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def _optimizer(model: Model, config: Config) -> Optimizer:
    """With its states. Those of 8 bits are stood in for by as many bytes."""
    if config.plan.optimizer == "adamw_8bit":
        optimizer: Optimizer = _EightBitStates(model)
    else:
        optimizer = make_optimizer(model, config.plan.optimizer, config.run)
    # DTensor works out each operation's sharding once, on tensors of the whole size: do it now.
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    clip_gradients(model, config.run.grad_clip)
    create_states(optimizer)
    return optimizer


class _EightBitStates(Optimizer):
    """Stands in for torchao's AdamW8bit, whose kernel is compiled: as many bytes, no arithmetic."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.parameters(), {"lr": 0.0, "weight_decay": 0.0})
        for parameter in model.parameters():
            size = local(parameter).numel()
            # A byte per element and one fp32 scale per 256 of them, for either average.
            num_bytes = 2 * (size + 4 * -(-size // 256))
            self.state[parameter]["averages"] = torch.empty(num_bytes, dtype=torch.uint8)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Nothing: the fused update takes no memory of its own."""
        del closure


def _count_states(tracker: StorageTracker, model: Model, optimizer: Optimizer) -> None:
    for parameter in model.parameters():
        tracker.assign(parameter, "parameters")
    for buffer in model.buffers():
        tracker.assign(buffer, "buffers")
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                tracker.assign(value, "optimizer")


def _step(
    config: Config,
    model: Model,
    root: FSDPModule,
    optimizer: Optimizer,
    tracker: StorageTracker,
) -> None:
    """One optimizer update; two micro steps stand for any larger number of them."""
    micro_steps = min(config.plan.accumulation_steps, 2)
    shape = (config.plan.micro_batch, config.plan.seq_len)
    for micro in range(micro_steps):
        synchronise_gradients(root, config.plan, last=micro == micro_steps - 1)
        tracker.phase = f"{micro}:"
        tracker.label, tracker.category = "forward", "inputs"
        tokens_BT = torch.zeros(shape, dtype=torch.int64)
        targets_BT = torch.zeros(shape, dtype=torch.int64)
        tracker.category = "activations"
        loss = model(tokens_BT, targets_BT)
        tracker.label, tracker.category = "loss backward", "logits"
        loss.backward()
        del loss
        _count_whole_gradients(tracker, model)
    tracker.phase = ""
    tracker.label, tracker.category = "optimizer", "temporaries"
    clip_gradients(model, config.run.grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _count_whole_gradients(tracker: StorageTracker, model: Model) -> None:
    """Gradients whose reduction is deferred stay whole, and in FSDP's keeping."""
    for module in model.modules():
        group = module._get_fsdp_state()._fsdp_param_group if _is_sharded(module) else None
        for parameter in group.fsdp_params if group is not None else ():
            if parameter.unsharded_accumulated_grad is not None:
                tracker.assign(parameter.unsharded_accumulated_grad, "gradients")


def _is_sharded(module: nn.Module) -> TypeGuard[FSDPModule]:
    return isinstance(module, FSDPModule)


def _hook_labels(tracker: StorageTracker, model: Model, edge: int) -> None:
    """Name the instants after the block that runs, counted from the nearer end."""

    def begin(label: str, category: str, *_: Any) -> None:
        tracker.label, tracker.category = label, category

    def on_gradient(label: str, _: Any, __: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(partial(_begin_backward, tracker, label))

    depth = len(model.blocks)
    model.embed.register_forward_hook(partial(on_gradient, "embedding backward"))
    for index, block in enumerate(model.blocks):
        place = _place(index, depth, edge)
        block.register_forward_pre_hook(partial(begin, f"forward {place}", "activations"))
        block.register_forward_hook(partial(on_gradient, f"backward {place}"))
    model.head.register_forward_pre_hook(partial(begin, "loss", "logits"))


def _begin_backward(tracker: StorageTracker, label: str, _: Tensor) -> None:
    tracker.label, tracker.category = label, "temporaries"


def _place(index: int, depth: int, edge: int) -> str:
    if index < edge:
        return f"first+{index}"
    if index >= depth - edge:
        return f"last-{depth - 1 - index}"
    return "between"


def _rules() -> dict[Any, tuple[str, str]]:
    """FSDP's own buffers, by the operation that fills them."""
    fsdp, c10d = torch.ops.fsdp, torch.ops.c10d
    return {
        fsdp.all_gather_copy_in.default: ("result", "gather buffer"),
        fsdp.split_with_sizes_copy.default: ("out", "gathered parameters"),
        fsdp.chunk_cat.default: ("out", "reduction"),
        c10d._reduce_scatter_base_.default: ("arg0", "gradients"),
    }


def _workspace(operation: Any, arguments: tuple[Any, ...]) -> int:
    """Bytes that flash attention's CUDA backward takes beside its results.

    An fp32 accumulator for the queries' gradient, a row sum, and, with grouped keys, their
    gradients for every query head (FlashAttention-2, mha_bwd in torch's flash_api.cpp).
    """
    if operation is not _aten._scaled_dot_product_flash_attention_backward.default:
        return 0
    query, key = arguments[1], arguments[2]
    batch, heads, length, width = query.shape
    rounded = -(-length // 128) * 128
    padded = -(-width // 32) * 32
    num_bytes = 4 * batch * rounded * heads * (padded + 1)
    if key.shape[1] != heads:
        num_bytes += 2 * query.element_size() * batch * key.shape[2] * heads * width
    return int(num_bytes)
