"""Reads data/*.toml strictly: hardware and prices, each entry with its source and date."""

import datetime
import difflib
import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeVar

from advisor.errors import UnknownName
from advisor.hardware import Gpu, Instance
from advisor.units import GIB, MIB

GIGA = 1e9
TERA = 1e12
BITS_PER_BYTE = 8
# Rates are kept to a millionth of a dollar, so that sums of them are exact integers.
MICRO_USD = Decimal("0.000001")
PRICE_KINDS = ("on_demand", "capacity_block", "spot", "sagemaker_on_demand")
# Files whose bytes are the version: all that an answer depends on beside the code.
VERSIONED_FILES = ("gpus.toml", "instances.toml", "prices.toml", "stacks.toml", "models.csv")

T = TypeVar("T")

_NUMBER = (int, float)
_GPU_FIELDS: dict[str, type | tuple[type, ...]] = {
    "architecture": str,
    "compute_capability": list,
    "memory_gib": _NUMBER,
    "context_mib": _NUMBER,
    "hbm_gb_per_s": _NUMBER,
    "nvlink_gb_per_s": _NUMBER,
    "pcie_gb_per_s": _NUMBER,
    "peak_tflops": dict,
    "aliases": list,
    "note": str,
    "context_source": str,
    "source": str,
    "retrieved": datetime.date,
}
_INSTANCE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "gpu": str,
    "num_gpus": int,
    "network_gbps": _NUMBER,
    "vcpus": int,
    "host_memory_gib": _NUMBER,
    "plan_eligible": bool,
    "regions": list,
    "nvlink_domain_gpus": int,
    "reservable_counts": list,
    "ultraserver_instances": int,
    "note": str,
    "source": str,
    "retrieved": datetime.date,
}
_PRICE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "instance": str,
    "kind": str,
    "regions": list,
    "usd_per_instance_hour": str,
    "note": str,
    "source": str,
    "retrieved": datetime.date,
}


