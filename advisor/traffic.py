"""Bytes that one token moves through memory beside the matrix products and attention."""

from advisor.model import ModelShape
from advisor.plan import Precision
from advisor.settings import Number

BF16 = 2.0
# Bytes that one optimizer step moves per parameter beside the states, read and written: weights
# (4 + 4), gradients read for the norm and the update (4 + 4).
UPDATE_BYTES = 16.0
# Quantisation work by format over that of fp8. In kernels of its own as Transformer Engine's, from
# its products with and without quantisation (data/kernels.csv): 10.4 to 11.6 bytes an element for
# fp8 with current scales, 9.4 for mxfp8, 13.4 for nvfp4.
CAST_WORK: dict[Precision, float] = {"bf16": 0.0, "fp8": 1.0, "mxfp8": 0.9, "nvfp4": 1.25}
# torchao's nvfp4 runs a Hadamard-and-maximum pass at about 2.6 TB/s and a quantising pass at 1.0
# (Triton) to 2.5 TB/s (CuteDSL) of GB200's 8 (data/kernels.csv): 15 to 30 bytes an element.
TORCHAO_CAST_WORK: dict[Precision, float] = {**CAST_WORK, "mxfp8": 1.1, "nvfp4": 2.2}
# Scales, casts and transposes as single operations, when neither fused nor compiled.
EAGER_CASTS = 3.0


def fused_bytes(shape: ModelShape) -> float:
    """Bytes per token and block of fused kernels, forward.

    Two norms with their residual (read 2 and write 2 of h each), rotation (read and write q and
    k), activation (read its inputs, write its output), all in 16 bits.
    """
    inputs = 2 if shape.gated_mlp else 1
    rotated = shape.q_size + shape.kv_size if shape.positions == "rope" else 0
    return BF16 * (8 * shape.hidden_size + 2 * rotated + (inputs + 1) * shape.ffn_size)


def eager_bytes(shape: ModelShape) -> float:
    """The same work as eager PyTorch runs it, an operation at a time.

    Residual sum: read 2, write 1. LayerNorm is one kernel: read 1, write 1. RMSNorm by hand is six
    in fp32: cast, square, mean, scale, cast back, weight: 36 bytes an element. Rotation in fp32:
    cast, product, cast back: 20 bytes. SiLU and product: 10; GELU: 4.
    """
    norm = 36 if shape.norm == "rmsnorm" else 4
    rotated = 20 * (shape.q_size + shape.kv_size) if shape.positions == "rope" else 0
    activation = (10 if shape.gated_mlp else 4) * shape.ffn_size
    return float(2 * (norm + 6) * shape.hidden_size + rotated + activation)


def loss_bytes_per_logit(fused: Number) -> Number:
    """Bytes per logit, forward and backward; `fused` is 1 for fused kernels, 0 for eager ones.

    Eager, with an fp32 copy: cast (2 + 4), logarithm of the softmax (4 + 4), its gradient (read 4
    and 4, write 4), product with the scale (4), cast back (4 + 2). Fused: three passes over the
    16-bit logits and the 16-bit gradient, with fp32 in between.
    """
    return 36.0 - 22.0 * fused


def cast_elements(shape: ModelShape, tokens: Number) -> Number:
    """Elements of one block that a step quantises: inputs, gradients, and weights twice."""
    h, q, k, i = shape.hidden_size, shape.q_size, shape.kv_size, shape.ffn_size
    inputs = 2 * h + q + i
    gradients = q + 2 * k + 2 * h + (2 if shape.gated_mlp else 1) * i
    return tokens * (inputs + gradients) + 2.0 * shape.block_matmul_parameters
