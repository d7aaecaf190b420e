"""Versions of the calibration; why figures of a result are not fitted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_12_02_calibration"
down_revision: str | None = "2026_12_01_first_tables"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "calibrations",
        sa.Column("version", sa.String(64), primary_key=True),
        sa.Column("results_version", sa.String(64), nullable=False),
        sa.Column("package_version", sa.String(40), nullable=False),
        sa.Column("values", sa.Text(), nullable=False),
        sa.Column("result_ids", sa.Text(), nullable=False),
        sa.Column("accuracy", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_calibrations_created_at", "calibrations", ["created_at"])
    op.add_column("results", sa.Column("flags", sa.Text()))
    # Rows that are there already are judged anew when the database is next prepared.
    versions = sa.table("versions", sa.column("name", sa.String()))
    op.execute(sa.delete(versions).where(versions.c.name == "shipped_results"))


def downgrade() -> None:
    op.drop_column("results", "flags")
    op.drop_table("calibrations")
