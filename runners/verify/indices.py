"""Which integers an input may hold so that every access of the program stays within its buffer.

An input whose values end up in indices is given values from the whole legal range, so that a kernel that reads another row shows.
The range is found by evaluating each index, and the conditions that guard it, for every value in question at the ends of all loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.node import post_order_visit
from ir.tir.expr import And, BufferLoad, Call, Or
from ir.tir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, While

from .arrays import ArrayEvaluator, Unknown

Array = np.ndarray[Any, Any]
_MOST = 1 << 18
"""Larger indices are not tried: a table of more rows is covered up to here."""
_CORNERS = 4
"""Of so many loops all combinations of ends are tried; of more, all at their begin and all at their end."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The integers from ``low`` to ``high``, without zero if it may not be that."""

    low: int
    high: int
    zero: bool = True
    index: bool = False
    """The values are positions in other tensors: a permutation of all of them tells most."""


@dataclass(slots=True)
class _Access:
    """One index that depends on loads: it must be below the extent where the conditions hold."""

    index: Any
    extent: int
    conditions: tuple[Any, ...]
    ranges: dict[Any, tuple[int, int]]


@dataclass(slots=True)
class _Survey:
    """What a walk over the program finds."""

    accesses: list[_Access] = field(default_factory=list)
    stores: dict[Any, list[tuple[Any, dict[Any, tuple[int, int]]]]] = field(default_factory=dict)
    """By buffer data: the values stored, and the ranges of variables there."""
    bounds: list[Any] = field(default_factory=list)
    """Expressions that decide how often a loop runs."""
    divisors: list[Any] = field(default_factory=list)
    shifts: list[tuple[Any, int]] = field(default_factory=list)


def integer_domains(func: Any) -> dict[Any, Domain]:
    """By the data variable of a parameter: the integers that are legal in it; nothing for those that may hold any."""
    survey = _Survey()
    _walk(func.body, survey, {}, ())
    params = {buffer.data: buffer for buffer in func.buffer_map.values() if dt.is_integral(buffer.dtype)}
    found: dict[Any, Domain] = {}
    for data, buffer in params.items():
        sources = _sources(survey, data)
        for expr, bits in survey.shifts:
            if sources & _loaded(expr):
                found[data] = Domain(0, bits - 1)
        zero = not any(sources & _loaded(expr) for expr in survey.divisors)
        if not zero:
            low, high = dt.integer_range(buffer.dtype)
            found[data] = Domain(low, high, zero=False)
        if any(sources & _loaded(expr) for expr in survey.bounds):
            found[data] = Domain(0, 1)
            continue
        accesses = [item for item in survey.accesses if sources & _loaded(item.index)]
        if accesses:
            low, high = _legal(survey, data, accesses)
            least, most = dt.integer_range(buffer.dtype)
            found[data] = Domain(max(low, least), min(high, most), zero, index=True)
    return found


def _sources(survey: _Survey, data: Any) -> set[Any]:
    """The buffer and all that are computed from it as integers."""
    found = {data}
    while True:
        more = {
            target
            for target, stores in survey.stores.items()
            if target not in found and any(found & _loaded(value) for value, _ in stores)
        }
        if not more:
            return found
        found |= more


def _loaded(expr: Any) -> set[Any]:
    found: set[Any] = set()
    post_order_visit(
        expr,
        lambda node: (
            found.add(node.buffer.data)
            if isinstance(node, BufferLoad) and dt.is_integral(node.dtype)
            else None
        ),
    )
    return found


# ---- the walk ----------------------------------------------------------------------------------------------------


def _number(expr: Any) -> int | None:
    value = getattr(expr, "value", expr)
    return value if isinstance(value, int) else None


def _walk(
    node: Any, survey: _Survey, ranges: dict[Any, tuple[int, int]], conditions: tuple[Any, ...]
) -> None:
    def below(child: Any) -> None:
        _walk(child, survey, ranges, conditions)

    if isinstance(node, For):
        low, extent = _number(node.min), _number(node.extent)
        if low is None or extent is None:
            survey.bounds += [node.min, node.extent]
            below(node.min)
            below(node.extent)
            low, extent = 0, 1
        _walk(node.body, survey, {**ranges, node.loop_var: (low, low + max(extent, 1) - 1)}, conditions)
    elif isinstance(node, BlockRealize):
        below(node.predicate)
        for value in node.iter_values:
            below(value)
        inner = dict(ranges)
        for axis in node.block.iter_vars:
            low, extent = _number(axis.dom.min), _number(axis.dom.extent)
            inner[axis.var] = (low or 0, (low or 0) + max(extent or 1, 1) - 1)
        _walk(node.block, survey, inner, (*conditions, node.predicate))
    elif isinstance(node, Block):
        for part in (node.init, node.body):
            if part is not None:
                below(part)
    elif isinstance(node, While):
        survey.bounds.append(node.condition)
        below(node.condition)
        below(node.body)
    elif isinstance(node, IfThenElse):
        below(node.condition)
        _walk(node.then_case, survey, ranges, (*conditions, node.condition))
        if node.else_case is not None:
            _walk(node.else_case, survey, ranges, (*conditions, ~node.condition))
    elif isinstance(node, And | Or):
        below(node.a)
        guard = node.a if isinstance(node, And) else ~node.a
        _walk(node.b, survey, ranges, (*conditions, guard))
    elif isinstance(node, Call) and getattr(node.op, "name", "") == "tir.if_then_else":
        below(node.args[0])
        _walk(node.args[1], survey, ranges, (*conditions, node.args[0]))
        _walk(node.args[2], survey, ranges, (*conditions, ~node.args[0]))
    else:
        _note(node, survey, ranges, conditions)
        node._visit_children(below)


