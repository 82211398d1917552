"""Records tell whether they are second measurements, which supersede the first; older records are none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("records", sa.Column("remeasured", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Drop the column and, as they would count as trials, the second measurements."""
    op.execute(sa.text("DELETE FROM records WHERE remeasured"))
    with op.batch_alter_table("records") as table:
        table.drop_column("remeasured")
