"""Roles, and the actor: who asks, with what they may do and spend."""

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum


class Role(IntEnum):
    """What an actor may do. Each role may do what those below it may."""

    VIEWER = 1
    SUBMITTER = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The role's name for people, for the database and on the command line."""
        return self.name.lower()

    @classmethod
    def named(cls, text: str) -> "Role":
        """The role with this label. Raises ValueError."""
        for role in cls:
            if role.label == text:
                return role
        labels = ", ".join(role.label for role in cls)
        raise ValueError(f"must be one of {labels}, not {text[:40]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asks.

    name: of the key; it is what people see. key_id: None for those who need no key.
    max_usd_per_job, max_usd_per_month: US dollars; None is no cap.
    """

    name: str
    role: Role
    key_id: str | None = None
    max_usd_per_job: Decimal | None = None
    max_usd_per_month: Decimal | None = None


# Whoever sits at the machine: without AWS and on a loopback address there is nobody else.
LOCAL = Actor(name="local", role=Role.ADMIN)
COMMAND_LINE = Actor(name="command line", role=Role.ADMIN)
WORKER = Actor(name="worker", role=Role.ADMIN)
# A key of such a name could pass for one of these in the audit trail.
RESERVED_NAMES = frozenset(actor.name for actor in (LOCAL, COMMAND_LINE, WORKER))
