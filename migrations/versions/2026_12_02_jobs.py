"""Jobs, their history and their events."""

from collections.abc import Sequence

revision: str = "2026_12_02_jobs"
down_revision: str | None = "2026_12_01_first_tables"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Filled with the tables of this part."""


def downgrade() -> None:
    """The way back."""
