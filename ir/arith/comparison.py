"""What is known of how two expressions compare, and which extra work an analyzer does on conditions."""

from __future__ import annotations

from enum import Flag, IntFlag
from typing import Any

from ..tir import expr as E
from ..tir import operators
from . import build
from .parts import AnalyzerParts


class Extension(Flag):
    """Work on conditions that costs more than it brings in most places, so that it is asked for.

    ``ComparisonOfProductAndSum`` needs no flag here: products and sums are always compared as polynomials.
    """

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    """Chain known inequalities: ``a < b`` and ``b < c`` prove ``a < c``."""
    ConvertBooleanToAndOfOrs = 2
    """Write simplified conditions as a conjunction of disjunctions."""
    ApplyConstraintsToBooleanBranches = 4
    """Simplify each side of ``and`` (``or``) knowing that the other side holds (fails)."""
    ComparisonOfProductAndSum = 8
    """Prove ``a * b < c`` from bounds of ``a + b``."""


class CompareResult(IntFlag):
    """How two expressions compare; the bits are equal, less, greater."""

    INCONSISTENT = 0
    EQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    NE = 6
    UNKNOWN = 7


def compare(analyzer: AnalyzerParts, lhs: Any, rhs: Any) -> CompareResult:
    """The narrowest relation of two expressions that the analyzer proves."""
    lhs, rhs = operators.convert(lhs), operators.convert(rhs)
    result = CompareResult.UNKNOWN
    for excluded, condition in (
        (CompareResult.GT, build.le(lhs, rhs)),
        (CompareResult.LT, build.le(rhs, lhs)),
        (CompareResult.EQ, build.ne(lhs, rhs)),
    ):
        if analyzer.can_prove(condition):
            result &= ~excluded
    return CompareResult(result)


def and_of_ors(condition: Any, limit: int = 16) -> Any:
    """A condition as a conjunction of disjunctions; itself where that takes more than ``limit`` of them.

    ``a and b or c`` becomes ``(a or c) and (b or c)``.
    """
    clauses = _clauses(condition, limit)
    if clauses is None or (len(clauses) == 1 and len(clauses[0]) == 1):
        return condition
    parts = [_joined(build.logical_or, clause) for clause in clauses]
    return _joined(build.logical_and, parts)


def _joined(join: Any, parts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def _clauses(condition: Any, limit: int) -> list[list[Any]] | None:
    cls = condition.__class__
    if cls is not E.And and cls is not E.Or:
        return [[condition]]
    left, right = _clauses(condition.a, limit), _clauses(condition.b, limit)
    if left is None or right is None:
        return None
    found = left + right if cls is E.And else [a + b for a in left for b in right]
    return found if len(found) <= limit else None
