"""The memory model against simulation and against published runs, as docs/model.md shows it.

`python tests/published/test_memory_tables.py` renews the tables of the document.
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from advisor.check import check_results
from advisor.memory import estimate_memory
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.result import load_shipped_results
from advisor.settings import settings_of
from advisor.stack import load_stacks

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "model.md"
CELLS = HERE / "data" / "simulated_memory.csv"


def shape_of(cell: dict[str, str]) -> ModelShape:
    sizes = ("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "ffn_size")
    flags = ("tied_embeddings", "gated_mlp", "qk_norm", "qkv_bias", "attn_out_bias", "mlp_bias")
    return ModelShape(
        name=cell["model"],
        family="simulated",
        **{name: int(cell[name]) for name in (*sizes, "vocab_size", "max_position")},
        **{name: cell[name] == "true" for name in flags},
        norm=cell["norm"],  # type: ignore[arg-type]  # a word of the program
    )


def plan_of(cell: dict[str, str]) -> Plan:
    world_size, shards = int(cell["world_size"]), int(cell["shard_degree"])
    return Plan(
        instance_type="simulated",
        num_instances=1,
        gpus_per_instance=world_size,
        precision=cell["precision"],  # type: ignore[arg-type]  # a word of the program
        activation_checkpointing=cell["activation_checkpointing"],  # type: ignore[arg-type]  # a word of the program
        checkpoint_every=int(cell["checkpoint_every"]),
        micro_batch=int(cell["micro_batch"]),
        seq_len=int(cell["seq_len"]),
        accumulation_steps=int(cell["accumulation_steps"]),
        gradient_sync=cell["gradient_sync"],  # type: ignore[arg-type]  # a word of the program
        shard_degree=shards,
        replica_degree=world_size // shards,
        reshard_after_forward=cell["reshard_after_forward"] == "true",
        loss_chunks=int(cell["loss_chunks"]),
        optimizer=cell["optimizer"],  # type: ignore[arg-type]  # a word of the program
        compile=False,
    )


def simulated_errors() -> list[tuple[dict[str, str], float]]:
    """(cell, predicted / simulated − 1) of live bytes."""
    stack = load_stacks()["shardwise"]
    with CELLS.open(encoding="utf-8", newline="") as lines:
        cells = list(csv.DictReader(lines))
    return [
        (
            cell,
            float(estimate_memory(shape_of(cell), settings_of(plan_of(cell)), stack).active_bytes)
            / float(cell["peak_bytes"])
            - 1.0,
        )
        for cell in cells
    ]


def simulated_table() -> str:
    groups: dict[str, list[float]] = defaultdict(list)
    for cell, error in simulated_errors():
        groups[f"{cell['model']}"].append(error)
        groups[f"checkpointing {cell['activation_checkpointing']}"].append(error)
        groups["all"].append(error)
    rows = [f"| {name} | {_figures(errors)} |" for name, errors in groups.items() if name != "all"]
    return "\n".join(
        [
            "| cells | number | median error | 90th percentile | worst |",
            "|---|--:|--:|--:|--:|",
            *sorted(rows),
            f"| all | {_figures(groups['all'])} |",
        ]
    )


def stored_table() -> str:
    results = load_shipped_results()
    sources = {result.id: result.source for result in results}
    groups: dict[str, list[float]] = defaultdict(list)
    for row in check_results(results, results)["rows"]:
        if row["peak_mem_gib"] and row["predicted_mem_gib"]:
            error = row["predicted_mem_gib"] / row["peak_mem_gib"] - 1.0
            groups[sources[row["id"]]].append(error)
            groups["all"].append(error)
    rows = [f"| {name} | {_figures(errors)} |" for name, errors in groups.items() if name != "all"]
    return "\n".join(
        [
            "| source | rows | median error | 90th percentile | worst |",
            "|---|--:|--:|--:|--:|",
            *sorted(rows),
            f"| all | {_figures(groups['all'])} |",
        ]
    )


def _figures(errors: list[float]) -> str:
    sizes = np.abs(errors)
    shares = (np.median(sizes), np.quantile(sizes, 0.9), np.max(sizes))
    return f"{len(errors)} | " + " | ".join(f"{share:.1%}" for share in shares)


def with_tables(document: str) -> str:
    for name, table in (("simulated", simulated_table()), ("stored", stored_table())):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = document.partition(begin)
        document = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return document


def test_the_document_has_the_tables_of_now() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(document) == document


def test_simulated_cells_are_near() -> None:
    sizes = np.abs([error for _, error in simulated_errors()])
    assert sizes.size >= 200
    assert np.median(sizes) <= 0.01
    assert np.max(sizes) <= 0.08


def test_published_runs_leaving_their_source_out() -> None:
    results = load_shipped_results()
    summary = check_results(results, results)["summary"]
    assert summary["memory"]["count"] >= 80
    assert summary["memory"]["median_abs_error"] <= 0.065
    assert summary["memory"]["p90_abs_error"] <= 0.16
    assert 0.85 <= summary["memory"]["interval_coverage"] <= 0.97
    assert summary["oom"]["ran_but_predicted_oom"] == 0
    assert summary["oom"]["oom_but_predicted_fit"] == 0


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
