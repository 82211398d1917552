"""Convolutions by their structure: which variable of a block is the batch, a place, a channel or a tap, whatever it is called.

    O[n, h, w, k] = O[n, h, w, k] + D(n, h + r * 2, w + s * 2, c) * W[r, s, c, k]

The dimensions of O and W may come in any order (channels first or last), and D may be any expression, a load under the condition of a
padding too, that knows the places and the taps by such sums only. So the stride is 1 (or, as of ``h * 2 + r * 4``, every result is one of a
thinned image), the dilation (2 here) any number, and there may be more axes along which the filter moves, as in a volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ir import tir
from ir.arith import Analyzer
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from .affine import coefficient_of
from .analysis import why_not_reduction
from .error import ScheduleError
from .tree import BlockNode, LeafNode, loops_around, scope_of


class MovedAxis(NamedTuple):
    """An axis along which a filter moves.

    Attributes:
        place: the data-parallel variable.
        tap: the reduction variable.
        dilation: how far the inputs of neighbouring taps are apart.
    """

    place: IterVar
    tap: IterVar
    dilation: int


@dataclass(frozen=True)
class Convolution:
    """A convolution of two axes or more in one group, with stride 1.

    Attributes:
        batch, filters: data-parallel variables: of both operands none but the data has the first, none but the weights the second.
        channels: the reduction variable of both operands.
        places: data-parallel variables of the last two axes along which the filter moves, in the output's order.
        taps: their reduction variables.
        dilations: how far the inputs of neighbouring taps are apart along them.
        outer: (place, tap, dilation) of each axis before those along which the filter moves, too.
        data: the factor that is convolved, an expression of ``batch``, ``channels``, and places plus taps times dilations.
        weights: the load of the filter; its indices are variables.
        output: the store.
    """

    batch: IterVar
    filters: IterVar
    channels: IterVar
    places: tuple[IterVar, IterVar]
    taps: tuple[IterVar, IterVar]
    dilations: tuple[int, int]
    outer: tuple[MovedAxis, ...]
    data: tir.PrimExpr
    weights: tir.BufferLoad
    output: tir.BufferStore

    @property
    def dtype(self) -> str:
        """The dtype of the sum."""
        return self.output.buffer.dtype

    def data_at(self, batch: Any, places: Sequence[Any], channel: Any) -> tir.PrimExpr:
        """The data at a place of the padded image: along the outer axes first, then along the last two."""
        values: dict[Any, Any] = {self.batch.var: batch, self.channels.var: channel}
        moved = (*(axis.place for axis in self.outer), *self.places)
        values |= {item.var: place for item, place in zip(moved, places, strict=True)}
        taps = (*(axis.tap for axis in self.outer), *self.taps)
        values |= {item.var: tir.const(0, item.var.dtype) for item in taps}
        return Analyzer().simplify(substitute(self.data, values))

    def weight_at(self, taps: Sequence[Any], channel: Any, filter_number: Any) -> tir.PrimExpr:
        """The weight of a tap: its numbers along the outer axes first, then along the last two."""
        values: dict[Any, Any] = {self.channels.var: channel, self.filters.var: filter_number}
        moved = (*(axis.tap for axis in self.outer), *self.taps)
        values |= {item.var: tap for item, tap in zip(moved, taps, strict=True)}
        return substitute(self.weights, values)


def extent_of(item: IterVar) -> int:
    """The extent of a variable of a :class:`Convolution`: those are all known."""
    assert isinstance(item.dom.extent, tir.IntImm)
    return item.dom.extent.value


def convolution_of(block: BlockNode) -> Convolution:
    """The convolution that a block computes, alone in a nest of loops.

    Raises:
        ScheduleError: it computes none, with what is missing.
    """
    _require_own_nest(block)
    store, operands = _sum_of_products(block)
    data, weights = _sorted(operands, block)
    is_recurrence = any(load.buffer is store.buffer for item in operands for load in loads_in(item))
    _require(not is_recurrence, block, "factors that are none of its results")
    spatial = [item for item in block.iter_vars if item.iter_type == IterVar.DataPar]
    reduced = [item for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
    in_data, in_weights = set(variables_in(data)), set(weights.indices)
    filters = _only([item for item in spatial if item.var not in in_data], block, "filters")
    _require(
        in_weights == {filters.var, *(item.var for item in reduced)},
        block,
        "weights of filters, channels and taps",
    )
    axes = [
        MovedAxis(place, tap, dilation)
        for place in spatial
        for tap in reduced
        if (dilation := _dilation_of(data, place, tap)) is not None
    ]
    places, taps = {axis.place.var for axis in axes}, {axis.tap.var for axis in axes}
    _require(
        len(axes) == len(places) == len(taps) >= 2,
        block,
        "two axes along which the filter moves by one element",
    )
    channels = _only([item for item in reduced if item.var not in taps], block, "channels")
    moved = places | {filters.var}
    batch = _only([item for item in spatial if item.var not in moved], block, "batch")
    once_each = len(store.indices) == len(spatial) and set(store.indices) == {item.var for item in spatial}
    _require(once_each, block, "an output that its variables index, each once")
    order = {index: position for position, index in enumerate(store.indices)}
    *outer, rows, columns = sorted(axes, key=lambda axis: order[axis.place.var])
    return Convolution(
        batch,
        filters,
        channels,
        (rows.place, columns.place),
        (rows.tap, columns.tap),
        (rows.dilation, columns.dilation),
        tuple(outer),
        data,
        weights,
        store,
    )


def _require(condition: bool, block: BlockNode, wanted: str) -> None:
    if not condition:
        raise ScheduleError(
            f"block {block.name!r} is no convolution of stride 1 in one group: it has not {wanted}"
        )


def _only(found: Sequence[IterVar], block: BlockNode, what: str) -> IterVar:
    _require(len(found) == 1, block, f"one variable of its {what}")
    return found[0]


def _require_own_nest(block: BlockNode) -> None:
    loops = loops_around(block)
    plain = not any(
        loop.annotations
        or loop.thread_binding is not None
        or len(loop.children()) != 1
        or not loop.begins_at_zero
        for loop in loops
    )
    one_to_one = [loop.var for loop in loops] == list(block.iter_values) or (
        len(loops) == len(block.iter_values) and {loop.var for loop in loops} == set(block.iter_values)
    )
    _require(plain and one_to_one and scope_of(block) is not None, block, "an untouched nest of its own")
    fixed = all(
        isinstance(item.dom.extent, tir.IntImm)
        and isinstance(item.dom.min, tir.IntImm)
        and item.dom.min.value == 0
        for item in block.iter_vars
    )
    _require(fixed, block, "known extents")
    extents: dict[Any, Any] = {loop.var: loop.extent for loop in loops}
    runs_whole = block.is_unconditional and all(
        isinstance(extents[value], tir.IntImm) and extents[value].value == extent_of(item)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )
    _require(runs_whole, block, "all of its domain")
    _require(len({item.var.dtype for item in block.iter_vars}) == 1, block, "variables of one type")
    reason = why_not_reduction(block)
    _require(reason is None, block, f"the form of a reduction ({reason})")


def _sum_of_products(block: BlockNode) -> tuple[tir.BufferStore, tuple[tir.PrimExpr, tir.PrimExpr]]:
    """The store of ``O = O + a * b``, and a and b; O begins at zero."""
    store = block.body.leaf if isinstance(block.body, LeafNode) else None
    init = block.init
    if (
        isinstance(store, tir.BufferStore)
        and isinstance(init, tir.BufferStore)
        and isinstance(init.value, tir.FloatImm | tir.IntImm)
        and init.value.value == 0
        and isinstance(store.value, tir.Add)
    ):
        for total, term in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
            if (
                isinstance(total, tir.BufferLoad)
                and total.buffer is store.buffer
                and list(total.indices) == list(store.indices) == list(init.indices)
                and isinstance(term, tir.Mul)
            ):
                return store, (term.a, term.b)
    raise ScheduleError(f"block {block.name!r} is no convolution: it sums no products from zero")


def _sorted(
    operands: tuple[tir.PrimExpr, tir.PrimExpr], block: BlockNode
) -> tuple[tir.PrimExpr, tir.BufferLoad]:
    """(data, weights): the weights are loaded at plain variables."""
    for data, weights in (operands, operands[::-1]):
        if isinstance(weights, tir.BufferLoad) and len(weights.indices) >= 4:
            are_plain = all(isinstance(index, tir.Var) for index in weights.indices)
            if are_plain and len(set(weights.indices)) == len(weights.indices):
                return data, weights
    raise ScheduleError(
        f"block {block.name!r} is no convolution: neither factor of its products is a load at four variables or more"
    )


def _dilation_of(data: tir.PrimExpr, place: IterVar, tap: IterVar) -> int | None:
    """The number d for which an expression has two variables, and knows no more of them than ``place + tap * d``."""
    used = set(variables_in(data))
    if place.var not in used or tap.var not in used:
        return None
    for dilation in sorted(_ratios(data, place.var, tap.var)):
        whole = substitute(data, {place.var: place.var - tap.var * tir.const(dilation, tap.var.dtype)})
        if tap.var not in set(variables_in(Analyzer().simplify(whole))):
            return dilation
    return None


def _ratios(data: tir.PrimExpr, place: tir.Var, tap: tir.Var) -> set[int]:
    """How many times as far as a place a tap moves a part of an expression, where that is a whole number: 2 in ``(h * 2 + r * 4) // 3``."""
    found: set[int] = set()

    def look(part: Any) -> None:
        if isinstance(part, tir.PrimExpr) and part.dtype == tap.dtype:
            by_place, by_tap = coefficient_of(part, place), coefficient_of(part, tap)
            if by_place and by_tap and by_tap % by_place == 0:
                found.add(by_tap // by_place)

    tir.post_order_visit(data, look)
    return {ratio for ratio in found if ratio > 0}
