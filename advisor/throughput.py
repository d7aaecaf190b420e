"""Seconds of one step: a roofline per class of work, and what of the communication stays exposed.

All functions take one plan's settings or many as arrays that broadcast. docs/throughput.md has the
equations with their references and how they compare with measurements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from advisor.case import Case
from advisor.hardware import Gpu, Instance
from advisor.kernels import attention_rate, hbm_rate, matmul_s
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import Code, FloatArray, Number, Settings
from advisor.stack import Stack
from advisor.throughput_factors import ThroughputFactors, load_factors

BF16 = 2.0
# Kernels of one block: an eager forward launches about 60 (norms, rotary embedding and activation
# in several steps each), a compiled one about 20; a backward twice as many.
EAGER_KERNELS, COMPILED_KERNELS = 60.0, 20.0
MATMULS_PER_BLOCK = 7.0
# Bytes that one optimizer step moves per parameter beside the states, read and written: weights
# (4 + 4), gradients read for the norm and the update (4 + 4).
UPDATE_BYTES = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Bandwidth between GPUs, per GPU and direction: within a machine, and over its network."""

    intra_bytes_per_s: float
    inter_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One optimizer step.

    terms: exposed seconds by name; they sum to step_s. mfu_fraction: 6 FLOPs per matmul parameter
    and token plus causal attention, over the dense bf16 peak.
    """

    step_s: Number
    tokens_per_s_per_gpu: Number
    tokens_per_s: Number
    mfu_fraction: Number
    terms: Mapping[str, Number]


def fabric_of(instance: Instance) -> Fabric:
    """The fabric of an instance type."""
    return Fabric(
        intra_bytes_per_s=instance.gpu.interconnect_bytes_per_s,
        inter_bytes_per_s=instance.network_bytes_per_s_per_gpu,
    )


def fabric_for_case(case: Case) -> Fabric:
    """The fabric of a stored result: the GPU's own links, and a network of its generation.

    Where the source states none: 400 Gbit/s for each GPU from Hopper on (DGX H100 and later), and
    200 Gbit/s before (DGX A100).
    """
    recent = case.gpu.compute_capability >= (9, 0)
    return Fabric(
        intra_bytes_per_s=case.gpu.interconnect_bytes_per_s,
        inter_bytes_per_s=50e9 if recent else 25e9,
    )


def step_time(
    shape: ModelShape,
    settings: Settings,
    stack: Stack,
    gpu: Gpu,
    fabric: Fabric,
    factors: ThroughputFactors,
) -> StepTime:
    """Seconds of one optimizer step and what follows from it."""
    forward_s = _matmul_s(shape, settings, stack, gpu, factors)
    attention_s = _attention_s(shape, settings, stack, gpu, factors)
    memory_s = _memory_bound_s(shape, settings, stack, gpu, factors)
    casts_s = _cast_s(shape, settings, gpu, factors)
    head_s = _head_s(shape, settings, gpu, factors)
    recompute_s = _recompute_s(shape, settings, forward_s, attention_s[0], memory_s[0])
    micro = {
        "matrix products": 3.0 * forward_s + head_s,
        "attention": attention_s[0] + attention_s[1],
        "recomputation": recompute_s,
        "memory-bound work": memory_s[0] + memory_s[1],
        "precision casts": casts_s,
        "loss": _loss_s(shape, settings, stack, gpu, factors),
    }
    compute_s = _total(micro)
    launch_s = _launch_s(shape, settings, stack, factors)
    steps = settings.accumulation_steps
    exposed = _exposed(shape, settings, stack, fabric, compute_s, factors)
    terms = {
        **{name: steps * value for name, value in micro.items()},
        "host launches": steps * np.maximum(launch_s - compute_s, 0.0),
        **exposed,
        "optimizer": _optimizer_s(shape, settings, stack, gpu, factors),
    }
    step_s = _total(terms)
    tokens = settings.tokens * steps
    per_gpu = tokens / step_s
    flops = 3.0 * _forward_flops_per_token(shape, settings)
    return StepTime(
        step_s=step_s,
        tokens_per_s_per_gpu=per_gpu,
        tokens_per_s=per_gpu * settings.num_gpus,
        mfu_fraction=per_gpu * flops / gpu.peak_flops.get("bf16", np.inf),
        terms=terms,
    )


def _total(terms: Mapping[str, Number]) -> Number:
    return reduce(lambda left, right: left + right, terms.values(), 0.0)


def _by_precision(code: Code, values: Mapping[str, Number]) -> Number:
    """The value of each plan's precision; a format that the GPU lacks has none (infinite)."""
    if isinstance(code, int):
        return values[PRECISIONS[code]]
    return np.choose(code, [np.asarray(values[name]) for name in PRECISIONS])


