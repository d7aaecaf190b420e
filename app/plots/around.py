"""Plans around the answer: cost against time, and what more instances bring."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.laws import plans_around
from app.plots.figure import Column, Drawn, Figure, Mark, Picture, Series, by_name
from app.plots.question import Question
from app.shared_address import page_address, pinned_values
from app.translations.catalogue import gettext as _

if TYPE_CHECKING:
    from advisor.landscape import Spot

_PLAN_COLUMNS = (
    Column(name="instance_type", label="Instance type"),
    Column(name="num_instances", label="Instances", kind="whole"),
    Column(name="precision", label="Precision"),
    Column(name="activation_checkpointing", label="Checkpointing"),
    Column(name="micro_batch", label="Micro batch", kind="whole"),
)
_SPEED = Column(name="tokens_per_s", label="Tokens/s", kind="whole")
_USD_PER_BILLION = Column(name="usd_per_billion_tokens", label="USD per billion tokens", kind="usd")


def around_figures(question: Question) -> tuple[Figure, Figure]:
    """Cost against time, and speed against instances, of the same number of tokens."""
    found = plans_around(
        question.workload,
        question.constraints,
        question.knowledge.catalog,
        question.knowledge.evidence,
        num_tokens=question.best["num_tokens"],
    )
    return (
        _cost_and_time(question, [_row(question, each) for each in found.front]),
        _scaling(question, [_row(question, each) for each in found.by_count]),
    )


def _row(question: Question, spot: "Spot") -> dict[str, Any]:
    plan = spot.plan
    values = pinned_values(question.content["request"], plan, question.best["num_tokens"])
    return {
        "instance_type": plan.instance_type,
        "num_instances": plan.num_instances,
        "precision": plan.precision,
        "activation_checkpointing": plan.activation_checkpointing,
        "micro_batch": plan.micro_batch,
        "hours": spot.hours,
        "usd": spot.usd,
        "usd_per_billion_tokens": spot.usd_per_billion_tokens,
        "tokens_per_s": spot.tokens_per_s,
        "communication_fraction": spot.communication_fraction,
        "is_best": spot.is_best,
        "link": page_address(values),
    }


def _cost_and_time(question: Question, rows: list[dict[str, Any]]) -> Figure:
    limits = question.constraints
    marks = []
    if limits.budget_usd is not None:
        marks.append(Mark(axis="y", value=float(limits.budget_usd), label=_("budget")))
    if limits.deadline_hours is not None:
        marks.append(Mark(axis="x", value=limits.deadline_hours, label=_("deadline")))
    picture = Picture(
        title=_("Cost against time"),
        x_label=_("Hours"),
        y_label=_("US dollars"),
        series=tuple(
            _series(name, own, "hours", "usd", "dots")
            for name, own in by_name(rows, "instance_type")
        ),
        marks=tuple(marks),
        has_log_x=True,
        has_log_y=True,
    )
    return Figure(
        name="cost_and_time",
        title=_("Cost against time"),
        note=_(
            "For each instance type the plans that no other of its type beats in both, for the "
            "same tokens. Filled points are beaten by no plan at all. A point leads to its "
            "question."
        ),
        columns=(
            *_PLAN_COLUMNS,
            Column(name="hours", label="Time", kind="duration"),
            Column(name="usd", label="Cost", kind="usd"),
            _SPEED,
            Column(name="is_best", label="Beaten by none", kind="flag"),
        ),
        rows=tuple(rows),
        pictures=(picture,),
    )


def _scaling(question: Question, rows: list[dict[str, Any]]) -> Figure:
    own = question.plan.instance_type
    shown = sorted(rows, key=lambda row: row["instance_type"] != own)
    groups = by_name(shown, "instance_type")
    speed = Picture(
        title=_("Speed against instances"),
        x_label=_("Instances"),
        y_label=_("Tokens/s"),
        series=(
            *(_series(name, each, "num_instances", "tokens_per_s") for name, each in groups),
            _linear(own, groups[0][1]),
        ),
        has_log_x=True,
        has_log_y=True,
    )
    price = Picture(
        title=_("Price of a token against instances"),
        x_label=_("Instances"),
        y_label=_("US dollars per billion tokens"),
        series=tuple(
            _series(name, each, "num_instances", "usd_per_billion_tokens") for name, each in groups
        ),
        has_log_x=True,
        has_log_y=True,
    )
    return Figure(
        name="scaling",
        title=_("More instances"),
        note=_(
            "The fastest plan for each number of instances. Where a line falls below the dashed "
            "one, communication and smaller micro batches take their share."
        ),
        columns=(
            *_PLAN_COLUMNS,
            _SPEED,
            Column(
                name="communication_fraction", label="Waiting for communication", kind="percent"
            ),
            _USD_PER_BILLION,
            Column(name="hours", label="Time", kind="duration"),
        ),
        rows=tuple(shown),
        pictures=(speed, price),
    )


def _linear(name: str, rows: Sequence[Mapping[str, Any]]) -> Series:
    """As fast as the fewest instances are, times their number."""
    first = rows[0]
    each = first["tokens_per_s"] / first["num_instances"]
    return Series(
        name=_("{0}, in proportion").format(name),
        x=tuple(row["num_instances"] for row in rows),
        y=tuple(each * row["num_instances"] for row in rows),
        drawn="dashes",
    )


def _series(
    name: str, rows: Sequence[Mapping[str, Any]], x: str, y: str, drawn: Drawn = "lines"
) -> Series:
    return Series(
        name=name,
        x=tuple(row[x] for row in rows),
        y=tuple(row[y] for row in rows),
        texts=tuple(_told(row) for row in rows),
        links=tuple(row["link"] for row in rows),
        hollow=tuple(not row["is_best"] for row in rows) if drawn == "dots" else (),
        drawn=drawn,
    )


def _told(row: Mapping[str, Any]) -> str:
    usd = "–" if row["usd"] is None else f"${row['usd']:,.0f}"
    return _("{0} × {1}, {2}, checkpointing {3}, micro batch {4}: {5} hours, {6}").format(
        row["num_instances"],
        row["instance_type"],
        row["precision"],
        row["activation_checkpointing"],
        row["micro_batch"],
        f"{row['hours']:,.1f}",
        usd,
    )
