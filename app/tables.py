"""Tables: stored results with their provenance, answers as sent, and versions of what is loaded."""

from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# SQLite numbers rows by itself only in a column that is exactly an INTEGER.
ROW_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC, also where the database keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuses a time without a zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"a time needs a zone on {dialect.name}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """SQLite gives times without a zone: they were written in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class Usd(TypeDecorator[Decimal]):
    """US dollars, kept as whole cents, rounded up."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - SQLAlchemy's interface
        """Dollars to cents."""
        if value is None:
            return None
        return int((value * 100).to_integral_value(rounding=ROUND_CEILING))

    def process_result_value(self, value: int | None, dialect: Dialect) -> Decimal | None:  # noqa: ARG002 - SQLAlchemy's interface
        """Cents to dollars."""
        return None if value is None else Decimal(value) / 100


class Table(DeclarativeBase):
    """The root of all tables."""

    type_annotation_map = {  # noqa: RUF012 - read once by SQLAlchemy, which asks for a dict
        int: BigInteger,
        float: Float(53),
        str: Text,
        bytes: LargeBinary,
        datetime: UtcDateTime,
        Decimal: Usd,
    }


class StoredResult(Table):
    """One benchmark result: the columns of advisor.result.Result, and where it came from.

    origin: "shipped" with the package, or "user". source: the group of results it belongs to.
    in_scope, why_not: whether the advisor's laws can predict it, else the reason.
    flags: why figures of it are not fitted though they are in scope (advisor.guards).
    """

    __tablename__ = "results"

    id: Mapped[str] = mapped_column(String(200), primary_key=True)
    source_url: Mapped[str]
    source_repo_path: Mapped[str | None]
    commit_or_date: Mapped[str | None]
    framework: Mapped[str | None]
    gpu: Mapped[str | None]
    gpus_total: Mapped[int | None]
    nodes: Mapped[int | None]
    model_name: Mapped[str | None]
    params_b: Mapped[float | None]
    hidden: Mapped[int | None]
    layers: Mapped[int | None]
    heads: Mapped[int | None]
    kv_heads: Mapped[int | None]
    ffn: Mapped[int | None]
    vocab: Mapped[int | None]
    mlp_type: Mapped[str | None]
    tied_embeddings: Mapped[bool | None]
    seq_len: Mapped[int | None]
    micro_batch_per_gpu: Mapped[float | None]
    grad_accum: Mapped[int | None]
    global_batch_seqs: Mapped[float | None]
    param_dtype: Mapped[str | None]
    compute_dtype: Mapped[str | None]
    optimizer: Mapped[str | None]
    activation_checkpointing: Mapped[str | None]
    sharding: Mapped[str | None]
    cpu_offload: Mapped[bool | None]
    compile: Mapped[bool | None]
    flash_attention: Mapped[bool | None]
    tokens_per_s_per_gpu: Mapped[float | None]
    mfu_pct: Mapped[float | None]
    tflops_per_gpu: Mapped[float | None]
    peak_mem_gib: Mapped[float | None]
    peak_mem_kind: Mapped[str | None]
    oom: Mapped[bool]
    notes: Mapped[str | None]
    position: Mapped[int] = mapped_column(index=True)
    source: Mapped[str] = mapped_column(String(200), index=True)
    origin: Mapped[str] = mapped_column(String(20), index=True)
    uploaded_by: Mapped[str | None]
    in_scope: Mapped[bool]
    why_not: Mapped[str | None]
    flags: Mapped[str | None]
    created_at: Mapped[datetime]


class StoredRecommendation(Table):
    """An answer as it was sent. The id is a hash of the answer, so it can never change."""

    __tablename__ = "recommendations"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    request: Mapped[str]
    response: Mapped[bytes]
    catalog_version: Mapped[str] = mapped_column(String(64))
    calibration_version: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(index=True)


class StoredCalibration(Table):
    """One calibration: every fitted number, and the ids of the results behind it, as JSON.

    version: hash of the numbers and of the results. accuracy: the summary of the error figures,
    once they are computed.
    """

    __tablename__ = "calibrations"

    version: Mapped[str] = mapped_column(String(64), primary_key=True)
    results_version: Mapped[str] = mapped_column(String(64))
    package_version: Mapped[str] = mapped_column(String(40))
    values: Mapped[str]
    result_ids: Mapped[str]
    accuracy: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(index=True)


class Version(Table):
    """A named version: of the shipped results that are loaded, and of all results together."""

    __tablename__ = "versions"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str] = mapped_column(String(64))
