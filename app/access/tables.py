"""Tables of access: keys, browser sessions, and the audit trail."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.tables import ROW_NUMBER, Table


class ApiKey(Table):
    """One API key. hash: of the secret part, which is nowhere else. role: viewer to admin."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    role: Mapped[str] = mapped_column(String(20))
    hash: Mapped[str] = mapped_column(String(64))
    max_usd_per_job: Mapped[Decimal | None]
    max_usd_per_month: Mapped[Decimal | None]
    created_at: Mapped[datetime]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Login(Table):
    """One browser that is logged in with a key. hash: of the token in its cookie."""

    __tablename__ = "logins"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    key_id: Mapped[str] = mapped_column(String(32), ForeignKey("api_keys.id"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class AuditEntry(Table):
    """Who did what. actor: a key's name, "local" without keys, "command line", or "worker"."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(ROW_NUMBER, primary_key=True, autoincrement=True)
    at: Mapped[datetime] = mapped_column(index=True)
    actor: Mapped[str] = mapped_column(String(100))
    key_id: Mapped[str | None] = mapped_column(String(32))
    action: Mapped[str] = mapped_column(String(60))
    subject: Mapped[str] = mapped_column(String(200))
    detail: Mapped[str]
    request_id: Mapped[str] = mapped_column(String(64))
