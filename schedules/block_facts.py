"""Questions about a block: is it elementwise, does it reuse data, which axis is contiguous."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, variables_in

from .affine import coefficient_of, mentions
from .analysis import consumers_of, why_not_complete, why_not_reduction
from .annotation import PREFIX
from .random_variable import BlockRV
from .schedule import Schedule
from .tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    all_blocks,
    blocks_below,
    loops_around,
    loops_of_its_own,
    root_of,
    scope_of,
)

_WIDEST_STEP = 3
"""Elements that neighbouring results' operands may lie apart and still count as near each other: the steps of usual pools."""
_SHORT = 8
"""Operations that are computed twice rather than once with a place in memory."""


def node_of(sch: Schedule, block: BlockRV) -> BlockNode:
    """The tree node of a block."""
    return sch._block(block)


def spatial_vars(block: BlockNode) -> list[Any]:
    """The data-parallel variables in order."""
    return [item.var for item in block.iter_vars if item.iter_type == IterVar.DataPar]


def reduce_vars(block: BlockNode) -> list[Any]:
    """The reduction variables in order."""
    return [item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce]


def reduction_loops(block: BlockNode) -> list[int]:
    """Positions of the loops that reduction variables are bound to directly."""
    reductions = set(reduce_vars(block))
    bound = {
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.var in reductions
    }
    return [i for i, loop in enumerate(loops_around(block)) if loop.var in bound]


def is_leaf_block(block: BlockNode) -> bool:
    """Whether the body is a single store (no nested blocks or loops)."""
    return isinstance(block.body, LeafNode) and isinstance(block.body.leaf, tir.BufferStore)


def has_data_reuse(block: BlockNode) -> bool:
    """Whether some operand does not depend on some spatial variable, so that tiles of it are used again.

    Unit-extent variables do not count, and a block without iterations uses nothing.
    """
    if why_not_reduction(block) is not None or not is_leaf_block(block) or is_empty(block):
        return False
    missing = any(var not in used for used in operand_vars(block) for var in _wide_vars(block))
    return missing and bool(reduce_vars(block))


def _wide_vars(block: BlockNode) -> list[Any]:
    """The data-parallel variables of more than one value."""
    return [
        item.var
        for item in block.iter_vars
        if item.iter_type == IterVar.DataPar and not is_one(item.dom.extent)
    ]


def is_product(block: BlockNode) -> bool:
    """Whether a reduction uses every operand again, for results along an axis of its own that the operand does not depend on."""
    wide, used = _wide_vars(block), operand_vars(block)
    return (
        has_data_reuse(block) and len(used) > 1 and all(any(var not in item for var in wide) for item in used)
    )


def reduces_side_by_side(block: BlockNode) -> bool:
    """Whether neighbouring results are reductions of elements that lie near each other: sums of columns, pools in either layout."""
    var = contiguous_var(block)
    if var is None or not reduce_vars(block) or not is_leaf_block(block) or is_empty(block):
        return False
    steps = [
        [coefficient_of(index, var) for index in load.indices]
        for load in operand_loads(block)
        if mentions(load, {var})
    ]
    return bool(steps) and all(
        set(others) <= {0} and last is not None and 1 <= last <= _WIDEST_STEP for *others, last in steps
    )


def operand_loads(block: BlockNode) -> list[tir.BufferLoad]:
    """The loads of a leaf block's body, without those of what it writes: a tensor that is read twice is two operands."""
    written = {region.buffer for region in block.writes}
    found: list[tir.BufferLoad] = []
    if isinstance(block.body, LeafNode):
        tir.post_order_visit(
            block.body.leaf,
            lambda node: (
                found.append(node)
                if isinstance(node, tir.BufferLoad) and node.buffer not in written
                else None
            ),
        )
    return found


def operand_vars(block: BlockNode) -> list[set[Any]]:
    """The variables that index each operand."""
    return [set(variables_in(*load.indices)) for load in operand_loads(block)]


def is_one(extent: Any) -> bool:
    """Whether an extent is the constant 1."""
    return isinstance(extent, tir.IntImm) and extent.value == 1


def number_of(extent: tir.PrimExpr) -> int | None:
    """An extent that is constant; None of one that is symbolic."""
    return extent.value if isinstance(extent, tir.IntImm) else None


