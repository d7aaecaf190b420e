"""Gpu and Instance: what the catalogue knows of the hardware. Facts are in data/*.toml."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# SageMaker training plans and EC2 Capacity Blocks are sold in these instance counts.
RESERVABLE_COUNTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. Rates are dense, per GPU; bandwidths per GPU and direction.

    memory_bytes: total memory as torch.cuda reports it (a bit less than nvidia-smi's total).
    reserved_bytes: CUDA context and libraries of one process, not seen by torch's allocator, before
        any NCCL buffer.
    nvlink_bytes_per_s: 0 where GPUs reach each other over PCIe only.
    peak_flops: FLOP/s by compute format ("bf16", "fp8", "mxfp8", "nvfp4", also "fp16", "tf32" where
        known); a missing key means that the hardware cannot do it, or that no figure is published.
    """

    name: str
    architecture: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    reserved_bytes: int
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float
    pcie_bytes_per_s: float = 0.0
    peak_flops: Mapping[str, float]
    aliases: tuple[str, ...] = ()
    note: str = ""
    reserved_source: str = ""
    source: str = ""
    retrieved: str = ""

    @property
    def usable_bytes(self) -> int:
        """Bytes that torch's allocator can get: what torch sees less the context."""
        return self.memory_bytes - self.reserved_bytes

    @property
    def interconnect_bytes_per_s(self) -> float:
        """Bandwidth to the other GPUs of one machine, per GPU and direction: NVLink, else PCIe."""
        return self.nvlink_bytes_per_s or self.pcie_bytes_per_s

    def supports(self, precision: str) -> bool:
        return precision in self.peak_flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One EC2/SageMaker instance type.

    network_bytes_per_s: EFA bandwidth of the whole instance, one direction.
    nvlink_domain_gpus: GPUs that NVLink joins at most; 1 without NVLink, more than num_gpus in an
        UltraServer, whose instances share one NVLink domain.
    plan_eligible: it can be in a SageMaker training plan.
    reservable_counts: instances that one reservation can have, ascending.
    ultraserver_instances: instances in one full UltraServer; 0 where it is not sold as such.
    """

    name: str
    gpu: Gpu
    num_gpus: int
    network_bytes_per_s: float
    vcpus: int
    host_memory_bytes: int
    plan_eligible: bool
    regions: tuple[str, ...]
    nvlink_domain_gpus: int
    reservable_counts: tuple[int, ...] = RESERVABLE_COUNTS
    ultraserver_instances: int = 0
    note: str = ""
    source: str = ""
    retrieved: str = ""

    @property
    def network_bytes_per_s_per_gpu(self) -> float:
        return self.network_bytes_per_s / self.num_gpus

    @property
    def sagemaker_name(self) -> str:
        """The name as SageMaker writes it."""
        return f"ml.{self.name}"

    def spares(self, num_reserved: int) -> int:
        """Instances kept as spares: one per UltraServer, as SageMaker sets by default."""
        if not self.ultraserver_instances:
            return 0
        return math.ceil(num_reserved / self.ultraserver_instances)

    def reserved_count(self, num_instances: int) -> int | None:
        """Instances to reserve so that num_instances can train; None when no reservation is so big.

        Counts the spares on top.
        """
        for count in self.reservable_counts:
            if count - self.spares(count) >= num_instances:
                return count
        return None
