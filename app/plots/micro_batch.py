"""Micro batches against checkpointing: speed and peak memory of the answer's own model.

The experiment that AWS's guide to these instances makes by hand, with each setting but two held.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from advisor.plan import CHECKPOINTINGS, Checkpointing, Plan
from app.laws import plan_figures
from app.plots.figure import Column, Figure, Mark, Picture, Series, by_name
from app.plots.question import Question
from app.translations.catalogue import gettext as _
from app.translations.catalogue import told

SIZES = (1, 2, 4, 8, 16, 32)
GIB = 1024**3
_COLUMNS = (
    Column(name="activation_checkpointing", label="Checkpointing"),
    Column(name="micro_batch", label="Micro batch", kind="whole"),
    Column(name="accumulation_steps", label="Micro steps", kind="whole"),
    Column(name="tokens_per_s", label="Tokens/s", kind="whole"),
    Column(name="peak_gib", label="Peak memory", kind="gib"),
    Column(name="out_of_memory_probability", label="Chance of OOM", kind="percent"),
    Column(name="fits", label="Fits", kind="flag"),
)


def micro_batch_figure(question: Question) -> Figure:
    """Speed and peak over the micro batch with each way of checkpointing; the capacity as a line.

    The tokens of one optimizer step stay as recommended as long as one micro step holds no more.
    """
    rows = [_row(question, each) for mode in CHECKPOINTINGS for each in _plans(question.plan, mode)]
    if question.plan.checkpoint_every:
        # Blocks by turns are none of the three ways: a curve of one point.
        rows.append(_row(question, question.plan))
    plan = question.plan
    capacity_gib = question.best["memory"]["capacity_bytes"] / GIB
    speed = Picture(
        title=_("Speed"),
        x_label=_("Sequences per GPU and forward"),
        y_label=_("Tokens/s"),
        series=tuple(_series(name, own, "tokens_per_s") for name, own in _modes(rows)),
        has_log_x=True,
    )
    memory = Picture(
        title=_("Peak memory of a GPU"),
        x_label=_("Sequences per GPU and forward"),
        y_label=_("GiB"),
        series=tuple(_series(name, own, "peak_gib") for name, own in _modes(rows)),
        marks=(Mark(axis="y", value=capacity_gib, label=_("capacity for PyTorch")),),
        has_log_x=True,
        # Far beyond the capacity one plan is as impossible as another.
        y_max=2.0 * capacity_gib,
    )
    return Figure(
        name="micro_batch",
        title=_("Micro batch and checkpointing"),
        note=_("All other settings as recommended, on {0} × {1}. Hollow points do not fit.").format(
            plan.num_instances, plan.instance_type
        ),
        columns=_COLUMNS,
        rows=tuple(rows),
        pictures=(speed, memory),
    )


def _plans(plan: Plan, mode: Checkpointing) -> list[Plan]:
    """The plan with each micro batch; its tokens of a step are kept where they can be."""
    sequences = plan.micro_batch * plan.accumulation_steps
    return [
        replace(
            plan,
            activation_checkpointing=mode,
            checkpoint_every=0,
            micro_batch=size,
            accumulation_steps=max(round(sequences / size), 1),
            gradient_sync=plan.gradient_sync if round(sequences / size) > 1 else "each",
        )
        for size in sorted({*SIZES, plan.micro_batch})
    ]


def _row(question: Question, plan: Plan) -> dict[str, Any]:
    figures = plan_figures(
        plan,
        question.shape,
        question.instance,
        question.knowledge.evidence,
        field="settings",
        max_oom_probability=question.constraints.max_oom_probability,
    )
    return {
        "activation_checkpointing": _way(plan),
        "micro_batch": plan.micro_batch,
        "accumulation_steps": plan.accumulation_steps,
        "tokens_per_s": figures.tokens_per_s,
        "peak_gib": figures.peak_bytes / GIB,
        "out_of_memory_probability": figures.out_of_memory_probability,
        "fits": figures.fits,
    }


def _way(plan: Plan) -> str:
    if not plan.checkpoint_every:
        return plan.activation_checkpointing
    return f"{plan.activation_checkpointing}, every {plan.checkpoint_every}th block"


def _modes(rows: list[dict[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    return by_name(rows, "activation_checkpointing")


def _series(name: str, rows: list[Mapping[str, Any]], measure: str) -> Series:
    return Series(
        name=told(name),
        x=tuple(row["micro_batch"] for row in rows),
        y=tuple(row[measure] for row in rows),
        texts=tuple(
            _("{0}, micro batch {1}: {2} tokens/s, {3} GiB").format(
                name, row["micro_batch"], f"{row['tokens_per_s']:,.0f}", f"{row['peak_gib']:,.1f}"
            )
            for row in rows
        ),
        hollow=tuple(not row["fits"] for row in rows),
    )
