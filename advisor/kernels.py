"""Sustained rates of single kernels by GPU: matrix products, attention, memory traffic.

Fractions of the dense peak. Where data/kernels.csv has rows (A100, Hopper, Blackwell; each row has
its source) they are read off it, and where two sets differ the sustained one counts: kernels that
run for minutes at the power limit, as training does, not the best shape of a search. Where it has
none the figure is an estimate, from training rows of data/benchmarks.csv or from a like GPU, and
the comment beside it says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from advisor.hardware import Gpu
from advisor.settings import Number

Attention = Literal["flash1", "flash2", "vendor"]

# Share of the peak memory bandwidth that copies reach (hbm_copy rows: 0.88 to 0.93).
HBM_FRACTION = 0.90
# Of work in a format that the GPU lacks. Finite, so that none of it takes no time.
NEVER_S = 1e30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Fractions of the dense peak of a generation, and seconds that one matrix product loses.

    matmul: large products by format, operands already quantised.
    matmul_loss_s: fill, drain and the last partial wave of one product: what products of 1,024 to
        4,096 lose against large ones.
    attention: forward, causal, at head_dim 128 and long sequences: of FlashAttention 1 (Triton),
        of FlashAttention-2, and of the vendor's newest (cuDNN, FlashAttention 3 and 4).
    """

    matmul: Mapping[str, float]
    matmul_loss_s: float
    attention: Mapping[Attention, float]


RATES: dict[str, Rates] = {
    "volta": Rates(
        matmul={"bf16": 0.70},
        matmul_loss_s=10e-6,
        attention={"flash1": 0.25, "flash2": 0.30, "vendor": 0.30},
    ),
    # 251 to 257 of 312 TFLOP/s. flash1, here and on Hopper, is an estimate from llm-foundry's runs
    # at 32k and 64k tokens (about 0.34 and 0.20 of the peak, forward and backward together).
    "ampere": Rates(
        matmul={"bf16": 0.81},
        matmul_loss_s=10e-6,
        attention={"flash1": 0.41, "flash2": 0.58, "vendor": 0.58},
    ),
    # No rows: an estimate, a little below RTX Blackwell.
    "ada": Rates(
        matmul={"bf16": 0.80, "fp8": 0.75},
        matmul_loss_s=6e-6,
        attention={"flash1": 0.45, "flash2": 0.60, "vendor": 0.60},
    ),
    # 652 of 989 TFLOP/s averaged over sizes on H200; fp8 1,290 to 1,380 of 1,979 on H100.
    "hopper": Rates(
        matmul={"bf16": 0.66, "fp8": 0.68},
        matmul_loss_s=5e-6,
        attention={"flash1": 0.235, "flash2": 0.38, "vendor": 0.62},
    ),
    # 1,420 (B200) to 1,500 (B300) of 2,250 TFLOP/s; mxfp8 2,660 to 2,700; nvfp4 5,400 of 9,000.
    "blackwell": Rates(
        matmul={"bf16": 0.645, "fp8": 0.60, "mxfp8": 0.595, "nvfp4": 0.57},
        matmul_loss_s=3.6e-6,
        attention={"flash1": 0.12, "flash2": 0.16, "vendor": 0.52},
    ),
    # Compute capability 12. No rows: estimates from llmq's bf16 runs on RTX PRO 6000.
    "blackwell-rtx": Rates(
        matmul={"bf16": 0.86, "fp8": 0.80, "mxfp8": 0.75, "nvfp4": 0.60},
        matmul_loss_s=6e-6,
        attention={"flash1": 0.45, "flash2": 0.60, "vendor": 0.60},
    ),
    # No rows: estimates, about 620 of 1,307 TFLOP/s bf16 and 990 of 2,615 fp8 as public comparisons
    # of late 2024 report; attention by analogy with Hopper.
    "cdna3": Rates(
        matmul={"bf16": 0.47, "fp8": 0.38},
        matmul_loss_s=8e-6,
        attention={"flash1": 0.20, "flash2": 0.28, "vendor": 0.35},
    ),
}
_DEFAULT = "ampere"
# The bf16 and fp8 peaks of GB200 are 11 % above those of B200, but its sustained rates are the
# same: 1,460 of 2,500 TFLOP/s bf16, 2,880 of 5,000 fp8. GB300, with 1,400 W instead of 1,200, is
# taken to hold B200's fractions (its Megatron runs are 19 % faster than GB200's). nvfp4 on B300 and
# GB300 has a peak 1.5 times B200's and the same measured 5,100 TFLOP/s.
# Parts that differ from their generation.
_SINGLE: dict[str, Mapping[str, float]] = {
    "GB200": {"bf16": 0.58, "fp8": 0.55, "mxfp8": 0.54, "nvfp4": 0.51},
    "GB300": {"nvfp4": 0.38},
    "B300": {"nvfp4": 0.38},
    # No rows: an estimate. So few tensor cores stay below the power limit, and nearly all of their
    # peak is sustained.
    "H20-96GB": {"bf16": 0.92, "fp8": 0.88},
}
# Attention on H20: H100's seconds are products at its rate and other work; on H20 the products
# take longer and the other work does not, so less of the peak is lost (computed, not measured).
_H20_ATTENTION: Mapping[Attention, float] = {"flash1": 0.65, "flash2": 0.78, "vendor": 0.88}
# Power caps below the usual one of the same chip (watts). That clocks follow about the square root
# is an assumption between the cube root of ideal voltage scaling and a fixed voltage.
_POWER = {"H100-96GB-HBM2e": 500.0 / 700.0}


