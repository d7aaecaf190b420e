"""Explained numbers: the formula behind each number of an answer, with the user's values in it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.knowledge import Knowledge
from app.laws import explanations
from app.recommendations import known_model
from app.schemas import ModelChoice

if TYPE_CHECKING:
    from advisor.explanation import Explanation


def explained(content: Mapping[str, Any], knowledge: Knowledge) -> "Mapping[str, Explanation]":
    """By the number's place in the candidate that the answer shows; none without a candidate."""
    shown = content["best"] or (content["nearest_miss"] or {}).get("candidate")
    if shown is None:
        return {}
    model = known_model(ModelChoice.model_validate(content["request"]["model"]))
    return explanations(model.shape, shown, knowledge.catalog, knowledge.evidence)
