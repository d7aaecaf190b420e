"""What one block keeps for its backward, in bytes per token.

Widths: h hidden, q heads × head_dim, k kv heads × head_dim, i MLP. Activations are bf16 (2 bytes).
Reference: the saved tensors of each operation, as in Korthikanti et al. 2022 (arXiv:2205.05198,
section 4), with flash attention (its log-sum-exp instead of the score matrix), grouped keys and
values, gated MLPs, and per-operation checkpointing as torchtitan's policy does it. What a compiled
block keeps is what torch's min-cut partitioner decides (counted in tests/contract).
"""

from dataclasses import dataclass

import numpy as np

from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import Number, Settings
from advisor.stack import Stack

BF16 = 2.0
FP32 = 4.0
# NVFP4: 4-bit elements and one FP8 scale per 16 of them (OCP-like block format, NVIDIA NVFP4).
NVFP4 = 0.5 + 1.0 / 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockBytes:
    """Bytes per token of one block.

    kept: everything that the backward needs; per_op: what per-operation checkpointing keeps;
    full: the input alone; transient: gradients and recomputed products alive during its backward.
    """

    kept: Number
    per_op: Number
    full: Number
    transient: Number


def block_bytes(shape: ModelShape, settings: Settings, stack: Stack) -> BlockBytes:
    """Bytes per token that one block keeps, by way of checkpointing."""
    h, q, i = shape.hidden_size, shape.q_size, shape.ffn_size
    k = q if stack.expand_kv else shape.kv_size
    log_sum_exp = FP32 * shape.num_heads
    attention = BF16 * (q + 2 * k + q) + log_sum_exp
    if shape.qk_norm:
        attention += BF16 * (shape.q_size + shape.kv_size)
    residuals = BF16 * 2 * h
    norm_outputs = BF16 * 2 * h
    product = BF16 * i
    # A fused kernel computes the activated gate again from the gate.
    fused = np.maximum(settings.compiled, float(stack.optimized))
    mlp = BF16 * i * (3.0 - fused) if shape.gated_mlp else BF16 * i
    kept_bf16 = residuals + norm_outputs + attention + mlp + product
    kept_bf16 += stack.block_extra_bytes * h
    eager = 1.0 - settings.compiled
    # Eager float8 linears of 2024 kept their cast input (1 byte) and a scaled bf16 copy (2).
    fp8_casts = stack.eager_fp8_bytes * (3 * h + q + (2 if shape.gated_mlp else 1) * h + i)
    norms_fp32 = FP32 * 2 * h * eager if stack.full_precision_norms else 0.0
    kept = (
        _by_precision(
            settings,
            bf16=kept_bf16,
            # Compiled casts recompute what they can from bf16 inputs (torchao float8, mxfp8);
            # eager ones keep both. NVFP4 keeps the quantised inputs.
            fp8=kept_bf16 - settings.compiled * (norm_outputs + product) + eager * fp8_casts,
            mxfp8=kept_bf16,
            nvfp4=kept_bf16 - (1.0 - NVFP4 / BF16) * (norm_outputs + product),
        )
        + norms_fp32
    )
    per_op = _per_operation(shape, settings, log_sum_exp, eager * fp8_casts)
    # Fused kernels write the gradient of the activation over its input.
    transient = BF16 * h
    if not stack.optimized:
        transient += BF16 * (2 * i if shape.gated_mlp else i)
    return BlockBytes(kept=kept, per_op=per_op, full=BF16 * h, transient=transient)


def _per_operation(
    shape: ModelShape, settings: Settings, log_sum_exp: float, eager_casts: Number
) -> Number:
    """What per-operation checkpointing keeps.

    torchtitan's policy keeps every second matrix product (q, v, gate or up, down) and attention's
    output. Nothing in the backward reads the product of down, and a compiler leaves it out.
    """
    h, q, k, i = shape.hidden_size, shape.q_size, shape.kv_size, shape.ffn_size
    down = h * (1.0 - settings.compiled) if shape.gated_mlp else 0.0
    bf16 = BF16 * (h + q + k + q + i + down) + log_sum_exp
    return _by_precision(
        settings,
        bf16=bf16,
        fp8=bf16 + eager_casts,
        mxfp8=bf16,
        # Its products are custom operations that the policy does not keep, but for the block's
        # last one, whose output is the residual; keys and attention's output remain.
        nvfp4=BF16 * (2 * h + q + k) + log_sum_exp,
    )


def _by_precision(settings: Settings, **values: Number) -> Number:
    """The value of each plan's precision; values may themselves be arrays."""
    code = settings.precision
    if isinstance(code, int):
        return values[PRECISIONS[code]]
    return np.choose(code, [np.asarray(values[name]) for name in PRECISIONS])
