"""LocalMachine: what this machine has for training, as far as can be told without loading torch."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

QUERY_TIMEOUT_S = 10
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachine:
    """This machine.

    compute_capability: of its least capable GPU, as (9, 0); None without a GPU.
    free_memory_bytes: of main memory. has_torch: whether the training program can start.
    """

    num_gpus: int
    compute_capability: tuple[int, int] | None
    num_cpus: int
    free_memory_bytes: int
    has_torch: bool

    @property
    def words(self) -> str:
        """The machine in a few words."""
        if self.num_gpus:
            return f"{self.num_gpus} GPU{'s' if self.num_gpus > 1 else ''} of this machine"
        return f"the {self.num_cpus} CPU cores of this machine"


def read_machine() -> LocalMachine:
    """The machine that this process runs on, as it is now."""
    capabilities = _compute_capabilities()
    return LocalMachine(
        num_gpus=len(capabilities),
        compute_capability=min(capabilities) if capabilities else None,
        num_cpus=os.cpu_count() or 1,
        free_memory_bytes=_free_memory_bytes(),
        has_torch=find_spec("torch") is not None,
    )


def _compute_capabilities() -> list[tuple[int, int]]:
    """One of each GPU that the driver shows; none without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "--query-gpu=compute_cap", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in done.stdout.splitlines():
        major, _, minor = line.strip().partition(".")
        if major.isdigit() and minor.isdigit():
            found.append((int(major), int(minor)))
    return found


def _free_memory_bytes() -> int:
    """What can be had without swapping; all memory where the kernel does not say."""
    if MEMINFO.is_file():
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
