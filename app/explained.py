"""Explained numbers: the formula behind each number of an answer, with the user's values in it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.knowledge import Knowledge

if TYPE_CHECKING:
    from advisor.explanation import Explanation


def explained(content: Mapping[str, Any], knowledge: Knowledge) -> dict[str, "Explanation"]:
    """By the number's place in the candidate that the answer shows; none without a candidate."""
    return {}
