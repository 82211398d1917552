"""What is left of an iteration of a loop where a mask hides everything: which blocks then change nothing that anybody reads.

A sum of ``if_then_else(j <= i, x[i, j], 0)`` adds 0 in a tile of j behind i, and what starts from 0.0 stays as it is; the scores of
that tile, which only the mask's other side would read, need not be computed. In general nothing may be left out (0 times a hidden
infinity is NaN), so each claim is shown from the program: with the choices decided by the mask, constants are followed through what
the blocks store in the iteration, and a block may be skipped if it stores what is there already, or what nobody reads then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.error import IRValueError
from ir.tir.conjunction import conjuncts
from ir.tir.evaluate import evaluate
from ir.tir.stmt_functor import loads_in, substitute

from .affine import constant_difference, mentions, polynomial, simplify_polynomial
from .analysis import read_buffers, scope_children, written_buffers
from .annotation import HIDDEN_BY_ZERO
from .bounds import analyzer_of, slack
from .coverage import why_not_covered
from .region import bind_region, contains, relax_index, relax_loops
from .stored_value import Sign, Value, are_same, choices_in, is_lazy, is_own, joined, stored_value
from .surroundings import elements_along, loads_around, names_given_in
from .tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    is_ancestor,
    loops_around,
    loops_below,
    scope_of,
)

_MOST_COUNTED = 1 << 20
"""Iterations at most that are counted one by one."""


class Iteration:
    """One iteration of a loop: the blocks in it, and how far conditions go while the loops inside run."""

    def __init__(self, loop: LoopNode) -> None:
        self.loop, self.blocks = loop, blocks_below(loop)
        self._spans: dict[tuple[int, int], tuple[tir.PrimExpr, tir.PrimExpr] | None] = {}
        self._clauses: list[tir.PrimExpr] = []

    def span(self, block: BlockNode, clause: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr] | None:
        """Bounds, in terms of the loop and those around it, of a number that is not negative exactly where a clause of a block holds.

        With ``j0 * 4 + j1 <= i`` for j1 < 4, ``i - j0 * 4 - j1`` lies between ``i - j0 * 4 - 3`` and ``i - j0 * 4``. None of what is no
        comparison of indices.
        """
        key = id(block), id(clause)
        if key not in self._spans:
            self._clauses.append(clause)  # which keeps its id
            self._spans[key] = self._span(block, clause)
        return self._spans[key]

    def _span(self, block: BlockNode, clause: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr] | None:
        distance = slack(clause)
        inner = loops_below(block, self.loop)
        if distance is None or not all(loop.begins_at_zero for loop in inner):
            return None
        if isinstance(block.body, LeafNode) and mentions(distance, names_given_in(block.body.leaf)):
            return None  # a name for what is computed inside of the block
        running = {loop.var: loop.extent for loop in inner}
        found = relax_index(simplify_polynomial(substitute(distance, _bindings(block))), running)
        if found is None:
            return None
        low, high = found[0], simplify_polynomial(found[0] + found[1] - 1)
        if mentions(low, running) or mentions(high, running):
            return None
        around = (*loops_around(self.loop), self.loop)
        return (low, high) if _surely_fits(low, around) and _surely_fits(high, around) else None

    @cached_property
    def masks(self) -> list[tir.PrimExpr]:
        """What the iteration's number decides of the conditions in it: each number is negative only where one of them never holds."""
        found: list[tir.PrimExpr] = []
        for block in self.blocks:
            if not isinstance(block.body, LeafNode):
                continue
            for _, condition, _, _ in choices_in(block.body.leaf):
                for clause in conjuncts(condition):
                    span = self.span(block, clause)
                    if span is None or not mentions(span[1], {self.loop.var}):
                        continue
                    if all(constant_difference(span[1], other) != 0 for other in found):
                        found.append(span[1])
        return found

    def percentage_left(self) -> int | None:
        """How many of the iterations of the loop, of all of those around it, have something to do, in percent, rounded up; None where that
        is not known before the program runs.
        """
        loops = (*loops_around(self.loop), self.loop)
        if not all(loop.begins_at_zero for loop in loops):
            return None
        return percentage_seen(self.masks, {loop.var: loop.extent for loop in loops}, _MOST_COUNTED)

    @cached_property
    def hidden(self) -> list[Hidden]:
        """For each mask the iteration where it hides everything."""
        return [Hidden(self, mask) for mask in self.masks]

    def lowest(self, block: BlockNode, condition: tir.PrimExpr) -> list[tir.PrimExpr] | None:
        """Numbers that are not negative only where a condition of a block holds everywhere; None where a clause compares no indices."""
        spans = [self.span(block, clause) for clause in conjuncts(condition)]
        return [span[0] for span in spans if span is not None] if None not in spans else None

    def hides(self, mask: tir.PrimExpr, block: BlockNode, condition: tir.PrimExpr) -> bool:
        """Whether a condition of a block holds nowhere in an iteration in which a mask is negative."""
        for clause in conjuncts(condition):
            span = self.span(block, clause)
            if span is not None:
                more = constant_difference(mask, span[1])
                if more is not None and more >= 0:
                    return True
        return False


