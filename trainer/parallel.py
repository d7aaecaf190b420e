"""From a model to a sharded one: checkpointing, then compilation, then sharding, block by block.

The order matters: a compiled block must contain its recomputation, and FSDP's hooks must stay
outside of what is compiled.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from trainer.errors import ConfigError
from trainer.model import Model
from trainer.settings import PlanSettings

_aten = torch.ops.aten
# Every second of these is kept by per-operation checkpointing; attention is kept always.
PRODUCTS = frozenset((_aten.mm.default, _aten.addmm.default, _aten._scaled_mm.default))
ATTENTIONS = frozenset(
    (
        _aten._scaled_dot_product_flash_attention.default,
        _aten._scaled_dot_product_flash_attention_for_cpu.default,
        _aten._scaled_dot_product_efficient_attention.default,
        _aten._scaled_dot_product_cudnn_attention.default,
    )
)
# A low-precision scale: a few bytes, and its recomputation reads the whole tensor.
SCALES = frozenset((_aten.max.default, _aten.amax.default))


def degrees(plan: PlanSettings, world_size: int) -> tuple[int, int]:
    """(replicas, shards). Raises ConfigError where they do not make up the world."""
    shards = plan.shard_degree or world_size // plan.replica_degree
    if shards * plan.replica_degree != world_size:
        raise ConfigError(
            [
                f"shard_degree {shards} × replica_degree {plan.replica_degree} "
                f"is not the number of processes, {world_size}"
            ]
        )
    return plan.replica_degree, shards


def make_mesh(plan: PlanSettings, world_size: int, device_type: str) -> DeviceMesh:
    """One dimension of shards, or replicas × shards (HSDP)."""
    replicas, shards = degrees(plan, world_size)
    if replicas == 1:
        return init_device_mesh(device_type, (shards,), mesh_dim_names=("shard",))
    return init_device_mesh(device_type, (replicas, shards), mesh_dim_names=("replicate", "shard"))


def parallelize(
    model: Model, plan: PlanSettings, mesh: DeviceMesh, *, compiler: str = "inductor"
) -> FSDPModule:
    """Checkpoint, compile and shard the model in place; parameters may be on meta."""
    apply_checkpointing(model, plan)
    if plan.compile:
        for block in model.blocks:
            block.compile(fullgraph=True, backend=compiler)
    return shard(model, plan, mesh)


def apply_checkpointing(model: Model, plan: PlanSettings) -> None:
    """Wrap the blocks whose activations are recomputed."""
    if plan.activation_checkpointing == "none":
        return
    for index, block in enumerate(model.blocks):
        wrapped = _checkpointed(block, index, plan)
        model.blocks[index] = wrapped


def _checkpointed(block: nn.Module, index: int, plan: PlanSettings) -> nn.Module:
    if plan.activation_checkpointing == "full":
        return checkpoint_wrapper(block, preserve_rng_state=False)
    if plan.checkpoint_every == 0:
        return checkpoint_wrapper(block, context_fn=per_operation, preserve_rng_state=False)
    whole = index % plan.checkpoint_every == 0
    return checkpoint_wrapper(block, preserve_rng_state=False) if whole else block


def per_operation() -> tuple[Any, Any]:
    """Contexts that keep attention and every second matrix product of a block."""
    counts: dict[bool, int] = defaultdict(int)
    result: tuple[Any, Any] = create_selective_checkpoint_contexts(partial(_policy, counts))
    return result


def _policy(
    counts: dict[bool, int], context: Any, operation: Any, *_: Any, **__: Any
) -> CheckpointPolicy:
    if operation in PRODUCTS:
        counts[context.is_recompute] += 1
        kept = counts[context.is_recompute] % 2 == 1
    else:
        kept = operation in ATTENTIONS or operation in SCALES
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def shard(model: Model, plan: PlanSettings, mesh: DeviceMesh) -> FSDPModule:
    """fully_shard: embedding, each block, the head, then the root with what is left.

    A tied embedding and head stay together in the root, which is gathered from its forward to its
    backward.
    """
    kind = torch.float32 if plan.precision == "fp32" else torch.bfloat16
    policy = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32)
    wrap: Callable[..., Any] = partial(fully_shard, mesh=mesh, mp_policy=policy)
    tied = model.settings.tied_embeddings
    if not tied:
        wrap(model.embed, reshard_after_forward=plan.reshard_after_forward)
    for block in model.blocks:
        wrap(block, reshard_after_forward=plan.reshard_after_forward)
    if not tied:
        # Its backward follows at once: freeing it would gather it twice in a row.
        wrap(model.head, reshard_after_forward=False)
    root: FSDPModule = wrap(model)
    return root


def synchronise_gradients(root: FSDPModule, plan: PlanSettings, *, last: bool) -> None:
    """Whether the coming backward reduces gradients, by the plan's choice."""
    root.set_requires_gradient_sync(last or plan.gradient_sync == "each")


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a DTensor; any other tensor as it is."""
    part = getattr(tensor, "to_local", None)
    return part() if part is not None else tensor
