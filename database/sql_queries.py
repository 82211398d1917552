"""Which rows answer a question: statements whose cost does not grow with the table, since an index leads to each of their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    literal,
    or_,
    select,
)

from .schema import FeatureRow, RecordRow, TargetRow, WorkloadRow
from .workload_features import WorkloadFeatures

Row = int | ScalarSelect[int]
"""The number of a row, or what finds it within the same statement."""
Targets = Sequence[Row | None]
"""Rows of targets; None stands for records that have none."""


def workload_of(shash: str) -> ScalarSelect[int]:
    """The row of a workload."""
    return select(WorkloadRow.id).where(WorkloadRow.shash == shash).scalar_subquery()


def target_of(key: str) -> ScalarSelect[int]:
    """The row of a target."""
    return select(TargetRow.id).where(TargetRow.key == key).scalar_subquery()


def of_places(workload_id: Row, targets: Targets | None) -> ColumnElement[bool]:
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


def fastest(workload_id: Row, targets: Targets | None) -> Select[Any]:
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


def sharing_shapes(features: WorkloadFeatures, own: str) -> Select[Any]:
    """Other workloads of a kernel that have shapes of arguments in common with one: number, family, and how many shapes."""
    shared = (
        select(FeatureRow.workload_id, func.count().label("shapes"))
        .where(_has_shape(features))
        .group_by(FeatureRow.workload_id)
        .subquery()
    )
    query: Select[Any] = select(WorkloadRow.id, WorkloadRow.family, shared.c.shapes)
    return (
        query.join(shared, shared.c.workload_id == WorkloadRow.id)
        .where(*_others_of_kernel(features, own))
        .order_by(WorkloadRow.id)
    )


def dtypes_of_families(features: WorkloadFeatures) -> Select[Any]:
    """The families of a kernel, with the name and the dtype of each argument; both are null in the row of one that has no arguments."""
    firsts: Any = select(WorkloadRow.family, func.min(WorkloadRow.id).label("row"))
    firsts = firsts.where(WorkloadRow.kernel == features.kernel).group_by(WorkloadRow.family).subquery()
    is_dtype = and_(FeatureRow.workload_id == firsts.c.row, FeatureRow.name.like("%.dtype"))
    query: Any = select(firsts.c.family, FeatureRow.name, FeatureRow.text)
    found: Select[Any] = query.select_from(firsts).outerjoin(FeatureRow, is_dtype)
    return found


def without_shapes(features: WorkloadFeatures, own: str, family: str) -> ColumnElement[bool]:
    """Other workloads of a family of a kernel that have no shape of an argument in common with one."""
    shared = exists().where(FeatureRow.workload_id == WorkloadRow.id, _has_shape(features))
    return and_(*_others_of_kernel(features, own), WorkloadRow.family == family, ~shared)


def _has_shape(features: WorkloadFeatures) -> ColumnElement[bool]:
    # Not a list of pairs, for which SQLite takes no index.
    shapes = [
        and_(FeatureRow.name == name, FeatureRow.text == text)
        for name, text in features.fields.items()
        if name.endswith(".shape")
    ]
    return or_(false(), *shapes)


def _others_of_kernel(features: WorkloadFeatures, own: str) -> tuple[ColumnElement[bool], ...]:
    return WorkloadRow.kernel == features.kernel, WorkloadRow.shash != own


def with_records(workloads: ColumnElement[bool], targets: Targets | None) -> Select[Any]:
    """The first of some workloads that have records that stand on some targets, or on any."""
    on = [] if targets is None else [_on(targets)]
    ran = exists().where(RecordRow.workload_id == WorkloadRow.id, *on, stands())
    return select(WorkloadRow.id).where(workloads, ran).order_by(WorkloadRow.id).limit(8)


def targets_of(workload_id: int) -> Select[Any]:
    """The targets on which a workload has records that stand."""
    return select(RecordRow.target_id).where(of_places(workload_id, None), stands()).distinct()