def rates_of(gpu: Gpu) -> Rates:
    """The rates of a GPU: its generation's and its own; of Ampere for one that has no rows."""
    rates = RATES.get(gpu.architecture.lower(), RATES[_DEFAULT])
    if gpu.name in _SINGLE:
        rates = replace(rates, matmul={**rates.matmul, **_SINGLE[gpu.name]})
    if gpu.name == "H20-96GB":
        rates = replace(rates, attention=_H20_ATTENTION)
    return rates


def _clock(gpu: Gpu) -> float:
    return float(np.sqrt(_POWER.get(gpu.name, 1.0)))


def peak_of(gpu: Gpu, precision: str) -> float:
    """Dense FLOP/s of a format; 0 where the GPU lacks it. fp16 stands in for bf16 before Ampere."""
    peak = gpu.peak_flops.get(precision, 0.0)
    if peak == 0.0 and precision == "bf16":
        return gpu.peak_flops.get("fp16", 0.0)
    return peak


def matmul_rate(gpu: Gpu, precision: str) -> float:
    """FLOP/s of large matrix products; 0 where the GPU lacks the format."""
    fractions = rates_of(gpu).matmul
    fraction = fractions.get(precision, fractions["bf16"])
    return peak_of(gpu, precision) * fraction * _clock(gpu)


def matmul_s(gpu: Gpu, precision: str, flops: Number, num_products: Number) -> Number:
    """Seconds of that matrix products of `flops` FLOPs in all take; NEVER_S without the format."""
    rate = matmul_rate(gpu, precision)
    if rate == 0.0:
        return NEVER_S
    return flops / rate + num_products * rates_of(gpu).matmul_loss_s


def attention_rate(gpu: Gpu, head_dim: int, kernel: Attention) -> float:
    """FLOP/s of causal attention's forward.

    At half the head_dim the products halve and the exponentials stay: about 0.85 of the rate
    (FlashAttention-2, arXiv:2307.08691, figures 4 and 5).
    """
    narrow = min(1.0, 0.70 + 0.30 * head_dim / 128.0)
    return peak_of(gpu, "bf16") * rates_of(gpu).attention[kernel] * narrow * _clock(gpu)


def hbm_rate(gpu: Gpu) -> float:
    """Bytes per second that streaming kernels move."""
    return gpu.hbm_bytes_per_s * HBM_FRACTION
