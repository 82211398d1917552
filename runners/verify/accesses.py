"""The accesses to memory within a parallel loop: where they stand, and what they touch for all values of the variables in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.node import post_order_visit
from ir.tir.expr import And, BufferLoad, Call, IntImm, IterVar, Or, Ramp, Var
from ir.tir.stmt import (
    Allocate,
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
)
from ir.tir.stmt_functor import substitute, variables_in

from .arrays import ArrayEvaluator, Unknown

Array = np.ndarray[Any, Any]
MOST = 1 << 21
"""Elements of one access that are looked at; of more, the first, second and last values of each variable within."""


@dataclass(slots=True)
class Access:
    """One load or store inside of a parallel loop.

    Attributes:
        buffer, indices, stores: what is touched, and whether it is stored to.
        conditions: under which it is.
        begins: further ones, of which a reduction's init asks whether it begins.
        extents: begin and extent of the loops within the parallel one.
        path: positions in sequences, and variables of loops: of two accesses that one comes first whose path does.
    """

    buffer: Any
    indices: tuple[Any, ...]
    stores: bool
    conditions: tuple[Any, ...]
    begins: tuple[Any, ...]
    extents: Mapping[Any, tuple[int, int]]
    path: tuple[Any, ...]


@dataclass(slots=True)
class Place:
    """Where a walk is: loops around, values of block variables and names, conditions."""

    extents: dict[Any, tuple[int, int]] = field(default_factory=dict)
    values: dict[Any, Any] = field(default_factory=dict)
    conditions: tuple[Any, ...] = ()
    begins: tuple[Any, ...] = ()
    path: tuple[Any, ...] = ()

    def under(self, condition: Any) -> Place:
        """Where a condition holds, too."""
        return replace(self, conditions=(*self.conditions, substitute(condition, self.values)))


def children(node: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """The statements in a statement, and where they stand."""
    behind = replace(place, path=(*place.path, 1))
    if isinstance(node, For):
        begin, extent = (getattr(item, "value", None) for item in (node.min, node.extent))
        inner = replace(behind, extents=dict(place.extents), path=(*behind.path, node.loop_var))
        if begin is not None and extent is not None:
            inner.extents[node.loop_var] = (begin, extent)
        yield node.body, inner
    elif isinstance(node, BlockRealize):
        values = dict(place.values)
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            values[axis.var] = substitute(value, place.values)
        yield node.block, replace(behind.under(node.predicate), values=values)
    elif isinstance(node, Block):
        if node.init is not None:
            begins = [
                substitute(axis.var, place.values) == substitute(axis.dom.min, place.values)
                for axis in node.iter_vars
                if axis.iter_type == IterVar.CommReduce
            ]
            yield node.init, replace(place, begins=(*place.begins, *begins), path=(*place.path, 0))
        yield node.body, behind
    elif isinstance(node, SeqStmt):
        for position, child in enumerate(node.seq):
            yield child, replace(place, path=(*place.path, position))
    elif isinstance(node, IfThenElse):
        yield node.then_case, behind.under(node.condition)
        if node.else_case is not None:
            yield node.else_case, behind.under(~node.condition)
    elif isinstance(node, LetStmt):
        yield (
            node.body,
            replace(behind, values={**place.values, node.var: substitute(node.value, place.values)}),
        )
    elif not isinstance(node, BufferStore):
        below: list[Any] = []
        node._visit_children(below.append)
        if isinstance(node, While):
            behind = replace(behind, path=(*behind.path, node))
        for child in below:
            if hasattr(child, "span") and not hasattr(child, "dtype"):
                yield child, behind


def views_of(func: Any) -> dict[Any, Any]:
    """For the data variable of each view, that of the buffer of which it shows a region."""
    views: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, Block):
            views.update({item.buffer.data: item.source.buffer.data for item in node.match_buffers})

    post_order_visit(func.body, visit)
    return views


@dataclass(slots=True)
class Accesses:
    """What is touched under a loop.

    Attributes:
        found: the loads and stores.
        own: the pointers of what is allocated there, which every iteration has for itself, and of views, which are of other memory each
            time.
        escaping: pointers that are handed to calls, or viewed.
    """

    found: list[Access] = field(default_factory=list)
    own: set[Any] = field(default_factory=set)
    escaping: set[Any] = field(default_factory=set)

    def collect(self, node: Any, place: Place) -> None:
        """All accesses under a node."""
        if isinstance(node, Allocate):
            self.own.add(node.buffer_var)
        if isinstance(node, Block):
            self.own.update(buffer.data for buffer in node.alloc_buffers)
            self.own.update(match.buffer.data for match in node.match_buffers)
            for match in node.match_buffers:
                self.escaping |= {match.buffer.data, match.source.buffer.data}
        before = replace(place, path=(*place.path, 0))
        seen: set[int] = set()
        for expr in _expressions(node):
            self._collect_loads(expr, before, seen)
        if isinstance(node, BufferStore):
            self._note(node.buffer, node.indices, True, replace(place, path=(*place.path, 1)))
        for child, inner in children(node, place):
            self.collect(child, inner)

    def _collect_loads(self, expr: Any, place: Place, seen: set[int]) -> None:
        """Those in an expression; of operands that are evaluated only under a condition, under that.

        Parts that are shared, which ``seen`` has, count once: where they are evaluated under the fewest conditions.
        """
        if isinstance(expr, IntImm) or id(expr) in seen:
            return
        seen.add(id(expr))
        if isinstance(expr, BufferLoad):
            self._note(expr.buffer, expr.indices, False, place)
        if isinstance(expr, Var):
            self.escaping.add(expr)
        lazy = _lazy_operands(expr)
        if lazy is not None:
            condition, *operands = lazy
            self._collect_loads(condition, place, seen)
            for operand, holds in operands:
                self._collect_loads(operand, place.under(condition if holds else ~condition), set(seen))
            return
        if isinstance(expr, Call) and getattr(expr.op, "name", "") == "tir.address_of":
            self.escaping.update(arg.buffer.data for arg in expr.args if isinstance(arg, BufferLoad))
        below: list[Any] = []
        (expr._visit_children if not isinstance(expr, BufferLoad) else _visit_indices(expr))(below.append)
        for child in below:
            if hasattr(child, "dtype") and hasattr(child, "span"):
                self._collect_loads(child, place, seen)

    def _note(self, buffer: Any, indices: Sequence[Any], stores: bool, place: Place) -> None:
        given = tuple(substitute(index, place.values) for index in indices)
        self.found.append(
            Access(buffer, given, stores, place.conditions, place.begins, place.extents, place.path)
        )


def _visit_indices(load: BufferLoad) -> Any:
    return lambda visit: [visit(index) for index in load.indices]


def _lazy_operands(expr: Any) -> tuple[Any, ...] | None:
    """The condition of a lazy operator, and its operands, each with what the condition must be for it to be evaluated."""
    if isinstance(expr, And):
        return expr.a, (expr.b, True)
    if isinstance(expr, Or):
        return expr.a, (expr.b, False)
    if isinstance(expr, Call) and getattr(expr.op, "name", "") == "tir.if_then_else":
        condition, true_value, false_value = expr.args
        return condition, (true_value, True), (false_value, False)
    return None


def _expressions(node: Any) -> tuple[Any, ...]:
    """The expressions that a statement evaluates itself."""
    if isinstance(node, BufferStore):
        return (node.value, *node.indices)
    if isinstance(node, BlockRealize):
        return (node.predicate, *node.iter_values)
    if isinstance(node, For):
        return (node.min, node.extent)
    if isinstance(node, IfThenElse | While | AssertStmt):
        return (node.condition,)
    return (node.value,) if isinstance(node, LetStmt | Evaluate) else ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of buffers of one pointer lie: in cells, which are as long as what divides all elements.

    Attributes:
        bits: of a cell.
        is_shared: several buffers are of that pointer; otherwise an element is a cell, in the order of the indices.
    """

    bits: int
    is_shared: bool

    @staticmethod
    def of(buffers: Sequence[Any]) -> Layout:
        """The layout of the buffers that have one pointer."""
        several = list(dict.fromkeys(buffers))
        return Layout(math.gcd(*[_bits(buffer) for buffer in several]), len(several) > 1)

    def cells(self, buffer: Any, indices: Sequence[Array]) -> Array:
        """The cells of elements, whose indices broadcast against each other [...]: [..., cells of an element].

        Raises:
            Unknown: strides or an offset are no numbers of at least zero.
        """
        flat = np.zeros((), np.int64)
        if buffer.strides:
            for index, stride in zip(indices, buffer.strides):
                flat = flat + index * _number(stride)
        else:
            for index, length in zip(indices, buffer.shape):
                flat = flat * int(getattr(length, "value", 1)) + index
        if self.is_shared and buffer.elem_offset is not None:
            flat = flat + _number(buffer.elem_offset)
        per_element = _bits(buffer) // self.bits
        return flat[..., None] * per_element + np.arange(per_element)


