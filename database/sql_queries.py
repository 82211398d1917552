"""Which rows answer a question: statements whose cost does not grow with the table, since an index leads to each of their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, literal, or_, select, tuple_

from .schema import FeatureRow, RecordRow, WorkloadRow
from .workload_features import WorkloadFeatures

Targets = Sequence[int | None]
"""Rows of targets; None stands for records that have none."""


def of_places(workload_id: int, targets: Targets | None) -> ColumnElement[bool]:
    """Records of a workload, on some targets or on any."""
    own = RecordRow.workload_id == workload_id
    return own if targets is None else and_(own, _on(targets))


def _on(targets: Targets) -> ColumnElement[bool]:
    # Behind one value an index has the order that is asked for, behind several it has not.
    if len(targets) == 1:
        return RecordRow.target_id.is_(None) if targets[0] is None else RecordRow.target_id == targets[0]
    named = RecordRow.target_id.in_([target for target in targets if target is not None])
    return or_(named, RecordRow.target_id.is_(None)) if None in targets else named


def stands() -> ColumnElement[bool]:
    """Records of candidates that ran, and that no other record of the candidate has superseded."""
    return and_(RecordRow.mean_secs.is_not(None), RecordRow.superseded.is_(False))


def fastest(workload_id: int, targets: Targets | None) -> Select[Any]:
    """The best records that stand, by :meth:`database.TuningRecord.merit`."""
    return (
        select(RecordRow)
        .where(of_places(workload_id, targets), stands())
        .order_by(
            RecordRow.verified.desc(), RecordRow.cut, RecordRow.mean_secs, RecordRow.created_at, RecordRow.id
        )
    )


def newest(targets: Targets, of: int | None, without: Collection[int]) -> Select[Any]:
    """The records on some targets, the newest first, of one workload or of all but some."""
    query = select(RecordRow).where(_on(targets)).order_by(RecordRow.id.desc())
    if of is not None:
        query = query.where(RecordRow.workload_id == of)
    return query.where(RecordRow.workload_id.not_in(without)) if without else query


def similar(features: WorkloadFeatures, own: str, targets: Targets, count: int) -> Select[Any]:
    """The workloads of a family with records that ran on some targets, those of the nearest extents first.

    Args:
        features: of the workload that others should be like.
        own: its hash.
        targets: where they ran.
        count: at most so many.
    """
    distance: ColumnElement[Any] = literal(0.0)
    if features.doublings:
        wanted = case(features.doublings, value=FeatureRow.name)
        distance = (
            select(func.sum(func.abs(FeatureRow.number - wanted)))
            .where(FeatureRow.workload_id == WorkloadRow.id, FeatureRow.number.is_not(None))
            .scalar_subquery()
        )
    return (
        select(WorkloadRow)
        .where(
            WorkloadRow.family == features.family,
            WorkloadRow.shash != own,
            exists().where(RecordRow.workload_id == WorkloadRow.id, _on(targets), stands()),
        )
        .order_by(distance, WorkloadRow.id)
        .limit(count)
    )


def by_differences(features: WorkloadFeatures, own: str, *, same_kernel: bool) -> Select[Any]:
    """Numbers of other workloads, with how many fields of their arguments differ from some, the fewest first.

    They are counted as :func:`database.nearest.workload_differences` does.
    """
    count = len(features.summary.args)
    differences: ColumnElement[Any] = literal(0)
    if count:
        same = (
            select(func.count())
            .where(
                FeatureRow.workload_id == WorkloadRow.id,
                tuple_(FeatureRow.name, FeatureRow.text).in_(list(features.fields.items())),
            )
            .scalar_subquery()
        )
        differences = 2 * count - same
    differences = case((WorkloadRow.arguments != count, 1), else_=differences).label("differences")
    kernel = WorkloadRow.kernel == features.kernel
    return (
        select(WorkloadRow.id, differences)
        .where(WorkloadRow.shash != own, kernel if same_kernel else ~kernel)
        .order_by(differences, WorkloadRow.id)
    )


def with_records(workloads: Collection[int], targets: Targets) -> Select[Any]:
    """The first of some workloads that have records that stand on some targets."""
    ran = exists().where(RecordRow.workload_id == WorkloadRow.id, _on(targets), stands())
    return select(WorkloadRow.id).where(WorkloadRow.id.in_(workloads), ran).order_by(WorkloadRow.id).limit(8)


def targets_of(workload_id: int) -> Select[Any]:
    """The targets on which a workload has records that stand."""
    return select(RecordRow.target_id).where(of_places(workload_id, None), stands()).distinct()