class Hidden:
    """An iteration in which a mask is negative: what the blocks store, and which of them need not run.

    Args:
        iteration: in general.
        mask: one of its masks.
    """

    def __init__(self, iteration: Iteration, mask: tir.PrimExpr) -> None:
        self.iteration, self.mask = iteration, mask
        self._blocks = iteration.blocks
        self._definers: dict[tir.Buffer, BlockNode] = {}
        for block in self._blocks:
            for buffer in written_buffers(block):
                self._definers.setdefault(buffer, block)
        self._covered: dict[tuple[int, int], bool] = {}
        self.constants: dict[tir.Buffer, Value] = dict.fromkeys(self._definers, Sign.UNDECIDED)
        """What all elements hold that the iteration writes of a buffer."""
        self._follow_constants()

    def hides(self, block: BlockNode, condition: tir.PrimExpr) -> bool:
        """Whether a condition of a block holds nowhere."""
        return self.iteration.hides(self.mask, block, condition)

    # ---- constants ----------------------------------------------------------------------------------------------

    def _follow_constants(self) -> None:
        """Assume of each buffer that it holds one constant, until what is stored contradicts it."""
        changed = True
        while changed:
            changed = False
            for block in self._blocks:
                value = self.stored(block)
                for buffer in written_buffers(block):
                    # what the first writer leaves as it is was there before the iteration
                    begins = value is Sign.OWN and self._definers[buffer] is block
                    both = joined(self.constants[buffer], Sign.ANY if begins else value)
                    changed = changed or not are_same(both, self.constants[buffer])
                    self.constants[buffer] = both

    def stored(self, block: BlockNode) -> Value:
        """What a block stores."""
        store = plain_store(block)
        return self._reduced(block) if store is None else stored_value(store, _In(self, block, store))

    def _reduced(self, block: BlockNode) -> Value:
        """What a reduction with an init stores: the constant that it begins with, if each of its steps leaves that as it is."""
        begin, step = block.init, _only_store(block)
        if step is None or not isinstance(begin, tir.BufferStore) or begin.buffer is not step.buffer:
            return Sign.ANY
        first = stored_value(begin, _In(self, block, begin))
        if not isinstance(first, np.generic):
            return Sign.ANY
        return first if are_same(first, stored_value(step, _In(self, block, step, first))) else Sign.ANY

    def loaded(self, block: BlockNode, load: tir.BufferLoad) -> Value:
        """What a block loads."""
        known = self.constants.get(load.buffer, Sign.ANY)
        return known if known is not Sign.ANY and self.is_written_before(block, load) else Sign.ANY

    def is_written_before(self, block: BlockNode, access: tir.BufferLoad | tir.BufferStore) -> bool:
        """Whether the iteration has written the elements that a block touches, by another block, before it does."""
        definer = self._definers.get(access.buffer)
        if definer is None or definer is block:
            return False
        key = id(block), id(access)
        if key not in self._covered:
            self._covered[key] = _is_covered(definer, block, access)
        return self._covered[key]

    # ---- what need not run --------------------------------------------------------------------------------------

    @cached_property
    def skipped(self) -> list[BlockNode]:
        """The blocks that need not run: they change nothing, or nothing that is read."""
        idle = [block for block in self._blocks if self._changes_nothing(block)]
        unread = [block for block in self._blocks if self._is_for_the_iteration(block)]
        changed = True
        while changed:
            gone = {id(block) for block in (*idle, *unread)}
            read = {
                buffer for block in self._blocks if id(block) not in gone for buffer in self._read_by(block)
            }
            kept = [block for block in unread if not written_buffers(block) & read]
            changed, unread = len(kept) < len(unread), kept
        found = {id(block) for block in (*idle, *unread)}
        return [block for block in self._blocks if id(block) in found]

    def _changes_nothing(self, block: BlockNode) -> bool:
        store = plain_store(block)
        if store is None:
            return False
        value = self.stored(block)
        if value is Sign.OWN:
            return True
        is_there = isinstance(value, np.generic) and are_same(value, self.constants[store.buffer])
        return is_there and self.is_written_before(block, store)

    def _is_for_the_iteration(self, block: BlockNode) -> bool:
        """Whether what a block writes is read in the same iteration only."""
        store, scope = plain_store(block), scope_of(block)
        if store is None or scope is None or store.buffer not in scope.alloc_buffers:
            return False
        buffer = store.buffer
        below = {id(item) for item in self._blocks}
        for other in scope_children(block):
            if any(item.load.buffer is buffer for item in loads_around(other)):
                return False
            if buffer not in read_buffers(other) | written_buffers(other):
                continue
            leaf = plain_store(other) if buffer in written_buffers(other) else _only_store(other)
            if id(other) not in below or leaf is None:
                return False
            own = self._definers[buffer] is other
            loads = [load for load in loads_in(leaf) if load.buffer is buffer]
            if not all(self.is_written_before(other, load) for load in loads) or (own and loads):
                return False
        return True

    def _read_by(self, block: BlockNode) -> set[tir.Buffer]:
        """The buffers that a block reads in fact: of a choice that the mask decides one side only, if the other is not evaluated."""
        store = _only_store(block)
        if store is None:
            return read_buffers(block)
        found: set[tir.Buffer] = set()
        pending: list[Any] = [store.value, *store.indices]
        while pending:
            node = pending.pop()
            if is_lazy(node) and self.hides(block, node.args[0]):
                pending.append(node.args[2])
                continue
            if isinstance(node, tir.BufferLoad):
                found.add(node.buffer)
            node._visit_children(pending.append)
        return found

    def has_no_negative_zero(self, block: BlockNode, store: tir.BufferStore) -> bool:
        """Whether no element is -0.0 that a block updates: all that is stored there is another constant, or what was there plus something.

        A sum of floats is -0.0 only if both summands are.
        """
        if not dt.is_float(store.buffer.dtype):
            return True
        scope = scope_of(block)
        begun = scope is not None and store.buffer in scope.alloc_buffers
        for other in scope_children(block):
            if store.buffer not in written_buffers(other):
                continue
            leaf = plain_store(other)
            if leaf is None:
                return False
            if _is_positive_constant(leaf.value):
                begun = begun or (other is not block and _is_covered(other, block, store))
            elif not _adds_to_itself(leaf):
                return False
        return begun


