"""Candidates that are being measured, so that several tuners on one database do not measure the same."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from database.migrations.refusal import refused

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table of claims; older versions do without it."""
    op.create_table(
        "claims",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "workload_id", sa.Integer(), sa.ForeignKey("workloads.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("target_id", sa.Integer(), sa.ForeignKey("targets.id"), nullable=False),
        sa.Column("candidate", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("claimed_at", sa.Double(), nullable=False),
        sa.UniqueConstraint("workload_id", "target_id", "candidate", name="uq_claims_candidate"),
    )
    op.create_index("ix_claims_owner", "claims", ["owner"])


downgrade = refused
