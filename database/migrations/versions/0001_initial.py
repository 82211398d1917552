"""The first schema: workloads, targets, sessions, records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from database.migrations.refusal import refused

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the four tables."""
    op.create_table(
        "workloads",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("shash", sa.String(128), nullable=False, unique=True),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("summary", sa.JSON, nullable=False),
        sa.Column("module", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("target", sa.JSON, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double),
        sa.Column("description", sa.JSON, nullable=False),
    )
    op.create_table(
        "records",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "workload_id", sa.Integer, sa.ForeignKey("workloads.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("target_id", sa.Integer, sa.ForeignKey("targets.id")),
        sa.Column("session_id", sa.String(64)),
        sa.Column("mean_secs", sa.Double),
        sa.Column("verified", sa.Boolean, nullable=False),
        sa.Column("cut", sa.Boolean, nullable=False),
        sa.Column("failure_kind", sa.String(64)),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("trace", sa.JSON, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
    op.create_index("ix_records_best", "records", ["workload_id", "target_id", "mean_secs"])


downgrade = refused
