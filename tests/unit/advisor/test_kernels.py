"""Rates of kernels: within what data/kernels.csv measured."""

import csv
from collections.abc import Iterator
from importlib import resources

import pytest

from advisor.catalog import load_catalog
from advisor.kernels import NEVER_S, RATES, attention_rate, hbm_rate, matmul_rate, matmul_s, peak_of


def rows(what: str) -> Iterator[dict[str, str]]:
    path = resources.files("advisor").joinpath("data/kernels.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["what"] == what:
                yield row


@pytest.mark.parametrize(
    ("gpu", "label", "precision"),
    [
        ("A100-80GB", "fp16", "bf16"),
        ("H100-80GB", "fp8", "fp8"),
        ("GB200", "fp8", "fp8"),
        ("B200", "bf16", "bf16"),
    ],
)
def test_large_products_run_within_six_percent_of_the_measured_rate(
    gpu: str, label: str, precision: str
) -> None:
    measured = sorted(
        float(row["value"]) * 1e12
        for row in rows("gemm")
        if row["gpu"] == gpu
        and row["precision"] == label
        and row["unit"] == "TFLOP/s"
        and any(size in row["shape_or_size"] for size in ("8192", "16384", "6144"))
    )
    assert len(measured) >= 2
    middle = measured[len(measured) // 2]
    assert matmul_rate(load_catalog().gpu(gpu), precision) == pytest.approx(middle, rel=0.06)


def test_copies_stay_below_the_peak_bandwidth() -> None:
    gpu = load_catalog().gpu("H100-80GB")
    assert 0.85 * gpu.hbm_bytes_per_s < hbm_rate(gpu) < gpu.hbm_bytes_per_s


def test_no_rate_exceeds_the_peak() -> None:
    for gpu in load_catalog().gpus.values():
        for precision in gpu.peak_flops:
            if precision != "tf32":
                assert 0.0 < matmul_rate(gpu, precision) <= peak_of(gpu, precision)
        for kernel in ("flash1", "flash2", "vendor"):
            assert 0.0 < attention_rate(gpu, 128, kernel) < peak_of(gpu, "bf16")


def test_newer_attention_kernels_are_no_slower() -> None:
    for rates in RATES.values():
        assert rates.attention["flash1"] <= rates.attention["flash2"] <= rates.attention["vendor"]


def test_narrow_heads_are_slower() -> None:
    gpu = load_catalog().gpu("H100-80GB")
    assert attention_rate(gpu, 64, "flash2") < attention_rate(gpu, 128, "flash2")
    assert attention_rate(gpu, 256, "flash2") == attention_rate(gpu, 128, "flash2")


def test_a_format_that_the_gpu_lacks_never_ends() -> None:
    gpu = load_catalog().gpu("A100-80GB")
    assert matmul_rate(gpu, "fp8") == 0.0
    assert matmul_s(gpu, "fp8", 1e12, 1.0) == NEVER_S


def test_each_product_loses_time_of_its_own() -> None:
    gpu = load_catalog().gpu("H100-80GB")
    assert matmul_s(gpu, "bf16", 1e12, 100.0) > matmul_s(gpu, "bf16", 1e12, 1.0)
    assert matmul_s(gpu, "bf16", 0.0, 1.0) == RATES["hopper"].matmul_loss_s


def test_fp16_stands_in_for_bf16_before_ampere() -> None:
    gpu = load_catalog().gpu("V100-16GB")
    assert peak_of(gpu, "bf16") == 125e12


def test_a_lower_power_cap_lowers_the_rate() -> None:
    catalog = load_catalog()
    capped = matmul_rate(catalog.gpu("H100-96GB-HBM2e"), "bf16")
    assert 0.8 < capped / matmul_rate(catalog.gpu("H100-80GB"), "bf16") < 0.9
