"""The expressions of iterator maps: marks, splits of marks, sums of splits; and back to plain expressions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ..error import IRValueError
from ..node import Node, derived, field
from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr
from . import build
from .analyzer import Analyzer


class IterMapError(IRValueError):
    """An index is no affine map of the iterators, or not of the kind that was asked for."""


class IterMapLevel(IntEnum):
    """What :func:`detect_iter_map` checks."""

    Bijective = 0
    """Every combination of index values is reached exactly once, and every iterator is used."""
    Surjective = 1
    """Every combination of index values is reached."""
    NoCheck = 3
    """Only that indices are affine."""


class IterMapExpr(PrimExpr):
    """Base of the expressions of iterator maps."""


class IterMark(Node, type_key="arith.IterMark"):
    """A source of splits: an iterator variable or a sum of splits, with its extent."""

    source: PrimExpr = field(convert=E.as_expr)
    extent: PrimExpr = field(convert=E.as_expr)


class IterSplitExpr(IterMapExpr, type_key="arith.IterSplitExpr"):
    """``((source // lower_factor) % extent) * scale``."""

    source: IterMark
    lower_factor: PrimExpr = field(convert=E.as_expr)
    extent: PrimExpr = field(convert=E.as_expr)
    scale: PrimExpr = field(convert=E.as_expr)
    dtype: str = derived("source.source.dtype")


class IterSumExpr(IterMapExpr, type_key="arith.IterSumExpr"):
    """``sum(args) + base``."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr = field(convert=E.as_expr)
    dtype: str = derived("base.dtype")


class IterMapResult:
    """What :func:`detect_iter_map` found: one IterSumExpr per index (none on failure), errors, and the padding.

    ``padding_predicate`` holds where an index of the padded iteration space has no iteration behind it.
    """

    def __init__(
        self, indices: Sequence[IterSumExpr], errors: Sequence[str], padding_predicate: PrimExpr
    ) -> None:
        self.indices = tuple(indices)
        self.errors = tuple(errors)
        self.padding_predicate = padding_predicate

    @property
    def is_padded(self) -> bool:
        """Whether an index may have no iteration behind it."""
        nowhere = self.padding_predicate.__class__ is IntImm and not self.padding_predicate.value  # type: ignore[attr-defined]
        return not nowhere

    def __repr__(self) -> str:
        return f"IterMapResult(indices={list(self.indices)}, errors={list(self.errors)})"


def one(dtype: str) -> Any:
    return build.const(1, dtype)


def split_of(mark: IterMark, lower: Any = None, extent: Any = None, scale: Any = None) -> IterSplitExpr:
    dtype = mark.source.dtype
    return IterSplitExpr(
        mark,
        one(dtype) if lower is None else lower,
        mark.extent if extent is None else extent,
        one(dtype) if scale is None else scale,
    )


def with_extent(split: IterSplitExpr, extent: Any) -> IterSplitExpr:
    return IterSplitExpr(split.source, split.lower_factor, extent, split.scale)


def variables_of(expr: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, E.Var):
            found.append(node)
        elif isinstance(node, PrimExpr):
            node._visit_children(visit)  # type: ignore[attr-defined]

    visit(expr)
    return found


def depth_of(mark: IterMark) -> int:
    if isinstance(mark.source, IterSumExpr):
        return 1 + max((depth_of(item.source) for item in mark.source.args), default=0)
    return 0


def normalize_iter_map_to_expr(expr: Any) -> Any:
    """The plain expression of an iterator map (or of an expression that contains some)."""
    if isinstance(expr, IterSumExpr):
        result: Any = None
        for item in expr.args:
            term = normalize_iter_map_to_expr(item)
            result = term if result is None else build.add(result, term)
        if result is None:
            return expr.base
        return build.add(result, expr.base)
    if isinstance(expr, IterSplitExpr):
        source = normalize_iter_map_to_expr(expr.source.source)
        dtype = source.dtype
        if build.is_const(expr.extent, 1) and not build.is_const(expr.source.extent, 1):
            return build.const(0, dtype) if build.is_const(expr.lower_factor, 1) else _piece(expr, source)
        return _piece(expr, source)
    if isinstance(expr, IterMark):
        return normalize_iter_map_to_expr(expr.source)
    return expr


def _piece(split: IterSplitExpr, source: Any) -> Any:
    """``((source % (lower * extent)) // lower) * scale``, without what does nothing."""
    analyzer = Analyzer()
    lower, extent = split.lower_factor, split.extent
    result = source
    if not analyzer.can_prove_equal(build.mul(lower, extent), split.source.extent):
        result = build.floormod(result, analyzer.simplify(build.mul(lower, extent)))
    if not build.is_const(lower, 1):
        result = build.floordiv(result, lower)
    return build.mul(result, split.scale) if not build.is_const(split.scale, 1) else result


def source_expr(mark: IterMark) -> Any:
    """The plain expression of a mark's source."""
    return normalize_iter_map_to_expr(mark.source)
