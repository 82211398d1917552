"""Which rows answer a question: statements whose cost does not grow with the table, since an index leads to each of their rows.

Making a statement of SQLAlchemy's takes longer than SQLite takes to answer it, so each is made once for all questions of its form.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from .schema import FeatureRow, RecordRow, TargetRow, WorkloadRow
from .workload_features import WorkloadFeatures

Row = int | str
"""The number of a row, or the text by which it is found: the hash of a workload, the key of a target."""
Targets = Sequence[Row | None]
"""Rows of targets; None stands for records that have none."""


class Question(NamedTuple):
    """What a session executes."""

    statement: Select[Any]
    values: dict[str, Any]
    """Of the parameters of the statement."""


class Scope(NamedTuple):
    """Some workloads."""

    form: str
    shapes: int
    """How many arguments have a shape that counts."""
    values: dict[str, Any]


def records_of(workload: Row, targets: Targets | None, skip: int = 0) -> Question:
    """The records of a workload on some targets, or on any, in the order in which they came, without the first ones."""
    form, values = _form_of(targets)
    skipped = {"skip": skip} if skip else {}
    statement = _records_of(isinstance(workload, str), form, bool(skip))
    return Question(statement, {"workload": workload, **values, **skipped})


@lru_cache(maxsize=None)
def _records_of(by_hash: bool, form: str, skips: bool) -> Select[Any]:
    query = select(RecordRow).where(_of_workload(by_hash), _on(form)).order_by(RecordRow.id)
    return query.offset(bindparam("skip")) if skips else query


def trials_of(workload: Row, targets: Targets) -> Question:
    """How many first measurements a workload has on some targets."""
    form, values = _form_of(targets)
    return Question(_trials_of(isinstance(workload, str), form), {"workload": workload, **values})


@lru_cache(maxsize=None)
def _trials_of(by_hash: bool, form: str) -> Select[Any]:
    first = RecordRow.remeasured.is_(False)
    return select(func.count()).select_from(RecordRow).where(_of_workload(by_hash), _on(form), first)


def fastest(workload: Row, targets: Targets | None, count: int | None) -> Question:
    """The best records that stand, by :meth:`database.TuningRecord.merit`, on some targets or on any: ``count`` at most, or all."""
    form, values = _form_of(targets)
    limited = {} if count is None else {"count": count}
    statement = _fastest(isinstance(workload, str), form, count is not None)
    return Question(statement, {"workload": workload, **values, **limited})


@lru_cache(maxsize=None)
def _fastest(by_hash: bool, form: str, is_limited: bool) -> Select[Any]:
    row = RecordRow
    query = select(row).where(_of_workload(by_hash), _on(form), _stands())
    query = query.order_by(row.verified.desc(), row.cut, row.mean_secs, row.created_at, row.id)
    return query.limit(bindparam("count")) if is_limited else query


def newest(targets: Targets, of: int | None, without: Collection[int], count: int | None) -> Question:
    """The records on some targets, the newest first, of one workload or of all but some: ``count`` at most."""
    form, values = _form_of(targets)
    query = select(RecordRow).where(_on(form)).order_by(RecordRow.id.desc()).limit(count)
    if of is not None:
        query = query.where(RecordRow.workload_id == of)
    return Question(query.where(RecordRow.workload_id.not_in(without)) if without else query, values)


def similar(features: WorkloadFeatures, own: str, targets: Targets, count: int) -> Question:
    """The workloads of a family with records that ran on some targets, those of the nearest extents first.

    Args:
        features: of the workload that others should be like.
        own: its hash.
        targets: where they ran.
        count: at most so many.
    """
    form, values = _form_of(targets)
    distance: ColumnElement[Any] = literal(0.0)
    if features.doublings:
        wanted = case(features.doublings, value=FeatureRow.name)
        distance = (
            select(func.sum(func.abs(FeatureRow.number - wanted)))
            .where(FeatureRow.workload_id == WorkloadRow.id, FeatureRow.number.is_not(None))
            .scalar_subquery()
        )
    query = (
        select(WorkloadRow)
        .where(
            WorkloadRow.family == features.family,
            WorkloadRow.shash != own,
            exists().where(RecordRow.workload_id == WorkloadRow.id, _on(form), _stands()),
        )
        .order_by(distance, WorkloadRow.id)
        .limit(count)
    )
    return Question(query, values)


def dtypes_of_families(features: WorkloadFeatures) -> Question:
    """The families of a kernel, with the name and the dtype of each argument; both are null in the row of one that has no arguments."""
    return Question(_dtypes_of_families(), {"kernel": features.kernel})


@lru_cache(maxsize=None)
def _dtypes_of_families() -> Select[Any]:
    firsts: Any = select(WorkloadRow.family, func.min(WorkloadRow.id).label("row"))
    firsts = firsts.where(_of_kernel()).group_by(WorkloadRow.family).subquery()
    is_dtype = and_(FeatureRow.workload_id == firsts.c.row, FeatureRow.name.like("%.dtype"))
    query: Any = select(firsts.c.family, FeatureRow.name, FeatureRow.text)
    found: Select[Any] = query.select_from(firsts).outerjoin(FeatureRow, is_dtype)
    return found


def sharing_shapes(features: WorkloadFeatures, own: str) -> Question:
    """Other workloads of a kernel that have shapes of arguments in common with one: number, family, and how many shapes."""
    shapes = _shapes_of(features)
    values = {"kernel": features.kernel, "own": own, **shapes}
    return Question(_sharing_shapes(len(features.summary.args)), values)


@lru_cache(maxsize=None)
def _sharing_shapes(shapes: int) -> Select[Any]:
    shared = (
        select(FeatureRow.workload_id, func.count().label("shapes"))
        .where(_has_shape(shapes))
        .group_by(FeatureRow.workload_id)
        .subquery()
    )
    query: Select[Any] = select(WorkloadRow.id, WorkloadRow.family, shared.c.shapes)
    query = query.join(shared, shared.c.workload_id == WorkloadRow.id).where(_of_kernel(), _is_other())
    return query.order_by(WorkloadRow.id)


def itself(shash: str) -> Scope:
    """One workload."""
    return Scope("itself", 0, {"own": shash})


def among(rows: Sequence[int]) -> Scope:
    """Workloads by their numbers."""
    return Scope("rows", 0, {"rows": rows})


def without_shapes(features: WorkloadFeatures, own: str, family: str) -> Scope:
    """Other workloads of a family of a kernel that have no shape of an argument in common with one."""
    values = {"kernel": features.kernel, "own": own, "family": family, **_shapes_of(features)}
    return Scope("family", len(features.summary.args), values)


def of_other_kernels(features: WorkloadFeatures) -> Scope:
    """Workloads of all other kernels."""
    return Scope("other kernels", 0, {"kernel": features.kernel})


def _in_scope(form: str, shapes: int) -> ColumnElement[bool]:
    if form == "itself":
        return ~_is_other()
    if form == "rows":
        return WorkloadRow.id.in_(bindparam("rows", expanding=True))
    if form == "other kernels":
        return ~_of_kernel()
    shared = exists().where(FeatureRow.workload_id == WorkloadRow.id, _has_shape(shapes))
    return and_(_of_kernel(), WorkloadRow.family == bindparam("family"), _is_other(), ~shared)


def with_records(scope: Scope, targets: Targets | None) -> Question:
    """The first of some workloads that have records that stand on some targets, or on any."""
    form, values = _form_of(targets)
    return Question(_with_records(scope.form, scope.shapes, form), {**scope.values, **values})


@lru_cache(maxsize=None)
def _with_records(scope: str, shapes: int, form: str) -> Select[Any]:
    ran = exists().where(RecordRow.workload_id == WorkloadRow.id, _on(form), _stands())
    return select(WorkloadRow.id).where(_in_scope(scope, shapes), ran).order_by(WorkloadRow.id).limit(8)


def targets_of(workload: int) -> Question:
    """The targets on which a workload has records that stand."""
    query = select(RecordRow.target_id).where(_of_workload(by_hash=False), _stands()).distinct()
    return Question(query, {"workload": workload})


# ---- conditions, with parameters ------------------------------------------------------------------------------------------


def _of_workload(by_hash: bool) -> ColumnElement[bool]:
    asked: BindParameter[Any] = bindparam("workload")
    if not by_hash:
        return RecordRow.workload_id == asked
    return RecordRow.workload_id == select(WorkloadRow.id).where(WorkloadRow.shash == asked).scalar_subquery()


def _form_of(targets: Targets | None) -> tuple[str, dict[str, Any]]:
    """What :func:`_on` takes, and the values of its parameters."""
    if targets is None:
        return "any", {}
    if len(targets) == 1:
        (one,) = targets
        return ("none", {}) if one is None else ("key" if isinstance(one, str) else "row", {"target": one})
    rows = [target for target in targets if target is not None]
    return "rows or none" if None in targets else "rows", {"targets": rows}


def _on(form: str) -> ColumnElement[bool]:
    """Records on some targets. Behind one value an index has the order that is asked for, behind several it has not."""
    target = RecordRow.target_id
    if form == "any":
        return true()
    if form == "none":
        return target.is_(None)
    if form == "row":
        return target == bindparam("target")
    if form == "key":
        return target == select(TargetRow.id).where(TargetRow.key == bindparam("target")).scalar_subquery()
    named = target.in_(bindparam("targets", expanding=True))
    return or_(named, target.is_(None)) if form == "rows or none" else named


def _stands() -> ColumnElement[bool]:
    """Records of candidates that ran, and that no other record of the candidate has superseded."""
    return and_(RecordRow.mean_secs.is_not(None), RecordRow.superseded.is_(False))


def _of_kernel() -> ColumnElement[bool]:
    return WorkloadRow.kernel == bindparam("kernel")


def _is_other() -> ColumnElement[bool]:
    return WorkloadRow.shash != bindparam("own")


def _has_shape(shapes: int) -> ColumnElement[bool]:
    """Features that are the shape of an argument. Not a list of pairs, for which SQLite takes no index."""
    pairs = [
        and_(FeatureRow.name == f"{position}.shape", FeatureRow.text == bindparam(f"shape_{position}"))
        for position in range(shapes)
    ]
    return or_(false(), *pairs)


def _shapes_of(features: WorkloadFeatures) -> dict[str, str]:
    return {
        f"shape_{position}": features.fields[f"{position}.shape"]
        for position in range(len(features.summary.args))
    }