def constant_extents(node: BlockNode) -> dict[Any, int]:
    """The extents that are constant, by block variable."""
    return {
        item.var: item.dom.extent.value for item in node.iter_vars if isinstance(item.dom.extent, tir.IntImm)
    }


def is_empty(block: BlockNode) -> bool:
    """Whether a block has no iterations, because an extent is the constant 0."""
    return any(
        isinstance(item.dom.extent, tir.IntImm) and item.dom.extent.value == 0 for item in block.iter_vars
    )


def is_spatial(block: BlockNode) -> bool:
    """Whether a block is complete with only data-parallel variables."""
    return why_not_complete(block) is None


def is_injective(block: BlockNode) -> bool:
    """Whether a complete leaf block writes each element once, at distinct plain variables."""
    if not is_spatial(block) or not is_leaf_block(block) or block.init is not None:
        return False
    store = block.body.leaf  # type: ignore[attr-defined]
    indices = [index for index in store.indices if not isinstance(index, tir.IntImm)]
    running = {item.var for item in block.iter_vars if not is_one(item.dom.extent)}
    are_plain = all(isinstance(index, tir.Var) for index in indices)
    return are_plain and len(set(indices)) == len(indices) and running <= set(indices)


def reads_elementwise(consumer: BlockNode, buffer: tir.Buffer) -> bool:
    """Whether every read of a buffer is at the consumer's own variables in order: tiles of both coincide."""
    if not is_leaf_block(consumer):
        return False
    value = consumer.body.leaf.value  # type: ignore[attr-defined]
    loads = [load for load in loads_in(value) if load.buffer is buffer]
    if not loads:
        return False
    for load in loads:
        variables = [index for index in load.indices if not isinstance(index, tir.IntImm)]
        if not all(isinstance(index, tir.Var) for index in variables):
            return False
        if len({id(index) for index in variables}) != len(variables):
            return False
    return True


def elementwise_consumer(block: BlockNode) -> BlockNode | None:
    """The only consumer of a block, if it reads the result elementwise and writes in the same shape."""
    consumers = consumers_of(block)
    if len(consumers) != 1 or not is_injective(consumers[0]):
        return None
    consumer = consumers[0]
    buffer = block.writes[0].buffer
    if not reads_elementwise(consumer, buffer):
        return None
    if [_extent(item) for item in consumer.writes[0].buffer.shape] != [
        _extent(item) for item in buffer.shape
    ]:
        return None
    return consumer


def _extent(item: Any) -> Any:
    return item.value if isinstance(item, tir.IntImm) else item


def contiguous_var(block: BlockNode) -> Any:
    """The block's variable that indexes the last dimension of the output alone, or None; opaque blocks use loops instead."""
    if not block.writes or not block.writes[0].region:
        return None
    region = block.writes[0].region
    last = region[-1].min
    return last if any(item.var is last for item in block.iter_vars) else None


def loop_position(block: BlockNode, var: Any) -> int | None:
    """The position, among the loops around a block, of the one bound to a block variable directly."""
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.var is var and isinstance(value, tir.Var):
            for position, loop in enumerate(loops_around(block)):
                if loop.var is value:
                    return position
    return None


def own_loop_position(block: BlockNode, var: Any) -> int | None:
    """The position, among the loops around a block, of the only loop of its own that feeds a variable, one by one.

    In the tile of another nest the loops that the block shares say where the tile begins.
    """
    value = next(
        value for item, value in zip(block.iter_vars, block.iter_values, strict=True) if item.var is var
    )
    own = loops_of_its_own(block)
    first = len(loops_around(block)) - len(own)
    feeding = [(i, loop) for i, loop in enumerate(own) if mentions(value, {loop.var})]
    if len(feeding) != 1 or coefficient_of(value, feeding[0][1].var) != 1:
        return None
    return first + feeding[0][0]


def stands_alone(node: BlockNode) -> bool:
    """Whether the block is alone in an untouched nest whose loops bind its variables one to one."""
    loops = loops_around(node)
    if any(
        loop.annotations or loop.thread_binding is not None or len(loop.children()) != 1 for loop in loops
    ):
        return False
    bound = [value for value in node.iter_values if isinstance(value, tir.Var)]
    return len(bound) == len(node.iter_values) == len(loops) and scope_of(node) is not None


