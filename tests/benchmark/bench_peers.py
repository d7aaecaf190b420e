"""Published memory formulas of other tools against the same stored results as Shardwise.

Each formula is written anew from the tool's published source at the commit named; one that has no
selective mode, or no mode without checkpointing, has no answer there. Run with --write to renew
docs/peers.csv, which docs/accuracy.md shows. Fails when Shardwise is not the best of the table.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.accuracy import accuracy_report
from advisor.case import Case
from advisor.evidence import capacity_bytes, cases_of
from advisor.model import ModelShape
from advisor.result import load_shipped_results
from advisor.units import GIB

OUT = Path(__file__).parents[2] / "docs/peers.csv"
WITHIN = 0.10
EVEN_ODDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the formulas read. tokens: of one GPU and forward. mode: none, selective or full."""

    shape: ModelShape
    num_gpus: float
    seq_len: float
    tokens: float
    mode: str

    @property
    def layer_elements(self) -> float:
        """Tokens times hidden size."""
        return self.tokens * self.shape.hidden_size

    @property
    def logits(self) -> float:
        return self.tokens * self.shape.vocab_size

    @property
    def share(self) -> float:
        """Parameters of one GPU."""
        return self.shape.num_parameters / self.num_gpus


def cookbook(job: Job) -> float | None:
    """EleutherAI/cookbook calc_transformer_mem at 827ee3b, ZeRO-3: 34 bytes and the s² map."""
    shape = job.shape
    squared = 5.0 * shape.num_heads * job.seq_len / shape.hidden_size if job.mode == "none" else 0.0
    saved = job.layer_elements * shape.num_layers * (34.0 + squared)
    return 18.0 * job.share + saved + 2.0 * 1.5e9


def llm_analysis(job: Job) -> float | None:
    """cli99/llm-analysis at d841e40, ds_zero=3: the embedding counts once even when untied."""
    shape, elements = job.shape, job.layer_elements
    once = shape.num_parameters - (
        0 if shape.tied_embeddings else shape.vocab_size * shape.hidden_size
    )
    share = once / job.num_gpus
    mlp = 2.0 + 4.0 * shape.ffn_size / shape.hidden_size
    flash = 4.0 * elements + 8.0 * shape.num_heads * job.tokens
    layer = {
        "none": elements * (11.0 + mlp + 8.0) + flash,
        "selective": elements * (11.0 + mlp + 8.0),
        "full": 2.0 * elements,
    }[job.mode]
    ahead = 4.0 * shape.block_parameters
    peak = max(layer * shape.num_layers + 4.0 * job.logits, 4.0 * share + ahead)
    return 14.0 * share + peak


def fsdp_memory_estimator(job: Job) -> float | None:
    """PopSoda2002/FSDP_memory_estimator at 3730314, full shard."""
    shape = job.shape
    layer = 17.0 * job.layer_elements + 4.0 * job.tokens * shape.ffn_size
    saved = {
        "none": layer * shape.num_layers,
        "selective": 0.6 * layer * shape.num_layers,
        "full": 2.0 * job.layer_elements * shape.num_layers + layer,
    }[job.mode]
    buffers = 4.0 * shape.block_parameters
    return 16.0 * job.share + saved + 6.0 * job.logits + buffers + 2.0 * GIB


def gpu_mem_calculator(job: Job) -> float | None:
    """George614/gpu-mem-calculator at 2f345d1, engine fsdp."""
    saved = 16.0 * job.layer_elements * job.shape.num_layers
    saved *= {"none": 1.0, "selective": 0.6, "full": 0.2}[job.mode]
    return 1.2 * (16.0 * job.share + 32.0 * job.shape.hidden_size**2 + saved)


def training_hub(job: Job) -> float | None:
    """Red-Hat training_hub profiling at f793034, its middle figure: checkpointing is assumed."""
    if job.mode != "full":
        return None
    saved = 4.0 * job.layer_elements * job.shape.num_layers
    return 1.1 * (16.0 * job.share + saved + 8.0 / 3.0 * 4.0 * job.logits)


def llm_vlm_estimator(job: Job) -> float | None:
    """MiaoDX/llm_vlm_memory_estimator at 61cdbab, ZeRO-3 with flash attention."""
    if job.mode == "selective":
        return None
    saved = (2.0 * 0.8 * 0.2 + 12.0) * job.layer_elements * job.shape.num_layers
    saved *= 1.0 if job.mode == "none" else 0.35
    return 1.1 * (18.0 * job.share + saved + 2.0 * job.logits + 13.5 * GIB)


def fm_training_estimator(job: Job) -> float | None:
    """foundation-model-stack/fm-training-estimator at 1d04f05, its theory: checkpointing is ÷ L."""
    if job.mode == "selective":
        return None
    shape, hidden = job.shape, job.shape.hidden_size
    counted = shape.num_layers * (12 * hidden**2 + 13 * hidden) + (shape.vocab_size + 4) * hidden
    layer = job.layer_elements * (34.0 + 5.0 * shape.num_heads * job.seq_len / hidden)
    saved = layer * (shape.num_layers if job.mode == "none" else 1)
    return 8.0 * counted / job.num_gpus + saved


