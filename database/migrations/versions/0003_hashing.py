"""Workloads are found by the structural hash that looks at each shared part of a program once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from database.migrations.refusal import refused
from database.workload import structural_key
from ir.error import IRError
from ir.json_format import load_json

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Hash every program again; one that this version cannot read keeps its old hash, which nothing asks for."""
    connection = op.get_bind()
    for row, module in connection.execute(sa.text("SELECT id, module FROM workloads")).all():
        try:
            shash = structural_key(load_json(module))
        except IRError:
            continue
        connection.execute(
            sa.text("UPDATE workloads SET shash = :shash WHERE id = :row"), {"shash": shash, "row": row}
        )


downgrade = refused
