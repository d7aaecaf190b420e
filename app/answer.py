"""The answer as JSON: the advisor's dataclasses in, plain values with fixed names out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from advisor.model import ModelShape
from advisor.recommendation import Candidate, NearestMiss, Recommendation
from advisor.workload import Workload

_NAMES = ("name", "family")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model as the user named it: its shape, where that is from, and the published count."""

    shape: ModelShape
    source: str
    rules: tuple[str, ...] = ()
    num_parameters_published: int | None = None
    count_source: str | None = None


def model_json(model: KnownModel) -> dict[str, Any]:
    """Name, exact parameter count and dimensions of a model."""
    shape = model.shape
    answer: dict[str, Any] = {
        "name": shape.name,
        "family": shape.family,
        "num_parameters": shape.num_parameters,
        "source": model.source,
        "shape": {f.name: getattr(shape, f.name) for f in fields(shape) if f.name not in _NAMES},
        "rules": list(model.rules),
    }
    if model.num_parameters_published is not None:
        answer["num_parameters_published"] = model.num_parameters_published
    if model.count_source is not None:
        answer["count_source"] = model.count_source
    return answer


def recommendation_json(
    request: Mapping[str, Any], model: KnownModel, workload: Workload, found: Recommendation
) -> dict[str, Any]:
    """The whole answer without its id."""
    return {
        "request": dict(request),
        "model": model_json(model),
        "workload": {
            "seq_len": workload.seq_len,
            "num_tokens": workload.num_tokens,
            "global_batch_tokens": workload.global_batch_tokens,
            "training": workload.training,
        },
        "best": None if found.best is None else candidate_json(found.best),
        "alternatives": [
            {"label": label, **candidate_json(each)} for label, each in found.alternatives
        ],
        "nearest_miss": None if found.nearest_miss is None else _miss_json(found.nearest_miss),
        "searched": {
            "num_candidates": found.num_candidates,
            "num_fitting": found.num_fitting,
        },
        "assumptions": list(found.assumptions),
        "catalog_version": found.catalog_version,
        "calibration_version": found.calibration_version,
    }


def candidate_json(candidate: Candidate) -> dict[str, Any]:
    """One plan with its figures."""
    plan = candidate.plan
    memory = asdict(candidate.memory)
    memory["interval_bytes"] = list(candidate.memory.interval_bytes)
    throughput = asdict(candidate.throughput)
    throughput["interval_tokens_per_s"] = list(candidate.throughput.interval_tokens_per_s)
    return {
        "settings": {
            **asdict(plan),
            "num_gpus": plan.num_gpus,
            "global_batch_tokens": plan.tokens_per_step,
        },
        "num_tokens": candidate.num_tokens,
        "num_steps": candidate.num_steps,
        "verdict": candidate.verdict,
        "memory": memory,
        "throughput": throughput,
        "cost": dict(candidate.cost),
        "why": [asdict(reason) for reason in candidate.why],
        "evidence": [asdict(neighbour) for neighbour in candidate.evidence],
    }


def _miss_json(miss: NearestMiss) -> dict[str, Any]:
    candidate = None if miss.candidate is None else candidate_json(miss.candidate)
    return {"reason": miss.reason, "change": miss.change, "candidate": candidate}