class _In:
    """What is known in a block."""

    def __init__(
        self, hidden: Hidden, block: BlockNode, store: tir.BufferStore, there: np.generic | None = None
    ) -> None:
        self._hidden, self._block, self._store = hidden, block, store
        self._there = there
        """What is there of the element that the block writes, where that is known."""

    def is_false(self, condition: tir.PrimExpr) -> bool:
        return self._hidden.hides(self._block, condition)

    def loaded(self, load: tir.BufferLoad) -> Value:
        if self._there is not None and is_own(self._store, load):
            return self._there
        return self._hidden.loaded(self._block, load)

    def has_no_negative_zero(self) -> bool:
        return self._hidden.has_no_negative_zero(self._block, self._store)

    def hides_by_zero(self) -> bool:
        return HIDDEN_BY_ZERO in self._block.annotations


def percentage_seen(
    masks: Sequence[tir.PrimExpr], extents: Mapping[tir.Var, tir.PrimExpr], most: int
) -> int | None:
    """At how many places, in percent, rounded up, none of some masks is negative.

    Args:
        masks: numbers.
        extents: of the variables over which places lie, which all begin at 0; those in no mask do not count.
        most: places at most that are counted.

    Returns:
        None where there is no place or are too many, and where that is not known before the program runs: a parameter decides, or an
        extent that is no number.
    """
    names = [var for var in extents if any(mentions(mask, {var}) for mask in masks)]
    numbers = [getattr(extents[var], "value", 0) for var in names]
    if not names or not 0 < prod(numbers) <= most:
        return None
    grid = dict(zip(names, np.indices(numbers, dtype=np.int64), strict=True))
    seen = np.ones(numbers, bool)
    try:
        with np.errstate(all="ignore"):
            for mask in masks:
                seen &= evaluate(mask, grid) >= 0
    except IRValueError:
        return None
    return int(np.ceil(100 * seen.mean()))


