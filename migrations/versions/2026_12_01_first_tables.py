"""Stored results, recommendations, and the versions of what is loaded."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_12_01_first_tables"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TEXTS = (
    *("source_repo_path", "commit_or_date", "framework", "gpu", "model_name", "mlp_type"),
    *("param_dtype", "compute_dtype", "optimizer", "activation_checkpointing", "sharding"),
    *("peak_mem_kind", "notes"),
)
WHOLES = (
    *("gpus_total", "nodes", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab"),
    *("seq_len", "grad_accum"),
)
REALS = (
    *("params_b", "micro_batch_per_gpu", "global_batch_seqs", "tokens_per_s_per_gpu"),
    *("mfu_pct", "tflops_per_gpu", "peak_mem_gib"),
)
FLAGS = ("tied_embeddings", "cpu_offload", "compile", "flash_attention")


def upgrade() -> None:
    op.create_table(
        "results",
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("source_url", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text()) for name in TEXTS),
        *(sa.Column(name, sa.BigInteger()) for name in WHOLES),
        *(sa.Column(name, sa.Float(53)) for name in REALS),
        *(sa.Column(name, sa.Boolean()) for name in FLAGS),
        sa.Column("oom", sa.Boolean(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(20), nullable=False),
        sa.Column("uploaded_by", sa.Text()),
        sa.Column("in_scope", sa.Boolean(), nullable=False),
        sa.Column("why_not", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    for name in ("position", "source", "origin"):
        op.create_index(f"ix_results_{name}", "results", [name])
    op.create_table(
        "recommendations",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=False),
        sa.Column("catalog_version", sa.String(64), nullable=False),
        sa.Column("calibration_version", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_recommendations_created_at", "recommendations", ["created_at"])
    op.create_table(
        "versions",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.String(64), nullable=False),
    )


def downgrade() -> None:
    for name in ("versions", "recommendations", "results"):
        op.drop_table(name)
