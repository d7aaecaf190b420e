"""Every stored fact says where it is from."""

import csv
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "advisor/data"
TOML_FILES = ("gpus.toml", "instances.toml", "prices.toml")


def entries(value: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables that state facts: those with more than tables in them."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from entries(each, f"{where}[{index}]")
    elif isinstance(value, dict):
        if any(not isinstance(each, dict | list) for each in value.values()):
            yield where, value
        else:
            for key, each in value.items():
                yield from entries(each, f"{where}.{key}")


FACTS = [
    pytest.param(entry, id=where)
    for file in TOML_FILES
    for where, entry in entries(tomllib.loads((DATA / file).read_text()), file)
]


@pytest.mark.parametrize("entry", FACTS)
def test_every_entry_has_a_source_and_a_date(entry: dict[str, Any]) -> None:
    assert entry["source"]
    assert entry["retrieved"]


def test_every_benchmark_result_has_a_source() -> None:
    with (DATA / "benchmarks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert [row["id"] for row in rows if not row["source_url"]] == []


def test_every_model_has_a_source_and_a_counted_size() -> None:
    with (DATA / "models.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 120
    assert [
        row["name"] for row in rows if not row["config_source"] or not row["count_source"]
    ] == []