def _attended(shape: ModelShape, settings: Settings) -> Number:
    """Mean number of keys that a token attends to, causal."""
    half = settings.seq_len / 2.0
    return half if shape.sliding_window is None else np.minimum(half, shape.sliding_window)


def _forward_flops_per_token(shape: ModelShape, settings: Settings) -> Number:
    matmul = shape.num_layers * shape.block_matmul_parameters + shape.head_matmul_parameters
    attention = 2.0 * shape.num_layers * shape.q_size * _attended(shape, settings)
    return 2.0 * (matmul + attention)


def _matmul_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> Number:
    """Forward matrix products of all blocks, one micro step."""
    flops = 2.0 * settings.tokens * shape.num_layers * shape.block_matmul_parameters
    products = MATMULS_PER_BLOCK * shape.num_layers
    seconds = {name: matmul_s(gpu, name, flops, products) for name in PRECISIONS}
    return _by_precision(settings.precision, seconds) / factors.matmul


def _head_s(shape: ModelShape, settings: Settings, gpu: Gpu, factors: ThroughputFactors) -> Number:
    """Forward and backward of the output head, which stays in bf16."""
    flops = 6.0 * settings.tokens * shape.head_matmul_parameters
    return matmul_s(gpu, "bf16", flops, 3.0 * settings.loss_chunks) / factors.matmul


def _attention_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> tuple[Number, Number]:
    """Attention forward and backward (2.5 times the FLOPs: Dao 2023, arXiv:2307.08691)."""
    flops = 4.0 * settings.tokens * _attended(shape, settings) * shape.q_size * shape.num_layers
    rate = attention_rate(gpu, shape.head_dim, stack.attention)
    forward = flops / rate / factors.attention
    return forward, 2.5 * forward * factors.attention_backward


def _memory_bound_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> tuple[Number, Number]:
    """Norms, residuals, rotary embedding and activation: bytes moved over bandwidth.

    Fused: two norms with their residual (read 2, write 2 of h each), rotation (read and write q and
    k), activation (read its inputs, write the product). The backward moves twice as much.
    """
    h, q, k, i = shape.hidden_size, shape.q_size, shape.kv_size, shape.ffn_size
    inputs = 2 if shape.gated_mlp else 1
    fused = BF16 * (8 * h + 2 * (q + k) + (inputs + 1) * i)
    is_fused = np.maximum(settings.compiled, float(stack.optimized))
    eager = fused * factors.eager_traffic
    per_token = eager + is_fused * (fused - eager)
    forward = settings.tokens * shape.num_layers * per_token / hbm_rate(gpu)
    return forward, 2.0 * forward


def _cast_s(shape: ModelShape, settings: Settings, gpu: Gpu, factors: ThroughputFactors) -> Number:
    """Quantisation of the inputs and gradients of the blocks' linear layers, both orientations."""
    h, q, k, i = shape.hidden_size, shape.q_size, shape.kv_size, shape.ffn_size
    inputs = 2 * h + q + i
    gradients = q + 2 * k + 2 * h + (2 if shape.gated_mlp else 1) * i
    weights = shape.block_matmul_parameters
    elements = settings.tokens * (inputs + gradients) + 2.0 * weights
    seconds = shape.num_layers * elements * factors.cast_bytes / hbm_rate(gpu)
    # A micro-scaled format is written along rows and along columns, each from its own read; NVFP4
    # adds a Hadamard transform and stochastic rounding.
    share = {"bf16": 0.0, "fp8": 1.0, "mxfp8": 2.2, "nvfp4": 5.0}
    return _by_precision(settings.precision, {name: seconds * share[name] for name in PRECISIONS})


def _recompute_s(
    shape: ModelShape, settings: Settings, forward_s: Number, attention_s: Number, memory_s: Number
) -> Number:
    """The forward again of what is checkpointed."""
    h, q, k, i = shape.hidden_size, shape.q_size, shape.kv_size, shape.ffn_size
    # Per operation: every second product (k, o, and up of a gated MLP or down of a plain one).
    share = (h * k + q * h + h * i) / shape.block_matmul_parameters
    return settings.full_fraction * (forward_s + attention_s + memory_s) + settings.op_fraction * (
        share * forward_s + memory_s
    )


def _loss_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> Number:
    """Cross-entropy: passes over the logits, in fp32 unless fused."""
    fused = np.maximum(settings.compiled, float(stack.optimized or stack.built_in_loss_chunks > 0))
    bytes_per_logit = 36.0 - 22.0 * fused
    return settings.tokens * shape.vocab_size * bytes_per_logit / hbm_rate(gpu)


