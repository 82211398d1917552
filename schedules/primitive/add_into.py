"""add_into: add the terms of a sum, one by one, to what the whole sum would be added to.

    for i, j: T[i, j] = 0                                   for i, j: C[i, j] = f(C[i, j])
    for i, j, k: T[i, j] += x[i, j, k]            ->        for i, j, k: C[i, j] += x[i, j, k]
    for i, j: C[i, j] = f(C[i, j]) + T[i, j]

In attention, C is what was summed up so far, which a factor brings to a new maximum, and T what a tile of keys adds to it: the sums then
take one accumulator, not two. (Dao: "FlashAttention-2", 2023, section 3.1.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ir import structural_equal, tir
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute

from ..affine import mentions
from ..analysis import is_affine, read_buffers, require, scope_children, why_not_reduction, written_buffers
from ..argument import Block
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..random_variable import BlockRV
from ..region import bind_region, contains, point_region, relax_loops
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    detach,
    insert_beside,
    loops_of_its_own,
    scope_of,
)
from .rfactor import reduction_of

_NAME = "add_into"


class AddIntoPrimitives(PrimitiveFamily):
    """Sums that go on with what is there."""

    @primitive("AddInto", block=Block())
    def add_into(self, block: BlockRV | str) -> None:
        """Let a sum that a block adds to something be added to it term by term: see :mod:`schedules.primitive.add_into`.

        The block then stores the rest, before the terms; the sum's block has no init any more. Sums may be taken in any order
        (``[reduce-order]``).

        Args:
            block: stores ``a + T[...]``, where a block in a nest beside it sums T up.

        Raises:
            ScheduleError: it stores something else; others read or write T; the nests do not stand in one sequence, do not run over the
                same elements, each once; what is added to depends on other elements of the buffer; or blocks between the nests touch what
                would change its place.
        """
        node = self._block(block)
        pair = _Pair.of(node)
        pair.check()
        pair.rewrite()


@dataclass(frozen=True)
class _Pair:
    """A block that adds a sum to something, and the block of the sum."""

    node: BlockNode
    store: tir.BufferStore
    rest: tir.PrimExpr
    """What the sum is added to."""
    load: tir.BufferLoad
    """Of the sum."""
    sums: BlockNode

    @classmethod
    def of(cls, node: BlockNode) -> _Pair:
        store = node.body.leaf if isinstance(node.body, LeafNode) and node.init is None else None
        value = store.value if isinstance(store, tir.BufferStore) else None
        sides = ((value.a, value.b), (value.b, value.a)) if isinstance(value, tir.Add) else ()
        for rest, load in sides:
            if not isinstance(load, tir.BufferLoad) or any(
                item.buffer is load.buffer for item in loads_in(rest)
            ):
                continue
            writers = [item for item in scope_children(node) if load.buffer in written_buffers(item)]
            if len(writers) == 1 and why_not_reduction(writers[0]) is None:
                assert isinstance(store, tir.BufferStore)
                return cls(node, store, rest, load, writers[0])
        require(
            False,
            _NAME,
            f"block {node.name!r} does not store the sum of something and of what one reduction computes",
        )
        raise AssertionError

    def check(self) -> None:
        """Refuse what would mean something else.

        Raises:
            ScheduleError: it would.
        """
        node, sums, buffer = self.node, self.sums, self.load.buffer
        require_no_effects([node, sums], _NAME)
        reduction = reduction_of(sums, _NAME)
        there, coming = (tir.Var(name, buffer.dtype) for name in "xy")
        is_sum = len(reduction.outputs) == 1 and isinstance(reduction.combine([there], [coming])[0], tir.Add)
        require(
            is_sum and buffer.dtype == self.store.buffer.dtype,
            _NAME,
            f"block {sums.name!r} computes no sum of {self.store.buffer.dtype} that begins with 0",
        )
        scope = scope_of(node)
        others = [
            item.name
            for item in scope_children(node)
            if item not in (node, sums) and buffer in read_buffers(item)
        ]
        require(
            scope is not None and any(item is buffer for item in scope.alloc_buffers) and not others,
            _NAME,
            f"{buffer.name} is no intermediate that block {node.name!r} alone reads",
        )
        self._check_places()
        self._check_elements()

    def _check_places(self) -> None:
        """The nests stand in one sequence, and nothing between them touches what changes its place."""
        node, sums = self.node, self.sums
        ends = [_nest_of(item) for item in (sums, node)]
        parent = ends[0].parent
        require(
            isinstance(parent, SeqNode)
            and ends[1].parent is parent
            and parent.index(ends[0]) < parent.index(ends[1])
            and node.is_unconditional
            and sums.is_unconditional,
            _NAME,
            f"the nests of blocks {sums.name!r} and {node.name!r} do not stand in one sequence, all of both running",
        )
        assert isinstance(parent, SeqNode)
        out = self.store.buffer
        used = read_buffers(node) - {self.load.buffer}
        require(out not in read_buffers(sums), _NAME, f"block {sums.name!r} reads {out.name}")
        for nest in parent.nodes[parent.index(ends[0]) : parent.index(ends[1])]:
            for other in blocks_below(nest):
                if other is not sums:
                    touched = (out in read_buffers(other)) or bool(written_buffers(other) & {out, *used})
                    require(
                        not touched,
                        _NAME,
                        f"block {other.name!r} stands between, and touches what block {node.name!r} reads or writes",
                    )

    def _check_elements(self) -> None:
        """Each element of the sum is added to one element, another for each, in the same iteration of the loops around."""
        node, sums = self.node, self.sums
        for block in (sums, node):
            require(
                is_affine(block),
                _NAME,
                f"it is not seen that the loops of block {block.name!r} run each of its instances once",
            )
        require(
            not any(
                load.buffer is self.store.buffer
                and not all(map(structural_equal, load.indices, self.store.indices))
                for load in loads_in(self.rest)
            ),
            _NAME,
            f"block {node.name!r} reads other elements of {self.store.buffer.name} than it writes, to which terms would not be added yet",
        )
        variables = {item.var for item in node.iter_vars}
        distinct = len(set(self.load.indices)) == len(self.load.indices)
        require(
            distinct and set(self.load.indices) == variables and set(self.store.indices) <= variables,
            _NAME,
            f"block {node.name!r} does not read one element of {self.load.buffer.name} for each of its instances",
        )
        inner = {loop.var for loop in loops_of_its_own(node)}
        values = _bindings(node)
        require(
            not any(
                mentions(values[index], inner)
                for index in self.load.indices
                if index not in set(self.store.indices)
            ),
            _NAME,
            f"several elements of {self.load.buffer.name} are added to one of {self.store.buffer.name}",
        )
        (written,) = [item for item in sums.writes if item.buffer is self.load.buffer]
        (read,) = [item for item in node.reads if item.buffer is self.load.buffer]
        boxes = [
            relax_loops(
                bind_region(region.region, _bindings(item)), loops_of_its_own(item), self.load.buffer.shape
            )
            for item, region in ((sums, written), (node, read))
        ]
        require(
            contains(boxes[0], boxes[1]) and contains(boxes[1], boxes[0]),
            _NAME,
            f"blocks {sums.name!r} and {node.name!r} do not run over the same elements of {self.load.buffer.name}",
        )

    def rewrite(self) -> None:
        """Store the rest first, then add the terms to it."""
        node, sums, out = self.node, self.sums, self.store.buffer
        reduction = reduction_of(sums, _NAME)
        names: Mapping[Any, Any] = dict(zip(self.load.indices, reduction.indices, strict=True))
        at = [substitute(index, names) for index in self.store.indices]
        total = tir.Add(tir.BufferLoad(out, at), reduction.operands[0])
        kept = set(at)
        region = point_region(out, at)
        sums.change(
            iter_vars=tuple(_in_order(item, kept, reduction.indices) for item in sums.iter_vars),
            reads=(region, *[item for item in sums.reads if item.buffer is not self.load.buffer]),
            writes=(region,),
            init=None,
        )
        sums.set_body(LeafNode(tir.BufferStore(out, total, at)))
        node.change(reads=tuple(item for item in node.reads if item.buffer is not self.load.buffer))
        node.set_body(LeafNode(tir.BufferStore(out, self.rest, self.store.indices)))
        nest, place = _nest_of(node), _nest_of(sums)
        detach(nest)
        insert_beside(place, nest, before=True)
        scope = scope_of(node)
        assert scope is not None
        scope.change(
            alloc_buffers=tuple(item for item in scope.alloc_buffers if item is not self.load.buffer)
        )


def _in_order(item: IterVar, kept: set[Any], indices: Sequence[Any]) -> IterVar:
    """A variable that told elements of the sum apart, and tells none of what is added to, counts steps that follow each other."""
    counts = item.var in set(indices) and item.var not in kept
    return IterVar(item.dom, item.var, IterVar.Ordered) if counts else item


def _nest_of(node: BlockNode) -> TreeNode:
    own: list[LoopNode] = loops_of_its_own(node)
    return own[0] if own else node


def _bindings(node: BlockNode) -> dict[Any, Any]:
    return dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
