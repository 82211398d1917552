"""blockize: turn a loop nest, or several blocks beside each other, into one block, so that it can be scheduled as a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import structural_equal, tir
from ir.arith import Analyzer, IterMark, IterSumExpr, normalize_iter_map_to_expr, subspace_divide
from ir.arith.analyzer import constraints
from ir.tir import IterVar
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.analysis.own_updates import own_updates
from ir.tir.conjunction import conjunction, marked_conjuncts
from ir.tir.stmt_functor import loads_in, substitute

from ..access import known_before, reads_with_init
from ..affine import mentions, simplify_polynomial
from ..analysis import require, why_two_names
from ..argument import Argument, Input
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import loops_of_sums, predicate_at_begin, why_not_begun_once, why_not_run
from ..region import bind_region, relax_domains, union_boxes
from ..rewriting import substitute_inside
from ..state import ScheduleState
from ..surroundings import LoadAround
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    is_ancestor,
    loops_around,
    replace_node,
    scope_of,
)
from .reduction import block_of_init, conjuncts


class _Target(Input):
    """A loop, or a list of blocks or names."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return [sch._named(item) for item in value] if isinstance(value, list | tuple) else value


class BlockizePrimitives(PrimitiveFamily):
    """Blocks of blocks."""

    @primitive("Blockize", target=_Target(), preserve_unit_iters=Argument())
    def blockize(self, target: LoopRV | Sequence[BlockRV | str], preserve_unit_iters: bool = True) -> BlockRV:
        """Turn the nest under a loop, or consecutive blocks, into one block.

        ``for i_0: for i_1 in 16: B[i_0 * 16 + i_1]`` by i_1 becomes ``for i_0: block B_o(vi_o = i_0): for i_1 in 16:
        B[vi_o * 16 + i_1]``.

        Raises:
            ScheduleError: the loop holds several blocks, bindings cannot be divided at the loop, a reduction does not begin each element
                once and first, or blocks that are joined run under different predicates.
        """
        if isinstance(target, LoopRV):
            return self._new(blockize_loop(self._loop(target), preserve_unit_iters))
        return self._new(_blockize_blocks([self._block(item) for item in target], preserve_unit_iters))