class CatalogError(Exception):
    """A data file is wrong: a key is missing or unknown, or a value has the wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One published rate. `regions` are names or patterns; empty when the source names none."""

    instance: str
    kind: str
    regions: tuple[str, ...]
    usd_per_instance_hour: Decimal
    note: str
    source: str
    retrieved: str

    def covers(self, region: str) -> bool:
        return not self.regions or any(fnmatchcase(region, pattern) for pattern in self.regions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Hardware and prices. `version` is a short hash of the data files' bytes."""

    gpus: Mapping[str, Gpu]
    instances: Mapping[str, Instance]
    prices: tuple[Price, ...]
    version: str

    def gpu(self, name: str, *, field: str = "gpu") -> Gpu:
        """The GPU of that name or alias, whatever its case. Raises UnknownName."""
        return _find(name, _gpu_names(self.gpus.values()), field=field, kind="GPU")

    def instance(self, name: str, *, field: str = "instances") -> Instance:
        """The instance type of that name: full, with "ml.", or the family. Raises UnknownName."""
        names = _instance_names(self.instances.values())
        stripped = _folded(name).removeprefix("ml.")
        return _find(stripped, names, field=field, kind="instance type", shown=name)

    def regions(self) -> tuple[str, ...]:
        """Every region that some instance type is known in, sorted."""
        return tuple(sorted({region for i in self.instances.values() for region in i.regions}))

    def region(self, name: str, *, field: str = "region") -> str:
        """The region of that name. Raises UnknownName."""
        known = {region: region for region in self.regions()}
        return _find(name, known, field=field, kind="region")


@cache
def load_catalog() -> Catalog:
    """The shipped catalogue. Raises CatalogError when a data file is wrong."""
    texts = {name: _read(name) for name in ("gpus.toml", "instances.toml", "prices.toml")}
    return parse_catalog(
        gpus=texts["gpus.toml"],
        instances=texts["instances.toml"],
        prices=texts["prices.toml"],
        version=_version(_read(name) for name in VERSIONED_FILES),
    )


@lru_cache(maxsize=1024)
def find_gpu(name: str) -> Gpu:
    """The GPU of that name or alias in the shipped catalogue. Raises UnknownName."""
    return load_catalog().gpu(name)


def find_instance(name: str) -> Instance:
    """The instance type of that name in the shipped catalogue. Raises UnknownName."""
    return load_catalog().instance(name)


def parse_catalog(*, gpus: str, instances: str, prices: str, version: str) -> Catalog:
    """A catalogue from TOML texts. Raises CatalogError naming the file, the entry and the key."""
    gpu_by_name = {name: _gpu(name, entry) for name, entry in _tables("gpus.toml", gpus)}
    _refuse_shared_names(gpu_by_name.values())
    instance_by_name = {
        name: _instance(name, entry, gpu_by_name)
        for name, entry in _tables("instances.toml", instances)
    }
    rows = tomllib.loads(prices)
    if set(rows) != {"price"}:
        raise CatalogError("prices.toml: only [[price]] entries are allowed")
    return Catalog(
        gpus=MappingProxyType(gpu_by_name),
        instances=MappingProxyType(instance_by_name),
        prices=tuple(_price(entry, instance_by_name) for entry in rows["price"]),
        version=version,
    )


def _read(name: str) -> str:
    path = resources.files("advisor").joinpath("data", name)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _version(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        # The length keeps a byte that moves from one file to the next from going unseen.
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]


def _tables(file: str, text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    for name, entry in tomllib.loads(text).items():
        if not isinstance(entry, dict):
            raise CatalogError(f"{file}: {name} is not a table")
        yield name, entry


def _check(where: str, entry: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    wrong = sorted(set(entry) ^ set(types))
    if wrong:
        raise CatalogError(f"{where}: missing or unknown: {', '.join(wrong)}")
    for key, wanted in types.items():
        value = entry[key]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise CatalogError(f"{where}: {key} has the wrong type: {value!r}")
        if isinstance(value, _NUMBER) and value < 0:
            raise CatalogError(f"{where}: {key} is negative")
    if not entry["source"]:
        raise CatalogError(f"{where}: source is empty")


def _gpu(name: str, entry: dict[str, Any]) -> Gpu:
    _check(f"gpus.toml [{name}]", entry, _GPU_FIELDS)
    major, minor = entry["compute_capability"]
    return Gpu(
        name=name,
        architecture=entry["architecture"],
        compute_capability=(major, minor),
        memory_bytes=round(entry["memory_gib"] * GIB),
        reserved_bytes=round(entry["context_mib"] * MIB),
        hbm_bytes_per_s=entry["hbm_gb_per_s"] * GIGA,
        nvlink_bytes_per_s=entry["nvlink_gb_per_s"] * GIGA,
        pcie_bytes_per_s=entry["pcie_gb_per_s"] * GIGA,
        peak_flops=MappingProxyType({k: v * TERA for k, v in entry["peak_tflops"].items()}),
        aliases=tuple(entry["aliases"]),
        note=entry["note"],
        reserved_source=entry["context_source"],
        source=entry["source"],
        retrieved=entry["retrieved"].isoformat(),
    )


def _instance(name: str, entry: dict[str, Any], gpus: Mapping[str, Gpu]) -> Instance:
    where = f"instances.toml [{name}]"
    _check(where, entry, _INSTANCE_FIELDS)
    if entry["gpu"] not in gpus:
        raise CatalogError(f"{where}: gpu {entry['gpu']!r} is not in gpus.toml")
    if entry["reservable_counts"] != sorted(set(entry["reservable_counts"])):
        raise CatalogError(f"{where}: reservable_counts must ascend")
    return Instance(
        name=name,
        gpu=gpus[entry["gpu"]],
        num_gpus=entry["num_gpus"],
        network_bytes_per_s=entry["network_gbps"] * GIGA / BITS_PER_BYTE,
        vcpus=entry["vcpus"],
        host_memory_bytes=round(entry["host_memory_gib"] * GIB),
        plan_eligible=entry["plan_eligible"],
        regions=tuple(entry["regions"]),
        nvlink_domain_gpus=entry["nvlink_domain_gpus"],
        reservable_counts=tuple(entry["reservable_counts"]),
        ultraserver_instances=entry["ultraserver_instances"],
        note=entry["note"],
        source=entry["source"],
        retrieved=entry["retrieved"].isoformat(),
    )


def _price(entry: dict[str, Any], instances: Mapping[str, Instance]) -> Price:
    where = f"prices.toml {entry.get('instance', '?')} {entry.get('kind', '?')}"
    _check(where, entry, _PRICE_FIELDS)
    if entry["instance"] not in instances:
        raise CatalogError(f"{where}: the instance is not in instances.toml")
    if entry["kind"] not in PRICE_KINDS:
        raise CatalogError(f"{where}: kind must be one of {', '.join(PRICE_KINDS)}")
    try:
        usd = Decimal(entry["usd_per_instance_hour"])
    except InvalidOperation:
        raise CatalogError(f"{where}: usd_per_instance_hour is not a number") from None
    if not usd.is_finite() or usd <= 0 or usd != usd.quantize(MICRO_USD):
        raise CatalogError(
            f"{where}: usd_per_instance_hour must be positive, with 6 decimals at most"
        )
    return Price(
        instance=entry["instance"],
        kind=entry["kind"],
        regions=tuple(entry["regions"]),
        usd_per_instance_hour=usd,
        note=entry["note"],
        source=entry["source"],
        retrieved=entry["retrieved"].isoformat(),
    )


def _refuse_shared_names(gpus: Iterable[Gpu]) -> None:
    seen: dict[str, str] = {}
    for gpu in gpus:
        for name in {_folded(n) for n in (gpu.name, *gpu.aliases)}:
            if name in seen:
                raise CatalogError(f"gpus.toml: {name!r} names {seen[name]} and {gpu.name}")
            seen[name] = gpu.name


def _gpu_names(gpus: Iterable[Gpu]) -> dict[str, Gpu]:
    return {name: gpu for gpu in gpus for name in (gpu.name, *gpu.aliases)}


def _instance_names(instances: Iterable[Instance]) -> dict[str, Instance]:
    return {name: i for i in instances for name in (i.name, i.name.split(".")[0])}


def _folded(name: str) -> str:
    """Case, spaces, underscores and dashes do not tell names apart."""
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def _find(
    name: str, by_name: Mapping[str, T], *, field: str, kind: str, shown: str | None = None
) -> T:
    folded = {_folded(known): (known, value) for known, value in by_name.items()}
    found = folded.get(_folded(name))
    if found is not None:
        return found[1]
    close = difflib.get_close_matches(_folded(name), list(folded), n=3, cutoff=0.5)
    matches = [folded[match][0] for match in close]
    raise UnknownName(field, name if shown is None else shown, kind=kind, matches=matches)
