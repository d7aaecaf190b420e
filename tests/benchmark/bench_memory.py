"""Memory estimates a second through the vectorised path, over the search's own grids.

    python tests/benchmark/bench_memory.py

Prints one JSON object. Exits with 1 when the limit is broken.
"""

import json
import sys
import time

from advisor.catalog import load_catalog
from advisor.grid import build_grid
from advisor.memory import estimate_memory
from advisor.model_catalog import find_model
from advisor.search import INSTANCE_COUNTS, OWN_STACK
from advisor.stack import load_stacks
from advisor.workload import Pins, build_workload

MIN_ESTIMATES_PER_S = 1e6
ROUNDS = 20
MODELS = ("llama-3.2-1b", "llama-3.1-8b", "qwen2.5-32b", "llama-3.1-70b")


def main() -> int:
    """Measure, print, and compare with the limit."""
    stack = load_stacks()[OWN_STACK]
    grids = []
    for name in MODELS:
        workload = build_workload(
            find_model(name).shape,
            num_tokens=10**11,
            seq_len=None,
            global_batch_tokens=None,
            training="pretrain",
            open_ended=False,
        )
        for instance in load_catalog().instances.values():
            grid = build_grid(workload, Pins(), instance, INSTANCE_COUNTS)
            grids.append((workload.shape, grid, grid.settings()))
    started_s = time.perf_counter()
    for _ in range(ROUNDS):
        for shape, _, settings in grids:
            estimate_memory(shape, settings, stack)
    spent_s = time.perf_counter() - started_s
    estimates = ROUNDS * sum(grid.size for _, grid, _ in grids)
    per_s = estimates / spent_s
    print(json.dumps({"estimates": estimates, "estimates_per_s": round(per_s)}, indent=2))
    return 0 if per_s >= MIN_ESTIMATES_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
