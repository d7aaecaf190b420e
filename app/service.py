"""Service: the parts that requests work with, put together once, and handed out by dependencies."""

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from advisor.errors import InvalidField
from advisor.result import Result
from app.accuracy import AccuracyCache
from app.aws.clients import AwsClients
from app.aws.offerings import SeenOfferings
from app.aws.plan_watch import PlanWatch
from app.benchmarks import Added, add_results, load_shipped
from app.calibrations import keep, knowledge_at
from app.database import Database
from app.errors import AppError
from app.jobs.backends import backends_of
from app.jobs.training_service import TrainingService
from app.jobs.worker import Worker
from app.knowledge import Knowledge, KnowledgeCache
from app.notices.slack import SlackSender
from app.recommendations import Answer, SearchSlots, answer, store
from app.schemas import RecommendRequest
from app.settings import Settings

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that requests share.

    aws: for requests and for looks at plans, so with little patience; None where AWS is off.
    """

    settings: Settings
    database: Database
    cache: KnowledgeCache
    slots: SearchSlots
    accuracy: AccuracyCache
    aws: AwsClients | None
    offerings: SeenOfferings
    backends: Mapping[str, TrainingService]
    worker: Worker

    @classmethod
    def from_settings(cls, settings: Settings) -> "Service":
        """The parts for these settings. Raises SettingsError."""
        database = Database(settings.database_url, load_shipped)
        cache = KnowledgeCache()
        aws = _aws(settings, attempts=2, connect_s=3.0, read_s=8.0)
        backends = backends_of(settings, _aws(settings))
        return cls(
            settings=settings,
            database=database,
            cache=cache,
            aws=aws,
            offerings=SeenOfferings(_now),
            backends=backends,
            worker=Worker(
                database,
                backends,
                SlackSender.from_settings(settings),
                learn=lambda: keep_current(database, cache),
                watch=_watch(settings, database, aws),
            ),
            accuracy=AccuracyCache(),
            slots=SearchSlots(
                max_searches=settings.max_searches, wait_s=float(settings.search_wait_s)
            ),
        )

    def warm_up(self) -> None:
        """Prepare database and calibration; a database that is away is only logged."""
        try:
            self.knowledge()
        except (AppError, SQLAlchemyError):
            _logger.warning("the service starts without its database, and tries again by itself")
        # What is known now stays: looking through it again and again would delay answers.
        gc.collect()
        gc.freeze()

    def backend(self, name: str) -> TrainingService:
        """The backend of this name. Raises InvalidField where there is none here."""
        found = self.backends.get(name)
        if found is None:
            raise InvalidField("backend", "SageMaker is off here: set SHARDWISE_AWS_ENABLED=true")
        return found

    def knowledge(self) -> Knowledge:
        """What the advisor knows, with the results as stored now."""
        with self.database.reading() as session:
            return self.cache.current(session)

    def recommend(self, request: RecommendRequest, session: Session) -> Answer:
        """Answer a question and keep the answer with its calibration."""
        version = request.calibration_version
        knowledge = self.knowledge() if version is None else knowledge_at(session, version)
        with self.slots.one():
            given = answer(request, knowledge)
        store(session, given)
        keep(session, knowledge)
        return given

    def add_results(
        self, results: Sequence[Result], session: Session, *, uploaded_by: str | None
    ) -> Added:
        """Store results; the calibration in force until now is kept. See app.benchmarks."""
        keep(session, self.knowledge())
        return add_results(session, results, uploaded_by=uploaded_by)


def _aws(settings: Settings, **limits: Any) -> AwsClients | None:
    """AWS's clients, patient without limits; None where AWS is off."""
    if not settings.aws_enabled:
        return None
    return AwsClients(settings.aws_region, settings.aws_endpoint_url or None, **limits)


def _watch(settings: Settings, database: Database, aws: AwsClients | None) -> Callable[[], None]:
    """What the worker does about training plans; nothing where AWS is off."""
    if aws is None:
        return lambda: None
    return PlanWatch(database, aws, settings.aws_region, _now).look


def _now() -> datetime:
    return datetime.now(UTC)


def keep_current(database: Database, cache: KnowledgeCache) -> None:
    """Calibrate on the results as they are now, and keep the version."""
    with database.writing() as session:
        keep(session, cache.current(session))


def current_service(request: Request) -> Service:
    """The service of this application."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise TypeError("the application has no service")
    return service


CurrentService = Annotated[Service, Depends(current_service)]


def _read_session(service: CurrentService) -> Iterator[Session]:
    with service.database.reading() as session:
        yield session


def _write_session(service: CurrentService) -> Iterator[Session]:
    with service.database.writing() as session:
        yield session


# Function scope ends the transaction before the response is sent. With the default, a commit that
# fails would come after a 2xx.
ReadSession = Annotated[Session, Depends(_read_session, scope="function")]
WriteSession = Annotated[Session, Depends(_write_session, scope="function")]
