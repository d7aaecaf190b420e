"""Seconds of one step: a roofline per class of work, and what of the communication stays exposed.

All functions take one plan's settings or many as arrays that broadcast. docs/throughput.md has the
equations with their references and how they compare with measurements.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from advisor.case import Case
from advisor.hardware import Gpu, Instance
from advisor.kernels import attention_rate, hbm_rate, matmul_s, peak_of, rates_of
from advisor.model import ModelShape
from advisor.plan import PRECISIONS, Precision
from advisor.settings import Code, Number, Settings, total
from advisor.stack import Stack
from advisor.throughput_factors import ThroughputFactors
from advisor.traffic import (
    CAST_WORK,
    EAGER_CASTS,
    TORCHAO_CAST_WORK,
    UPDATE_BYTES,
    cast_elements,
    eager_bytes,
    fused_bytes,
    loss_bytes_per_logit,
)

# Kernels of one block: an eager forward launches about 60 (norms, rotary embedding and activation
# in several steps each), a compiled one about 20; a backward twice as many.
EAGER_KERNELS, COMPILED_KERNELS = 60.0, 20.0
MATMULS_PER_BLOCK = 7.0
GIGABIT = 1e9 / 8.0
# All-reduce over PCIe reaches 41 of 64 GB/s (RTX PRO 6000, data/kernels.csv), where NVLink reaches
# the share that intra_link says: GPUs share the bridges of their host.
PCIE_SHARED = 0.84
_NETWORK = re.compile(
    r"(?P<gbps>[0-9]+) ?Gb(?:ps|/s) (?P<unit>per node|RoCE|RDMA per GPU)",
)
# Gbit/s for each GPU of clusters whose network is stated for some of their rows: fms-fsdp's README
# has 400 Gbit/s per node of its A100 and 800 of its H100 (taken for its blog's rows too).
_CLUSTERS = {("fms-fsdp", "ampere"): 50.0, ("fms-fsdp", "hopper"): 100.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Bandwidth between GPUs, per GPU and direction: within a machine, and over its network."""

    intra_bytes_per_s: float
    inter_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One optimizer step.

    terms: exposed seconds by name; they sum to step_s.
    mfu_per_token: MFU that one token a second on a GPU is worth, see mfu_fraction.
    """

    step_s: Number
    tokens_per_s_per_gpu: Number
    num_gpus: Number
    mfu_per_token: Number
    terms: Mapping[str, Number]

    @property
    def tokens_per_s(self) -> Number:
        """Tokens a second of all GPUs."""
        return self.tokens_per_s_per_gpu * self.num_gpus

    @property
    def mfu_fraction(self) -> Number:
        """6 FLOPs per matmul parameter and token plus causal attention, over the dense bf16 peak.

        Causal attention counts half of the square; recomputation does not count.
        """
        return self.tokens_per_s_per_gpu * self.mfu_per_token


def fabric_of(instance: Instance) -> Fabric:
    """The fabric of an instance type."""
    return Fabric(
        intra_bytes_per_s=_intra_bytes_per_s(instance.gpu),
        inter_bytes_per_s=instance.network_bytes_per_s_per_gpu,
    )


def fabric_for_case(case: Case) -> Fabric:
    """The fabric of a stored result: the GPU's own links, and the network that the source states.

    Where it states none: 400 Gbit/s for each GPU from Hopper on (DGX H100 and later), and
    200 Gbit/s before (DGX A100).
    """
    recent = case.gpu.compute_capability >= (9, 0)
    gbps = _stated_gbps(case) or (400.0 if recent else 200.0)
    return Fabric(
        intra_bytes_per_s=_intra_bytes_per_s(case.gpu),
        inter_bytes_per_s=gbps * GIGABIT,
    )


def _intra_bytes_per_s(gpu: Gpu) -> float:
    return gpu.nvlink_bytes_per_s or PCIE_SHARED * gpu.pcie_bytes_per_s


def _stated_gbps(case: Case) -> float | None:
    """Network of one GPU as a result's notes state it, for the GPU or for a machine of eight."""
    match = _NETWORK.search(case.result.notes or "")
    if match:
        share = 1.0 if match["unit"].endswith("GPU") else 8.0
        return float(match["gbps"]) / share
    return _CLUSTERS.get((case.stack.name, case.gpu.architecture))


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
    # From the terms that few choices touch to those of all of them: the sums stay small.
    micro = {
        "memory-bound work": memory_s[0] + memory_s[1],
        "loss": _loss_s(shape, settings, stack, gpu),
        "attention": attention_s[0] + attention_s[1],
        "precision casts": _cast_s(shape, settings, stack, gpu, factors),
        "matrix products": 3.0 * forward_s + _head_s(shape, settings, gpu, factors),
        "recomputation": _recompute_s(shape, settings, forward_s, attention_s[0], memory_s[0]),
    }
    compute_s = total(micro)
    steps = settings.accumulation_steps
    # The GPU waits for the host where launching takes longer than computing.
    busy_s = np.maximum(compute_s, _launch_s(shape, settings, stack, factors))
    terms = {
        "optimizer": _optimizer_s(shape, settings, stack, gpu, factors),
        **{name: steps * value for name, value in micro.items()},
        "host launches": steps * (busy_s - compute_s),
        **_exposed(shape, settings, stack, fabric, busy_s, factors),
        "loss slices": steps * (settings.loss_chunks - 1.0) * _slice_s(gpu),
    }
    step_s = total(terms)
    flops = 3.0 * _forward_flops_per_token(shape, settings)
    return StepTime(
        step_s=step_s,
        tokens_per_s_per_gpu=settings.tokens * steps / step_s,
        num_gpus=settings.num_gpus,
        mfu_per_token=flops / peak_of(gpu, "bf16"),
        terms=terms,
    )


