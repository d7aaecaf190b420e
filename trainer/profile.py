"""The peak memory of a plan without its hardware.

    python -m trainer.profile --world_size 8 [--key value]...

prints one JSON object: the peak of one rank, the instant it comes at, and what it is made of.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from trainer.config import Config, config_of, parse
from trainer.errors import ConfigError, TrainerError
from trainer.layers import blocks_differ
from trainer.simulate import Timeline, count_parameters, edge_of, simulate
from trainer.storage import Instant
from trainer.stored_row import Measured, stored_row


def profile_plan(settings: Mapping[str, str], world_size: int = 8) -> dict[str, Any]:
    """Peak of one rank of a plan, by simulation on this CPU (eager; see trainer.simulate).

    settings: flat string settings. Returns peak_bytes, instant, categories (bytes at the peak),
    instants (name → peak_bytes and categories), num_blocks_run, seconds, torch, and row (see
    trainer.stored_row).
    Raises ConfigError, Unsupported.
    """
    return profile_config(config_of(settings), world_size)


def profile_config(config: Config, world_size: int, *, whole: bool = False) -> dict[str, Any]:
    """profile_plan for a Config. whole: simulate every block, whatever the depth."""
    begun = time.perf_counter()
    labels, num_run = _labels(config, world_size, whole=whole)
    instants = _named(labels)
    name = max(instants, key=lambda key: instants[key].peak_bytes)
    count, peak_bytes = count_parameters(config), instants[name].peak_bytes
    found = Measured(
        kind="simulated",
        world_size=world_size,
        num_parameters=count,
        peak_bytes=peak_bytes,
        peak_kind="allocated",
        remarks=(f"no GPU: live tensors of an eager run, {name}", f"torch {torch.__version__}"),
    )
    return {
        "kind": "simulated",
        "peak_bytes": peak_bytes,
        "instant": name,
        "categories": instants[name].categories,
        "instants": {
            key: {"peak_bytes": value.peak_bytes, "categories": value.categories}
            for key, value in instants.items()
        },
        "num_parameters": count,
        "world_size": world_size,
        "compiled": False,
        "num_blocks_run": num_run,
        "seconds": round(time.perf_counter() - begun, 2),
        "torch": torch.__version__,
        "row": stored_row(config, found),
    }


def _labels(config: Config, world_size: int, *, whole: bool) -> tuple[Mapping[str, Instant], int]:
    """Peaks by label; of a deep model from two shallow ones, because its blocks are equal.

    Each label's bytes grow by the same amount with each further block (or period of blocks). A
    model with more than one kind of block is run whole.
    """
    period = max(1, config.plan.checkpoint_every)
    depth = config.model.num_layers
    least = 2 * edge_of(config) + 1
    shallow = least + (depth - least) % period
    if whole or blocks_differ(config.model) or depth <= 2 * shallow + period:
        return simulate(config, world_size).instants, depth
    small = simulate(_of_depth(config, shallow), world_size)
    large = simulate(_of_depth(config, shallow + period), world_size)
    return _extrapolate(small, large, depth), large.num_blocks


def _of_depth(config: Config, depth: int) -> Config:
    return replace(config, model=replace(config.model, num_layers=depth))


def _extrapolate(small: Timeline, large: Timeline, depth: int) -> dict[str, Instant]:
    factor = (depth - small.num_blocks) // (large.num_blocks - small.num_blocks)
    found: dict[str, Instant] = {}
    for label, low in small.instants.items():
        if label.endswith("between"):
            continue
        high = large.instants[label]
        names = low.categories.keys() | high.categories.keys()
        found[label] = Instant(
            peak_bytes=_line(low.peak_bytes, high.peak_bytes, factor),
            categories={
                name: _line(low.categories.get(name, 0), high.categories.get(name, 0), factor)
                for name in sorted(names)
            },
        )
    return found


def _line(low: int, high: int, factor: int) -> int:
    return low + factor * (high - low)


def _named(labels: Mapping[str, Instant]) -> dict[str, Instant]:
    """The labels' peaks under the names that people use.

    Blocks in between are left out: kind by kind, they lie on the line between the two ends.
    """
    found: dict[str, Instant] = {}
    for label, instant in labels.items():
        if label.endswith("between"):
            continue
        name = _name(label)
        if name not in found or instant.peak_bytes > found[name].peak_bytes:
            found[name] = instant
    return found


def _name(label: str) -> str:
    label = label.rpartition(":")[2]
    if label.startswith("backward last"):
        return "first block backward"
    if label.startswith("backward"):
        return "last block backward"
    return (
        "loss" if label.startswith("loss") else label.partition(" first")[0].partition(" last")[0]
    )


def take_world_size(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """(world_size, the other words): `--world_size N` is no setting of a run. The default is 8."""
    rest = list(arguments)
    if "--world_size" not in rest:
        return 8, rest
    place = rest.index("--world_size")
    found = rest[place + 1 : place + 2]
    if not found or not found[0].isdigit() or int(found[0]) < 1:
        raise ConfigError(["world_size must be a whole number above 0"])
    return int(found[0]), rest[:place] + rest[place + 2 :]


def main(arguments: Sequence[str]) -> int:
    """Command line; the exit status."""
    try:
        world_size, rest = take_world_size(arguments)
        result = profile_config(parse(rest), world_size)
    except ConfigError as error:
        sys.stderr.write("\n".join(error.problems) + "\n")
        return error.exit_status
    except TrainerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