def _note(
    node: Any, survey: _Survey, ranges: dict[Any, tuple[int, int]], conditions: tuple[Any, ...]
) -> None:
    kind = type(node).__name__
    if kind in ("BufferLoad", "BufferStore"):
        for index, extent in zip(node.indices, node.buffer.shape):
            size = _number(extent)
            if size is not None and _loaded(index):
                survey.accesses.append(_Access(index, size, conditions, ranges))
    if isinstance(node, BufferStore) and dt.is_integral(node.buffer.dtype):
        survey.stores.setdefault(node.buffer.data, []).append((node.value, ranges))
    if kind in ("Div", "Mod", "FloorDiv", "FloorMod") and dt.is_integral(node.dtype) and _loaded(node.b):
        survey.divisors.append(node.b)
    if kind == "Call" and getattr(node.op, "name", "") in ("tir.shift_left", "tir.shift_right"):
        if _loaded(node.args[1]):
            survey.shifts.append((node.args[1], dt.bits(node.dtype)))


# ---- legal values ------------------------------------------------------------------------------------------------


def _legal(survey: _Survey, data: Any, accesses: Sequence[_Access]) -> tuple[int, int]:
    """The longest run of values around zero for which all accesses are legal; 0 and 1 where that is not found."""
    reach = min(max(item.extent for item in accesses), _MOST)
    values = np.arange(-2 * reach, 2 * reach + 1, dtype=np.int64)
    legal = np.ones(values.shape, np.bool_)
    try:
        with np.errstate(all="ignore"):
            for item in accesses:
                for corner in _corners(item.ranges):
                    legal &= _is_legal(survey, data, item, corner, values)
    except Unknown:
        return 0, 1
    middle = 2 * reach
    if not legal[middle]:
        return 0, 1
    below = np.flatnonzero(~legal[:middle])
    above = np.flatnonzero(~legal[middle:])
    low = int(values[below[-1] + 1]) if below.size else int(values[0])
    high = int(values[middle + above[0] - 1]) if above.size else int(values[-1])
    return low, high


def _is_legal(survey: _Survey, data: Any, item: _Access, corner: Mapping[Any, int], values: Array) -> Array:
    evaluate = _Followed(survey, data, values, corner)
    index = evaluate(item.index)
    inside: Array = np.broadcast_to((index >= 0) & (index < item.extent), values.shape)
    for condition in item.conditions:
        try:
            inside = inside | ~np.asarray(evaluate(condition), np.bool_)
        except Unknown:  # a guard that is not understood guards nothing
            continue
    return inside


def _corners(ranges: Mapping[Any, tuple[int, int]]) -> list[dict[Any, int]]:
    variables = [variable for variable, (low, high) in ranges.items() if high > low]
    fixed = {variable: low for variable, (low, _) in ranges.items()}
    if len(variables) > _CORNERS:
        return [fixed, {variable: high for variable, (_, high) in ranges.items()}]
    return [
        {**fixed, **{variable: ranges[variable][end] for variable, end in zip(variables, ends)}}
        for ends in itertools.product((0, 1), repeat=len(variables))
    ]


class _Followed(ArrayEvaluator):
    """Values of one input, and of what is computed from it; what other inputs hold is taken for zero."""

    def __init__(self, survey: _Survey, data: Any, values: Array, corner: Mapping[Any, int]) -> None:
        super().__init__(corner)
        self._survey, self._data, self._values = survey, data, values
        self._open: set[Any] = set()

    def load(self, node: Any) -> Any:
        """An element of the input, or of a buffer that is stored to in one place."""
        data = node.buffer.data
        if data is self._data:
            return self._values
        if not dt.is_integral(node.dtype):
            raise Unknown
        stores = self._survey.stores.get(data, [])
        if not stores:
            return np.int64(0)
        if len(stores) > 1 or data in self._open:
            raise Unknown
        ((value, ranges),) = stores
        self._open.add(data)
        outer = self.variables
        try:
            found = []
            for corner in _corners(ranges)[:2]:
                self.variables = corner
                found.append(self(value))
        finally:
            self.variables = outer
            self._open.discard(data)
        if len(found) == 2 and not np.array_equal(found[0], found[1]):
            raise Unknown
        return found[0]