def _by_precision(code: Code, values: Mapping[Precision, Number]) -> Number:
    """The value of each plan's precision; a format that the GPU lacks has none (NEVER_S)."""
    if isinstance(code, int):
        return values[PRECISIONS[code]]
    return np.choose(code, [np.asarray(values[name]) for name in PRECISIONS])


def _forward_flops_per_token(shape: ModelShape, settings: Settings) -> Number:
    matmul = shape.num_layers * shape.block_matmul_parameters + shape.head_matmul_parameters
    attention = 2.0 * shape.num_layers * shape.q_size * shape.attended_tokens(settings.seq_len)
    return 2.0 * (matmul + attention)


def _matmul_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> Number:
    """Forward matrix products of all blocks, one micro step."""
    flops = 2.0 * settings.tokens * shape.num_layers * shape.block_matmul_parameters
    products = MATMULS_PER_BLOCK * shape.num_layers
    seconds = {name: matmul_s(gpu, name, flops, products) for name in PRECISIONS}
    kept = stack.nvfp4_bf16_fraction
    if kept > 0.0:
        seconds["nvfp4"] = (1.0 - kept) * seconds["nvfp4"] + kept * seconds["bf16"]
    return _by_precision(settings.precision, seconds) / factors.matmul


def _head_s(shape: ModelShape, settings: Settings, gpu: Gpu, factors: ThroughputFactors) -> Number:
    """Forward and backward of the output head, which stays in bf16."""
    flops = 6.0 * settings.tokens * shape.head_matmul_parameters
    return matmul_s(gpu, "bf16", flops, 3.0) / factors.matmul


def _slice_s(gpu: Gpu) -> float:
    """Seconds that each further slice of the loss costs: three more products fill and drain."""
    return 3.0 * rates_of(gpu).matmul_loss_s


def _attention_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> tuple[Number, Number]:
    """Attention forward and backward (2.5 times the FLOPs: Dao 2023, arXiv:2307.08691)."""
    flops = (
        4.0
        * settings.tokens
        * shape.attended_tokens(settings.seq_len)
        * shape.q_size
        * shape.num_layers
    )
    rate = attention_rate(gpu, shape.head_dim, stack.attention)
    forward = flops / rate / factors.attention
    return forward, 2.5 * forward * factors.attention_backward


def _memory_bound_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> tuple[Number, Number]:
    """Norms, residuals, rotary embedding and activation: bytes moved over bandwidth.

    The backward moves twice as much as the forward.
    """
    fused = fused_bytes(shape)
    eager = np.maximum(eager_bytes(shape) * factors.eager_traffic, fused)
    per_token = eager + _is_fused(settings, stack) * (fused - eager)
    forward = settings.tokens * shape.num_layers * per_token / hbm_rate(gpu)
    return forward, 2.0 * forward


def _is_fused(settings: Settings, stack: Stack) -> Number:
    fused: Number = np.maximum(settings.compiled, float(stack.optimized))
    return fused


