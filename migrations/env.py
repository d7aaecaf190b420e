"""Alembic's environment: runs on the connection that it is given, else on the configured one."""

import os

from alembic import context
from sqlalchemy.engine import Connection

from app.access.tables import ApiKey
from app.aws.tables import PlanPurchase
from app.database import Database
from app.jobs.tables import Job
from app.notices.tables import Notice
from app.settings import Settings
from app.tables import Table

# Tables are known once the modules that define them are loaded.
TABLES = (ApiKey, PlanPurchase, Job, Notice)


def run(connection: Connection) -> None:
    """Run the migrations on an open connection, in its transaction."""
    context.configure(
        connection=connection, target_metadata=Table.metadata, compare_server_default=True
    )
    with context.begin_transaction():
        context.run_migrations()


def run_on_configured() -> None:
    """For the alembic command: the database of SHARDWISE_DATABASE_URL."""
    settings = Settings.from_environment(os.environ)
    with Database(settings.database_url, lambda _session: None).engine.begin() as connection:
        run(connection)


given = context.config.attributes.get("connection")
if given is None:
    run_on_configured()
else:
    run(given)
