"""What a key may spend: refused before anything is written, counted over the month."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from reached_service import Reached

from app.access.caps import check_caps, spent_in_month
from app.access.errors import BudgetExceeded
from app.access.keys import find_key, revoke_key
from app.access.roles import Actor, Role
from app.access.tables import ApiKey
from app.jobs.schemas import JobRequest
from app.jobs.store import plan_job, write_job
from app.settings import Settings

NOW = datetime.now(UTC)
QUESTION = {"model": {"size_b": 1}, "num_tokens": 10**9, "instances": ["p5en"]}
SAGEMAKER = {
    "backend": "sagemaker",
    "region": "us-east-1",
    "role_arn": "arn:aws:iam::123456789012:role/job",
    "output_s3_uri": "s3://bucket/out",
}


@pytest.fixture
def spend(reached: Reached) -> Callable[..., str]:
    """Writes a job of the capped key that may cost so much; its id."""
    identity = reached.client.post(
        "/recommend", json=QUESTION, headers=reached.bearer("viewer")
    ).json()["id"]

    folders = count()

    def write(max_usd: str | None, now: datetime = NOW) -> str:
        asked: dict[str, Any] = {
            **SAGEMAKER,
            "recommendation_id": identity,
            "checkpoint_s3_uri": f"s3://bucket/{next(folders)}",
        }
        request = JobRequest.model_validate(asked)
        settings = Settings()
        with reached.database.writing() as session:
            actor = actor_of_capped(reached)
            new = plan_job(session, request, settings, created_by=actor.key_id)
            amount = None if max_usd is None else Decimal(max_usd)
            check_caps(session, actor, amount, now)
            job = write_job(session, new, settings, now)
            job.max_usd = amount
            return job.id

    return write


def actor_of_capped(reached: Reached) -> Actor:
    """The capped key as an actor."""
    with reached.database.reading() as session:
        key = find_key(session, reached.keys["capped"])
        assert key is not None
        return Actor(name=key.name, role=Role.SUBMITTER, key_id=key.id)


def test_a_job_beyond_the_cap_of_one_job(spend: Callable[..., str]) -> None:
    with pytest.raises(BudgetExceeded, match=r"may cost \$100\.01, and the key capped may spend"):
        spend("100.001")
    assert spend("100")


def test_a_month_fills_up_and_begins_anew(reached: Reached, spend: Callable[..., str]) -> None:
    spend("100")
    with pytest.raises(BudgetExceeded, match=r"\$50\.00 are left until"):
        spend("60")
    spend("50")
    next_month = (NOW.replace(day=28) + timedelta(days=4)).replace(day=1)
    spend("60", next_month)
    actor = actor_of_capped(reached)
    with reached.database.reading() as session:
        assert actor.key_id
        assert spent_in_month(session, actor.key_id, NOW) == Decimal(150)


def test_an_unknown_price_is_refused_for_a_key_with_a_cap(spend: Callable[..., str]) -> None:
    with pytest.raises(BudgetExceeded, match="price of this job is not known"):
        spend(None)


def test_two_at_once_do_not_pass_the_cap_together(spend: Callable[..., str]) -> None:
    def try_it(_: int) -> bool:
        try:
            return bool(spend("80"))
        except BudgetExceeded:
            return False

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(try_it, range(4))) == 1


def test_a_key_revoked_meanwhile_spends_nothing(reached: Reached) -> None:
    actor = actor_of_capped(reached)
    with reached.database.writing() as session:
        revoke_key(session, "capped", NOW)
    with reached.database.writing() as session:
        key = session.get_one(ApiKey, actor.key_id)
        assert key.revoked_at is not None
        with pytest.raises(Exception, match="no longer valid"):
            check_caps(session, actor, Decimal(1), NOW)