class Division:
    """A block's iteration split at a loop: what an outer block iterates and what is left for the inner one."""

    def __init__(
        self, block: BlockNode, inner: Sequence[LoopNode], primitive: str, preserve_unit_iters: bool = True
    ) -> None:
        loops = loops_around(block)
        ranges = {loop.var: loop.range() for loop in loops}
        for loop in loops:
            used = any(mentions(value, {loop.var}) for value in block.iter_values)
            require(
                not used or loop.begins_at_zero,
                primitive,
                f"loop {loop.var.name!r} around block {block.name!r} starts at {loop.min}, not at 0",
            )
        outside = {loop.var for loop in loops} - {loop.var for loop in inner}
        for loop in inner:
            require(
                not mentions(loop.extent, outside),
                primitive,
                f"loop {loop.var.name!r} runs over {loop.extent}, which a loop outside of the new block says",
            )
        parts, aside = _divided(block, ranges, [loop.var for loop in inner], preserve_unit_iters)
        require(
            parts,
            primitive,
            f"the bindings of block {block.name!r} cannot be divided into an outer and an inner part at the loop",
        )
        self._primitive, self._loops = primitive, set(ranges)
        self.inner_loops = {loop.var: loop.range() for loop in inner}
        self.outer_vars: list[IterVar] = []
        self.outer_values: list[Any] = []
        self.inner_vars: list[IterVar] = []
        self.inner_values: list[Any] = []
        self.values: dict[Any, Any] = {}
        """The block's variables in terms of the new ones."""
        for item, (outer, inner_mark) in zip(block.iter_vars, parts[:-1], strict=True):
            self._divide(item, outer, inner_mark, preserve_unit_iters)
        outside = _predicate_of(parts[-1][0])
        self.outer_predicate: Any = conjunction([*marked_conjuncts(outside), *aside]) if aside else outside
        self.inner_predicate = _predicate_of(parts[-1][1])
        self._require_outer_inside(block, loops, inner)

    def _require_outer_inside(
        self, block: BlockNode, loops: Sequence[LoopNode], inner: Sequence[LoopNode]
    ) -> None:
        """The outer block runs also where the inner one has no instance, the values of which the domains were written for."""
        if not any(may_be_empty(loop.extent) for loop in inner) and isinstance(
            self.inner_predicate, tir.IntImm
        ):
            return
        kept = [item.dom for item in block.iter_vars]
        scope = scope_of(block)
        assert scope is not None
        analyzer = analyzer_of(loops, variables=scope.iter_vars)
        with constraints(analyzer, self.outer_predicate):
            for item, value in zip(self.outer_vars, self.outer_values, strict=True):
                low, extent = item.dom.min, item.dom.extent
                require(
                    not any(item.dom is dom for dom in kept)
                    or (analyzer.can_prove(value >= low) and analyzer.can_prove(value < low + extent)),
                    self._primitive,
                    f"block {block.name!r} may have no instance in the new block, whose variable {item.var.name!r}, bound to {value}, is"
                    f" not known to be in [{low}, {low + extent}) then",
                )

    def _divide(self, item: IterVar, outer: Any, inner: Any, preserve_unit_iters: bool) -> None:
        dtype = item.var.dtype
        var_o, var_i = tir.Var(f"{item.var.name}_o", dtype), tir.Var(f"{item.var.name}_i", dtype)
        if _is_one(inner.extent):
            self.outer_vars.append(IterVar(item.dom, var_o, item.iter_type))
            self.outer_values.append(normalize_iter_map_to_expr(outer.source))
            keeps = preserve_unit_iters or not _is_one(item.dom.extent)
            self.values[item.var] = var_o if keeps else item.dom.min
            return
        base = inner.source.base
        if isinstance(base, tir.IntImm):
            base = None
        else:  # loops outside of the scope, or sizes: the body names them beside its variables, as it may
            inner = IterMark(IterSumExpr(inner.source.args, tir.const(0, dtype)), inner.extent)
        for part, var, variables, values in (
            (outer, var_o, self.outer_vars, self.outer_values),
            (inner, var_i, self.inner_vars, self.inner_values),
        ):
            domain = _domain_of(part.source, part.extent, dtype)
            if domain is None or mentions(part.extent, self._loops):
                require(
                    _is_one(outer.extent) and base is None,
                    self._primitive,
                    f"variable {item.var.name!r}, bound to {normalize_iter_map_to_expr(part.source)}, runs no known number of steps",
                )
                domain = item.dom  # of all iterations
            variables.append(IterVar(domain, var, item.iter_type))
            values.append(normalize_iter_map_to_expr(part.source))
        value = var_i if _is_one(outer.extent) else var_o * inner.extent + var_i
        self.values[item.var] = value if base is None else base + value


def _domain_of(part: IterSumExpr, extent: Any, dtype: str) -> tir.Range | None:
    """From the least to the greatest value that a part takes: a window need not begin at 0, nor take every value (``k * 3``).

    None where it takes steps of unknown size.
    """
    low, steps = part.base, part.args
    if len(steps) == 1 and not _is_one(steps[0].scale):  # the steps of several leave no gaps
        (step,) = steps
        if not isinstance(step.scale, tir.IntImm):
            return None
        reach = simplify_polynomial((step.extent - 1) * step.scale)
        extent = simplify_polynomial((step.extent - 1) * abs(step.scale.value) + 1)
        low = simplify_polynomial(low + reach) if step.scale.value < 0 else low
    return tir.Range.from_min_extent(tir.cast(dtype, low), tir.cast(dtype, extent))


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _predicate_of(mark: Any) -> Any:
    return getattr(mark, "extent", mark)


