"""Comparisons: today's cluster beside one P6-B200 node and beside the best that is found."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from advisor.errors import InvalidField
from advisor.hardware import Instance
from advisor.recommendation import Candidate
from advisor.workload import Constraints, Workload, build_workload, default_num_tokens
from app.answer import candidate_json, model_json
from app.knowledge import Knowledge
from app.laws import plan_cost, plan_figures, recommendation
from app.recommendations import known_model
from app.sweeps import checked_seq_len, figures_json, plan_of
from app.what_if_schemas import CompareRequest

if TYPE_CHECKING:
    from advisor.explicit import Figures

NODE = "p6-b200.48xlarge"
SAME_SPEED = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of a comparison. usd and hours are None where it cannot be bought."""

    label: str
    instance: Instance
    tokens_per_s: float
    hours: float | None
    usd: Decimal | None
    peak_bytes: int
    fits: bool
    content: dict[str, Any]


def compare(request: CompareRequest, knowledge: Knowledge) -> dict[str, Any]:
    """Sides with speed, hours, cost and memory, and what makes each differ from today's.

    Raises AdvisorError at the field that cannot be used.
    """
    model = known_model(request.model)
    seq_len = checked_seq_len(request.seq_len, model.shape)
    current = knowledge.catalog.instance(
        request.current.instance_type, field="current.instance_type"
    )
    node = knowledge.catalog.instance(NODE)
    now = _plan_side("current", request, knowledge, current, request.current.num_instances)
    sides = [now, _plan_side("same_settings_on_one_p6_b200", request, knowledge, node, 1)]
    workload = build_workload(
        model.shape,
        num_tokens=request.num_tokens,
        seq_len=seq_len,
        global_batch_tokens=now.content["settings"]["global_batch_tokens"],
        training="pretrain",
        open_ended=False,
    )
    misses = {}
    for label, names, count in (
        ("best_on_one_p6_b200", (NODE,), 1),
        ("best_found", (), request.max_instances),
    ):
        found = _searched(label, names, count, request, workload, knowledge)
        if isinstance(found, Side):
            sides.append(found)
        else:
            misses[label] = found
    return {
        "request": request.model_dump(mode="json", exclude_none=True),
        "model": model_json(model),
        "num_tokens": workload.num_tokens,
        "seq_len": seq_len,
        "sides": [_side_json(side, now) for side in sides],
        "not_found": misses,
        "assumptions": list(workload.assumptions),
        "catalog_version": knowledge.catalog.version,
        "calibration_version": knowledge.evidence.version,
    }


def _plan_side(
    label: str, request: CompareRequest, knowledge: Knowledge, instance: Instance, count: int
) -> Side:
    """A named plan; away from today's cluster it keeps the global batch by accumulating."""
    given = request.current
    shape = known_model(request.model).shape
    seq_len = checked_seq_len(request.seq_len, shape)
    is_current = label == "current"
    steps = None
    if not is_current:
        today = knowledge.catalog.instance(given.instance_type, field="current.instance_type")
        gpus = given.num_instances * today.num_gpus
        steps = max(
            round(gpus * given.settings.accumulation_steps / (count * instance.num_gpus)), 1
        )
    plan = plan_of(
        given.settings,
        instance,
        num_instances=count,
        micro_batch=given.micro_batch,
        seq_len=seq_len,
        mode=given.activation_checkpointing,
        accumulation_steps=steps,
    )
    figures = plan_figures(
        plan,
        shape,
        instance,
        knowledge.evidence,
        field="current.settings",
        max_oom_probability=request.max_oom_probability,
    )
    measured = given.measured_tokens_per_s if is_current else None
    return _side(label, figures, instance, request, knowledge, measured)


def _side(
    label: str,
    figures: "Figures",
    instance: Instance,
    request: CompareRequest,
    knowledge: Knowledge,
    measured: float | None,
) -> Side:
    speed = measured or figures.tokens_per_s
    shape = known_model(request.model).shape
    num_tokens = request.num_tokens or default_num_tokens(shape.num_parameters, "pretrain")[0]
    cost = plan_cost(
        knowledge.catalog,
        instance,
        request.pricing.kind,
        plan=figures.plan,
        shape=shape,
        training_s=num_tokens / speed,
        region=None if request.region is None else knowledge.catalog.region(request.region),
        usd_per_instance_hour=_usd(request),
        num_tokens=num_tokens,
    )
    content = figures_json(figures)
    if measured is not None:
        low, high = figures.interval_tokens_per_s
        content["measured_tokens_per_s"] = measured
        content["measured_over_predicted"] = measured / figures.tokens_per_s
        content["measured_is_within_interval"] = low <= measured <= high
    return Side(
        label=label,
        instance=instance,
        tokens_per_s=speed,
        hours=cost["hours"],
        usd=cost["total_usd"],
        peak_bytes=figures.peak_bytes,
        fits=figures.fits,
        content={**content, "cost": cost},
    )


