"""Neighbours: the stored results nearest to a plan, and how they differ, in words."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from advisor.case import Case
from advisor.evidence import Evidence, memory_interval, speed_interval
from advisor.hardware import Gpu
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.recommendation import Neighbour
from advisor.settings import Number, Settings
from advisor.stack import Stack

# What one unit of each difference weighs: doublings for sizes, 1 for being another kind.
_DOUBLING = {"model": 1.0, "seq_len": 0.5, "micro_batch": 0.4, "gpus": 0.3}
_KIND = {"gpu": 1.5, "precision": 0.8, "checkpointing": 0.8, "compile": 0.5, "program": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    weight: float
    words: str


def nearest(
    evidence: Evidence,
    shape: ModelShape,
    settings: Settings,
    stack: Stack,
    gpu: Gpu,
    *,
    count: int = 3,
) -> tuple[Neighbour, ...]:
    """The `count` stored results nearest to one plan, nearest first; one for each measured run."""
    scored = []
    for case in evidence.cases:
        differences = _differences(case, shape, settings, stack, gpu)
        distance = math.fsum(difference.weight for difference in differences)
        scored.append((distance, case.result.id, case, differences))
    scored.sort(key=lambda entry: entry[:2])
    found: list[Neighbour] = []
    seen = set()
    for distance, _, case, differences in scored:
        run = (case.result.model_name, case.result.tokens_per_s_per_gpu, case.result.peak_mem_gib)
        if run in seen:
            continue
        seen.add(run)
        found.append(_neighbour(case, evidence, distance, differences))
        if len(found) == count:
            break
    return tuple(found)


def _neighbour(
    case: Case, evidence: Evidence, distance: float, differences: list[_Difference]
) -> Neighbour:
    result = case.result
    return Neighbour(
        result_id=result.id,
        source_url=result.source_url,
        difference="; ".join(d.words for d in differences) or "the same settings",
        distance=round(distance, 3),
        measured_mem_gib=result.peak_mem_gib,
        predicted_mem_gib=None
        if case.why_not_memory
        else round(memory_interval(case, evidence).value, 2),
        measured_tokens_per_s_per_gpu=result.tokens_per_s_per_gpu,
        predicted_tokens_per_s_per_gpu=None
        if case.why_not_throughput
        else round(speed_interval(case, evidence).value, 1),
        oom=result.oom,
    )


def _differences(
    case: Case, shape: ModelShape, settings: Settings, stack: Stack, gpu: Gpu
) -> list[_Difference]:
    theirs, ours = case.settings, settings
    found = [
        _doublings("model", case.shape.num_parameters, shape.num_parameters, _billions),
        _doublings(
            "seq_len", theirs.seq_len, ours.seq_len, lambda v: f"{v:,.0f} tokens a sequence"
        ),
        _doublings("micro_batch", theirs.tokens, ours.tokens, lambda v: f"{v:,.0f} tokens a GPU"),
        _doublings("gpus", theirs.num_gpus, ours.num_gpus, lambda v: f"{v:,.0f} GPUs"),
        _kind("gpu", case.gpu.name, gpu.name),
        _kind("precision", _precision(theirs), _precision(ours)),
        _kind("checkpointing", _checkpointing(theirs), _checkpointing(ours)),
        _kind("compile", _compiled(theirs), _compiled(ours)),
        _kind("program", case.stack.name, stack.name),
    ]
    return [difference for difference in found if difference is not None]


def _doublings(
    name: str, theirs: Number, ours: Number, words: Callable[[float], str]
) -> _Difference | None:
    left, right = float(theirs), float(ours)
    doublings = abs(math.log2(left / right))
    if doublings < 0.02:
        return None
    return _Difference(
        weight=_DOUBLING[name] * doublings, words=f"{words(left)} instead of {words(right)}"
    )


def _kind(name: str, theirs: str, ours: str) -> _Difference | None:
    if theirs == ours:
        return None
    return _Difference(weight=_KIND[name], words=f"{theirs} instead of {ours}")


def _billions(num_parameters: float) -> str:
    return f"{num_parameters / 1e9:.2f}B parameters"


def _precision(settings: Settings) -> str:
    return PRECISIONS[int(settings.precision)]


def _checkpointing(settings: Settings) -> str:
    if settings.kept_fraction == 1:
        return "no checkpointing"
    if settings.op_fraction == 1:
        return "selective checkpointing"
    if settings.full_fraction == 1:
        return "full checkpointing"
    return f"every {round(1 / float(settings.full_fraction))}th block checkpointed"


def _compiled(settings: Settings) -> str:
    return "compiled" if settings.compiled else "eager"