def _number(expr: Any) -> int:
    if not isinstance(expr, IntImm) or expr.value < 0:
        raise Unknown
    return expr.value


def _bits(buffer: Any) -> int:
    return dt.bits(buffer.dtype) * dt.lanes(buffer.dtype)


@dataclass(frozen=True, slots=True)
class Touched:
    """What an access touches while variables run over some values.

    Attributes:
        cells: int64 [N, cells of an element].
        is_all: these are all, whatever the rest is.
        ends: lowest and highest value of each index where the conditions hold.
    """

    cells: Array
    is_all: bool
    ends: Sequence[tuple[int, int]]
    _axes: Mapping[Any, Array]
    _shape: tuple[int, ...]
    _legal: Array | None

    def sum_of(self, weights: Mapping[Any, tuple[int, int]], constant: int = 0) -> Array:
        """constant + the sum of (value of a variable - begin) * weight over ``weights``, variable to (begin, weight) [N]."""
        total = np.full((), constant, np.int64)
        for variable, (begin, weight) in weights.items():
            total = total + (self._axes[variable] - begin) * weight
        return _chosen(total, self._shape, self._legal)


def _chosen(values: Array, shape: tuple[int, ...], legal: Array | None) -> Array:
    """Those elements of an array that broadcasts to a shape which are legal; all without a mask."""
    flat = np.broadcast_to(values, shape).ravel()
    return flat if legal is None else flat[legal.ravel()]  # masks of several axes are much slower


