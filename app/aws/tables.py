"""Table of training-plan purchases: each written before AWS is asked, so that none is doubled."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.tables import Table


class PlanPurchase(Table):
    """One wish to buy a training plan. name: follows from the offering, so it is bought once.

    status: requested | bought | failed. price_usd: as typed back by who confirmed it.
    """

    __tablename__ = "plan_purchases"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    offering_id: Mapped[str] = mapped_column(String(256), unique=True)
    region: Mapped[str] = mapped_column(String(40))
    price_usd: Mapped[Decimal]
    status: Mapped[str] = mapped_column(String(20))
    requested_by: Mapped[str] = mapped_column(String(100))
    requested_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    training_plan_arn: Mapped[str | None]
    reason: Mapped[str | None]
