"""Explanations of the ends of a 90 % interval: a prediction over and times one factor."""

import math

from advisor.explanation import Explanation, Symbol, explained, table_of, value_in_words
from advisor.residual import Residual

SOURCE = "errors on stored results, conformal (Lei et al. 2018, section 2); advisor/calibration.py"


def explain_interval(predicted: Symbol, residual: Residual, *, unit: str) -> dict[str, Explanation]:
    """The ends of a prediction's interval, as "interval low" and "interval high"."""
    width = Symbol(
        name="w",
        value=math.exp(residual.interval),
        meaning=f"e to the power of {value_in_words(residual.interval)}, the half width of the "
        f"90 % interval of ln(measured / predicted) on {residual.count} stored results",
    )
    known = table_of(predicted, width)
    return {
        "interval low": explained(f"{predicted.name} / w", known, unit=unit, source=SOURCE),
        "interval high": explained(f"{predicted.name} * w", known, unit=unit, source=SOURCE),
    }
