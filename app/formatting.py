"""Figures for people: GiB, tokens, hours, dollars. Exact values stay in the JSON."""

from advisor.units import gib
from app.translations.catalogue import gettext as _

_SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
UNKNOWN = "–"
_SMALL_BYTES = 50 * 1024**2
_SHORT_HOURS = 2 / 60


def count(value: float | None) -> str:
    """A number with a suffix: 182.6 B."""
    if value is None:
        return UNKNOWN
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g} {suffix}"
    return f"{value:,.4g}"


def whole(value: float | None) -> str:
    """A whole number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def gibibytes(num_bytes: float | None) -> str:
    """Bytes as GiB with one decimal; as MiB where that would be nothing."""
    if num_bytes is None:
        return UNKNOWN
    if 0 < abs(num_bytes) < _SMALL_BYTES:
        return f"{num_bytes / 1024**2:,.1f} MiB"
    return f"{gib(num_bytes):,.1f} GiB"


def usd(value: float | None) -> str:
    """Dollars, with cents below a thousand."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"


def percent(fraction: float | None) -> str:
    """A fraction as percent; tiny ones as a bound."""
    if fraction is None:
        return UNKNOWN
    if 0 < fraction < 0.001:
        return _("below 0.1 %")
    return f"{100 * fraction:.3g} %"


def duration(hours: float | None) -> str:
    """Hours, as days above two."""
    if hours is None:
        return UNKNOWN
    if hours > 48:
        return _("{0} days").format(f"{hours / 24:,.1f}")
    if 0 < hours < _SHORT_HOURS:
        return _("{0} seconds").format(f"{hours * 3600:,.0f}")
    if hours >= 1:
        return _("{0} hours").format(f"{hours:,.1f}")
    return _("{0} minutes").format(f"{hours * 60:,.0f}")


def seconds(value: float | None) -> str:
    """Seconds, or milliseconds below a tenth."""
    if value is None:
        return UNKNOWN
    return f"{value:,.3g} s" if value >= 0.1 else f"{value * 1000:,.3g} ms"


def setting(value: object) -> str:
    """A setting's value: yes and no for flags."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return f"{value:,}" if isinstance(value, int) else str(value)
