"""loop_partition and merge: one loop into consecutive ones, and loops beside each other into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.stmt_functor import substitute
from ir.tir.transform.fresh_copy import fresh_copy

from ..access import access_regions, reads_with_init
from ..affine import constant_difference, mentions
from ..analysis import leaves_beside_blocks, read_buffers, require, require_one_name, written_buffers
from ..argument import Factors, Flag, Loop, Loops
from ..declaration import PrimitiveFamily, primitive
from ..disjoint import Access, never_meet
from ..effects import has_effects, require_no_effects
from ..error import ScheduleError
from ..random_variable import ExprRV, LoopRV
from ..region import Box, bind_region, relax_loops, union_boxes
from ..returns import require_no_return
from ..rewriting import rewrite_expressions
from ..surroundings import loads_around
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    detach,
    is_ancestor,
    loops_around,
    loops_below,
    replace_node,
    scope_of,
    tree_of,
)


class PartitionPrimitives(PrimitiveFamily):
    """One loop as several beside each other, and several as one."""

    @primitive("LoopPartition", loop=Loop(), factors=Factors(), preserve_unit_iters=Flag())
    def loop_partition(
        self, loop: LoopRV, factors: Sequence[int | ExprRV | None], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Cut a loop into consecutive loops of the given extents; None (or what is left over) takes the rest.

        ``for i in 64: B[i]`` with factors [16] becomes ``for i0 in 16: B[i0]`` and ``for i1 in range(16, 64): B[i1]``, each in
        a block of its own.

        Raises:
            ScheduleError: the extent is not constant or less than the factors, or what is below is not one block that any
                part of the loop can run.
        """
        require(
            preserve_unit_iters,
            "loop_partition",
            "iterators of one iteration stay: preserve_unit_iters is True",
        )
        node = self._loop(loop)
        extents = _extents_of_parts(node, [self._value(item) for item in factors])
        (block,) = blocks_below(node)
        base, name = block.name, node.var.name
        start = node.min.value  # type: ignore[attr-defined]
        parts: list[TreeNode] = []
        result: list[LoopNode] = []
        for position, extent in enumerate(extents):
            part = _part(node, position, start, extent, base)
            result.append(part)
            parts.append(_opaque(f"{base}_{name}{position}_partition", part))
            start += extent
        replace_node(node, _opaque(f"{base}_{name}_common", SeqNode(parts)))
        return self._new(result)

    @primitive("Merge", moves=True, loops_to_merge=Loops())
    def merge(self, *loops_to_merge: LoopRV) -> LoopRV:
        """Run loops that stand beside each other in one loop.

        ``for i: B[i] = A[i]`` followed by ``for i: C[i] = B[i]`` becomes ``for i_m: B[i_m] = A[i_m]; C[i_m] = B[i_m]``.

        Raises:
            ScheduleError: the extents differ, other statements lie between, or an iteration needs what another one computes.
        """
        chains = _mergeable_chains([self._loop(item) for item in loops_to_merge])
        variables = [tir.Var(f"{loop.var.name}_m", loop.var.dtype) for loop in chains[0]]
        bodies: list[TreeNode] = []
        for chain in chains:
            body = chain[-1].body
            rewrite_expressions(body, {loop.var: var for loop, var in zip(chain, variables, strict=True)})
            bodies += body.nodes if isinstance(body, SeqNode) else [body]
        placeholder = LeafNode(tir.Evaluate(tir.const(0)))
        for chain in chains[1:]:
            detach(chain[0])
        replace_node(chains[0][0], placeholder)
        node: TreeNode = SeqNode(bodies)
        merged: LoopNode | None = None
        for var, loop in zip(reversed(variables), reversed(chains[0]), strict=True):
            node = LoopNode(var, loop.extent, node, loop.kind)
            merged = merged or node
        replace_node(placeholder, node)
        assert merged is not None
        return self._new(merged)


def _require_begun_inside(block: BlockNode, loop: LoopNode) -> None:
    """The parts of a loop are blocks of their own, whose loops outside run no ``init`` where they have no iterations."""
    if block.init is None:
        return
    for reduced, value in zip(block.iter_vars, block.iter_values, strict=True):
        for outer in loops_around(loop):
            require(
                reduced.iter_type != tir.IterVar.CommReduce
                or not mentions(value, {outer.var})
                or not may_be_empty(outer.extent),
                "loop_partition",
                f"loop {outer.var.name!r} outside may have no iterations, where block {block.name!r} initialises only",
            )