def _divided(
    block: BlockNode, ranges: Mapping[Any, Any], inner: Sequence[Any], preserve_unit_iters: bool
) -> tuple[Any, list[Any]]:
    """The parts of a block's bindings and predicate; and clauses of the predicate that are no bounds of bindings, and decide all of the
    new block, since no inner loop changes them.
    """

    def parts(predicate: Any) -> Any:
        return subspace_divide(
            list(block.iter_values),
            ranges,
            inner,
            predicate,
            "surjective",
            simplify_trivial_iterators=not preserve_unit_iters,
        )

    found, own = parts(block.predicate), set(inner)
    if found:
        return found, []
    clauses = marked_conjuncts(block.predicate)
    rest = conjunction(clause for clause in clauses if mentions(clause, own))
    aside = [clause for clause in clauses if not mentions(clause, own)]
    return parts(tir.const(True) if rest is None else rest), aside


def blockize_loop(loop: LoopNode, preserve_unit_iters: bool = True) -> BlockNode:
    """Make the nest under a loop the body of a new block, whose variables are the outer parts of the inner block's."""
    primitive = "blockize"
    blocks = list(blocks_below(loop))
    require(
        len(blocks) == 1, primitive, f"loop {loop.var.name!r} has {len(blocks)} blocks below it, it needs one"
    )
    (block,) = blocks
    inner = [item for item in loops_around(block) if is_ancestor(loop, item)]
    _require_plain(loop, block, primitive)
    if block.init is not None:
        require_no_effects([block], primitive)
        _require_begun_once(block, inner, primitive)
    division = Division(block, inner, primitive, preserve_unit_iters)
    outer_reads, outer_writes = _outer_regions([block], [division])
    init = None if block.init is None else _init_nest(block, inner, division)
    outer = BlockNode(
        f"{block.name}_o",
        tuple(division.outer_vars),
        tuple(division.outer_values),
        outer_reads,
        outer_writes,
        LeafNode(tir.Evaluate(tir.const(0))),
        division.outer_predicate,
        init,
    )
    replace_node(loop, outer)
    _make_inner(block, division)
    outer.set_body(loop)
    return outer


def _require_begun_once(block: BlockNode, inner: Sequence[LoopNode], primitive: str) -> None:
    """The new block initialises all of its elements where its own reductions begin; so must have done the instances in it."""
    around = loops_around(block)
    running = max(loops_of_sums(block, around), inner, key=len)
    # An outer domain is as empty as the loops outside: over an empty one it would initialise what the block does not.
    for reason in (why_two_names([block]), why_not_begun_once(block, running), why_not_run(block, running)):
        require(reason is None, primitive, f"{reason}")


def _require_plain(top: TreeNode, block: BlockNode, primitive: str) -> None:
    node: TreeNode | None = block.parent
    while node is not None:
        require(
            isinstance(node, LoopNode),
            primitive,
            f"a condition or a sequence lies between the loop and block {block.name!r}",
        )
        if node is top:
            return
        node = node.parent


def _make_inner(block: BlockNode, division: Division) -> None:
    """Iterate the inner parts only; a reduction's init has moved to the outer block."""
    had_init = block.init is not None
    substitute_inside(block, division.values)
    own = own_updates(block.reads, block.writes, {item.buffer for item in block.writes})
    block.change(
        iter_vars=tuple(division.inner_vars),
        iter_values=tuple(division.inner_values),
        predicate=division.inner_predicate,
        reads=(*own, *block.reads) if had_init else block.reads,
        init=None,
    )


