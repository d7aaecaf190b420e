"""The catalogue: strict reading, tolerant names, a version that follows the bytes."""

from decimal import Decimal

import pytest

from advisor.catalog import CatalogError, find_gpu, find_instance, load_catalog, parse_catalog
from advisor.errors import UnknownName

GPU = """
[X1]
architecture = "ampere"
compute_capability = [8, 0]
memory_gib = 40
context_mib = 512
hbm_gb_per_s = 1555
nvlink_gb_per_s = 300
pcie_gb_per_s = 32
peak_tflops = { bf16 = 312 }
aliases = ["X One"]
note = ""
context_source = "assumption"
source = "datasheet"
retrieved = 2026-12-01
"""
INSTANCE = """
["x.8xlarge"]
gpu = "X1"
num_gpus = 8
network_gbps = 400
vcpus = 96
host_memory_gib = 1152
plan_eligible = true
regions = ["us-east-1"]
nvlink_domain_gpus = 8
reservable_counts = [1, 2]
ultraserver_instances = 0
note = ""
source = "table"
retrieved = 2026-12-01
"""
PRICE = """
[[price]]
instance = "x.8xlarge"
kind = "on_demand"
regions = ["us-*"]
usd_per_instance_hour = "1.25"
note = ""
source = "price list"
retrieved = 2026-12-01
"""


def parse(gpus: str = GPU, instances: str = INSTANCE, prices: str = PRICE) -> object:
    return parse_catalog(gpus=gpus, instances=instances, prices=prices, version="v")


def test_a_catalogue_is_read_into_si_units() -> None:
    catalog = parse_catalog(gpus=GPU, instances=INSTANCE, prices=PRICE, version="v")
    gpu = catalog.gpu("x one")
    assert (gpu.memory_bytes, gpu.reserved_bytes) == (40 * 2**30, 512 * 2**20)
    assert gpu.peak_flops["bf16"] == 312e12
    assert catalog.instance("X").network_bytes_per_s == 50e9
    assert catalog.prices[0].usd_per_instance_hour == Decimal("1.25")
    assert catalog.prices[0].covers("us-west-2")
    assert not catalog.prices[0].covers("eu-west-2")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"gpus": GPU.replace('note = ""\n', "")}, "missing or unknown: note"),
        ({"gpus": GPU + "colour = 1\n"}, "missing or unknown: colour"),
        ({"gpus": GPU.replace("= 40", '= "40"')}, "memory_gib has the wrong type"),
        ({"gpus": GPU.replace("= 40", "= -1")}, "memory_gib is negative"),
        ({"gpus": GPU.replace('source = "datasheet"', 'source = ""')}, "source is empty"),
        ({"gpus": GPU.replace("retrieved = 2026-12-01\n", "")}, "retrieved"),
        ({"gpus": GPU + GPU.replace("[X1]", "[X2]")}, "names X1 and X2"),
        ({"gpus": "a = 1"}, "not a table"),
        ({"instances": INSTANCE.replace('"X1"', '"X9"')}, "not in gpus.toml"),
        ({"instances": INSTANCE.replace("= 8\nnetwork", "= true\nnetwork")}, "num_gpus has the"),
        ({"instances": INSTANCE.replace("[1, 2]", "[2, 1]")}, "must ascend"),
        ({"prices": PRICE.replace('"x.8xlarge"', '"y"')}, "not in instances.toml"),
        ({"prices": PRICE.replace("on_demand", "gift")}, "kind must be one of"),
        ({"prices": PRICE.replace('"1.25"', "1.25")}, "wrong type"),
        ({"prices": PRICE.replace('"1.25"', '"cheap"')}, "not a number"),
        ({"prices": PRICE.replace('"1.25"', '"0"')}, "must be positive"),
        ({"prices": PRICE.replace('"1.25"', '"1.2500001"')}, "6 decimals"),
        ({"prices": PRICE + "[other]\n"}, "only [[price]] entries"),
    ],
)
def test_a_wrong_data_file_is_refused_with_its_place(texts: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError) as refused:
        parse(**texts)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "name", ["ml.p6-b200.48xlarge", "p6-b200.48xlarge", "p6-b200", "P6-B200", " P6_B200 "]
)
def test_instance_names_are_tolerant(name: str) -> None:
    assert find_instance(name).name == "p6-b200.48xlarge"


def test_close_instance_names_are_told_apart() -> None:
    names = [find_instance(name).name for name in ("p5", "p5e", "p5en", "p4d", "p4de")]
    assert names == [
        "p5.48xlarge",
        "p5e.48xlarge",
        "p5en.48xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
    ]


def test_an_unknown_name_comes_with_close_ones() -> None:
    with pytest.raises(UnknownName) as unknown:
        load_catalog().instance("ml.p6-b2000.48xlarge", field="instances.0")
    assert unknown.value.field == "instances.0"
    assert "p6-b200.48xlarge" in unknown.value.matches
    assert "ml.p6-b2000.48xlarge" in unknown.value.detail
    with pytest.raises(UnknownName) as unknown:
        find_gpu("H100-80G")
    assert "H100-80GB" in unknown.value.matches
    with pytest.raises(UnknownName):
        find_gpu("")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H100-80GB-SXM", "H100-80GB"),
        ("nvidia h100 80gb hbm3", "H100-80GB"),
        ("B200-180GB (power limited)", "B200"),
        ("GB200-184GiB", "GB200"),
        ("GB300-or-B300 (not stated)", "GB300"),
        ("A100 (memory size not stated)", "A100-unspecified"),
        ("H100", "H100-unspecified"),
        ("rtx pro 6000", "RTX-PRO-6000-96GB"),
    ],
)
def test_gpu_aliases(name: str, expected: str) -> None:
    assert find_gpu(name).name == expected


def test_an_unknown_region_comes_with_close_ones() -> None:
    assert load_catalog().region("US-West-2") == "us-west-2"
    with pytest.raises(UnknownName) as unknown:
        load_catalog().region("us-west-3")
    assert "us-west-2" in unknown.value.matches


def test_the_shipped_catalogue_is_whole() -> None:
    catalog = load_catalog()
    assert len(catalog.instances) == 9
    assert len(catalog.version) == 12
    assert load_catalog() is catalog
    for gpu in catalog.gpus.values():
        assert gpu.peak_flops.get("bf16") or gpu.peak_flops["fp16"]
        assert gpu.reserved_source
        assert gpu.interconnect_bytes_per_s > 0
    for instance in catalog.instances.values():
        assert instance.regions
        assert any(price.instance == instance.name for price in catalog.prices)
        assert instance.nvlink_domain_gpus == 1 or instance.gpu.nvlink_bytes_per_s > 0


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        load_catalog().gpus["B200"] = find_gpu("L4")  # type: ignore[index]  # the point