def touched(
    item: Access,
    layout: Layout,
    ranges: Mapping[Any, Array],
    known: Mapping[Any, Any],
    given: Mapping[Any, Array],
    conditions: Sequence[Any],
) -> Touched:
    """What an access touches while variables run over some values.

    Args:
        item: the access.
        layout: of all buffers of its pointer.
        ranges: the values.
        known: what other variables are.
        given: arrays of a call, which indices and conditions may load from.
        conditions: under which the access happens.

    Raises:
        Unknown: indices or conditions are over data, or variables, that are not known.
    """
    indices = [_first_lane(index) for index in item.indices]
    used = set(variables_in(*indices, *conditions))
    is_all = used <= ranges.keys() and not any(isinstance(index, Ramp) for index in item.indices)
    grid = np.meshgrid(*ranges.values(), indexing="ij", sparse=True)
    axes = dict(zip(ranges, grid, strict=True))
    evaluate = OnArguments({**known, **axes}, given)
    shape = np.broadcast_shapes(*(axis.shape for axis in grid))
    # Masks stay as small as what they ask for; where a condition is over data that is not known, the access is not followed.
    masks = [np.asarray(evaluate(condition), np.bool_) for condition in conditions]
    places = [np.asarray(evaluate(index)) for index in indices]
    legal = _all_of(masks, shape)
    ends = [_ends(place if legal is None else _chosen(place, shape, legal)) for place in places]
    for place, (low, high), length in zip(places, ends, item.buffer.shape):
        size = int(getattr(length, "value", 1))
        if low >= 0 and high < size:
            continue
        # Beyond an extent lies another row, or nothing: the calls tell.
        is_all = False
        within_extent = np.broadcast_to((place >= 0) & (place < size), shape)
        legal = within_extent if legal is None else legal & within_extent
    cells = layout.cells(item.buffer, places)
    chosen = np.broadcast_to(cells, (*shape, cells.shape[-1])).reshape(-1, cells.shape[-1])
    if legal is not None:
        chosen = chosen[legal.ravel()]
    return Touched(chosen, is_all, ends, axes, shape, legal)


def _ends(values: Array) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if values.size else (0, -1)


def _all_of(masks: Sequence[Array], shape: tuple[int, ...]) -> Array | None:
    """Where all masks hold; None where they do everywhere."""
    legal: Array | None = None
    for mask in masks:
        if not mask.all():
            spread = np.broadcast_to(mask, shape)
            legal = spread if legal is None else legal & spread
    return legal


class OnArguments(ArrayEvaluator):
    """Evaluates with the arrays of a call."""

    def __init__(self, variables: Mapping[Any, Any], given: Mapping[Any, Array]) -> None:
        super().__init__(variables)
        self._given = given

    def load(self, node: Any) -> Any:
        """The elements of an array that is only read."""
        array = self._given.get(node.buffer.data)
        if array is None or array.dtype.kind not in "iub" or array.ndim != len(node.indices):
            raise Unknown
        indices = [
            np.clip(self(index), 0, max(size - 1, 0)) for index, size in zip(node.indices, array.shape)
        ]
        return array[tuple(indices)].astype(np.int64) if array.size else np.int64(0)


def _first_lane(index: Any) -> Any:
    return index.base if isinstance(index, Ramp) else index
