"""Recommendations: from a validated question to the bytes of an answer, stored under their hash."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from advisor.catalog import Catalog
from advisor.model_catalog import CatalogModel, find_model
from advisor.model_config import shape_from_config
from advisor.model_size import shape_from_size
from advisor.workload import Constraints, Pins, Workload, build_workload, default_objective
from app.answer import KnownModel, recommendation_json
from app.database import insert_unless_there
from app.errors import NotFound, ServiceUnavailable
from app.knowledge import Knowledge
from app.laws import recommendation
from app.schemas import ModelChoice, RecommendRequest
from app.tables import StoredRecommendation

ID_CHARS = 24
_ID = re.compile(rf"[0-9a-f]{{{ID_CHARS}}}")
PIN_FIELDS = (
    *("precision", "activation_checkpointing", "micro_batch", "optimizer", "sharding", "compile"),
    *("loss_chunking", "reshard_after_forward", "gradient_sync"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as it is sent: its id, the JSON bytes, and the same as plain values."""

    id: str
    body: bytes
    content: dict[str, Any]


class SearchSlots:
    """Lets few searches run at once, so that many clients cannot take all the memory."""

    def __init__(self, *, max_searches: int, wait_s: float) -> None:
        self._slots = threading.BoundedSemaphore(max_searches)
        self._wait_s = wait_s

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold one turn. Raises ServiceUnavailable when none is free in time."""
        if not self._slots.acquire(timeout=self._wait_s):
            raise ServiceUnavailable("too many searches at once; try again in a few seconds")
        try:
            yield
        finally:
            self._slots.release()


def answer(request: RecommendRequest, knowledge: Knowledge) -> Answer:
    """The answer to a question. Raises AdvisorError at the field that cannot be used.

    The id is a hash of the content: the same question on the same knowledge has the same bytes.
    """
    model = known_model(request.model)
    constraints = constraints_of(request, knowledge.catalog)
    workload = workload_of(request, model, constraints)
    found = recommendation(workload, constraints, knowledge.catalog, knowledge.evidence)
    content = recommendation_json(echo(request), model, workload, found)
    content["results_version"] = knowledge.results_version
    identity = hashlib.sha256(json_bytes(content)).hexdigest()[:ID_CHARS]
    content = {"id": identity, **content}
    return Answer(id=identity, body=json_bytes(content), content=content)


def store(session: Session, given: Answer) -> None:
    """Keep an answer; nothing happens when it is kept already."""
    row = {
        "id": given.id,
        "request": json.dumps(given.content["request"]),
        "response": given.body,
        "catalog_version": given.content["catalog_version"],
        "calibration_version": given.content["calibration_version"],
        "created_at": datetime.now(UTC),
    }
    insert_unless_there(session, StoredRecommendation, row)


def stored(session: Session, identity: str) -> Answer:
    """The answer with this id. Raises NotFound."""
    row = session.get(StoredRecommendation, identity) if _ID.fullmatch(identity) else None
    if row is None:
        raise NotFound("no recommendation has this id: ask for one at / or with POST /recommend")
    return Answer(id=row.id, body=row.response, content=json.loads(row.response))


def json_bytes(content: object) -> bytes:
    """JSON as sent: compact, in the order given, without NaN."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def echo(request: RecommendRequest) -> dict[str, Any]:
    """The question with its defaults, less what is left open.

    Without the calibration asked for: the answer names the one used, and is the same bytes whether
    that one was asked for or was in force.
    """
    return request.model_dump(mode="json", exclude_none=True, exclude={"calibration_version"})


def known_model(choice: ModelChoice) -> KnownModel:
    """The shape of the model asked for. Raises AdvisorError at model.<field>."""
    if choice.name is not None:
        return catalog_model(find_model(choice.name))
    if choice.config is not None:
        return KnownModel(
            shape=shape_from_config(choice.config), source="the config.json in the request"
        )
    if choice.size_b is None:
        raise AssertionError("the schema lets exactly one through")
    sized = shape_from_size(choice.size_b)
    return KnownModel(
        shape=sized.shape, source="derived from the size by stated rules", rules=sized.rules
    )


def catalog_model(model: CatalogModel) -> KnownModel:
    """A model of the catalogue with its published count, where there is one."""
    return KnownModel(
        shape=model.shape,
        source=model.config_source,
        num_parameters_published=model.num_parameters_exact if model.is_published_count else None,
        count_source=model.count_source,
    )


def constraints_of(request: RecommendRequest, catalog: Catalog) -> Constraints:
    """What the run may cost and where. Raises UnknownName for an instance type or a region."""
    budget = _decimal(request.budget_usd)
    names = [
        catalog.instance(name, field=f"instances.{index}").name
        for index, name in enumerate(request.instances or ())
    ]
    return Constraints(
        objective=request.objective
        or default_objective(num_tokens=request.num_tokens, budget_usd=budget),
        budget_usd=budget,
        deadline_hours=request.deadline_hours,
        instances=tuple(dict.fromkeys(names)),
        min_instances=request.min_instances or 1,
        max_instances=request.max_instances,
        pricing=request.pricing.kind,
        usd_per_instance_hour=_decimal(request.pricing.usd_per_instance_hour),
        region=None if request.region is None else catalog.region(request.region),
        max_oom_probability=request.max_oom_probability,
        pins=Pins(**{name: getattr(request, name) for name in PIN_FIELDS}),
    )


def workload_of(request: RecommendRequest, model: KnownModel, constraints: Constraints) -> Workload:
    """What is to be trained, with stated rules for what is left open."""
    return build_workload(
        model.shape,
        num_tokens=request.num_tokens,
        seq_len=request.seq_len,
        global_batch_tokens=request.global_batch_tokens,
        training=request.training,
        open_ended=constraints.objective == "most_tokens",
    )


def _decimal(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))
