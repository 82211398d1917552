"""A measurement of a candidate is kept once, workloads are found by their features, and the best records by an index.

No record is lost: of several first measurements of one candidate, which older versions kept, all stay. Only what is there twice in every
respect, as after an import that was broken off and begun again, is left out once.
"""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa
from alembic import op

from database.migrations.older_records import describe_workload, tell_apart
from database.migrations.refusal import refused

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_LOG = logging.getLogger(__name__)


def upgrade() -> None:
    """Add the columns, the table of features and the indices."""
    of_workloads: list[sa.Column[Any]] = [
        sa.Column("kernel", sa.String(32), nullable=False, server_default=""),
        sa.Column("family", sa.String(32), nullable=False, server_default=""),
        sa.Column("arguments", sa.Integer, nullable=False, server_default="0"),
    ]
    for column in of_workloads:
        op.add_column("workloads", column)
    op.create_table(
        "workload_features",
        sa.Column(
            "workload_id",
            sa.Integer,
            sa.ForeignKey("workloads.id", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("text", sa.String(64)),
        sa.Column("number", sa.Double),
    )
    of_records: list[sa.Column[Any]] = [
        sa.Column("trace_hash", sa.String(32), nullable=False, server_default=""),
        sa.Column("measurement", sa.String(32), nullable=False, server_default=""),
        sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.false()),
    ]
    for column in of_records:
        op.add_column("records", column)
    connection = op.get_bind()
    workloads = [row for (row,) in connection.execute(sa.text("SELECT id FROM workloads ORDER BY id"))]
    if workloads:
        _LOG.info("bringing the records of %s workloads up to date", len(workloads))
    for workload in workloads:
        describe_workload(connection, workload)
        tell_apart(connection, workload)
    _create_indices()


def _create_indices() -> None:
    op.create_index("ix_workloads_kernel", "workloads", ["kernel", "family", "id"])
    op.create_index("ix_workloads_family", "workloads", ["family"])
    op.create_index("ix_workload_features_text", "workload_features", ["name", "text", "workload_id"])
    once = ["trace_hash", "measurement"]
    op.create_index("uq_records_measurement", "records", ["workload_id", "target_id", *once], unique=True)
    without_target = sa.text("target_id IS NULL")
    op.create_index(
        "uq_records_without_target",
        "records",
        ["workload_id", *once],
        unique=True,
        sqlite_where=without_target,
        postgresql_where=without_target,
    )
    op.drop_index("ix_records_best", "records")
    merit: list[Any] = [sa.text("verified DESC"), "cut", "mean_secs", "created_at", "id"]
    for name, place in (
        ("ix_records_best", ["workload_id", "target_id"]),
        ("ix_records_best_anywhere", ["workload_id"]),
    ):
        op.create_index(
            name,
            "records",
            [*place, *merit],
            sqlite_where=sa.text("mean_secs IS NOT NULL AND superseded IS 0"),
            postgresql_where=sa.text("mean_secs IS NOT NULL AND superseded IS false"),
        )
    op.create_index("ix_records_place", "records", ["workload_id", "target_id", "id"])
    op.create_index("ix_records_recent", "records", ["target_id", "id"])


downgrade = refused
