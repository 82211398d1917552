"""Convolutions by their structure: which variable of a block is the batch, a place, a channel or a tap, whatever it is called.

    O[n, h, w, k] = O[n, h, w, k] + D(n, h + r, w + s, c) * W[r, s, c, k]

The dimensions of O and W may come in any order (channels first or last), and D may be any expression, a load under the condition of a
padding too, that knows the places and the taps by their sums only. So the stride is the dilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from .analysis import why_not_reduction
from .error import ScheduleError
from .tree import BlockNode, LeafNode, loops_around, scope_of


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution in one group, whose stride is its dilation.

    Attributes:
        batch, filters: data-parallel variables: of both operands none but the data has the first, none but the weights the second.
        channels: the reduction variable of both operands.
        places: data-parallel variables of the two axes along which the filter moves, in the output's order.
        taps: their reduction variables.
        data: the factor that is convolved, an expression of ``batch``, ``channels``, and ``places`` plus ``taps``.
        weights: the load of the filter; its indices are variables.
        output: the store.
    """

    batch: IterVar
    filters: IterVar
    channels: IterVar
    places: tuple[IterVar, IterVar]
    taps: tuple[IterVar, IterVar]
    data: tir.PrimExpr
    weights: tir.BufferLoad
    output: tir.BufferStore

    @property
    def dtype(self) -> str:
        """The dtype of the sum."""
        return self.output.buffer.dtype

    def data_at(self, batch: Any, places: Sequence[Any], channel: Any) -> tir.PrimExpr:
        """The data at a place of the padded image."""
        values: dict[Any, Any] = {self.batch.var: batch, self.channels.var: channel}
        values |= {item.var: place for item, place in zip(self.places, places, strict=True)}
        values |= {item.var: tir.const(0, item.var.dtype) for item in self.taps}
        return Analyzer().simplify(substitute(self.data, values))

    def weight_at(self, taps: Sequence[Any], channel: Any, filter_number: Any) -> tir.PrimExpr:
        """The weight of a tap."""
        values: dict[Any, Any] = {self.channels.var: channel, self.filters.var: filter_number}
        values |= {item.var: tap for item, tap in zip(self.taps, taps, strict=True)}
        return substitute(self.weights, values)

    def output_at(self, values: Mapping[Any, Any]) -> list[tir.PrimExpr]:
        """The output's indices with values for its variables."""
        return [substitute(index, values) for index in self.output.indices]


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
    pairs = [(place, tap) for place in spatial for tap in reduced if _only_as_sum(data, place, tap)]
    places, taps = {place.var for place, _ in pairs}, {tap.var for _, tap in pairs}
    _require(
        len(pairs) == len(places) == len(taps) == 2,
        block,
        "two axes along which the filter moves by one element",
    )
    channels = _only([item for item in reduced if item.var not in taps], block, "channels")
    moved = places | {filters.var}
    batch = _only([item for item in spatial if item.var not in moved], block, "batch")
    once_each = len(store.indices) == len(spatial) and set(store.indices) == {item.var for item in spatial}
    _require(once_each, block, "an output that its variables index, each once")
    order = {index: position for position, index in enumerate(store.indices)}
    pairs.sort(key=lambda pair: order[pair[0].var])
    return Convolution(
        batch,
        filters,
        channels,
        (pairs[0][0], pairs[1][0]),
        (pairs[0][1], pairs[1][1]),
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
        if isinstance(weights, tir.BufferLoad) and len(weights.indices) == 4:
            if (
                all(isinstance(index, tir.Var) for index in weights.indices)
                and len(set(weights.indices)) == 4
            ):
                return data, weights
    raise ScheduleError(
        f"block {block.name!r} is no convolution: neither factor of its products is a load at four variables"
    )


def _only_as_sum(data: tir.PrimExpr, place: IterVar, tap: IterVar) -> bool:
    """Whether an expression has two variables, and knows no more of them than their sum."""
    used = set(variables_in(data))
    if place.var not in used or tap.var not in used:
        return False
    whole = substitute(data, {place.var: place.var - tap.var})
    return tap.var not in set(variables_in(Analyzer().simplify(whole)))