def _extents_of_parts(loop: LoopNode, factors: Sequence[Any]) -> list[int]:
    """The extents with the open one filled in, when the loop can be cut."""
    primitive = "loop_partition"
    name = loop.var.name
    require(
        not loop.annotations and loop.thread_binding is None,
        primitive,
        f"loop {name!r} has annotations or a thread binding",
    )
    require(
        isinstance(loop.extent, tir.IntImm) and isinstance(loop.min, tir.IntImm),
        primitive,
        f"loop {name!r} runs over {loop.extent} iterations from {loop.min}; both must be constant",
    )
    require(len(factors) > 0, primitive, f"loop {name!r} needs at least one factor")
    require(sum(item is None for item in factors) <= 1, primitive, "at most one factor may be None")
    blocks = list(blocks_below(loop))
    require(len(blocks) == 1, primitive, f"loop {name!r} has {len(blocks)} blocks below it, it needs one")
    for item in blocks:
        for reduced, value in zip(item.iter_vars, item.iter_values, strict=True):
            require(
                item.init is None
                or reduced.iter_type != tir.IterVar.CommReduce
                or not mentions(value, {loop.var}),
                primitive,
                f"loop {name!r} runs the reduction {reduced.var.name!r} of block {item.name!r}; decompose it first",
            )
        _require_begun_inside(item, loop)
    sizes = [None if item is None else int(getattr(tir.convert(item), "value", 0)) for item in factors]
    require(
        all(item is None or item > 0 for item in sizes),
        primitive,
        f"factors of loop {name!r} must be positive, got {sizes}",
    )
    total = loop.extent.value  # type: ignore[attr-defined]
    given = sum(item for item in sizes if item is not None)
    rest = total - given
    require(rest >= 0, primitive, f"factors {sizes} of loop {name!r} add up to more than its extent {total}")
    if None in sizes:
        require(rest > 0, primitive, f"factors {sizes} leave no iteration of loop {name!r} for None")
        extents = [rest if item is None else item for item in sizes]
    else:
        extents = [item for item in sizes if item is not None] + ([rest] if rest else [])
    require(
        len(extents) > 1,
        primitive,
        f"factors {sizes} leave loop {name!r} in one piece; there is nothing to cut",
    )
    return extents


def _opaque(name: str, body: TreeNode) -> BlockNode:
    """A block without iteration variables, which keeps a partition apart from others."""
    block = BlockNode(name, (), (), (), (), body)
    reads, writes = access_regions(block, None)
    block.change(reads=reads, writes=writes)
    return block


def _part(loop: LoopNode, position: int, start: int, extent: int, base: str) -> LoopNode:
    """A copy of a loop over some of its iterations, with variables, buffers and a block name of its own."""
    body = tree_of(fresh_copy(loop.body.stmt()))
    var = tir.Var(f"{loop.var.name}{position}", loop.var.dtype)
    part = LoopNode(var, tir.const(extent, var.dtype), body, loop.kind, tir.const(start, var.dtype))
    rewrite_expressions(body, {loop.var: var})
    (block,) = blocks_below(part)
    block.name = f"{base}_{loop.var.name}{position}"
    iter_vars = tuple(
        tir.IterVar(part.range(), item.var, item.iter_type) if value is var else item
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )
    # Outside of these loops others take for read and written what it says: the copies of a part are made for them.
    below = {item.var for item in loops_around(block) if item is part or is_ancestor(part, item)}
    own = {
        item.var: item.dom for item, value in zip(iter_vars, block.iter_values, strict=True) if value in below
    }
    block.change(
        iter_vars=iter_vars,
        reads=tuple(_covered(region, own) for region in block.reads),
        writes=tuple(_covered(region, own) for region in block.writes),
    )
    return part