def _searched(
    label: str,
    names: tuple[str, ...],
    count: int,
    request: CompareRequest,
    workload: Workload,
    knowledge: Knowledge,
) -> Side | str:
    """The cheapest plan on these instance types; or why there is none."""
    constraints = Constraints(
        objective="cheapest",
        instances=names,
        max_instances=count,
        pricing=request.pricing.kind,
        usd_per_instance_hour=_usd(request),
        region=None if request.region is None else knowledge.catalog.region(request.region),
        max_oom_probability=request.max_oom_probability,
    )
    try:
        found = recommendation(workload, constraints, knowledge.catalog, knowledge.evidence)
    except InvalidField as error:
        if error.field != "pricing":
            raise
        return error.detail
    if found.best is None:
        return found.nearest_miss.reason if found.nearest_miss else "nothing fits"
    return _candidate_side(label, found.best, knowledge)


def _candidate_side(label: str, best: Candidate, knowledge: Knowledge) -> Side:
    content = candidate_json(best)
    for name in ("why", "num_tokens", "num_steps"):
        del content[name]
    return Side(
        label=label,
        instance=knowledge.catalog.instance(best.plan.instance_type),
        tokens_per_s=best.throughput.tokens_per_s,
        hours=best.cost["hours"],
        usd=best.cost["total_usd"],
        peak_bytes=best.memory.peak_bytes,
        fits=True,
        content=content,
    )


def _usd(request: CompareRequest) -> Decimal | None:
    rate = request.pricing.usd_per_instance_hour
    return None if rate is None else Decimal(str(rate))


def _side_json(side: Side, now: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "tokens_per_s": side.tokens_per_s,
        "hours": side.hours,
        "total_usd": side.usd,
        "peak_bytes": side.peak_bytes,
        "fits": side.fits,
        "against_current": None if side is now else _against(side, now),
        **{name: value for name, value in side.content.items() if name not in _SHOWN},
    }


_SHOWN = ("peak_bytes", "fits", "tokens_per_s")


def _against(side: Side, now: Side) -> dict[str, Any]:
    """Factors over today's cluster, and in words where they come from."""
    ours, theirs = side.content["settings"], now.content["settings"]
    gpus = ours["num_gpus"] / theirs["num_gpus"]
    peaks = side.instance.gpu.peak_flops["bf16"] / now.instance.gpu.peak_flops["bf16"]
    speed = side.tokens_per_s / now.tokens_per_s
    words = [
        f"{gpus:.3g} × as many GPUs",
        f"{peaks:.3g} × the bf16 peak of one GPU",
        f"{speed / gpus / peaks:.3g} × as much of that peak is used",
    ]
    words += [
        f"{label}: {ours[name]} instead of {theirs[name]}"
        for name, label in _COMPARED.items()
        if ours[name] != theirs[name]
    ]
    return {
        "tokens_per_s_factor": speed,
        "hours_factor": _ratio(side.hours, now.hours),
        "usd_factor": _ratio(side.usd, now.usd),
        "peak_bytes_factor": side.peak_bytes / now.peak_bytes,
        "explanation": words,
    }


# As the form calls them.
_COMPARED = {
    "instance_type": "Instance type",
    "num_instances": "Instances",
    "precision": "Precision",
    "activation_checkpointing": "Activation checkpointing",
    "micro_batch": "Micro batch",
    "accumulation_steps": "Accumulation steps",
    "loss_chunks": "Slices of the loss",
    "shard_degree": "Shard degree",
    "compile": "torch.compile",
    "optimizer": "Optimizer",
}


def _ratio(new: float | Decimal | None, old: float | Decimal | None) -> float | None:
    return None if new is None or old is None else float(new) / float(old)
