"""Intervals of ℤ for :mod:`.index_simplifier`, which answers in microseconds; ±INF is an open end."""

from __future__ import annotations

from collections.abc import Callable

from ..tir import expr as E

INF = 1 << 62


def _plus(a: int, b: int, infinite: int) -> int:
    return infinite if abs(a) >= INF or abs(b) >= INF else a + b


def _corners(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    corners = (a * c, a * d, b * c, b * d)
    return max(min(corners), -INF), min(max(corners), INF)


def _quotients(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c <= 0:
        return -INF, INF
    corners = (a // c, a // d, b // c, b // d)
    return (min(corners) if a > -INF else -INF), (max(corners) if b < INF else INF)


def _remainders(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c <= 0:
        return -INF, INF
    return (0, min(b, d - 1)) if a >= 0 else (0, d - 1)


INTERVALS: dict[type, Callable[[int, int, int, int], tuple[int, int]]] = {
    E.Add: lambda a, b, c, d: (_plus(a, c, -INF), _plus(b, d, INF)),
    E.Sub: lambda a, b, c, d: (_plus(a, -d, -INF), _plus(b, -c, INF)),
    E.Mul: _corners,
    E.FloorDiv: _quotients,
    E.FloorMod: _remainders,
    E.Min: lambda a, b, c, d: (min(a, c), min(b, d)),
    E.Max: lambda a, b, c, d: (max(a, c), max(b, d)),
}
"""What operations make of the intervals [a, b] and [c, d], in ℤ."""
