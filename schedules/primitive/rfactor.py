"""rfactor: factor a loop out of a reduction, so that partial results can be computed independently of each other.

(Suriana, Adams, Kamil: "Parallel associative reductions in Halide", CGO 2017.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir import structural_equal, tir
from ir.tir import IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import StmtExprMutator, substitute

from ..affine import mentions
from ..analysis import require, require_blocks_only, why_not_reduction
from ..argument import Argument, Loop
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import loops_of_sums
from ..surroundings import why_not_only_loops
from ..touches import buffers_read_elsewhere
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    blocks_below,
    loops_around,
    loops_of_its_own,
)
from .partial_results import Reduction, factored
from .reduction import require_begun_once


class RFactorPrimitives(PrimitiveFamily):
    """Reductions in two steps."""

    @primitive("RFactor", moves=True, loop=Loop(), factor_axis=Argument())
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Factor a reduction loop out into partial results: returns the block that computes them.

        ``for i: for k: C[i] += A[i, k]`` by k becomes ``for i: for k: C_rf[k, i] = A[i, k]`` and ``for i: for k: C[i] += C_rf[k, i]``.
        ``factor_axis`` says where the new dimension of the partial results is. Loops that the block shares with others stay around both:
        the partial results of one iteration are combined before the next.

        Raises:
            ScheduleError: the loop does not only run the reduction of one block, that block does not begin each element once and first,
                more than loops decides whether it runs, a loop of its reduction runs other blocks too, or the axis is out of range.
        """
        node = self._loop(loop)
        block = reduction_below(node, "rfactor")
        require_blocks_only(block, "rfactor")
        require_no_effects([block], "rfactor")
        reduction = reduction_of(block, "rfactor")
        ndim = len(reduction.outputs[0].shape)
        require(
            -(ndim + 1) <= factor_axis <= ndim,
            "rfactor",
            f"factor_axis {factor_axis} is outside [{-(ndim + 1)}, {ndim}] for buffer {reduction.outputs[0].name}",
        )
        axis = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
        parts = factored(block, node, axis, reduction)
        parts.put_in_place_of(block)
        return self._new(parts.rf_block)


def reduction_below(loop: LoopNode, primitive: str) -> BlockNode:
    """The only block under the loop, which must reduce over it."""
    blocks = list(blocks_below(loop))
    require(
        len(blocks) == 1, primitive, f"loop {loop.var.name!r} has {len(blocks)} blocks below it, it needs one"
    )
    block = blocks[0]
    reason = why_not_reduction(block)
    require(reason is None, primitive, f"block {block.name!r} is not a reduction block: {reason}")
    require(
        not buffers_read_elsewhere(block),
        primitive,
        f"block {block.name!r} reads elements that other instances of it write, which the parts would come before",
    )
    reason = why_not_only_loops(block)
    require(reason is None, primitive, f"{reason}")
    own = loops_of_its_own(block)
    for around in loops_around(block):
        require(
            around in own
            or not any(
                mentions(value, {around.var})
                for item, value in zip(block.iter_vars, block.iter_values, strict=True)
                if item.iter_type == IterVar.CommReduce
            ),
            primitive,
            f"loop {around.var.name!r} reduces in block {block.name!r} and runs other blocks too, which would see parts of its results",
        )
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.DataPar:
            require(
                not mentions(value, {loop.var}),
                primitive,
                f"loop {loop.var.name!r} feeds data-parallel variable {item.var.name!r}; it must be a reduction loop",
            )
    bound: dict[int, list[Any]] = {IterVar.DataPar: [], IterVar.CommReduce: []}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        bound[item.iter_type].append(value)
    for around in loops_around(block):
        require(
            not all(any(mentions(value, {around.var}) for value in values) for values in bound.values()),
            primitive,
            f"loop {around.var.name!r} feeds both data-parallel and reduction variables of block {block.name!r}",
        )
    require(
        any(mentions(value, {loop.var}) for value in block.iter_values),
        primitive,
        f"loop {loop.var.name!r} is not used by block {block.name!r}",
    )
    for around in loops_around(block):
        others = {other.var for other in loops_around(block)}
        require(
            not mentions(around.extent, others) and not mentions(around.min, others),
            primitive,
            f"loop {around.var.name!r} runs over {around.extent} from {around.min}, which another loop says: there is no number of parts,"
            " or of their elements",
        )
    require_begun_once(block, loops_of_sums(block, loops_around(block)), primitive)
    _require_parts_begin(block, loop, primitive)
    return block


