"""Layouts in which what loops access of a buffer lies in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ir import tir
from ir.arith import Analyzer, IterSumExpr, detect_iter_map
from ir.tir import IndexMap
from ir.tir.operators import floordiv, floormod


class Digit(NamedTuple):
    """A part of an element's place in memory, counted in elements by rows, that one loop runs through."""

    scale: int
    """Elements from one of its values to the next."""
    extent: int


def access_digits(
    buffer: tir.Buffer, indices: Sequence[tir.PrimExpr], loops: Sequence[Any], predicate: tir.PrimExpr
) -> list[Digit] | None:
    """The digits of an element's place in memory, in the order of the loops that run through them: those of an outer loop first, and of
    one loop the highest first.

    Args:
        buffer: what is accessed.
        indices: of an element, in terms of the loops.
        loops: statements or nodes with ``loop_var`` or ``var``, ``min`` and ``extent``, the outermost first.
        predicate: under which elements are accessed.

    Returns:
        None where the indices are no digits of the loops' variables, or leave out elements.
    """
    variables = [loop.loop_var if isinstance(loop, tir.For) else loop.var for loop in loops]
    ranges = {
        var: tir.Range.from_min_extent(loop.min, loop.extent)
        for var, loop in zip(variables, loops, strict=True)
    }
    found = detect_iter_map([_place(indices, buffer.shape)], ranges, predicate, "surjective")
    if not found.indices or found.is_padded:
        return None
    (total,) = found.indices
    while len(total.args) == 1 and isinstance(total.args[0].source.source, IterSumExpr):
        total = total.args[0].source.source  # all digits together, as one number
    parts = [(part, getattr(part.source, "source", None)) for part in total.args]
    if any(source not in variables or not _is_known(part) for part, source in parts):
        return None
    parts.sort(key=lambda item: (variables.index(item[1]), -int(item[0].scale)))
    digits = [Digit(int(part.scale), int(part.extent)) for part, _ in parts]
    return digits if _reach_all(digits, buffer) else None


def layout_of(buffer: tir.Buffer, digits: Sequence[Digit]) -> IndexMap:
    """The layout whose dimensions are some digits of an element's place, of which each element has its own."""
    initial = [tir.Var(f"x{axis}", extent.dtype) for axis, extent in enumerate(buffer.shape)]
    analyzer = Analyzer()
    for var, extent in zip(initial, buffer.shape, strict=True):
        analyzer.bind(var, tir.Range.from_min_extent(tir.const(0, var.dtype), extent))
    place = _place(initial, buffer.shape)
    return IndexMap(
        initial,
        [analyzer.simplify(floormod(floordiv(place, digit.scale), digit.extent)) for digit in digits],
    )


def suggest_index_map(
    buffer: tir.Buffer, indices: Sequence[tir.PrimExpr], loops: Sequence[Any], predicate: tir.PrimExpr
) -> IndexMap | None:
    """A layout in which what loops access of a buffer lies in the order in which they run.

    With ``A[i // 16 * 4 + j // 16, i % 16 * 16 + j % 16]`` of shape (8, 256) in loops over i and j that is
    ``lambda x, y: [x // 4, y // 16, x % 4, y % 16]``. Arguments and None are those of :func:`access_digits`.
    """
    digits = access_digits(buffer, indices, loops, predicate)
    return None if digits is None else layout_of(buffer, digits)


def _is_known(part: Any) -> bool:
    return isinstance(part.scale, tir.IntImm) and isinstance(part.extent, tir.IntImm)


def _place(indices: Sequence[Any], shape: Sequence[tir.PrimExpr]) -> Any:
    """How many elements lie before one, by rows."""
    total: Any = None
    for index, extent in zip(indices, shape, strict=True):
        total = index if total is None else total * extent + index
    return tir.const(0) if total is None else total


def _reach_all(digits: Sequence[Digit], buffer: tir.Buffer) -> bool:
    """Whether the digits count all elements of a buffer, each of them once."""
    expected = 1
    for digit in sorted(digits):
        if digit.scale != expected:
            return False
        expected *= digit.extent
    total = 1
    for extent in buffer.shape:
        if not isinstance(extent, tir.IntImm):
            return False
        total *= extent.value
    return expected == total
