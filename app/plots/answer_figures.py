"""Figures of a stored answer, in the order of the page."""

from collections.abc import Mapping
from typing import Any

from app.knowledge import Knowledge
from app.plots.around import around_figures
from app.plots.figure import Figure
from app.plots.micro_batch import micro_batch_figure
from app.plots.question import question_of
from app.plots.timeline import timeline_figure


def answer_figures(content: Mapping[str, Any], knowledge: Knowledge) -> tuple[Figure, ...]:
    """The figures of an answer; none where nothing was found that fits.

    knowledge: what the answer was made with.
    """
    question = question_of(content, knowledge)
    if question is None:
        return ()
    cost_and_time, scaling = around_figures(question)
    return (
        micro_batch_figure(question),
        cost_and_time,
        timeline_figure(question),
        scaling,
    )
