"""An answer of the advisor for a small model, and orders made of it."""

import json
from typing import Any

import pytest

from app.jobs.orders import Ordered, ordered
from app.jobs.schemas import JobRequest
from app.knowledge import knowledge_of
from app.recommendations import answer
from app.schemas import RecommendRequest
from app.settings import Settings

IDENTITY = "0123456789abcdef" * 2


@pytest.fixture(scope="session")
def content() -> dict[str, Any]:
    """A stored answer as plain values: a billion parameters on one P5en."""
    question = RecommendRequest.model_validate(
        {"model": {"size_b": 1.0}, "num_tokens": 10**9, "instances": ["p5en"]}
    )
    found: dict[str, Any] = json.loads(answer(question, knowledge_of(())).body)
    return found


@pytest.fixture
def made(content: dict[str, Any]) -> Ordered:
    """The order of its best candidate on this machine."""
    request = JobRequest(recommendation_id=content["id"])
    return ordered(request, content, Settings(), identity=IDENTITY)
