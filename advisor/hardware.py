"""Gpu, Instance, Cluster: what the catalogue knows of the hardware. Facts are in data/*.toml."""

from dataclasses import dataclass
from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. Rates are dense, per GPU; bandwidths per GPU and direction.

    memory_bytes: what the driver reports (nvidia-smi total), so a bit more than torch can use.
    reserved_bytes: CUDA context and libraries of one process, not seen by torch's allocator.
    peak_flops: FLOP/s by compute format ("bf16", "fp8", "mxfp8", "nvfp4"); a missing key means that
        the hardware cannot do it.
    """

    name: str
    architecture: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    reserved_bytes: int
    hbm_bytes_per_s: float
    nvlink_bytes_per_s: float
    peak_flops: Mapping[str, float]
    aliases: tuple[str, ...] = ()
    source: str = ""
    retrieved: str = ""

    @property
    def usable_bytes(self) -> int:
        """Bytes that torch's allocator can get: driver total less context."""
        return self.memory_bytes - self.reserved_bytes

    def supports(self, precision: str) -> bool:
        return precision in self.peak_flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One EC2/SageMaker instance type.

    network_bytes_per_s: EFA bandwidth of the whole instance, one direction.
    plan_eligible: it can be in a SageMaker training plan.
    """

    name: str
    gpu: Gpu
    num_gpus: int
    network_bytes_per_s: float
    vcpus: int
    host_memory_bytes: int
    plan_eligible: bool
    regions: tuple[str, ...]
    source: str = ""
    retrieved: str = ""

    @property
    def network_bytes_per_s_per_gpu(self) -> float:
        return self.network_bytes_per_s / self.num_gpus