def fills_tile(block: BlockNode) -> bool:
    """Whether untouched loops of a block's own, one a variable, run through a tile that loops shared with other blocks place."""
    own = loops_of_its_own(block)
    first = len(loops_around(block)) - len(own)
    if first == 0 or not own or any(loop.annotations or loop.thread_binding is not None for loop in own):
        return False
    feeding = [
        [
            item.var
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
            if mentions(value, {loop.var})
        ]
        for loop in own
    ]
    return all(
        len(fed) == 1 and own_loop_position(block, fed[0]) == first + position
        for position, fed in enumerate(feeding)
    )


def contains_call(block: BlockNode, names: frozenset[str]) -> bool:
    """Whether the body calls one of the intrinsics."""
    found = []
    if isinstance(block.body, LeafNode):
        tir.post_order_visit(
            block.body.leaf,
            lambda node: (
                found.append(node)
                if isinstance(node, tir.Call) and getattr(node.op, "name", "") in names
                else None
            ),
        )
    return bool(found)


def is_long(block: BlockNode) -> bool:
    """Whether one element takes more operations, beside those of its indices, than storing and loading it again."""
    if not isinstance(block.body, LeafNode):
        return True
    leaf = block.body.leaf
    in_indices = {
        id(node) for load in loads_in(leaf) for index in load.indices for node in _operations_of(index)
    }
    return sum(id(node) not in in_indices for node in _operations_of(leaf)) > _SHORT


def _operations_of(node: Any) -> list[Any]:
    found: list[Any] = []
    tir.post_order_visit(
        node, lambda item: found.append(item) if isinstance(item, tir.BinaryOpExpr | tir.CmpExpr) else None
    )
    return found


def is_scheduled(block: BlockNode) -> bool:
    """Whether a rule has marked this block's nest already, or bound it to threads."""
    return any(
        loop.thread_binding is not None or any(key.startswith(PREFIX) for key in loop.annotations)
        for loop in loops_around(block)
    )


def stands_beside_tiles(node: BlockNode) -> bool:
    """Whether other rules have tiled a reduction of the same program: that is where its time is spent."""
    others = [item for item in all_blocks(root_of(node)) if item is not node]
    return any(why_not_reduction(item) is None and is_scheduled(item) for item in others)


def read_count(consumer: BlockNode, buffer: tir.Buffer) -> int:
    """How many loads of a buffer the body contains."""
    if not isinstance(consumer.body, LeafNode):
        return 0
    return sum(load.buffer is buffer for load in loads_in(consumer.body.leaf))


def is_data_parallel(loop: LoopNode) -> bool:
    """Whether every block below uses the loop for data-parallel variables only."""
    for block in blocks_below(loop):
        if why_not_complete(block) is not None and why_not_reduction(block) is not None:
            return False
    return feeds_data_parallel_only(loop)


def feeds_data_parallel_only(loop: LoopNode) -> bool:
    """Whether all variables of blocks below that a loop feeds are data-parallel, whatever else the blocks are."""
    return all(
        item.iter_type == IterVar.DataPar or not mentions(value, {loop.var})
        for block in blocks_below(loop)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )


def elementwise_prefix(producer: BlockNode, consumer: BlockNode) -> int:
    """How many of a consumer's outer loops select the elements of a producer that it reads, in order.

    A softmax' division reads ``S[i]`` under the loops ``i, j``: one.
    """
    buffers = {region.buffer for region in producer.writes}
    values = dict(zip([item.var for item in consumer.iter_vars], consumer.iter_values, strict=True))
    used: set[Any] = set()
    for region in consumer.reads:
        if region.buffer in buffers:
            for item in region.region:
                used |= {values.get(var, var) for var in variables_in(item.min)}
    loops = loops_around(consumer)
    count = next((i for i, loop in enumerate(loops) if loop.var not in used), len(loops))
    return count if len(used) == count else 0


def is_plain_nest(node: BlockNode) -> bool:
    """Whether the block is alone in a nest that nobody has touched, of known extents that are not 0."""
    loops = loops_around(node)
    alone = stands_alone(node) and bool(loops) and blocks_below(loops[0]) == [node]
    return alone and not is_empty(node) and all(isinstance(loop.extent, tir.IntImm) for loop in loops)


def extent_at(node: BlockNode, position: int) -> int:
    """The extent of a loop of a plain nest."""
    extent = loops_around(node)[position].extent
    assert isinstance(extent, tir.IntImm)
    return extent.value
