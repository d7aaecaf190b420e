"""What became of one try to send a message."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """It arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It may arrive later. after_s: what the other side asked for; None leaves it to us."""

    reason: str
    after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """It will never arrive as things are."""

    reason: str


Outcome = Sent | Retry | Parked