def _outer_regions(
    blocks: Sequence[BlockNode], divisions: Sequence[Division]
) -> tuple[tuple[tir.BufferRegion, ...], tuple[tir.BufferRegion, ...]]:
    """What the blocks read and write together while their inner variables run, and the loops of these, which a block may use itself.

    What the bounds of these loops, inner bindings and predicates load is read inside of the new block, too. Regions are evaluated where
    that begins, before any of the blocks writes.
    """
    reads: dict[tir.Buffer, list[Any]] = {}
    writes: dict[tir.Buffer, list[Any]] = {}
    for block, division in zip(blocks, divisions, strict=True):
        running = division.inner_loops | {item.var: item.dom for item in division.inner_vars}
        inside = [end for loop in division.inner_loops.values() for end in (loop.min, loop.extent)]
        asked = [
            LoadAround(block, load).region_of_buffer
            for expr in (*inside, *division.inner_values, division.inner_predicate)
            for load in loads_in(expr)
        ]
        for regions, table in (
            ((*reads_with_init(block), *asked), reads),
            (block.writes, writes),
        ):
            for region in regions:
                box = relax_domains(bind_region(region.region, division.values), running, region.buffer.shape)
                table.setdefault(region.buffer, []).append(box)

    changing = {region.buffer.data for block in blocks for region in block.writes}

    def joined(table: dict[tir.Buffer, list[Any]]) -> tuple[tir.BufferRegion, ...]:
        known = {
            buffer: known_before(union_boxes(boxes, buffer.shape), changing, buffer.shape)
            for buffer, boxes in table.items()
        }
        return tuple(
            tir.BufferRegion(buffer, [tir.Range.from_min_extent(low, extent) for low, extent in box])
            for buffer, box in known.items()
        )

    return joined(reads), joined(writes)


def _init_nest(block: BlockNode, inner: Sequence[LoopNode], division: Division) -> tir.Stmt:
    """The init of the outer block: loops over the inner data-parallel variables around a block that initialises."""
    spatial = [
        (item, value)
        for item, value in zip(division.inner_vars, division.inner_values, strict=True)
        if item.iter_type == IterVar.DataPar
    ]
    needed = [loop for loop in inner if any(mentions(value, {loop.var}) for _, value in spatial)]
    loop_vars: dict[Any, Any] = {loop.var: tir.Var(loop.var.name, loop.var.dtype) for loop in needed}
    block_vars: dict[Any, Any] = {
        item.var: tir.Var(f"{item.var.name}_init", item.var.dtype) for item, _ in spatial
    }

    def inside(node: Any) -> Any:
        return substitute(substitute(node, division.values), block_vars)

    predicate: Any = tir.const(True)
    gone = [item for item in inner if item.var not in loop_vars]
    for clause in predicate_at_begin(block, conjuncts(division.inner_predicate), gone, "blockize"):
        predicate = tir.operators.logical_and(predicate, substitute(clause, loop_vars))
    variables = [IterVar(item.dom, block_vars[item.var], item.iter_type) for item, _ in spatial]
    values = [substitute(value, loop_vars) for _, value in spatial]
    stmt = block_of_init(block, variables, values, predicate, inside, "blockize").stmt()
    for loop in reversed(needed):
        low, extent = substitute(loop.min, loop_vars), substitute(loop.extent, loop_vars)
        stmt = tir.For(
            loop_vars[loop.var], low, extent, loop.kind, stmt, loop.thread_binding, loop.annotations
        )
    return stmt