def deepspeed_zero3(job: Job) -> float | None:
    """deepspeed estimate_zero3_model_states_mem_needs at 38327e0: model states only."""
    return 18.0 * job.share + 4.0 * job.shape.vocab_size * job.shape.hidden_size


PEERS: dict[str, Callable[[Job], float | None]] = {
    "llm-analysis": llm_analysis,
    "FSDP_memory_estimator": fsdp_memory_estimator,
    "EleutherAI cookbook": cookbook,
    "gpu-mem-calculator": gpu_mem_calculator,
    "training_hub": training_hub,
    "llm_vlm_memory_estimator": llm_vlm_estimator,
    "fm-training-estimator": fm_training_estimator,
    "DeepSpeed zero3": deepspeed_zero3,
}
# What the tools themselves printed (GiB): Llama 3 8B on 8 GPUs, one sequence of 4096, by mode.
PRINTED = {
    "llm-analysis": {"none": 33.8, "selective": 31.8, "full": 16.7},
    "FSDP_memory_estimator": {"none": 36.2, "selective": 30.0, "full": 22.2},
    "EleutherAI cookbook": {"none": 116.7, "full": 36.7},
    "gpu-mem-calculator": {"none": 27.8, "selective": 24.0, "full": 20.2},
    "training_hub": {"full": 24.4},
    "llm_vlm_memory_estimator": {"none": 41.2, "full": 36.8},
    "fm-training-estimator": {"none": 103.5, "full": 9.5},
    "DeepSpeed zero3": {"none": 18.8},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One tool's answer to one stored run; peak_gib is None where it has none."""

    measured_gib: float | None
    peak_gib: float | None
    calls_oom: bool
    oom: bool


def comparable() -> list[Case]:
    """Full-parameter sharded runs with fp32 weights whose memory is known: what the tools model."""
    return [
        case
        for case in cases_of(load_shipped_results())
        if case.why_not_memory is None
        and case.stack.engine in ("fsdp1", "fsdp2", "zero")
        and case.result.sharding in ("full", None)
        and case.result.param_dtype == "fp32"
    ]


def job_of(case: Case) -> Job:
    settings = case.settings
    mode = "none" if settings.kept_fraction == 1 else "selective"
    return Job(
        shape=case.shape,
        num_gpus=float(settings.num_gpus),
        seq_len=settings.seq_len,
        tokens=float(settings.tokens),
        mode="full" if settings.full_fraction == 1 else mode,
    )


def peer_answers(formula: Callable[[Job], float | None], cases: Sequence[Case]) -> list[Answer]:
    answers = []
    for case in cases:
        peak = formula(job_of(case))
        answers.append(
            Answer(
                measured_gib=case.result.peak_mem_gib,
                peak_gib=None if peak is None else peak / GIB,
                calls_oom=peak is not None and peak > capacity_bytes(case.gpu),
                oom=case.result.oom,
            )
        )
    return answers


def own_answers(cases: Sequence[Case]) -> list[Answer]:
    """Shardwise, with the calibration that has not seen the row's source."""
    rows = {row["id"]: row for row in accuracy_report(load_shipped_results())["rows"]}
    own = [rows[case.result.id] for case in cases]
    return [
        Answer(
            measured_gib=row["peak_mem_gib"],
            peak_gib=row["predicted_mem_gib"],
            calls_oom=row["out_of_memory_probability"] > EVEN_ODDS,
            oom=row["oom"],
        )
        for row in own
    ]


def line(name: str, answers: Sequence[Answer]) -> dict[str, str]:
    given = [each for each in answers if each.peak_gib is not None]
    errors = np.asarray(
        [
            (each.peak_gib or 0.0) / each.measured_gib - 1.0
            for each in given
            if each.measured_gib is not None and not each.oom
        ]
    )
    died = [each for each in given if each.oom]
    return {
        "tool": name,
        "rows": str(errors.size),
        "within_10_percent": str(int(np.sum(np.abs(errors) <= WITHIN))),
        "median_abs_error": f"{np.median(np.abs(errors)):.3f}",
        "p90_abs_error": f"{np.quantile(np.abs(errors), 0.9):.3f}",
        "oom_rows": str(len(died)),
        "oom_caught": str(sum(each.calls_oom for each in died)),
        "refused_that_ran": str(sum(each.calls_oom and not each.oom for each in given)),
    }


def main(arguments: Sequence[str]) -> int:
    cases = comparable()
    table = [line("Shardwise", own_answers(cases))]
    table += [line(name, peer_answers(formula, cases)) for name, formula in PEERS.items()]
    for row in table:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    if "--write" in arguments:
        with OUT.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
    hits = [int(row["within_10_percent"]) for row in table]
    return 0 if hits[0] > max(hits[1:]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