def _covered(region: tir.BufferRegion, domains: Mapping[Any, tir.Range]) -> tir.BufferRegion:
    """The region while variables run over their domains, in the dimensions that one of them indexes by itself."""
    return tir.BufferRegion(
        region.buffer,
        [
            domains.get(item.min, item) if constant_difference(item.extent, 1) == 0 else item
            for item in region.region
        ],
    )


def _mergeable_chains(loops: Sequence[LoopNode]) -> list[list[LoopNode]]:
    """The nests from the sequence around all loops down to each, when they can run as one."""
    primitive = "merge"
    require(len(loops) >= 2, primitive, "needs at least two loops")
    first = loops[0]
    require(len({id(scope_of(loop)) for loop in loops}) == 1, primitive, "the loops are not in one scope")
    for loop in loops:
        require(
            constant_difference(loop.extent, first.extent) == 0,
            primitive,
            f"loop {loop.var.name!r} has extent {loop.extent}, loop {first.var.name!r} has {first.extent}",
        )
    chains = _chains(loops, primitive)
    for chain in chains:
        for loop in chain:  # one loop takes the place of all, also of those around the given ones
            _require_plain(loop, primitive)
    depth = len(chains[0])
    require(
        all(len(chain) == depth for chain in chains),
        primitive,
        "the loops are not at the same depth below the sequence",
    )
    for level in range(depth):
        for chain in chains[1:]:
            require(
                constant_difference(chain[level].extent, chains[0][level].extent) == 0,
                primitive,
                f"loops {chain[level].var.name!r} and {chains[0][level].var.name!r} around them have different extents",
            )
    require_no_return([chain[0] for chain in chains], primitive, "the nests")
    _require_stated(chains)
    _require_effects_in_order(chains)
    for position, chain in enumerate(chains):
        for later in chains[position + 1 :]:
            _require_no_crossing(chain, later)
    return chains


def _require_plain(loop: LoopNode, primitive: str) -> None:
    """Refuse a loop that another one from 0 cannot stand for."""
    name = loop.var.name
    require(
        not loop.annotations and loop.thread_binding is None,
        primitive,
        f"loop {name!r} has annotations or a thread binding",
    )
    require(
        loop.begins_at_zero,
        primitive,
        f"loop {name!r} starts at {loop.min}, not at 0",
    )


def _chains(loops: Sequence[LoopNode], primitive: str) -> list[list[LoopNode]]:
    """For each loop the nest from the sequence around all of them down to it."""
    sequence: TreeNode | None = loops[0].parent
    while sequence is not None and not (
        isinstance(sequence, SeqNode) and all(is_ancestor(sequence, loop) for loop in loops)
    ):
        require(
            not isinstance(sequence, BlockNode),
            primitive,
            "the loops are nested in each other or stand in no common sequence",
        )
        sequence = sequence.parent
    assert isinstance(sequence, SeqNode)
    chains, positions = [], []
    for loop in loops:
        chain = [loop]
        node: TreeNode = loop
        while node.parent is not sequence:
            assert node.parent is not None
            node = node.parent
            require(
                isinstance(node, LoopNode),
                primitive,
                f"a condition or sequence lies between loop {loop.var.name!r} and the others",
            )
            chain.append(node)  # type: ignore[arg-type]
        chains.append(chain[::-1])
        positions.append(sequence.index(node))
    require(len(set(positions)) == len(positions), primitive, "two of the loops are in the same nest")
    require(
        positions == list(range(positions[0], positions[0] + len(positions))),
        primitive,
        "the nests of the loops do not follow each other directly in the given order",
    )
    return chains


def _require_no_crossing(chain: Sequence[LoopNode], later: Sequence[LoopNode]) -> None:
    """Where one nest uses what the other touches, both must touch the same part in each merged iteration."""
    same = {loop.var: other.var for loop, other in zip(later, chain, strict=True)}
    _require_finished(chain, later)
    for writes_first in (True, False):
        written = _boxes(chain if writes_first else later, {} if writes_first else same, True)
        used = _boxes(later if writes_first else chain, same if writes_first else {}, False)
        if writes_first:
            for buffer, box in _boxes(later, same, True).items():
                used[buffer] = union_boxes([used[buffer], box], buffer.shape) if buffer in used else box
        for buffer in written.keys() & used.keys():
            _require_part_of_its_own(buffer, written[buffer], chain)
            for (low, extent), (used_low, used_extent) in zip(written[buffer], used[buffer], strict=True):
                below = constant_difference(used_low, low)
                above = constant_difference(low + extent, used_low + used_extent)
                if below is None or above is None or below < 0 or above < 0:
                    raise ScheduleError(
                        f"merge: in one iteration of loops {chain[-1].var.name!r} and {later[-1].var.name!r} different parts of"
                        f" buffer {buffer.name} are written and used"
                    )


