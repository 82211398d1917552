"""Which workloads come nearest to one that has no record: found through indices, without a look at each."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy.orm import Session as OrmSession

from . import sql_queries
from .sql_queries import Scope
from .workload import Workload
from .workload_features import WorkloadFeatures

_AT_ONCE = 500
"""So many rows are named in one statement."""


def workloads_by_differences(session: OrmSession, wanted: Workload) -> Iterator[Scope]:
    """Workloads, those together that differ as much from one, the nearest first: itself, its kernel, others.

    What differs is counted as :func:`database.nearest.workload_differences` does, and without a look at each workload of the kernel.
    """
    yield sql_queries.itself(wanted.shash)
    features = WorkloadFeatures(wanted.summary)
    yield from _kernel_by_differences(session, features, wanted.shash)
    yield sql_queries.of_other_kernels(features)


def _kernel_by_differences(session: OrmSession, features: WorkloadFeatures, own: str) -> Iterator[Scope]:
    arguments = len(features.summary.args)
    dtypes: dict[str, dict[str, str | None]] = {}
    for family, name, text in session.execute(*sql_queries.dtypes_of_families(features)):
        dtypes.setdefault(family, {})
        if name is not None:
            dtypes[family][name] = text
    levels: dict[int, list[Scope]] = {}
    least = {}
    """Differences of each family with as many arguments, shapes left out."""
    for family, found in dtypes.items():
        if len(found) == arguments:
            least[family] = sum(features.fields[name] != text for name, text in found.items())
        distance = least[family] + arguments if family in least else 1
        levels.setdefault(distance, []).append(sql_queries.without_shapes(features, own, family))
    sharing: dict[int, list[int]] = {}
    for row, family, shapes in session.execute(*sql_queries.sharing_shapes(features, own)):
        sharing.setdefault(least[family] + arguments - shapes if family in least else 1, []).append(row)
    for distance, rows in sharing.items():
        for begin in range(0, len(rows), _AT_ONCE):
            levels.setdefault(distance, []).append(sql_queries.among(rows[begin : begin + _AT_ONCE]))
    for distance in sorted(levels):
        yield from levels[distance]
