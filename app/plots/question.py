"""Question behind a stored answer, put together again with the knowledge that answered it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.hardware import Instance
from advisor.model import ModelShape
from advisor.plan import Plan, plan_from
from advisor.workload import Constraints, Workload
from app.knowledge import Knowledge
from app.recommendations import constraints_of, known_model, workload_of
from app.schemas import RecommendRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """content: the stored answer, which has a best plan. plan: that plan."""

    content: Mapping[str, Any]
    request: RecommendRequest
    workload: Workload
    constraints: Constraints
    plan: Plan
    instance: Instance
    knowledge: Knowledge

    @property
    def shape(self) -> ModelShape:
        """The model."""
        return self.workload.shape

    @property
    def best(self) -> Mapping[str, Any]:
        """The recommended plan with its figures."""
        found: Mapping[str, Any] = self.content["best"]
        return found


def question_of(content: Mapping[str, Any], knowledge: Knowledge) -> Question | None:
    """The question of an answer; None where nothing was found that fits."""
    if content["best"] is None:
        return None
    request = RecommendRequest.model_validate(content["request"])
    model = known_model(request.model)
    constraints = constraints_of(request, knowledge.catalog)
    plan = plan_from(content["best"]["settings"])
    return Question(
        content=content,
        request=request,
        workload=workload_of(request, model, constraints),
        constraints=constraints,
        plan=plan,
        instance=knowledge.catalog.instance(plan.instance_type),
        knowledge=knowledge,
    )
