"""What the advisor refuses, as one tree. Each error names the field and says how to mend it.

AdvisorError
├── InvalidField    a value that cannot be used (type, sign, size, contradiction)
├── UnknownName     a name that is not in the catalogue, with close matches
└── UnsupportedModel  a model outside what the advisor models, with the reason
"""

from collections.abc import Sequence


class AdvisorError(ValueError):
    """The request cannot be answered as it stands. `field` is a dotted path in the request."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


class InvalidField(AdvisorError):
    """A value has the wrong type, sign or size, or contradicts another one."""


class UnknownName(AdvisorError):
    """A name is not in the catalogue. `known`: every name, where they are few enough to say."""

    def __init__(
        self,
        field: str,
        name: str,
        *,
        kind: str,
        matches: Sequence[str] = (),
        known: Sequence[str] = (),
    ) -> None:
        hint = f"; did you mean {', '.join(matches)}?" if matches else ""
        hint += f"; supported: {', '.join(known)}" if known else ""
        super().__init__(field, f"unknown {kind} {name[:80]!r}{hint}")
        self.matches = tuple(matches)


class UnsupportedModel(AdvisorError):
    """The model is outside what the advisor models (mixture of experts, encoder, …)."""