def _blockize_blocks(blocks: Sequence[BlockNode], preserve_unit_iters: bool) -> BlockNode:
    """Put consecutive nests into one block; their outer bindings must agree."""
    primitive = "blockize"
    require(blocks, primitive, "needs at least one block")
    scopes = {id(scope_of(block)) for block in blocks}
    require(
        len(scopes) == 1 and scope_of(blocks[0]) is not None, primitive, "the blocks are not in one scope"
    )
    parent, children = _children_with(blocks, primitive)
    divisions = []
    for block in blocks:
        child = next(item for item in children if is_ancestor(item, block))
        if child is not block:
            _require_plain(child, block, primitive)
        inner = [loop for loop in loops_around(block) if is_ancestor(child, loop)]
        divisions.append(Division(block, inner, primitive, preserve_unit_iters))
    first = divisions[0]
    for block, division in zip(blocks[1:], divisions[1:], strict=True):
        require(
            structural_equal(division.outer_predicate, first.outer_predicate),
            primitive,
            f"block {block.name!r} runs where {division.outer_predicate}, block {blocks[0].name!r} where {first.outer_predicate}: no one"
            " predicate says when both do",
        )
        _share_outer_variables(first, division, block, primitive)
    for block in blocks:
        require(
            block.init is None,
            primitive,
            f"block {block.name!r} is a reduction; decompose it before it is joined with others",
        )
    reads, writes = _outer_regions(blocks, divisions)
    outer = BlockNode(
        "outer_" + "_".join(block.name for block in blocks) + "_",
        tuple(first.outer_vars),
        tuple(first.outer_values),
        reads,
        writes,
        LeafNode(tir.Evaluate(tir.const(0))),
        first.outer_predicate,
    )
    if isinstance(parent, SeqNode) and len(children) < len(parent.nodes):
        position = parent.index(children[0])
        nodes = [node for node in parent.nodes if not any(node is child for child in children)]
        nodes.insert(position, outer)
        parent.nodes = nodes
        outer.parent = parent
        parent.touch()
    elif isinstance(parent, SeqNode):
        replace_node(parent, outer)
    else:
        replace_node(children[0], outer)
    for block, division in zip(blocks, divisions, strict=True):
        _make_inner(block, division)
    outer.set_body(SeqNode(list(children)) if len(children) > 1 else children[0])
    return outer


def _children_with(blocks: Sequence[BlockNode], primitive: str) -> tuple[TreeNode, list[TreeNode]]:
    """The innermost node around all blocks, and its consecutive children that hold them."""
    above: TreeNode = blocks[0]
    while above.parent is not None:
        above = above.parent
        if isinstance(above, SeqNode) and all(is_ancestor(above, block) for block in blocks):
            break
        if isinstance(above, BlockNode):
            break
    if not isinstance(above, SeqNode):
        require(
            len(blocks) == 1,
            primitive,
            "the blocks do not follow each other: they are in different cases of a condition",
        )
        return above, [blocks[0]]
    positions = sorted(
        {next(i for i, node in enumerate(above.nodes) if is_ancestor(node, block)) for block in blocks}
    )
    children = [above.nodes[position] for position in positions]
    require(
        positions == list(range(positions[0], positions[-1] + 1)),
        primitive,
        "the blocks are not consecutive; others lie between",
    )
    inside = [block for child in children for block in blocks_below(child)]
    require(len(inside) == len(blocks), primitive, "the nests of the blocks hold other blocks as well")
    return above, children


def _share_outer_variables(first: Division, other: Division, block: BlockNode, primitive: str) -> None:
    """Let a block use the outer variables of the first block, which must be bound alike."""
    mapping: dict[Any, Any] = {}
    free = list(zip(first.outer_vars, first.outer_values, strict=True))
    analyzer = Analyzer()
    for item, value in zip(other.outer_vars, other.outer_values, strict=True):
        match = next(
            (
                pair
                for pair in free
                if analyzer.can_prove_equal(pair[1], value)
                and analyzer.can_prove_equal(pair[0].dom.extent, item.dom.extent)
                and pair[0].iter_type == item.iter_type
            ),
            None,
        )
        if match is None:
            require(
                isinstance(value, tir.IntImm),
                primitive,
                f"block {block.name!r} binds {item.var.name!r} to {value} outside the blocks, which no other block does",
            )
            mapping[item.var] = value
        else:
            mapping[item.var] = match[0].var
            free = [pair for pair in free if pair is not match]
    other.values = {var: substitute(value, mapping) for var, value in other.values.items()}
