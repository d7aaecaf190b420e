"""Memory over one step: what holds a GPU's bytes at each of its five instants."""

from app.laws import memory_by_instant
from app.plots.figure import Column, Figure, Mark, Picture, Series
from app.plots.question import Question
from app.translations.catalogue import gettext as _
from app.translations.catalogue import told

GIB = 1024**3


def timeline_figure(question: Question) -> Figure:
    """Bytes by term at each instant, stacked; the largest stack is the peak."""
    instants = memory_by_instant(question.plan, question.shape, question.knowledge.evidence)
    names = list(dict.fromkeys(name for terms in instants.values() for name in terms))
    shown = [name for name in names if any(terms.get(name, 0) > 0 for terms in instants.values())]
    held = [{name: terms.get(name, 0.0) / GIB for name in shown} for terms in instants.values()]
    rows = tuple(
        {"instant": instant, **each, "total": sum(each.values())}
        for instant, each in zip(instants, held, strict=True)
    )
    places = tuple(told(instant) for instant in instants)
    picture = Picture(
        title=_("Bytes held on a GPU"),
        x_label=_("Instant of a step"),
        y_label=_("GiB"),
        series=tuple(
            Series(
                name=told(name),
                x=places,
                y=tuple(each[name] for each in held),
                texts=tuple(f"{told(name)}: {each[name]:,.1f} GiB" for each in held),
                drawn="bars",
            )
            for name in shown
        ),
        marks=(
            Mark(
                axis="y",
                value=question.best["memory"]["capacity_bytes"] / GIB,
                label=_("capacity for PyTorch"),
            ),
        ),
        is_stacked=True,
    )
    return Figure(
        name="memory_timeline",
        title=_("Memory over one step"),
        note=_("Between the first and the last block activations fall and gradients grow."),
        columns=(
            Column(name="instant", label="Instant"),
            *(Column(name=name, label=name, kind="gib") for name in shown),
            Column(name="total", label="Total", kind="gib"),
        ),
        rows=rows,
        pictures=(picture,),
    )
