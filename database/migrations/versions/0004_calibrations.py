"""Databases keep what was measured of machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "calibrations",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("description", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop the table: machines are measured again."""
    op.drop_table("calibrations")