def _require_part_of_its_own(buffer: tir.Buffer, box: Box, chain: Sequence[LoopNode]) -> None:
    """What a merged iteration writes no other may write: the later nest saw what the last one left, and now sees what its own one did."""
    region = [tir.Range.from_min_extent(low, extent) for low, extent in box]
    outer = loops_around(chain[0])
    for position, loop in enumerate(chain):
        part = Access(region, chain[position + 1 :], tir.const(True))
        require(
            _runs_once(loop) or never_meet(part, part, loop, [*outer, *chain[:position]]),
            "merge",
            f"iterations of loop {loop.var.name!r} may write the same part of buffer {buffer.name}, which both nests touch",
        )


def _require_stated(chains: Sequence[Sequence[LoopNode]]) -> None:
    """Only what blocks state is compared: nothing else may touch memory, by another name or in a condition that another nest decides."""
    blocks = [blocks_below(chain[0]) for chain in chains]
    everything = [block for group in blocks for block in group]
    require_one_name(everything, everything, "merge")
    for chain, group in zip(chains, blocks, strict=True):
        require(
            not leaves_beside_blocks(chain[0]),
            "merge",
            f"loop {chain[0].var.name!r} holds statements that are in no block",
        )
        others = [block for block in everything if not any(block is own for own in group)]
        written = set().union(*map(written_buffers, others))
        for block in group:
            for item in loads_around(block):
                require(
                    item.load.buffer not in written,
                    "merge",
                    f"whether block {block.name!r} runs depends on {item.load.buffer.name}, which another of the nests writes",
                )


def _require_effects_in_order(chains: Sequence[Sequence[LoopNode]]) -> None:
    """Of nests that run as one, one iteration of each after the other, at most one may have effects."""
    calling = [chain for chain in chains if has_effects(blocks_below(chain[0]))]
    for chain in calling[1:]:
        require_no_effects(blocks_below(chain[0]), "merge")


def _runs_once(loop: LoopNode) -> bool:
    return isinstance(loop.extent, tir.IntImm) and loop.extent.value == 1


def _require_finished(chain: Sequence[LoopNode], later: Sequence[LoopNode]) -> None:
    """What the later nest uses must be complete after one merged iteration: no reduction may run over the merged loops."""
    used = set().union(*[read_buffers(item) | written_buffers(item) for item in blocks_below(later[-1])])
    merged = {loop.var for loop in chain if not _runs_once(loop)}
    for block in blocks_below(chain[-1]):
        if not written_buffers(block) & used:
            continue
        for item, value in zip(block.iter_vars, block.iter_values, strict=True):
            require(
                item.iter_type != tir.IterVar.CommReduce or not mentions(value, merged),
                "merge",
                f"the reduction {item.var.name!r} of block {block.name!r} is not finished in one iteration of the merged loops",
            )
        for loop in chain:
            require(
                loop.var not in merged or any(mentions(value, {loop.var}) for value in block.iter_values),
                "merge",
                f"loop {loop.var.name!r} repeats block {block.name!r} without feeding its variables",
            )


def _boxes(chain: Sequence[LoopNode], renamed: dict[Any, Any], writes: bool) -> dict[tir.Buffer, Box]:
    """What the blocks below a chain of loops touch in one iteration of all of them."""
    found: dict[tir.Buffer, list[Box]] = {}
    for block in blocks_below(chain[-1]):
        values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
        inner = loops_below(block, chain[-1])
        for region in block.writes if writes else reads_with_init(block):
            bound = [substitute(item, renamed) for item in bind_region(region.region, values)]
            found.setdefault(region.buffer, []).append(relax_loops(bound, inner, region.buffer.shape))
    return {buffer: union_boxes(boxes, buffer.shape) for buffer, boxes in found.items()}
