"""Schemas of training plans: what clients may send to POST /plans/search and to POST /plans."""

from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from app.schemas import WHOLE, Strict

MAX_HOURS = 182 * 24


def _amount(value: object) -> object:
    """A price as text: a number in JSON is taken as it is written, as far as it is exact."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return repr(value)


RegionName = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$", max_length=40)
]
OptionalRegion = Annotated[
    str, StringConstraints(pattern=r"^([a-z]{2,4}(-[a-z]+)+-[0-9])?$", max_length=40)
]
Identity = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class PlanSearch(Strict):
    """A search for training plans on sale. Only `recommendation_id` is required."""

    recommendation_id: Identity
    candidate: Annotated[int, Field(ge=0, le=100), WHOLE] = 0
    region: RegionName | None = None
    # Times come as text.
    start_after: Annotated[AwareDatetime, Field(strict=False)] | None = None
    max_wait_hours: Annotated[float, Field(ge=0, le=MAX_HOURS)] | None = None
    duration_hours: Annotated[float, Field(gt=0, le=MAX_HOURS)] | None = None


class PlanPurchaseOrder(Strict):
    """A purchase: the offering that was shown, and its price typed back to confirm it."""

    offering_id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,256}$")]
    recommendation_id: Identity | None = None
    region: RegionName
    price_usd: Annotated[
        str, BeforeValidator(_amount), StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?$")
    ]
