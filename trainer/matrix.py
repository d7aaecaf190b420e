"""Measurements of one GPU standing in for many, over sizes and plans; resumable.

    python -m trainer.matrix ROWS.jsonl [MINUTES]
    python -m trainer.matrix --dry-run

Each cell runs in a process of its own (an out-of-memory cell harms no other) and is one line of
JSON; lines that are there are not measured again. Stops after MINUTES (25). A dry run checks the
settings of every cell, needs no GPU, and prints one line for each.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from trainer.config import config_of
from trainer.simulate import count_parameters
from trainer.sweep import PLAN, SHAPES

LARGE: Mapping[str, Mapping[str, str]] = {
    "qwen3-14b": {
        **SHAPES["qwen3-4b"],
        "hidden_size": "5120",
        "num_layers": "40",
        "num_heads": "40",
        "ffn_size": "17408",
        "tied_embeddings": "false",
    },
    "qwen3-32b": {
        **SHAPES["qwen3-4b"],
        "hidden_size": "5120",
        "num_layers": "64",
        "num_heads": "64",
        "ffn_size": "25600",
        "tied_embeddings": "false",
    },
}
CELL_LIMIT_S = 240


def cells() -> Iterator[dict[str, str]]:
    """Settings of each cell, the most telling first."""
    small = {name: SHAPES[name] for name in ("llama-3.2-1b", "qwen3-4b", "llama-3.1-8b")}
    shapes = {**small, **LARGE}
    for compiled, precision in (("false", "bf16"), ("true", "bf16"), ("true", "fp8")):
        for name, shape in shapes.items():
            degree = "64" if name in LARGE else "8"
            for way, (micro_batch, seq_len), chunks in product(
                ("selective", "full", "none"), (("1", "4096"), ("2", "4096")), ("8", "1")
            ):
                yield {
                    **shape,
                    **PLAN,
                    "compile": compiled,
                    "precision": precision,
                    "shard_degree": degree,
                    "activation_checkpointing": way,
                    "micro_batch": micro_batch,
                    "seq_len": seq_len,
                    "loss_chunks": chunks,
                }


def described() -> Iterator[str]:
    """A line for each cell, whose settings are checked. Raises ConfigError, Unsupported."""
    for settings in cells():
        config = config_of(settings)
        plan, billions = config.plan, count_parameters(config) / 1e9
        yield (
            f"{billions:.1f}B  {plan.precision}{' compiled' if plan.compile else ''}  "
            f"{plan.activation_checkpointing}  {plan.micro_batch} x {plan.seq_len}  "
            f"{plan.loss_chunks} slices  {plan.shard_degree} shards"
        )


def run(path: Path, limit_s: float) -> int:
    """Measure the missing cells until the time is over; the number of new rows."""
    done = _done(path)
    end_s = time.monotonic() + limit_s
    written = 0
    for settings in cells():
        if time.monotonic() > end_s:
            break
        if _key(settings) in done:
            continue
        row = _measure(settings)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "cell": settings}) + "\n")
        written += 1
    return written


def _measure(settings: Mapping[str, str]) -> dict[str, object]:
    words = [word for key, value in settings.items() for word in (f"--{key}", value)]
    command = [sys.executable, "-m", "trainer.measure", "--world_size", settings["shard_degree"]]
    try:
        ended = subprocess.run(
            [*command, *words, "--probe", "5"],
            capture_output=True,
            text=True,
            timeout=CELL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {CELL_LIMIT_S} s"}
    if ended.returncode:
        return {"error": ended.stderr[-500:]}
    found: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _key(settings: Mapping[str, str]) -> str:
    return json.dumps(settings, sort_keys=True)


def _done(path: Path) -> set[str]:
    if not path.exists():
        return set()
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {_key(row["cell"]) for row in rows if "error" not in row}


def main(arguments: Sequence[str]) -> int:
    """Command line; the exit status."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m trainer.matrix ROWS.jsonl [MINUTES] | --dry-run\n")
        return 2
    if arguments[0] == "--dry-run":
        lines = list(described())
        sys.stdout.write("\n".join([*lines, f"{len(lines)} cells"]) + "\n")
        return 0
    minutes = float(arguments[1]) if len(arguments) == 2 else 25.0
    sys.stdout.write(f"{run(Path(arguments[0]), minutes * 60)} rows\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
