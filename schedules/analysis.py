"""What a primitive must know before it changes a program: kinds of blocks, dependences in a scope, affine bindings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.arith import detect_iter_map
from ir.arith.domain import is_number
from ir.target import Target
from ir.tir import IterVar

from .affine import mentions, polynomial
from .error import ScheduleError
from .region import Box, relax_domains
from .surroundings import loads_around
from .tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    child_blocks,
    loops_around,
    scope_of,
)


def require(condition: object, primitive: str, message: str) -> None:
    """Raise the ScheduleError that a primitive is illegal here unless ``condition`` holds."""
    if not condition:
        raise ScheduleError(f"{primitive}: {message}")


def lanes_of(target: Target, *blocks: BlockNode) -> int:
    """How many elements of the narrowest result of some blocks are a vector of the target; what takes less than a byte counts as one."""
    widths = [dt.bits(region.buffer.dtype) for block in blocks for region in block.writes]
    bits = min((max(8, width) for width in widths), default=32)
    return max(1, int(target.vector_bits) // bits)


def written_buffers(block: BlockNode) -> set[tir.Buffer]:
    """The buffers that a block writes; of a block that states no regions, what the blocks inside write."""
    if not block.reads and not block.writes and not block.iter_vars:
        inside = [written_buffers(item) for item in child_blocks(block)]
        return set().union(*inside) - set(block.alloc_buffers)
    return {region.buffer for region in block.writes}


def read_buffers(block: BlockNode) -> set[tir.Buffer]:
    """The buffers that a block reads; of a block that states no regions, what the blocks inside read."""
    if not block.reads and not block.writes and not block.iter_vars:
        inside = [read_buffers(item) for item in child_blocks(block)]
        return set().union(*inside) - set(block.alloc_buffers)
    return {region.buffer for region in block.reads}


def scope_children(block: BlockNode) -> list[BlockNode]:
    """All blocks in the scope in which ``block`` lives, in program order."""
    scope = scope_of(block)
    return [block] if scope is None else child_blocks(scope)


def leaves_beside_blocks(node: TreeNode) -> list[LeafNode]:
    """The statements below a node that are in no block below it."""
    found: list[LeafNode] = []
    pending = node.children()
    while pending:
        child = pending.pop()
        if isinstance(child, LeafNode):
            found.append(child)
        elif not isinstance(child, BlockNode):
            pending += child.children()
    return found


def require_blocks_only(block: BlockNode, primitive: str) -> None:
    """Refuse where a statement of the scope that is in no block touches what ``block`` does, or a block touches it by another name: what
    blocks state says nothing of it.
    """
    require_one_name([block], scope_children(block), primitive)
    scope = scope_of(block)
    leaves = [] if scope is None else leaves_beside_blocks(scope)
    if not leaves:
        return
    touched = {region.buffer for region in (*block.reads, *block.writes)}
    pointers: dict[object, tir.Buffer] = {buffer.data: buffer for buffer in touched}
    for leaf in leaves:

        def visit(node: object) -> None:
            buffer = getattr(node, "buffer", None) or pointers.get(node)
            require(
                buffer not in touched,
                primitive,
                f"a statement that is in no block touches {getattr(buffer, 'name', '')}, which block {block.name!r} accesses",
            )

        tir.post_order_visit(leaf.leaf, visit)


def views_around(node: TreeNode) -> dict[tir.Buffer, tir.Buffer]:
    """The views that blocks around a node match, and the buffers of which they are a part."""
    views: dict[tir.Buffer, tir.Buffer] = {}
    around = scope_of(node)
    while around is not None:
        if around.match_buffers:
            views |= {view.buffer: view.source.buffer for view in around.match_buffers}
        around = scope_of(around)
    return views


def source_of(buffer: tir.Buffer, views: Mapping[tir.Buffer, tir.Buffer]) -> tir.Buffer:
    """The buffer that a view of views is a part of at last; a buffer itself that is none."""
    while buffer in views:
        buffer = views[buffer]
    return buffer


def require_one_name(blocks: Sequence[BlockNode], among: Sequence[BlockNode], primitive: str) -> None:
    """Refuse where one of some blocks of a scope touches memory that has two names among more of them, by views that blocks around match,
    or by buffers of one pointer: what touches one of them touches the other. What stands around a block touches what it loads.
    """
    if not blocks:
        return
    views = views_around(blocks[0])
    names: dict[tir.Var, tir.Buffer] = {}
    for other in among:
        stated = [region.buffer for region in (*other.reads, *other.writes)]
        for buffer in (*stated, *(item.load.buffer for item in loads_around(other))):
            source = source_of(buffer, views)
            name = names.setdefault(source.data, buffer)
            if name is buffer:
                continue
            for block in blocks:
                touched = read_buffers(block) | written_buffers(block)
                require(
                    name not in touched and buffer not in touched,
                    primitive,
                    f"block {block.name!r} touches memory that is both {name.name} and {buffer.name}",
                )


def why_two_names(blocks: Sequence[BlockNode]) -> str | None:
    """The reason why what blocks of one scope write and touch does not tell what depends on what, or None: memory that one writes has
    another name, too.
    """
    touched = {buffer for block in blocks for buffer in (*read_buffers(block), *written_buffers(block))}
    views = views_around(blocks[0]) if blocks else {}
    if not views and len({buffer.data for buffer in touched}) == len(touched):
        return None
    names: dict[tir.Var, tir.Buffer] = {}
    for buffer in (*(item for block in blocks for item in written_buffers(block)), *touched):
        source = source_of(buffer, views)
        name = names.setdefault(source.data, buffer)
        if name is not buffer and any(
            item in written_buffers(block) for block in blocks for item in (name, buffer)
        ):
            return f"what it writes is both {name.name} and {buffer.name}"
    return None


def producers_of(block: BlockNode) -> list[BlockNode]:
    """Blocks of the scope before ``block`` that write what it reads, by the first buffer that they write for it."""
    before = []
    for other in scope_children(block):
        if other is block:
            break
        before.append(other)
    stated = [region.buffer for region in block.reads]
    result: dict[int, BlockNode] = {}
    for buffer in stated or sorted(read_buffers(block), key=lambda item: item.name):
        for other in before:
            if buffer in written_buffers(other):
                result.setdefault(id(other), other)
    return list(result.values())


def consumers_of(block: BlockNode) -> list[BlockNode]:
    """Blocks of the scope behind ``block`` that read what it writes, in program order."""
    writes = written_buffers(block)
    result, seen = [], False
    for other in scope_children(block):
        if other is block:
            seen = True
        elif seen and read_buffers(other) & writes:
            result.append(other)
    return result


def is_dominant(block: BlockNode) -> bool:
    """Whether the block is the only writer, in its scope, of everything that it writes.

    Other parts of an output that nothing in the scope reads may be others'.
    """
    writes = written_buffers(block)
    return all(
        _writes_apart(block, other, written_buffers(other) & writes)
        for other in scope_children(block)
        if other is not block
    )


def _writes_apart(block: BlockNode, other: BlockNode, common: Collection[tir.Buffer]) -> bool:
    """Whether two blocks write parts of outputs that do not overlap, and nothing in their scope reads these."""
    if not common:
        return True
    scope = scope_of(block)
    children = scope_children(block)
    if scope is None or any(item in scope.alloc_buffers for item in common):
        return False
    if any(read_buffers(item) & set(common) for item in children):
        return False
    return all(
        _are_apart(one, another)
        for buffer in common
        for one in _written_boxes(block, buffer)
        for another in _written_boxes(other, buffer)
    )


def _written_boxes(block: BlockNode, buffer: tir.Buffer) -> list[Box]:
    """What all instances of a block write of a buffer."""
    domains = {item.var: item.dom for item in block.iter_vars}
    return [
        relax_domains(item.region, domains, buffer.shape) for item in block.writes if item.buffer is buffer
    ]


def _are_apart(one: Box, another: Box) -> bool:
    """Whether boxes of known sizes do not overlap."""
    return any(_ends_before(a, b) or _ends_before(b, a) for a, b in zip(one, another, strict=True))


def _ends_before(one: tuple[tir.PrimExpr, tir.PrimExpr], another: tuple[tir.PrimExpr, tir.PrimExpr]) -> bool:
    (low, size), (begin, _) = one, another
    known = isinstance(low, tir.IntImm) and isinstance(size, tir.IntImm) and isinstance(begin, tir.IntImm)
    return known and low.value + size.value <= begin.value  # type: ignore[attr-defined]


def why_not_complete(block: BlockNode) -> str | None:
    """The reason why a block is no *complete* block, or None.

    Complete: the only writer of its outputs, all iteration variables data-parallel, nothing read that it writes.
    """
    if not is_dominant(block):
        return "another block writes one of its outputs"
    if any(item.iter_type not in (IterVar.DataPar, IterVar.Opaque) for item in block.iter_vars):
        return "it has iteration variables that are not data-parallel"
    if any(item.iter_type == IterVar.Opaque for item in block.iter_vars):
        return "it has opaque iteration variables"
    if read_buffers(block) & written_buffers(block):
        return "it reads a buffer that it writes"
    return why_two_names([block])


def why_not_reduction(block: BlockNode) -> str | None:
    """The reason why a block is no *reduction* block, or None.

    Reduction: the only writer of its outputs, with an init, iteration variables data-parallel or reductions, and no
    reduction variable in the indices that it writes.
    """
    if block.init is None:
        return "it has no init statement"
    if not is_dominant(block):
        return "another block writes one of its outputs"
    if any(item.iter_type not in (IterVar.DataPar, IterVar.CommReduce) for item in block.iter_vars):
        return "it has iteration variables that are neither data-parallel nor reductions"
    reduce_vars = {item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce}
    for region in block.writes:
        if any(mentions(item.min, reduce_vars) for item in region.region):
            return "a reduction variable indexes its output"
    return why_two_names([block])


def require_complete_or_reduction(block: BlockNode, primitive: str) -> None:
    """Refuse blocks that are neither complete nor reduction blocks."""
    complete = why_not_complete(block)
    if complete is None:
        return
    reduction = why_not_reduction(block)
    require(
        reduction is None,
        primitive,
        f"block {block.name!r} is neither a complete block ({complete}) nor a reduction block ({reduction})",
    )


def is_output_block(block: BlockNode) -> bool:
    """Whether the block writes a buffer that its scope does not allocate (a function's output)."""
    scope = scope_of(block)
    allocated = set(scope.alloc_buffers) if scope is not None else set()
    return any(region.buffer not in allocated for region in block.writes)


def is_affine(block: BlockNode) -> bool:
    """Whether the bindings are an affine map of loops around the block; of loops whose extents are numbers, one that runs every
    instance exactly once. Loops of other extents, symbolic or open, are not counted.

    Surjective is not enough: ``i * 4 + j`` for five j reaches all numbers, and every fourth one twice.
    """
    loops = {loop.var: loop for loop in loops_around(block)}
    if _is_mixed_radix(block, loops):
        return True
    if not all(isinstance(loop.extent, tir.IntImm) for loop in loops.values()):
        return all(
            polynomial(value).is_polynomial() or _is_quasi_affine(value) for value in block.iter_values
        )
    ranges = {
        var: loop.range()
        for var, loop in loops.items()
        if any(mentions(value, {var}) for value in block.iter_values)
    }
    found = detect_iter_map(list(block.iter_values), ranges, block.predicate, "bijective").indices
    steps = [item.args[0].scale for item in found if item.args]
    return bool(found) and all(isinstance(step, tir.IntImm) and step.value == 1 for step in steps)


def _is_mixed_radix(block: BlockNode, loops: Mapping[Any, LoopNode]) -> bool:
    """The common case: each binding is a number whose digits are loops of its own."""
    seen: set[Any] = set()
    for value in block.iter_values:
        digits = []
        for monomial, coefficient in polynomial(value).terms.items():
            if len(monomial) != 1 or monomial[0] not in loops or monomial[0] in seen:
                return False
            seen.add(monomial[0])
            extent = loops[monomial[0]].extent
            if not isinstance(extent, tir.IntImm):
                return False
            if extent.value > 1:
                digits.append((coefficient, extent.value))
        step = 1
        for coefficient, extent_value in sorted(digits):
            if coefficient != step:
                return False
            step *= extent_value
    return True


def _is_quasi_affine(value: tir.PrimExpr) -> bool:
    allowed = (tir.Add, tir.Sub, tir.Mul, tir.FloorDiv, tir.FloorMod, tir.IntImm, tir.Var, tir.Cast)
    ok = True

    def visit(node: object) -> bool:
        nonlocal ok
        ok = ok and isinstance(node, allowed) and (isinstance(node, tir.Var) or is_number(node.dtype))
        return ok

    tir.pre_order_visit(value, visit)
    return ok


def require_loop_can_run_in_any_order(loop: LoopNode, primitive: str, allow_reduction: bool = False) -> None:
    """Refuse to make a loop parallel, vector or thread-bound where its iterations depend on each other.

    The loop must feed only data-parallel variables (``allow_reduction``: or reduction variables, as for a cross-thread reduction, which
    has its init). What iterations touch is asked of :func:`.dependence.why_iterations_conflict`.
    """
    below = blocks_below(loop)
    require_one_name(below, below, primitive)
    for block in below:
        if not _is_fed_data_parallel(block, loop):
            require_complete_or_reduction(block, primitive)
    for block in _blocks_that_see(loop):
        for item, value in zip(block.iter_vars, block.iter_values, strict=True):
            if not mentions(value, {loop.var}):
                continue
            fine = item.iter_type == IterVar.DataPar or (
                allow_reduction and item.iter_type == IterVar.CommReduce
            )
            require(
                fine,
                primitive,
                f"loop {loop.var.name!r} feeds {item.var.name!r} of block {block.name!r}, which is a"
                f" {_TYPE_NAMES.get(item.iter_type, 'special')} variable; its iterations depend on each other",
            )


def _is_fed_data_parallel(block: BlockNode, loop: LoopNode) -> bool:
    """Whether a loop feeds no reduction of a block, which may then be without its init, or be the init alone, and nothing that must run
    in order.
    """
    return all(
        item.iter_type == IterVar.DataPar or not mentions(value, {loop.var})
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )


def _blocks_that_see(node: TreeNode) -> Iterator[BlockNode]:
    """The blocks of a subtree, with those inside of blocks without variables, which may use the loops around directly."""
    for block in blocks_below(node):
        yield block
        if not block.iter_vars:
            yield from _blocks_that_see(block.body)


_TYPE_NAMES = {IterVar.DataPar: "data-parallel", IterVar.CommReduce: "reduction", IterVar.Opaque: "opaque"}


def _share_names(loops: list[LoopNode]) -> bool:
    return len({loop.var.name for loop in loops}) < len(loops)


def _named_with_blocks(loop: LoopNode) -> str:
    """The name of a loop with the blocks below it, for loops of one name."""
    return f"{loop.var.name} (around block {', '.join(block.name for block in blocks_below(loop))})"


def loop_chain(loops: list[LoopNode], primitive: str) -> list[LoopNode]:
    """The given loops and those between them, outermost first; they must lie on one path with single children."""
    require(loops, primitive, "needs at least one loop")
    for place, loop in enumerate(loops):
        first = next(number for number, other in enumerate(loops) if other is loop)
        require(
            first == place,
            primitive,
            f"loop {loop.var.name} is given twice, as number {first + 1} and number {place + 1}",
        )
    wanted = {id(loop) for loop in loops}
    deepest = max(loops, key=lambda loop: len(loops_around(loop)))
    path: list[LoopNode] = [deepest]
    wanted.discard(id(deepest))
    current: TreeNode | None = deepest
    while wanted:
        assert current is not None
        current = current.parent
        if not isinstance(current, LoopNode):
            names = ", ".join(
                map(_named_with_blocks, loops) if _share_names(loops) else [loop.var.name for loop in loops]
            )
            raise ScheduleError(
                f"{primitive}: loops {names} are not one chain: a block, sequence or condition lies between them"
            )
        path.append(current)
        wanted.discard(id(current))
    return path[::-1]
