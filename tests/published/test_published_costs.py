"""Published figures of hardware and prices, each with its source."""

import csv
from decimal import Decimal
from importlib import resources

import pytest

from advisor.catalog import find_gpu, find_instance, load_catalog
from advisor.cost import FAILURES_PER_GPU_S, Cost, Overheads, Terms, cost_of, terms_for
from advisor.units import GIB, MIB
from advisor.workload import PricingKind

NONE = Overheads(start_up_s=0.0, failures_per_gpu_s=0.0)


@pytest.mark.parametrize(
    ("pricing", "training_s", "usd"),
    [
        # One ml.p6-b200.48xlarge: Capacity Blocks pricing page (98.84 USD from July 2026, rounded
        # to a dollar for the week) and AWS Price List (113.9328 USD), both read on 2026-09-19.
        ("capacity_block", 23.5 * 3600, "2372.16"),
        ("capacity_block", (7 * 24 - 0.5) * 3600, "16605"),
        ("on_demand", 24 * 3600, "2734.39"),
        ("on_demand", 7 * 24 * 3600, "19141"),
    ],
)
def test_one_p6_b200_for_a_day_and_for_a_week(
    pricing: PricingKind, training_s: float, usd: str
) -> None:
    terms = terms_for(load_catalog(), find_instance("p6-b200"), pricing, overheads=NONE)
    assert isinstance(terms, Terms)
    cost = cost_of(terms, num_instances=1, training_s=training_s)
    assert isinstance(cost, Cost)
    wanted = Decimal(usd)
    assert cost.total_usd.quantize(wanted) == wanted


def test_an_upfront_fee_that_aws_charged() -> None:
    # p5en.48xlarge, 24 hours in ap-northeast-2, early 2026: UpfrontFee 998.69 at 41.612 USD.
    terms = terms_for(
        load_catalog(),
        find_instance("p5en"),
        "capacity_block",
        usd_per_instance_hour=Decimal("41.612"),
        overheads=NONE,
    )
    assert isinstance(terms, Terms)
    cost = cost_of(terms, num_instances=1, training_s=3600.0)
    assert isinstance(cost, Cost)
    assert cost.total_usd == Decimal("998.69")


def test_a_whole_ultraserver_for_an_hour() -> None:
    # u-p6e-gb200x72: 761.904 USD per hour (Capacity Blocks pricing page, read on 2026-09-19).
    terms = terms_for(load_catalog(), find_instance("p6e-gb200"), "capacity_block")
    assert isinstance(terms, Terms)
    assert terms.quote.usd_per_instance_hour * 18 == Decimal("761.904")


def test_the_failure_rate_is_one_in_three_hours_on_16k_gpus() -> None:
    # "one failure every three hours": arXiv:2407.21783, section 3.3.4, in DCD's words.
    hours = 1 / (FAILURES_PER_GPU_S * 16_384 * 3600)
    assert hours == pytest.approx(3.09, abs=0.01)


@pytest.mark.parametrize(
    ("name", "driver_mib"),
    # nvidia-smi totals: EC2 DescribeInstanceTypes (B200, B300), NVIDIA driver (H100, H200, H20).
    [
        ("B200", 183_359),
        ("B300", 275_040),
        ("H200", 143_771),
        ("H100-80GB", 81_559),
        ("H20", 97_871),
    ],
)
def test_torch_sees_a_little_less_than_the_driver(name: str, driver_mib: int) -> None:
    hidden_bytes = driver_mib * MIB - find_gpu(name).memory_bytes
    assert 0.3 * GIB < hidden_bytes < 1.0 * GIB


def test_no_stored_run_is_bigger_than_its_gpu() -> None:
    path = resources.files("advisor").joinpath("data/benchmarks.csv")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    measured = [row for row in rows if row["gpu"] and row["peak_mem_gib"] and row["oom"] != "true"]
    assert len(measured) > 200
    for row in measured:
        assert float(row["peak_mem_gib"]) * GIB <= find_gpu(row["gpu"]).usable_bytes, row["id"]
