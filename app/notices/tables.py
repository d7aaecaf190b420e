"""Table of notices: what is to be told to Slack, until it is told."""

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.tables import Table


class Notice(Table):
    """One message. Written in the transaction that it announces.

    key: at most one message has it. payload: the message's fields as JSON, without secrets.
    due_at: when it is sent next; None once it is sent or parked. parked_reason: why it never is.
    """

    __tablename__ = "notices"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), unique=True)
    job_id: Mapped[str | None] = mapped_column(String(32), index=True)
    kind: Mapped[str] = mapped_column(String(40))
    payload: Mapped[str]
    created_at: Mapped[datetime]
    due_at: Mapped[datetime | None] = mapped_column(index=True)
    lease_owner: Mapped[str | None] = mapped_column(String(64))
    lease_until: Mapped[datetime | None]
    num_attempts: Mapped[int]
    sent_at: Mapped[datetime | None]
    parked_reason: Mapped[str | None]
