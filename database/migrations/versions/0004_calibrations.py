"""Databases keep what was measured of machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from database.migrations.refusal import refused

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


downgrade = refused
