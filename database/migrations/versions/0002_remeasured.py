"""Records tell whether they are second measurements, which supersede the first; older records are none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from database.migrations.refusal import refused

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("records", sa.Column("remeasured", sa.Boolean, nullable=False, server_default=sa.false()))


downgrade = refused