def _require_parts_begin(block: BlockNode, loop: LoopNode, primitive: str) -> None:
    """Every part must have its first iteration inside the predicate, for there it is initialised."""
    reductions = {
        item.var: item.min
        for item in loops_around(block)
        if item is not loop
        and any(
            mentions(value, {item.var})
            for var, value in zip(block.iter_vars, block.iter_values, strict=True)
            if var.iter_type == IterVar.CommReduce
        )
    }
    analyzer = analyzer_of(loops_around(block))
    for condition in conjuncts(block.predicate):
        if mentions(condition, {loop.var}):
            require(
                analyzer.can_prove(substitute(condition, reductions)),
                primitive,
                f"some iteration of loop {loop.var.name!r} lies outside the predicate {condition} of block {block.name!r} altogether",
            )


# ---- what is reduced, and how -----------------------------------------------------------------------------------


def reduction_of(block: BlockNode, primitive: str) -> Reduction:
    """The reduction in a block's body; refuses combiners that are not known to be associative and commutative."""
    name = block.name
    require(isinstance(block.body, LeafNode), primitive, f"block {name!r} has loops or blocks inside")
    assert isinstance(block.body, LeafNode)
    stores, values = _updates(block.body.leaf, name, primitive)
    inits, init_values = _updates(block.init, name, primitive)
    outputs = [store.buffer for store in stores]
    require(
        [store.buffer for store in inits] == outputs,
        primitive,
        f"the init of block {name!r} does not store the same buffers in the same order as its update",
    )
    indices = stores[0].indices
    for store in (*stores, *inits):
        same = len(store.indices) == len(indices) and all(
            structural_equal(a, b) for a, b in zip(store.indices, indices, strict=True)
        )
        require(same, primitive, f"the outputs of block {name!r} are not stored at the same indices")
    own = [tir.BufferLoad(buffer, indices) for buffer in outputs]
    if len(stores) == 1:
        operands, combine = _single_combiner(values[0], own[0], init_values[0], name, primitive)
    else:
        operands, combine = _tuple_combiner(values, own, init_values, name, primitive)
    return Reduction(outputs, indices, inits, operands, combine)


def _updates(
    stmt: tir.Stmt | None, name: str, primitive: str
) -> tuple[list[tir.BufferStore], list[tir.PrimExpr]]:
    """The stores of an update (through ``let`` values, when several) and the values stored."""
    lets: dict[Any, Any] = {}
    while isinstance(stmt, tir.LetStmt):
        lets[stmt.var] = substitute(stmt.value, lets)
        stmt = stmt.body
    stores = list(stmt.seq) if isinstance(stmt, tir.SeqStmt) else [stmt]
    if not all(isinstance(item, tir.BufferStore) for item in stores):
        raise ScheduleError(
            f"{primitive}: the body or init of block {name!r} is no plain store of reduced values"
        )
    plain: list[tir.BufferStore] = stores  # type: ignore[assignment]
    buffers = {item.buffer for item in plain}
    for position, store in enumerate(plain):
        if isinstance(store.value, tir.Var) or position == 0:
            continue
        require(
            not _collected(
                store.value, lambda node: isinstance(node, tir.BufferLoad) and node.buffer in buffers
            ),
            primitive,
            f"block {name!r} stores reduced values one after the other; bind them by let first",
        )
    return plain, [substitute(item.value, lets) for item in plain]


def _collected(expr: tir.PrimExpr, wanted: Callable[[Any], bool]) -> list[Any]:
    """The nodes of an expression that are wanted, inner ones first."""
    found: list[Any] = []
    tir.post_order_visit(expr, lambda node: found.append(node) if wanted(node) else None)
    return found


_BINARY = (tir.Add, tir.Mul, tir.Max, tir.Min)

_Combiner = tuple[
    list[tir.PrimExpr], Callable[[Sequence[tir.PrimExpr], Sequence[tir.PrimExpr]], list[tir.PrimExpr]]
]
"""The operands of an update, and how they are combined with what is there."""


def _single_combiner(
    value: tir.PrimExpr, own: tir.BufferLoad, init: tir.PrimExpr, name: str, primitive: str
) -> _Combiner:
    """The combiner of ``out = out (+, *, max, min) x``."""
    kind = type(value)
    fits = isinstance(value, _BINARY) and sum(structural_equal(side, own) for side in (value.a, value.b)) == 1
    require(fits, primitive, f"the update of block {name!r} is not out = out (+, *, max, min) value")
    _require_identity(kind, init, name, primitive)
    operand = value.b if structural_equal(value.a, own) else value.a  # type: ignore[attr-defined]
    return [operand], lambda there, coming: [kind(there[0], coming[0])]


def _require_identity(kind: type, init: Any, name: str, primitive: str) -> None:
    """Partial results start from the init as well, so that it must change nothing when it is combined."""
    value = getattr(init, "value", None)
    dtype = init.dtype
    if kind in (tir.Add, tir.Mul):
        fits = isinstance(init, tir.IntImm | tir.FloatImm) and value == (0 if kind is tir.Add else 1)
    else:
        limit = tir.min_value(dtype) if kind is tir.Max else tir.max_value(dtype)
        infinite = value is not None and value == float("-inf" if kind is tir.Max else "inf")
        fits = infinite or structural_equal(init, limit)
    require(
        fits,
        primitive,
        f"block {name!r} starts from {init}, which is not the identity of {kind.__name__}; partial results would count it again",
    )