def plain_store(block: BlockNode) -> tir.BufferStore | None:
    """The only statement of a block; None of blocks that do more, such as to initialise a reduction."""
    leaf = block.body.leaf if isinstance(block.body, LeafNode) else None
    plain = isinstance(leaf, tir.BufferStore) and leaf.predicate is None and block.init is None
    return leaf if plain and not block.match_buffers and not block.alloc_buffers else None  # type: ignore[return-value]


def _only_store(block: BlockNode) -> tir.BufferStore | None:
    """The only statement by which a block reads anything: also of a reduction that begins with what is no memory's."""
    if block.init is None:
        return plain_store(block)
    leaf = block.body.leaf if isinstance(block.body, LeafNode) else None
    plain = isinstance(leaf, tir.BufferStore) and leaf.predicate is None and not any(loads_in(block.init))
    return leaf if plain and not block.match_buffers and not block.alloc_buffers else None  # type: ignore[return-value]


def _is_covered(writer: BlockNode, block: BlockNode, access: tir.BufferLoad | tir.BufferStore) -> bool:
    """Whether a block that stands before another one has written, in the loops around both, all elements of an access of that."""
    store = _only_store(writer)
    place = _common_node(writer, block)
    children = scope_children(block)
    if store is None or place is None or children.index(writer) > children.index(block):
        return False
    if why_not_covered(writer, access.buffer, place) is not None:
        return False
    boxes = []
    for node, item in ((writer, store), (block, access)):
        shape = access.buffer.shape
        region = [elements_along(index, dim) for index, dim in zip(item.indices, shape, strict=True)]
        values = _bindings(node)
        boxes.append(relax_loops(bind_region(region, values), loops_below(node, place), shape))
    return contains(*boxes)


def _bindings(block: BlockNode) -> dict[Any, tir.PrimExpr]:
    """What a block's variables are bound to, without the loops that run once."""
    once = {
        loop.var: loop.min
        for loop in loops_around(block)
        if isinstance(loop.extent, tir.IntImm) and loop.extent.value == 1 and isinstance(loop.min, tir.IntImm)
    }
    values = [substitute(value, once) for value in block.iter_values] if once else block.iter_values
    return dict(zip([item.var for item in block.iter_vars], values, strict=True))


def _surely_fits(number: tir.PrimExpr, around: Sequence[LoopNode]) -> bool:
    """Whether the type of a number holds it, and what its terms add up to on the way, while loops run: the condition of which it is made
    may be one that compares with the ends of its type.
    """
    analyzer = analyzer_of(around)
    most = dt.integer_range(number.dtype)[1]
    total = 0
    for monomial, coefficient in polynomial(number).terms.items():
        bounds = [analyzer.const_int_bound(atom) for atom in monomial]
        reach = prod(max(abs(int(bound.min_value)), abs(int(bound.max_value))) for bound in bounds)
        # what nobody knows the extent of is taken to keep away from the ends
        total += abs(coefficient) * (reach if reach < most // 2 else most // 8)
    return total <= most


def _common_node(one: TreeNode, other: TreeNode) -> TreeNode | None:
    node = one.parent
    while node is not None and not is_ancestor(node, other):
        node = node.parent
    return node


def _is_positive_constant(value: tir.PrimExpr) -> bool:
    """Whether a value is a constant float other than -0.0."""
    return isinstance(value, tir.FloatImm) and not (value.value == 0 and np.signbit(value.value))


def _adds_to_itself(store: tir.BufferStore) -> bool:
    value = store.value
    return isinstance(value, tir.Add) and any(is_own(store, side) for side in (value.a, value.b))
