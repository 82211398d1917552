"""What makes workloads alike, as plain values that a database can index: the kernel, the dtypes, and the extents.

Two questions are answered by them. Which record comes closest to a kernel that has none (:mod:`database.nearest`)? And which workloads are
the same program with other extents, so that their best candidates are a start for its search?
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .workload import WorkloadSummary


@dataclass(frozen=True)
class WorkloadFeatures:
    """The features of one workload, made from its summary alone."""

    summary: WorkloadSummary

    @cached_property
    def kernel(self) -> str:
        """Equal for workloads with the same blocks, 32 characters."""
        return _digest(self.summary.blocks)

    @cached_property
    def family(self) -> str:
        """Equal for workloads that differ in positive extents only, 32 characters."""
        args = [
            (dtype, [None if isinstance(item, int) and item > 0 else item for item in shape])
            for _, dtype, shape in self.summary.args
        ]
        return _digest([self.summary.blocks, args])

    @cached_property
    def fields(self) -> dict[str, str]:
        """What :func:`database.nearest.workload_differences` compares beside the blocks, as texts of at most 64 characters by name."""
        found = {}
        for position, (_, dtype, shape) in enumerate(self.summary.args):
            found[f"{position}.dtype"] = _short(dtype)
            found[f"{position}.shape"] = _short(",".join(map(str, shape)))
        return found

    @cached_property
    def doublings(self) -> dict[str, float]:
        """The binary logarithm of each positive extent, by name."""
        return {
            f"{position}.{axis}": math.log2(item)
            for position, (_, _, shape) in enumerate(self.summary.args)
            for axis, item in enumerate(shape)
            if isinstance(item, int) and item > 0
        }


def shape_distance(first: WorkloadSummary, second: WorkloadSummary) -> float:
    """Sum of the doublings between the extents of two workloads; infinite where their programs are not alike.

    >>> a = WorkloadSummary("main", ("C",), (("A", "float32", (64, 64)), ("C", "float32", (64,))))
    >>> b = WorkloadSummary("main", ("C",), (("A", "float32", (32, 64)), ("C", "float32", (32,))))
    >>> shape_distance(a, b)
    2.0
    """
    one, other = WorkloadFeatures(first), WorkloadFeatures(second)
    if one.family != other.family:
        return math.inf
    return sum(abs(value - other.doublings[name]) for name, value in one.doublings.items())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def _short(text: str) -> str:
    """The text, or a hash of one that no column takes."""
    return text if len(text) <= 64 else _digest(text)