def _cast_s(
    shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu, factors: ThroughputFactors
) -> Number:
    """Quantisation of the inputs and gradients of the blocks' linear layers, both orientations."""
    elements = shape.num_layers * cast_elements(shape, settings.tokens)
    seconds = elements * factors.cast_bytes / hbm_rate(gpu)
    if not stack.fused_casts:
        seconds = seconds * (EAGER_CASTS - settings.compiled * (EAGER_CASTS - 1.0))
    work = CAST_WORK if stack.fused_casts else TORCHAO_CAST_WORK
    share = {name: seconds * work[name] for name in PRECISIONS}
    share["nvfp4"] = share["nvfp4"] * (1.0 - stack.nvfp4_bf16_fraction)
    return _by_precision(settings.precision, share)


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


def _loss_s(shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu) -> Number:
    """Cross-entropy: passes over the logits."""
    fused = np.maximum(settings.compiled, float(stack.optimized or stack.built_in_loss_chunks > 0))
    moved = loss_bytes_per_logit(fused)
    return settings.tokens * shape.vocab_size * moved / hbm_rate(gpu)


def _launch_s(
    shape: ModelShape, settings: Settings, stack: Stack, factors: ThroughputFactors
) -> Number:
    """Host time to launch one micro step's kernels."""
    kernels = EAGER_KERNELS + _is_fused(settings, stack) * (COMPILED_KERNELS - EAGER_KERNELS)
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
    across = np.minimum(intra, machine)
    link: Number = np.where(group > settings.gpus_per_instance, across, intra)
    return link


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
    latency = calls * (factors.call_s + factors.hop_s * (group - 1.0))
    moving = num_bytes * share / _link(settings, fabric, factors, group)
    seconds: Number = np.where(np.asarray(group) > 1.0, moving + latency, 0.0)
    return seconds


def _exposed(
    shape: ModelShape,
    settings: Settings,
    stack: Stack,
    fabric: Fabric,
    busy_s: Number,
    factors: ThroughputFactors,
) -> dict[str, Number]:
    """What collectives add to a step: what outlasts the compute, and their slow-down of it."""
    total = shape.num_parameters
    steps = settings.accumulation_steps
    units = shape.num_layers + 2.0
    if stack.engine == "ddp":
        reduced = _ring_s(
            2.0 * stack.grad_bytes * total, units, settings, fabric, factors, settings.num_gpus
        )
        return {"all-reduce": _beside(reduced, busy_s * 2.0 / 3.0, factors)}
    group = settings.shard_degree
    # Gathered once for the forward, and again for the backward when it was freed.
    gathers = 1.0 + settings.reshard
    gather = _ring_s(
        gathers * stack.gather_bytes * total, gathers * units, settings, fabric, factors, group
    )
    scatter = _ring_s(stack.reduce_bytes * total, units, settings, fabric, factors, group)
    exposed = _beside(gather + scatter, busy_s, factors)
    gathering = exposed * (gather / np.maximum(gather + scatter, 1e-30))
    scattering = exposed - gathering
    # Copies reduce after the scatters of the backward, beside what those leave of its compute.
    left_s = np.maximum(busy_s - (gather + scatter), 0.0) / 3.0
    copying = _beside(_replicas_s(shape, settings, stack, fabric, factors), left_s, factors)
    # With a deferred reduction only the last micro step has one.
    reductions = np.where(np.asarray(settings.defer_sync) > 0, 1.0, steps)
    only_gathering = _beside(gather, busy_s, factors)
    return {
        # (steps - reductions) · only_gathering + reductions · gathering, in fewer full-size sums.
        "all-gather": steps * only_gathering + reductions * (gathering - only_gathering),
        "reduce-scatter": reductions * scattering,
        "all-reduce of copies": reductions * copying,
    }


def _replicas_s(
    shape: ModelShape, settings: Settings, stack: Stack, fabric: Fabric, factors: ThroughputFactors
) -> Number:
    """All-reduce of sharded gradients between copies, each GPU over its own network card."""
    copies = settings.replica_degree
    shard = stack.reduce_bytes * shape.num_parameters / settings.shard_degree
    link = fabric.inter_bytes_per_s * factors.inter_link
    inside = settings.num_gpus <= settings.gpus_per_instance
    links = np.where(inside, fabric.intra_bytes_per_s * factors.intra_link, link)
    latency = (shape.num_layers + 2.0) * factors.call_s
    seconds: Number = 2.0 * shard * (copies - 1.0) / copies / links + latency * (copies > 1)
    return seconds


def _beside(communication_s: Number, busy_s: Number, factors: ThroughputFactors) -> Number:
    """Exposed time of communication that runs beside compute (or its launches).

    What is longer than that stays; what runs beside it slows it by the contention, for it
    takes memory bandwidth and multiprocessors.
    """
    hidden = np.minimum(communication_s, busy_s)
    exposed: Number = communication_s - (1.0 - factors.contention) * hidden
    return exposed
