"""The forms of canonical simplification: splits ``(index % upper) // lower * scale`` and sums of them."""

from __future__ import annotations

from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .deep_equal import expr_deep_equal

UNBOUNDED = 1 << 62
TRUNC, FLOOR = 0, 1


class Split:
    """``(index % upper) // lower * scale``; floor or truncating division. Treated as immutable."""

    __slots__ = ("expr", "index", "lower", "mode", "scale", "upper")

    def __init__(
        self, index: Any, lower: int = 1, upper: int = UNBOUNDED, scale: int = 1, mode: int = FLOOR
    ) -> None:
        self.index, self.lower, self.upper, self.scale, self.mode = index, lower, upper, scale, mode
        self.expr: Any = None

    @property
    def dtype(self) -> str:
        return self.index.dtype  # type: ignore[no-any-return]

    def scaled(self, factor: int) -> Split:
        """Times an integer."""
        return (
            self if factor == 1 else Split(self.index, self.lower, self.upper, self.scale * factor, self.mode)
        )

    def is_plain(self) -> bool:
        """Just a multiple of the index."""
        return self.lower == 1 and self.upper == UNBOUNDED

    def compatible(self, other: Split) -> bool:
        """Whether both may be read with one kind of division."""
        return self.mode == other.mode or self.is_plain() or other.is_plain()

    def normalized(self, factor: int = 1) -> Any:
        """The expression of ``self * factor``."""
        scale = self.scale * factor
        result = self.index
        if scale == 0:
            return build.number(0, result.dtype)
        if self.upper != UNBOUNDED:
            result = remainder_of(result, self.upper, self.mode)
        if self.lower != 1:
            result = quotient_of(result, self.lower, self.mode)
        return build.mul(result, build.number(scale, result.dtype)) if scale != 1 else result


class Sum:
    """``sum(args) + base``; splits of one index stand together, larger ``lower`` first. Treated as immutable."""

    __slots__ = ("args", "base", "dtype", "expr")

    def __init__(self, dtype: str, args: list[Split], base: int) -> None:
        self.dtype, self.args, self.base = dtype, args, base
        self.expr: Any = None

    def plus(self, other: Any, factor: int) -> Sum:
        """``self + factor * other`` for a Sum, Split or int."""
        result = Sum(self.dtype, list(self.args), self.base)
        if isinstance(other, int):
            result.base += other * factor
        elif other.__class__ is Sum:
            for item in other.args:
                result._insert(item, factor)
            result.base += other.base * factor
        else:
            result._insert(other, factor)
        return result

    def scaled(self, factor: int) -> Sum:
        """Times an integer."""
        return Sum(self.dtype, [item.scaled(factor) for item in self.args], self.base * factor)

    def divided(self, divisor: int) -> Sum:
        """Exactly divided by an integer that divides every scale and the base."""
        args = [Split(i.index, i.lower, i.upper, i.scale // divisor, i.mode) for i in self.args]
        return Sum(self.dtype, args, self.base // divisor)

    def _insert(self, item: Split, factor: int) -> None:
        if item.scale == 0 or factor == 0:
            return
        args, position, size = self.args, 0, len(self.args)
        while position < size and not _same_index(args[position].index, item.index):
            position += 1
        while position < size:
            there = args[position]
            if not _same_index(there.index, item.index) or item.lower > there.lower:
                args.insert(position, item.scaled(factor))
                return
            if item.lower == there.lower and item.upper == there.upper and item.compatible(there):
                mode = there.mode if there.lower != 1 or there.upper != UNBOUNDED else item.mode
                args[position] = Split(
                    there.index, there.lower, there.upper, there.scale + item.scale * factor, mode
                )
                return
            position += 1
        args.append(item.scaled(factor))


def _same_index(a: Any, b: Any) -> bool:
    return a is b or expr_deep_equal(a, b)


def quotient_of(a: Any, divisor: int, mode: int) -> Any:
    b = build.number(divisor, a.dtype)
    return build.floordiv(a, b) if mode == FLOOR else build.truncdiv(a, b)


def remainder_of(a: Any, divisor: int, mode: int) -> Any:
    b = build.number(divisor, a.dtype)
    return build.floormod(a, b) if mode == FLOOR else build.truncmod(a, b)


def recombined(terms: list[Split]) -> list[Split]:
    """Merge neighbours of one index: ``(x // (c s)) * (c s k) + ((x % (c s)) // s) * (s k)`` is ``(x // s) * s k``."""
    args: list[Split | None] = list(terms)
    for i in range(len(args)):
        for j in range(i + 1, len(args)):
            left, right = args[i], args[j]
            if left is None or left.scale == 0 or right is None:
                break
            if not _same_index(left.index, right.index) or left.upper < right.lower:
                break
            if left.upper == right.upper and left.lower == right.lower and left.compatible(right):
                args[j] = Split(right.index, right.lower, right.upper, right.scale + left.scale, right.mode)
                args[i] = None
            elif (
                left.lower == right.upper
                and right.scale != 0
                and left.scale % right.scale == 0
                and left.lower == (left.scale // right.scale) * right.lower
                and left.compatible(right)
            ):
                mode = right.mode
                args[j] = Split(right.index, right.lower, left.upper, right.scale, mode)
                args[i] = None
                break
    kept = [item for item in args if item is not None and item.scale != 0]
    kept.sort(key=lambda item: (-item.scale, -item.lower, -item.upper, -item.mode))
    return kept


def factors_of(expr: Any) -> tuple[list[Any], int]:
    """The factors of a product in order, and its constant factor."""
    if expr.__class__ is IntImm:
        return [], expr.value
    if expr.__class__ is not E.Mul:
        return [expr], 1
    (left, c1), (right, c2) = factors_of(expr.a), factors_of(expr.b)
    return left + right, c1 * c2


def product_of(factors: list[Any], coeff: int, dtype: str) -> Any:
    result: Any = None
    for item in factors:
        result = item if result is None else build.mul(result, item)
    constant = build.number(coeff, dtype)
    return constant if result is None else build.mul(result, constant)