def _launch_s(
    shape: ModelShape, settings: Settings, stack: Stack, factors: ThroughputFactors
) -> Number:
    """Host time to launch one micro step's kernels."""
    is_fused = np.maximum(settings.compiled, float(stack.optimized))
    kernels = EAGER_KERNELS + is_fused * (COMPILED_KERNELS - EAGER_KERNELS)
    passes = 3.0 + settings.full_fraction + settings.op_fraction
    return shape.num_layers * kernels * passes * factors.launch_s


def _optimizer_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> Number:
    """AdamW reads and writes its states, weights and gradients once."""
    shards = settings.num_gpus if stack.master_bytes else settings.shard_degree
    moved = UPDATE_BYTES + 2.0 * settings.state_bytes
    return moved * shape.num_parameters / shards / hbm_rate(gpu) + factors.step_s


def _link(settings: Settings, fabric: Fabric, factors: ThroughputFactors, group: Number) -> Number:
    """Bus bandwidth of a ring collective over `group` GPUs, per GPU.

    Within a machine the GPU's own links; across machines all network cards of a machine work for
    each ring, so a machine's network is shared by its GPUs' rings but no faster than the links.
    """
    intra = fabric.intra_bytes_per_s * factors.intra_link
    machine = fabric.inter_bytes_per_s * settings.gpus_per_instance * factors.inter_link
    return np.where(group > settings.gpus_per_instance, np.minimum(intra, machine), intra)


def _ring_s(
    num_bytes: Number,
    calls: Number,
    settings: Settings,
    fabric: Fabric,
    factors: ThroughputFactors,
    group: Number,
) -> Number:
    """Seconds of all-gathers (or reduce-scatters) of num_bytes in all, in so many calls."""
    share = (group - 1.0) / group
    latency = calls * (factors.call_s + factors.hop_s * (group - 1.0)) * (group > 1)
    return num_bytes * share / _link(settings, fabric, factors, group) + latency


def _exposed(
    shape: ModelShape,
    settings: Settings,
    stack: Stack,
    fabric: Fabric,
    compute_s: Number,
    factors: ThroughputFactors,
) -> dict[str, Number]:
    """What collectives add to a step: what does not fit beside compute, and their slow-down of it."""
    total = shape.num_parameters
    steps = settings.accumulation_steps
    units = shape.num_layers + 2.0
    if stack.engine == "ddp":
        reduced = _ring_s(
            2.0 * stack.grad_bytes * total, units, settings, fabric, factors, settings.num_gpus
        )
        return {"all-reduce": _beside(reduced, compute_s * 2.0 / 3.0, factors)}
    group = settings.shard_degree
    # Gathered once for the forward, and again for the backward when it was freed.
    gathers = 1.0 + settings.reshard
    gather = _ring_s(
        gathers * stack.gather_bytes * total, gathers * units, settings, fabric, factors, group
    )
    scatter = _ring_s(stack.reduce_bytes * total, units, settings, fabric, factors, group)
    reductions = np.where(settings.defer_sync > 0, 1.0, steps)
    exposed_all = steps * _beside(gather + scatter, compute_s, factors)
    share = gather / np.maximum(gather + scatter, 1e-30)
    saved = (steps - reductions) / steps
    copies = settings.replica_degree
    replicas = _replicas_s(shape, settings, stack, fabric, factors) * reductions
    return {
        "all-gather": exposed_all * share,
        "reduce-scatter": exposed_all * (1.0 - share) * (1.0 - saved),
        "all-reduce of copies": np.where(
            copies > 1, reductions * _beside(replicas / reductions, compute_s / 3.0, factors), 0.0
        ),
    }


def _replicas_s(
    shape: ModelShape, settings: Settings, stack: Stack, fabric: Fabric, factors: ThroughputFactors
) -> Number:
    """All-reduce of sharded gradients between copies: each GPU's shard over its own network card."""
    copies = settings.replica_degree
    shard = stack.reduce_bytes * shape.num_parameters / settings.shard_degree
    link = fabric.inter_bytes_per_s * factors.inter_link
    inside = settings.num_gpus <= settings.gpus_per_instance
    link = np.where(inside, fabric.intra_bytes_per_s * factors.intra_link, link)
    latency = (shape.num_layers + 2.0) * factors.call_s
    return 2.0 * shard * (copies - 1.0) / copies / link + latency * (copies > 1)


def _beside(communication_s: Number, compute_s: Number, factors: ThroughputFactors) -> Number:
    """Exposed time of communication that runs beside compute.

    What is longer than the compute stays; what runs beside it slows it, for it takes memory
    bandwidth and multiprocessors.
    """
    hidden = np.minimum(communication_s, compute_s)
    return communication_s - hidden + factors.contention * hidden


__all__ = [
    "Fabric",
    "FloatArray",
    "StepTime",
    "ThroughputFactors",
    "fabric_for_case",
    "fabric_of",
    "load_factors",
    "step_time",
]
