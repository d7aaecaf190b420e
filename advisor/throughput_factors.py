"""The few free factors of the throughput model, each with a physical meaning."""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputFactors:
    """Fitted on stored results; data/throughput_factors.toml has the values with count and spread.

    matmul: rate of matrix products in a training step over that of the kernel alone.
    attention: the same for attention. attention_backward: its backward's rate loss.
    eager_traffic: bytes that eager element-wise work moves over those counted by operation.
    cast_bytes: bytes moved per element quantised to fp8, all of its passes together.
    launch_s: host seconds per kernel launch. step_s: seconds of a step outside its kernels.
    intra_link, inter_link: bandwidth of collectives over that of the links.
    call_s, hop_s: latency of one collective, and of each further rank in its ring.
    contention: share of the communication beside compute that slows the compute.
    """

    matmul: float
    attention: float
    attention_backward: float
    eager_traffic: float
    cast_bytes: float
    launch_s: float
    step_s: float
    intra_link: float
    inter_link: float
    call_s: float
    hop_s: float
    contention: float


PRIOR = ThroughputFactors(
    matmul=0.95,
    attention=0.90,
    attention_backward=1.15,
    eager_traffic=1.0,
    cast_bytes=9.0,
    launch_s=7e-6,
    step_s=5e-3,
    intra_link=0.75,
    inter_link=0.74,
    call_s=30e-6,
    hop_s=2e-6,
    contention=0.15,
)


@cache
def load_factors(without: str | None = None) -> ThroughputFactors:
    """The shipped factors; those fitted without a source's rows, if it has any.

    Raises KeyError or TypeError if the file is wrong.
    """
    entries = _entries()
    values = {field.name: entries[field.name]["value"] for field in fields(ThroughputFactors)}
    return ThroughputFactors(**{**values, **entries["without"].get(without, {})})


def num_rows_fitted() -> int:
    """Rows that the shipped factors were fitted on."""
    return max(int(entry.get("count", 0)) for entry in _entries().values())


@cache
def _entries() -> dict[str, Any]:
    path = resources.files("advisor").joinpath("data/throughput_factors.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
