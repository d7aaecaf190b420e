"""Sustained rates of single kernels by GPU: matrix products, attention, memory traffic.

The figures are medians over data/kernels.csv (each row has its source), as fractions of the dense
peak. Where two sets differ, the sustained one counts: kernels that run for minutes at the power
limit, as training does, not the best shape of a search.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.hardware import Gpu
from advisor.settings import Number

Attention = Literal["flash1", "flash2", "vendor"]

# Share of the peak memory bandwidth that copies reach (hbm_copy rows: 0.88 to 0.93).
HBM_FRACTION = 0.90


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Fractions of the dense peak of a generation, and seconds that one matrix product loses.

    attention: forward of FlashAttention-2 and of the vendor's newest kernel (cuDNN, FlashAttention
    3 and 4) at head_dim 128 and long sequences.
    """

    matmul: dict[str, float]
    matmul_loss_s: float
    attention: dict[Attention, float]


RATES = {
    "volta": Rates(
        matmul={"bf16": 0.70},
        matmul_loss_s=10e-6,
        attention={"flash1": 0.25, "flash2": 0.30, "vendor": 0.30},
    ),
    "ampere": Rates(
        matmul={"bf16": 0.81},
        matmul_loss_s=10e-6,
        attention={"flash1": 0.45, "flash2": 0.58, "vendor": 0.58},
    ),
    "ada": Rates(
        matmul={"bf16": 0.75, "fp8": 0.70},
        matmul_loss_s=6e-6,
        attention={"flash1": 0.45, "flash2": 0.60, "vendor": 0.60},
    ),
    "hopper": Rates(
        matmul={"bf16": 0.68, "fp8": 0.63},
        matmul_loss_s=5e-6,
        attention={"flash1": 0.25, "flash2": 0.38, "vendor": 0.62},
    ),
    "blackwell": Rates(
        matmul={"bf16": 0.63, "fp8": 0.59, "mxfp8": 0.59, "nvfp4": 0.57},
        matmul_loss_s=3.6e-6,
        attention={"flash1": 0.12, "flash2": 0.16, "vendor": 0.52},
    ),
    # Blackwell without the data-centre tensor cores (compute capability 12) behaves as Ada does.
    "blackwell-rtx": Rates(
        matmul={"bf16": 0.75, "fp8": 0.70},
        matmul_loss_s=6e-6,
        attention={"flash1": 0.45, "flash2": 0.60, "vendor": 0.60},
    ),
}
RTX_BLACKWELL = 12
_DEFAULT = "ampere"
# Rates of single GPUs over those of their generation. A power cap of 500 instead of 700 W lowers
# the clock by about the cube root (dynamic power goes with frequency times voltage squared); the
# higher peak of a Grace-Blackwell part is not sustained (1,460 of 2,500 TFLOP/s in kernels.csv);
# H20's few tensor cores stay below the power limit, so nearly all of its peak is.
_SINGLE = {
    "H100-96GB-HBM2e": (500.0 / 700.0) ** (1.0 / 3.0),
    "GB200": 0.92,
    "GB300": 0.92,
    "H20-96GB": 1.35,
}


def rates_of(gpu: Gpu) -> Rates:
    """The rates of a GPU's generation; of Ampere for one that has no rows."""
    name = gpu.architecture.lower()
    if gpu.compute_capability[0] == RTX_BLACKWELL:
        name = "blackwell-rtx"
    return RATES.get(name, RATES[_DEFAULT])


def matmul_rate(gpu: Gpu, precision: str) -> float:
    """FLOP/s of large matrix products; infinite loss (0 FLOP/s) where the GPU lacks the format."""
    peak = gpu.peak_flops.get(precision) or (
        gpu.peak_flops.get("fp16", 0.0) if precision == "bf16" else 0.0
    )
    fractions = rates_of(gpu).matmul
    return peak * fractions.get(precision, fractions["bf16"]) * _SINGLE.get(gpu.name, 1.0)


def matmul_s(gpu: Gpu, precision: str, flops: Number, num_products: Number) -> Number:
    """Seconds of num_products matrix products of `flops` FLOPs in all."""
    rate = matmul_rate(gpu, precision)
    if rate == 0.0:
        return np.inf
    return flops / rate + num_products * rates_of(gpu).matmul_loss_s


def attention_rate(gpu: Gpu, head_dim: int, kernel: Attention) -> float:
    """FLOP/s of causal attention's forward. Narrow heads use the units less well."""
    peak = gpu.peak_flops.get("bf16") or gpu.peak_flops.get("fp16", 1.0)
    narrow = min(1.0, 0.55 + 0.45 * head_dim / 128.0)
    return peak * rates_of(gpu).attention[kernel] * narrow * _SINGLE.get(gpu.name, 1.0)


def hbm_rate(gpu: Gpu) -> float:
    """Bytes per second that streaming kernels move."""
    return gpu.hbm_bytes_per_s * HBM_FRACTION
