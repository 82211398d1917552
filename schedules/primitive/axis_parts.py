"""Parts of an axis: how a loop shares out a block's variable, and blocks that count parts and places in them instead of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import substitute

from ..affine import are_equal, mentions, simplify_polynomial
from ..analysis import require
from ..tree import BlockNode, LeafNode, LoopNode, loops_around


@dataclass
class Parts:
    """How a loop shares out an axis of a block: into parts of one size, one an iteration."""

    block: BlockNode
    loop: LoopNode
    axis: IterVar
    size: tir.PrimExpr
    place: tir.PrimExpr
    """Where in its part an iteration is, in variables of loops."""
    ends: tuple[tir.PrimExpr, ...]
    """Where a predicate cuts the axis off."""

    def why_not_of_the_axis_of(self, other: Parts) -> str | None:
        """The reason why these are not the same parts of the same axis as another block's, or None."""
        if not are_equal(self.size, other.size) or not are_equal(self.loop.extent, other.loop.extent):
            return (
                f"loop {self.loop.var.name!r} makes {self.loop.extent} parts of {self.size} of block {self.block.name!r},"
                f" the first loop makes {other.loop.extent} parts of {other.size}"
            )
        if len(self.ends) != len(other.ends) or not all(map(are_equal, self.ends, other.ends)):
            named = [", ".join(map(str, item.ends)) or "its extent" for item in (self, other)]
            return (
                f"block {self.block.name!r} runs over {self.axis.var.name!r} up to {named[0]},"
                f" block {other.block.name!r} over {other.axis.var.name!r} up to {named[1]}"
            )
        return None


def parts_of(block: BlockNode, loop: LoopNode, primitive: str) -> Parts:
    """The parts into which a loop shares out an axis of a block.

    Raises:
        ScheduleError: it is not the outer loop of a split of one variable.
    """
    around = loops_around(block)
    bound = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if mentions(value, {loop.var})
    ]
    require(
        len(bound) == 1 and loop.begins_at_zero,
        primitive,
        f"loop {loop.var.name!r} feeds {len(bound)} variables of block {block.name!r} from {loop.min} on; it must feed one, from 0 on",
    )
    axis, value = bound[0]
    place = simplify_polynomial(substitute(value, {loop.var: tir.const(0, loop.var.dtype)}))
    size = simplify_polynomial(substitute(value, {loop.var: tir.const(1, loop.var.dtype)}) - place)
    is_split = are_equal(value, loop.var * size + place) and _runs_through(place, size, around)
    require(
        is_split,
        primitive,
        f"loop {loop.var.name!r} does not share out {axis.var.name!r} = {value} of block {block.name!r} into parts;"
        " it must be the outer loop of a split",
    )
    return Parts(block, loop, axis, size, place, _ends(block, value, primitive))


def _runs_through(place: tir.PrimExpr, size: tir.PrimExpr, loops: Sequence[LoopNode]) -> bool:
    """Whether a place is a number whose digits are loops, so that it runs through everything from 0 to a size."""
    inside = [loop for loop in loops if mentions(place, {loop.var})]
    nowhere = {loop.var: tir.const(0, loop.var.dtype) for loop in inside}
    rest, reached = place, tir.const(1, size.dtype)
    while inside:
        steps = [substitute(place, nowhere | {loop.var: tir.const(1, loop.var.dtype)}) for loop in inside]
        fitting = (loop for loop, step in zip(inside, steps, strict=True) if are_equal(step, reached))
        digit = next((loop for loop in fitting if loop.begins_at_zero), None)
        if digit is None:
            return False
        rest = rest - digit.var * reached
        reached = simplify_polynomial(reached * digit.extent)
        inside.remove(digit)
    return are_equal(rest, 0) and are_equal(reached, size)


def _ends(block: BlockNode, value: tir.PrimExpr, primitive: str) -> tuple[tir.PrimExpr, ...]:
    """Where a predicate cuts off what a variable is bound to; it must leave nothing else of it out."""
    loops = {loop.var for loop in loops_around(block)}
    own = {var for var in loops if mentions(value, {var})}
    ends: list[tir.PrimExpr] = []
    for condition in conjuncts(block.predicate):
        if not mentions(condition, own):
            continue
        require(
            isinstance(condition, tir.LT)
            and are_equal(condition.a, value)
            and not mentions(condition.b, loops),
            primitive,
            f"the predicate {condition} of block {block.name!r} leaves out more of its axis {value} than what is behind an end",
        )
        assert isinstance(condition, tir.LT)
        ends.append(simplify_polynomial(condition.b))
    return tuple(ends)


def share_out(
    parts: Parts,
    part: tir.Var,
    within: tir.Var,
    store: tir.BufferStore,
    reads: Sequence[tir.BufferRegion],
    writes: Sequence[tir.BufferRegion],
) -> None:
    """Let an elementwise block count parts and places in them instead of their axis.

    Args:
        parts: of the block.
        part, within: names of both in the block's new statement and regions, which may name the axis, too.
        store: the new statement.
        reads, writes: the new regions.
    """
    block, axis = parts.block, parts.axis
    number = IterVar(
        parts.loop.range(), tir.Var(f"v{parts.loop.var.name}", parts.loop.var.dtype), IterVar.DataPar
    )
    place = IterVar(
        tir.Range.from_min_extent(tir.const(0, axis.var.dtype), parts.size),
        tir.Var(f"{axis.var.name}_within", axis.var.dtype),
        IterVar.DataPar,
    )
    names: dict[Any, Any] = {
        axis.var: number.var * parts.size + place.var,
        part: number.var,
        within: place.var,
    }
    position = next(i for i, item in enumerate(block.iter_vars) if item is axis)
    before, behind = slice(position), slice(position + 1, None)
    block.change(
        iter_vars=(*block.iter_vars[before], number, place, *block.iter_vars[behind]),
        iter_values=(*block.iter_values[before], parts.loop.var, parts.place, *block.iter_values[behind]),
        reads=tuple(substitute(region, names) for region in reads),
        writes=tuple(substitute(region, names) for region in writes),
    )
    block.set_body(LeafNode(substitute(store, names)))
