"""Worker: a loop that advances due jobs and sends due notices, in any number of processes.

Several may work on one database: a lease gives each job to one of them at a time.
"""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping

from sqlalchemy import or_
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database, database_now
from app.errors import AppError
from app.jobs.advance import Advancer
from app.jobs.lease import claim, is_any_due
from app.jobs.tables import Job
from app.jobs.training_service import TrainingService
from app.notices.outbox import Outbox, Sender

IDLE_S = 1.0
# After the database failed; it is asked again and again, but not in a hot loop.
TROUBLE_S = 5.0
_logger = logging.getLogger(__name__)


class Worker:
    """Advances what is due until it is told to stop."""

    def __init__(
        self,
        database: Database,
        services: Mapping[str, TrainingService],
        sender: Sender,
        *,
        learn: Callable[[], None] = lambda: None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """learn: called when results were stored. watch: called on each round."""
        self.owner = f"{socket.gethostname()[:30]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._database = database
        self._services = services
        self._advancer = Advancer(database, services, self.owner)
        self._outbox = Outbox(database, sender, self.owner)
        self._learn = learn
        self._watch = watch
        self._stop = threading.Event()
        self._wake = threading.Event()

    def wake(self) -> None:
        """Look at once: something was written."""
        self._wake.set()

    def stop(self) -> None:
        """End after the step at hand."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Work until stop() is called. Whatever goes wrong is logged, and tried again."""
        while not self._stop.is_set():
            try:
                busy = self.round()
                self._wake.wait(0 if busy else IDLE_S)
            except (AppError, SQLAlchemyError) as error:
                self._database.forget_preparation()
                _logger.warning("the worker waits", extra={"reason": str(error)[:300]})
                self._stop.wait(TROUBLE_S)
            except Exception:
                _logger.exception("the worker failed, and goes on")
                self._stop.wait(TROUBLE_S)
            self._wake.clear()

    def round(self) -> bool:
        """Advance one due job, send one due notice; whether there was anything to do."""
        identity = self._claim()
        if identity is not None and self._advancer.advance(identity):
            self._learn()
        sent = self._outbox.deliver_one()
        self._watch()
        return identity is not None or sent

    def _claim(self) -> str | None:
        here = or_(Job.host.is_(None), Job.host == socket.gethostname())
        mine = (Job.backend.in_(list(self._services)), here)
        with self._database.reading() as session:
            if not is_any_due(session, Job, database_now(session), only=mine):
                return None
        with self._database.writing() as session:
            ids = claim(session, Job, self.owner, database_now(session), limit=1, only=mine)
        return ids[0] if ids else None
