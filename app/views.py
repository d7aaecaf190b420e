"""What the page shows of an answer: a sentence, tables, and bars as shares of a width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app import formatting as words

# A bar's width in the drawing's own units.
BAR_WIDTH = 1000.0
# Terms with a colour of their own; smaller ones share one.
MAX_SEGMENTS = 7
HIDDEN_SETTINGS = ("gpus_per_instance",)
# What the settings mean that follow from the question, or from the settings that were searched.
FOLLOWS = {
    "seq_len": "as asked for, or by the rule under Assumptions",
    "global_batch_tokens": "what one step trains on: the nearest to the batch asked for",
    "accumulation_steps": "micro steps before each update of the weights",
    "shard_degree": "GPUs that hold one copy of the model together",
    "replica_degree": "copies of the model",
    "num_gpus": "instances times GPUs of each",
    "checkpoint_every": "0: not by whole blocks; k: each k-th block keeps only its input",
    "optimizer": "AdamW with fp32 states unless pinned",
    "compile": "torch.compile of each block unless pinned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a stacked bar. `colour` is the number of a style class."""

    name: str
    x: float
    width: float
    colour: int
    text: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stacked bar: its segments from left to right, and marks at places of its scale."""

    segments: tuple[Segment, ...]
    marks: Mapping[str, float]


def headline(content: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    best = content["best"]
    model = content["model"]["name"]
    if best is None:
        return f"Nothing that is allowed trains {model}: {content['nearest_miss']['reason']}."
    settings, cost = best["settings"], best["cost"]
    machines = f"{settings['num_instances']} × {settings['instance_type']}"
    return (
        f"Train {model} on {machines} ({settings['num_gpus']} GPUs): "
        f"{words.count(best['num_tokens'])} tokens in {words.duration(cost['hours'])} "
        f"for {words.usd(cost['total_usd'])}."
    )


def verdict(candidate: Mapping[str, Any]) -> str:
    """Whether it fits, by how much, and how sure that is."""
    memory = candidate["memory"]
    low, high = memory["interval_bytes"]
    fits = {
        "fits": "It fits",
        "edge": "It fits, near the edge",
        "does_not_fit": "It does not fit",
    }[candidate["verdict"]]
    return (
        f"{fits}: a peak of {words.gibibytes(memory['peak_bytes'])} "
        f"(90 % interval {words.gibibytes(low)} to {words.gibibytes(high)}) of "
        f"{words.gibibytes(memory['capacity_bytes'])} on each GPU; the chance of running out of "
        f"memory is {words.percent(memory['out_of_memory_probability'])}."
    )


def memory_bar(memory: Mapping[str, Any]) -> Bar:
    """Bytes at the peak by term, against the capacity and the interval."""
    low, high = memory["interval_bytes"]
    places = {
        "capacity": memory["capacity_bytes"],
        "low": low,
        "high": high,
        "peak": memory["peak_bytes"],
    }
    scale = BAR_WIDTH / max(places.values())
    return Bar(
        segments=_segments(memory["terms"], scale, words.gibibytes),
        marks={name: value * scale for name, value in places.items()},
    )


def step_bar(throughput: Mapping[str, Any]) -> Bar:
    """Seconds of one step by term."""
    terms = throughput["terms"]
    total_s = sum(terms.values())
    scale = BAR_WIDTH / total_s if total_s else 0.0
    return Bar(segments=_segments(terms, scale, words.seconds), marks={})


def setting_rows(candidate: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """(setting, value, why, next best) of every setting; those with a reason first."""
    settings = candidate["settings"]
    rows = []
    for reason in candidate["why"]:
        name = reason["setting"]
        value = words.setting(settings[name]) if name in settings else reason["value"]
        rows.append((name, value, reason["reason"], reason["next_best"] or ""))
    shown = {*HIDDEN_SETTINGS, *(row[0] for row in rows)}
    rows += [
        (name, words.setting(value), FOLLOWS.get(name, ""), "")
        for name, value in settings.items()
        if name not in shown
    ]
    return rows


def choice_rows(content: Mapping[str, Any]) -> list[dict[str, str]]:
    """The best and the alternatives side by side."""
    labelled = [{"label": "best", **content["best"]}, *content["alternatives"]]
    return [_choice_row(each) for each in labelled]


def as_web_link(text: str) -> str:
    """The text if it is an address of the web, else nothing: no other scheme is linked."""
    return text if text.startswith(("https://", "http://")) else ""


def _choice_row(candidate: Mapping[str, Any]) -> dict[str, str]:
    settings, memory, cost = candidate["settings"], candidate["memory"], candidate["cost"]
    every = settings["checkpoint_every"]
    checkpointing = settings["activation_checkpointing"]
    return {
        "label": candidate["label"].replace("_", " "),
        "machines": f"{settings['num_instances']} × {settings['instance_type']}",
        "precision": settings["precision"],
        "checkpointing": f"{checkpointing}, every {every} blocks" if every else checkpointing,
        "micro_batch": str(settings["micro_batch"]),
        "peak": words.gibibytes(memory["peak_bytes"]),
        "risk": words.percent(memory["out_of_memory_probability"]),
        "speed": words.whole(candidate["throughput"]["tokens_per_s"]),
        "tokens": words.count(candidate["num_tokens"]),
        "time": words.duration(cost["hours"]),
        "cost": words.usd(cost["total_usd"]),
    }


def _segments(terms: Mapping[str, float], scale: float, text: Any) -> tuple[Segment, ...]:
    total = sum(terms.values())
    ordered = sorted(terms.items(), key=lambda item: -item[1])
    shown: Sequence[tuple[str, float]] = ordered
    if len(ordered) > MAX_SEGMENTS + 1:
        rest = ordered[MAX_SEGMENTS:]
        names = ", ".join(name for name, _ in rest)
        shown = [*ordered[:MAX_SEGMENTS], (f"other: {names}", sum(value for _, value in rest))]
    segments = []
    x = 0.0
    for colour, (name, value) in enumerate(shown):
        segments.append(
            Segment(
                name=name,
                x=round(x, 2),
                width=round(value * scale, 2),
                colour=colour,
                text=text(value),
                share=words.percent(value / total if total else None),
            )
        )
        x += value * scale
    return tuple(segments)