def _tuple_combiner(
    values: list[tir.PrimExpr],
    own: list[tir.BufferLoad],
    inits: list[tir.PrimExpr],
    name: str,
    primitive: str,
) -> _Combiner:
    """The combiner of several values at once: sums, products, or the selection of an argmax or argmin."""
    coming: list[tir.PrimExpr] = []
    for position, (value, load) in enumerate(zip(values, own, strict=True)):
        if isinstance(value, _BINARY):
            sides = [side for side in (value.a, value.b) if not structural_equal(side, load)]
            require(
                len(sides) == 1, primitive, f"value {position} of block {name!r} is not combined with itself"
            )
            _require_identity(type(value), inits[position], name, primitive)
            coming.append(sides[0])
        elif isinstance(value, tir.Select):
            sides = [
                side for side in (value.true_value, value.false_value) if not structural_equal(side, load)
            ]
            require(
                len(sides) == 1,
                primitive,
                f"value {position} of block {name!r} does not select between itself and another",
            )
            coming.append(sides[0])
        else:
            raise ScheduleError(
                f"{primitive}: value {position} of block {name!r} is combined by {type(value).__name__}"
            )
    there_vars = [tir.Var(f"x{n}", load.dtype) for n, load in enumerate(own)]
    coming_vars = [tir.Var(f"y{n}", item.dtype) for n, item in enumerate(coming)]
    abstract = Abstraction([*zip(own, there_vars, strict=True), *zip(coming, coming_vars, strict=True)])
    results = [abstract.visit(value) for value in values]
    known = {*there_vars, *coming_vars}
    for result in results:
        strange = _collected(
            result,
            lambda node: (
                (isinstance(node, tir.Var) and node not in known)
                or isinstance(node, tir.BufferLoad | tir.Call)
            ),
        )
        require(
            not strange,
            primitive,
            f"the combiner of block {name!r} uses more than its operands: {strange[:1]}",
        )
    if any(isinstance(value, tir.Select) for value in values):
        _require_selection(results, there_vars, coming_vars, inits, name, primitive)
    return coming, lambda there, given: [
        substitute(result, dict(zip([*there_vars, *coming_vars], [*there, *given], strict=True)))
        for result in results
    ]


class Abstraction(StmtExprMutator):
    """Replaces expressions equal to given ones, by variables for instance."""

    def __init__(self, table: Sequence[tuple[tir.PrimExpr, tir.PrimExpr]]) -> None:
        super().__init__()
        self._entries = table

    def visit(self, node: Any) -> Any:
        if isinstance(node, tir.PrimExpr) and not isinstance(node, tir.IntImm | tir.FloatImm):
            for expr, new in self._entries:
                if structural_equal(node, expr):
                    return new
        return super().visit(node)


_ORDERS = {tir.GE: 1, tir.GT: 1, tir.LE: -1, tir.LT: -1}


def _require_selection(
    results: list[tir.PrimExpr],
    there: list[tir.Var],
    coming: list[tir.Var],
    inits: list[tir.PrimExpr],
    name: str,
    primitive: str,
) -> None:
    """All values must follow one comparison of a key, so that the choice is associative; its init must lose against all."""
    refused = f"the selection of block {name!r} is not that of an argmax or argmin"
    signs = set()
    for result in results:
        if isinstance(result, tir.Select):
            compared = _collected(
                result.condition, lambda node: isinstance(node, tir.CmpExpr) and type(node) in _ORDERS
            )
            require(compared, primitive, refused)
            main = compared[0]
        elif isinstance(result, tir.Max | tir.Min):
            key = there.index(result.a) if result.a in there else coming.index(result.a)  # type: ignore[arg-type]
            signs.add((key, 1 if isinstance(result, tir.Max) else -1))
            continue
        else:
            raise ScheduleError(f"{primitive}: {refused}")
        flipped = main.a in coming
        sides = (main.b, main.a) if flipped else (main.a, main.b)
        require(sides[0] in there and sides[1] in coming, primitive, refused)
        key = there.index(sides[0])
        require(key == coming.index(sides[1]), primitive, refused)
        keeps = result.true_value in there
        sign = _ORDERS[type(main)] * (-1 if flipped else 1) * (1 if keeps else -1)
        signs.add((key, sign))
    require(len(signs) == 1, primitive, refused)
    ((key, sign),) = signs
    _require_identity(tir.Max if sign > 0 else tir.Min, inits[key], name, primitive)
