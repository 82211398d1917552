"""The tables: workloads and their features, targets, sessions, records, calibrations and claims, declared once for every SQL dialect.

A change here needs a migration in ``database/migrations/versions`` and, when old programs cannot read the result, says so there.
Times are seconds since the epoch, so that no dialect's notion of time zones matters.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

HEAD_REVISION = "0006"
"""The newest migration; a test holds it equal to what alembic finds in the folder."""


class Base(DeclarativeBase):
    """Base of the mapped classes."""


class WorkloadRow(Base):
    """A program, found by its structural hash, or by its features (:class:`database.workload_features.WorkloadFeatures`)."""

    __tablename__ = "workloads"
    __table_args__ = (
        Index("ix_workloads_kernel", "kernel", "family", "id"),
        Index("ix_workloads_family", "family"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    shash: Mapped[str] = mapped_column(String(128), unique=True)
    name: Mapped[str] = mapped_column(String(256))
    summary: Mapped[dict[str, Any]] = mapped_column(JSON)
    module: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)
    kernel: Mapped[str] = mapped_column(String(32), server_default="")
    family: Mapped[str] = mapped_column(String(32), server_default="")
    """Both empty where nothing of the program could be read."""
    arguments: Mapped[int] = mapped_column(Integer, server_default="0")
    """How many it has."""


class FeatureRow(Base):
    """A feature of a workload: a field, which is equal to that of another or not, or the logarithm of an extent."""

    __tablename__ = "workload_features"
    __table_args__ = (Index("ix_workload_features_text", "name", "text", "workload_id"),)

    workload_id: Mapped[int] = mapped_column(
        ForeignKey("workloads.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    text: Mapped[str | None] = mapped_column(String(64))
    number: Mapped[float | None] = mapped_column(Double)


class TargetRow(Base):
    """A target, found by the key of its fields."""

    __tablename__ = "targets"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    target: Mapped[dict[str, Any]] = mapped_column(JSON)


class SessionRow(Base):
    """One run of the tuner."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    started_at: Mapped[float] = mapped_column(Double)
    finished_at: Mapped[float | None] = mapped_column(Double)
    description: Mapped[dict[str, Any]] = mapped_column(JSON)


class RecordRow(Base):
    """One measured candidate.

    ``mean_secs`` is what records are ordered by (:attr:`database.TuningRecord.secs`), null for one that failed; it got its name when
    that was the mean of the repeats.
    """

    __tablename__ = "records"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id", ondelete="CASCADE"))
    target_id: Mapped[int | None] = mapped_column(ForeignKey("targets.id"))
    session_id: Mapped[str | None] = mapped_column(String(64))
    """No foreign key: records that were imported or merged may name a run that is described elsewhere."""
    mean_secs: Mapped[float | None] = mapped_column(Double)
    verified: Mapped[bool] = mapped_column(Boolean)
    cut: Mapped[bool] = mapped_column(Boolean)
    remeasured: Mapped[bool] = mapped_column(Boolean, server_default=false())
    """Supersedes the other records of its workload, target and trace."""
    failure_kind: Mapped[str | None] = mapped_column(String(64))
    created_at: Mapped[float] = mapped_column(Double)
    trace: Mapped[Any] = mapped_column(JSON)
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
    """What no query asks for: times, other measures, arguments, failure message, fingerprint, versions."""
    trace_hash: Mapped[str] = mapped_column(String(32), server_default="")
    """Equal for equal traces (:attr:`database.TuningRecord.trace_hash`)."""
    measurement: Mapped[str] = mapped_column(String(32), server_default="")
    """Tells records of one candidate apart (:func:`database.duplicates.measurement_key`): each is there once."""
    superseded: Mapped[bool] = mapped_column(Boolean, server_default=false())
    """Another record of the candidate stands in its place."""

    workload: Mapped[WorkloadRow] = relationship()
    target: Mapped[TargetRow | None] = relationship()


def _declare_indices_of_records() -> None:
    """Duplicates are refused by the first two; then the best of a workload on a target and on any, what has come since, and the newest.

    They are told in columns of the class, so that they cannot stand in it.
    """
    row = RecordRow
    stands = row.mean_secs.is_not(None) & row.superseded.is_(False)
    merit = row.verified.desc(), row.cut, row.mean_secs, row.created_at, row.id
    ranked: dict[str, Any] = {"sqlite_where": stands, "postgresql_where": stands}
    without_target: dict[str, Any] = {
        "sqlite_where": row.target_id.is_(None),
        "postgresql_where": row.target_id.is_(None),
    }
    once = row.trace_hash, row.measurement
    Index("uq_records_measurement", row.workload_id, row.target_id, *once, unique=True)
    # No value is none other in SQL: those without a target are told apart by an index of their own.
    Index("uq_records_without_target", row.workload_id, *once, unique=True, **without_target)
    Index("ix_records_best", row.workload_id, row.target_id, *merit, **ranked)
    Index("ix_records_best_anywhere", row.workload_id, *merit, **ranked)
    Index("ix_records_place", row.workload_id, row.target_id, row.id)
    Index("ix_records_recent", row.target_id, row.id)


_declare_indices_of_records()


class CalibrationRow(Base):
    """What was measured of one machine, by one version of what measures."""

    __tablename__ = "calibrations"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Hash of fingerprint and version."""
    created_at: Mapped[float] = mapped_column(Double)
    description: Mapped[dict[str, Any]] = mapped_column(JSON)


class ClaimRow(Base):
    """A candidate that a tuner is about to measure; see :meth:`database.Database.claim`."""

    __tablename__ = "claims"
    __table_args__ = (UniqueConstraint("workload_id", "target_id", "candidate", name="uq_claims_candidate"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    workload_id: Mapped[int] = mapped_column(ForeignKey("workloads.id", ondelete="CASCADE"))
    target_id: Mapped[int] = mapped_column(ForeignKey("targets.id"))
    candidate: Mapped[str] = mapped_column(String(64))
    owner: Mapped[str] = mapped_column(String(64), index=True)
    claimed_at: Mapped[float] = mapped_column(Double)
