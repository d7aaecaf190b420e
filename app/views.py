"""What the page shows of an answer: a sentence, tables, and bars as shares of a width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app import formatting as words
from app.translations.catalogue import gettext as _
from app.translations.catalogue import told

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
    """One part of a stacked bar. key: its term. `colour` is the number of a style class."""

    name: str
    key: str
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
        reason = told(content["nearest_miss"]["reason"])
        return _("Nothing that is allowed trains {0}: {1}.").format(model, reason)
    settings, cost = best["settings"], best["cost"]
    machines = f"{settings['num_instances']} × {settings['instance_type']}"
    return _("Train {0} on {1} ({2} GPUs): {3} tokens in {4} for {5}.").format(
        model,
        machines,
        settings["num_gpus"],
        words.count(best["num_tokens"]),
        words.duration(cost["hours"]),
        words.usd(cost["total_usd"]),
    )


def verdict(candidate: Mapping[str, Any]) -> str:
    """Whether it fits, by how much, and how sure that is."""
    memory = candidate["memory"]
    low, high = memory["interval_bytes"]
    return _(
        "{0}: a peak of {1} (90 % interval {2} to {3}) of {4} on each GPU; the chance of running "
        "out of memory is {5}."
    ).format(
        fit_name(candidate["verdict"]),
        words.gibibytes(memory["peak_bytes"]),
        words.gibibytes(low),
        words.gibibytes(high),
        words.gibibytes(memory["capacity_bytes"]),
        words.percent(memory["out_of_memory_probability"]),
    )


def fit_name(verdict: str) -> str:
    """What a verdict means, in words."""
    return {
        "fits": _("It fits"),
        "edge": _("It fits, near the edge"),
        "does_not_fit": _("It does not fit"),
    }[verdict]


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


def label_name(label: str) -> str:
    """What a candidate is best at."""
    return {
        "best": _("best"),
        "cheapest": _("cheapest"),
        "fastest": _("fastest"),
        "safest": _("safest"),
        "fewest_instances": _("fewest instances"),
    }[label]


def as_web_link(text: str) -> str:
    """The text if it is an address of the web, else nothing: no other scheme is linked."""
    return text if text.startswith(("https://", "http://")) else ""


def _choice_row(candidate: Mapping[str, Any]) -> dict[str, str]:
    settings, memory, cost = candidate["settings"], candidate["memory"], candidate["cost"]
    every = settings["checkpoint_every"]
    checkpointing = settings["activation_checkpointing"]
    return {
        "label": label_name(candidate["label"]),
        "machines": f"{settings['num_instances']} × {settings['instance_type']}",
        "precision": settings["precision"],
        "checkpointing": _("{0}, every {1} blocks").format(checkpointing, every)
        if every
        else checkpointing,
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
        names = ", ".join(told(name) for name, _value in rest)
        others = sum(value for _name, value in rest)
        shown = [*ordered[:MAX_SEGMENTS], (_("other: {0}").format(names), others)]
    segments = []
    x = 0.0
    for colour, (name, value) in enumerate(shown):
        segments.append(
            Segment(
                name=told(name),
                key=name,
                x=round(x, 2),
                width=round(value * scale, 2),
                colour=colour,
                text=text(value),
                share=words.percent(value / total if total else None),
            )
        )
        x += value * scale
    return tuple(segments)
