"""Gpu and Instance: derived figures and what can be reserved."""

import pytest

from advisor.catalog import find_gpu, find_instance


def test_usable_memory_is_below_what_torch_sees() -> None:
    gpu = find_gpu("B200")
    assert gpu.usable_bytes == gpu.memory_bytes - gpu.reserved_bytes
    assert 0 < gpu.reserved_bytes < 2**30


def test_nvlink_is_the_interconnect_where_there_is_one() -> None:
    assert find_gpu("H100-80GB").interconnect_bytes_per_s == 450e9
    assert find_gpu("L40S").interconnect_bytes_per_s == 32e9


def test_formats_follow_the_hardware() -> None:
    assert [find_gpu("A100-80GB").supports(p) for p in ("bf16", "fp8", "mxfp8")] == [
        True,
        False,
        False,
    ]
    assert [find_gpu("H200").supports(p) for p in ("fp8", "mxfp8", "nvfp4")] == [True, False, False]
    assert find_gpu("B300").supports("nvfp4")
    assert not find_gpu("V100").supports("bf16")


def test_network_is_shared_by_the_gpus_of_an_instance() -> None:
    instance = find_instance("p6-b200")
    assert instance.network_bytes_per_s == 400e9
    assert instance.network_bytes_per_s_per_gpu == 50e9
    assert instance.sagemaker_name == "ml.p6-b200.48xlarge"


@pytest.mark.parametrize(("wanted", "reserved"), [(1, 1), (3, 4), (32, 32), (33, 64), (65, None)])
def test_reservations_are_powers_of_two(wanted: int, reserved: int | None) -> None:
    assert find_instance("p5").reserved_count(wanted) == reserved


@pytest.mark.parametrize(("wanted", "reserved"), [(8, 9), (9, 18), (17, 18), (18, 36), (69, None)])
def test_an_ultraserver_is_sold_whole_and_keeps_a_spare(wanted: int, reserved: int | None) -> None:
    assert find_instance("p6e-gb200").reserved_count(wanted) == reserved


def test_what_is_not_reservable_has_no_count() -> None:
    assert find_instance("g6e").reserved_count(1) is None
