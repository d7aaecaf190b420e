"""Jobs with their events and notices; access keys, logins and the audit trail; plan purchases."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_12_04_jobs"
down_revision: str | None = "2026_12_02_calibration"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# SQLite numbers rows by itself only in a column that is exactly an INTEGER.
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_api_keys()
    _create_audit()
    _create_jobs()
    _index_jobs()
    _create_notices()
    _create_plan_purchases()
    _create_job_events()
    _create_logins()


def downgrade() -> None:
    op.drop_table("logins")
    op.drop_table("job_events")
    op.drop_table("plan_purchases")
    op.drop_table("notices")
    op.drop_table("jobs")
    op.drop_table("audit")
    op.drop_table("api_keys")


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("max_usd_per_job", sa.BigInteger()),
        sa.Column("max_usd_per_month", sa.BigInteger()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", WHOLE, autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("key_id", sa.String(length=32)),
        sa.Column("action", sa.String(length=60), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("backend", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("recommendation_id", sa.String(length=32), nullable=False),
        sa.Column("candidate", sa.BigInteger(), nullable=False),
        sa.Column("resumes_id", sa.String(length=32)),
        sa.Column("idempotency_key", sa.String(length=200)),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("checkpoint_uri", sa.Text(), nullable=False),
        sa.Column("host", sa.String(length=200)),
        sa.Column("ordered", sa.Text(), nullable=False),
        sa.Column("predicted", sa.Text(), nullable=False),
        sa.Column("max_usd", sa.BigInteger()),
        sa.Column("created_by", sa.String(length=32)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("lease_owner", sa.String(length=64)),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("num_troubles", sa.BigInteger(), nullable=False),
        sa.Column("num_missing", sa.BigInteger(), nullable=False),
        sa.Column("trouble", sa.Text()),
        sa.Column("stop_requested_at", sa.DateTime(timezone=True)),
        sa.Column("submitted_at", sa.DateTime(timezone=True)),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("backend_status", sa.Text()),
        sa.Column("backend_arn", sa.Text()),
        sa.Column("training_plan_arn", sa.Text()),
        sa.Column("failure_reason", sa.Text()),
        sa.Column("remedy", sa.Text()),
        sa.Column("billable_s", sa.BigInteger()),
        sa.Column("transitions", sa.Text()),
        sa.Column("progress", sa.Text()),
        sa.Column("changes", sa.Text()),
        sa.Column("log_tail", sa.Text()),
        sa.Column("preflight", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("result_id", sa.String(length=200)),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("idempotency_key"),
        sa.UniqueConstraint("name"),
    )


def _index_jobs() -> None:
    op.create_index("ix_jobs_created_at", "jobs", ["created_at"])
    op.create_index("ix_jobs_created_by", "jobs", ["created_by"])
    op.create_index("ix_jobs_due_at_status", "jobs", ["due_at", "status"])
    op.create_index("ix_jobs_status", "jobs", ["status"])


def _create_notices() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("job_id", sa.String(length=32)),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("lease_owner", sa.String(length=64)),
        sa.Column("lease_until", sa.DateTime(timezone=True)),
        sa.Column("num_attempts", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True)),
        sa.Column("parked_reason", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_notices_due_at", "notices", ["due_at"])
    op.create_index("ix_notices_job_id", "notices", ["job_id"])


def _create_plan_purchases() -> None:
    op.create_table(
        "plan_purchases",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("offering_id", sa.String(length=256), nullable=False),
        sa.Column("region", sa.String(length=40), nullable=False),
        sa.Column("price_usd", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("requested_by", sa.String(length=100), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("training_plan_arn", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("offering_id"),
    )


def _create_job_events() -> None:
    op.create_table(
        "job_events",
        sa.Column("id", WHOLE, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "key"),
    )
    op.create_index("ix_job_events_job_id", "job_events", ["job_id"])


def _create_logins() -> None:
    op.create_table(
        "logins",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"],
            ["api_keys.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("ix_logins_expires_at", "logins", ["expires_at"])
    op.create_index("ix_logins_key_id", "logins", ["key_id"])
