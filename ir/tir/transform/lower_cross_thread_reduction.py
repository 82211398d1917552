"""LowerCrossThreadReduction: a reduction that threads share becomes a part for each thread, and an exchange that combines the parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...module import IRModule
from ...node import Mutator, Node, post_order_visit
from ...transform import PassContext
from ..analysis.block_access_region import stating_its_accesses
from ..analysis.reducer import Reduction, UnknownReducerError, stored
from ..analysis.reducer_by_hand import reduction_with_any_combiner
from ..buffer import Buffer, decl_buffer
from ..conjunction import conjunction, conjuncts, marked_conjuncts
from ..expr import EQ, BufferLoad, IntImm, IterVar, Or, PrimExpr, Range, Var
from ..function import PrimFunc
from ..intrinsic.bits import reinterpret
from ..intrinsic.gpu import tvm_thread_allreduce
from ..operators import const
from ..stmt import AttrStmt, Block, BlockRealize, BufferStore, Evaluate, For, ForKind, LetStmt, Stmt, seq
from ..stmt_functor import loads_in, substitute, variables_in
from ..thread_axis import is_launched
from .empty_reduction import empty_domain
from .prim_func_pass import PrimFuncPass


class _Lower(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self._path: list[Stmt] = []
        """What stands around, within the block around."""
        self._in_place_of: dict[int, Stmt] = {}
        """By identity of a loop."""
        self._parts: list[Buffer] = []
        """Buffers for the block around to allocate."""
        self._launched: dict[str, int] = {}
        """How many threads the kernel has along the axes that loops around are bound to, or loops in it."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferRegion(self, node: Node) -> Node:
        return node

    def visit_Stmt(self, node: Stmt) -> Stmt:
        self._path.append(node)
        mapped: Stmt = self.generic_visit(node)
        self._path.pop()
        return self._in_place_of.pop(id(node), mapped)

    def visit_For(self, loop: For) -> Stmt:
        around = self._launched
        if is_launched(loop) and not around:
            self._launched = _launched_extents(loop)
        mapped = self.visit_Stmt(loop)
        self._launched = around
        return mapped

    def visit_Block(self, block: Block) -> Block:
        path, parts = self._path, self._parts
        self._path, self._parts = [], []
        mapped: Block = self.generic_visit(block)
        if self._parts:
            mapped = mapped.replace(alloc_buffers=(*mapped.alloc_buffers, *self._parts))
        self._path, self._parts = path, parts
        return mapped

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        nest = _shared_nest(realize, self._path)
        if nest is None:
            mapped: Stmt = self.generic_visit(realize)
            return mapped
        lowered, parts = _Shared(*_of_all_threads(realize, nest, self._launched)).lowered()
        self._in_place_of[id(nest[0])] = lowered
        self._parts += parts
        return realize


# ---- which reductions are shared --------------------------------------------------------------------------------


def _refuse(block: Block, reason: str) -> NoReturn:
    raise IRValueError(f"LowerCrossThreadReduction: block {block.name_hint!r} {reason}")


def _is_thread(loop: For) -> bool:
    return loop.kind == ForKind.THREAD_BINDING


def _reducing(realize: BlockRealize, path: Sequence[Stmt]) -> set[Var]:
    """The variables of the loops that the reduction variables of a block are computed from, also through lets."""
    axes = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    found = set(variables_in(*[value for axis, value in axes if axis.iter_type == IterVar.CommReduce]))
    for step in reversed(path):
        if isinstance(step, LetStmt) and step.var in found:
            found |= set(variables_in(step.value))
    return found


def _shared_nest(realize: BlockRealize, path: Sequence[Stmt]) -> list[For] | None:
    """The loops from the outermost one of a block's reduction on; None where no threads share a reduction.

    Raises:
        IRValueError: something other than loops stands between them and the block.
    """
    reducing = _reducing(realize, path)
    loops = [step for step in path if isinstance(step, For) and step.loop_var in reducing]
    shared = [loop for loop in loops if _is_thread(loop)]
    if not shared:
        return None
    nest: list[For] = []
    for step in path[path.index(loops[0]) :]:
        if not isinstance(step, For):
            name = shared[0].loop_var.name
            _refuse(
                realize.block,
                f"reduces over loop {name!r} of threads, and is not alone in the loops of its reduction: a"
                f" {type(step).__name__} stands in loop {nest[-1].loop_var.name!r}; give the reduction loops of its own",
            )
        nest.append(step)
    return nest


def _launched_extents(kernel: For) -> dict[str, int]:
    """The greatest extent of the loops in a kernel that are bound to each axis of threads, by tag."""
    found: dict[str, int] = {}

    def look(node: Any) -> None:
        if isinstance(node, For) and is_launched(node) and isinstance(node.extent, IntImm):
            tag = node.thread_binding.thread_tag
            found[tag] = max(found.get(tag, 0), node.extent.value)

    post_order_visit(kernel, look)
    return found


def _of_all_threads(
    realize: BlockRealize, nest: Sequence[For], launched: dict[str, int]
) -> tuple[BlockRealize, list[For]]:
    """The nest run by all threads that the kernel has, for all of them come to an exchange: those that had nothing to do give nothing."""
    loops: list[For] = []
    clauses: list[PrimExpr] = []
    for loop in nest:
        most = launched.get(loop.thread_binding.thread_tag, 0) if _is_thread(loop) else 0
        if isinstance(loop.extent, IntImm) and loop.extent.value < most:
            clauses.append(loop.loop_var < loop.min + loop.extent)
            loop = loop.replace(extent=const(most, loop.extent.dtype))
        loops.append(loop)
    if clauses:
        predicate = conjunction([*marked_conjuncts(realize.predicate), *clauses])
        realize = realize.replace(predicate=predicate)
    return realize, loops


# ---- what becomes of them ---------------------------------------------------------------------------------------


class _Shared:
    """A block whose reduction threads share, in the loops from the outermost one of its reduction on."""

    def __init__(self, realize: BlockRealize, nest: Sequence[For]) -> None:
        self._realize, self._block = realize, realize.block
        reducing = _reducing(realize, ())
        self._threads = [loop for loop in nest if _is_thread(loop)]
        self._sharing = [loop for loop in self._threads if loop.loop_var in reducing]
        self._serial = [loop for loop in nest if not _is_thread(loop)]
        self._kept = [loop for loop in self._serial if loop.loop_var not in reducing]
        self._reduced = [loop for loop in nest if loop.loop_var in reducing]
        self._check_loops(nest)
        self._reduction = self._found_reduction()

    # -- what is refused

    def _check_loops(self, nest: Sequence[For]) -> None:
        block = self._block
        for loop in self._sharing:
            tag = loop.thread_binding.thread_tag
            if not tag.startswith("threadIdx"):
                _refuse(
                    block,
                    f"reduces over loop {loop.loop_var.name!r}, which is bound to {tag!r}: only threads of one block can exchange their"
                    " parts; bind it to threadIdx.x, y or z",
                )
        kinds = {IterVar.DataPar, IterVar.CommReduce}
        if any(axis.iter_type not in kinds for axis in block.iter_vars):
            _refuse(
                block, "shares a reduction and has variables that are neither data-parallel nor reductions"
            )
        spatial = set(
            variables_in(*[value for axis, value in self._axes() if axis.iter_type == IterVar.DataPar])
        )
        reduced = {loop.loop_var for loop in self._reduced}
        for loop in nest:
            name = loop.loop_var.name
            if loop.loop_var in reduced and loop.loop_var in spatial:
                _refuse(
                    block,
                    f"reduces over loop {name!r}, which decides too where it writes; let it feed reduction variables only",
                )
            if loop.loop_var not in reduced | spatial and not _is_unit(loop):
                _refuse(
                    block, f"does not use loop {name!r}, which stands in the loops of its shared reduction"
                )
        serial = {loop.loop_var for loop in self._serial}
        for loop in self._threads:
            if serial & set(variables_in(loop.min, loop.extent)):
                _refuse(
                    block,
                    f"shares a reduction below loop {loop.loop_var.name!r} of threads, whose bounds another loop decides",
                )
        for loop in self._kept:
            if not isinstance(loop.extent, IntImm):
                _refuse(
                    block,
                    f"keeps a part for each iteration of loop {loop.loop_var.name!r}, whose extent {loop.extent} is no number",
                )

    def _found_reduction(self) -> Reduction:
        block, names = self._block, ", ".join(repr(loop.loop_var.name) for loop in self._sharing)
        if block.init is None:
            _refuse(
                block,
                f"shares its reduction over {names} and has no init, which says what the parts begin with",
            )
        if block.alloc_buffers or block.match_buffers:
            _refuse(block, f"shares its reduction over {names} and allocates or matches buffers")
        try:
            reduction = reduction_with_any_combiner(block.init, block.body, block.name_hint)
        except UnknownReducerError as error:
            raise IRValueError(
                f"LowerCrossThreadReduction: threads cannot share the reduction over {names}: {error}"
            ) from error
        loads = [load for operand in reduction.operands for load in loads_in(operand)]
        if any(load.buffer in reduction.outputs for load in loads):
            _refuse(block, f"shares its reduction over {names} and reads other elements of what it writes")
        reduced = {axis.var for axis, _ in self._axes() if axis.iter_type == IterVar.CommReduce}
        if reduced & set(variables_in(*reduction.indices)):
            _refuse(block, f"writes at a place that its reduction over {names} decides")
        if variables_in(*[init.value for init in reduction.inits]):
            _refuse(block, f"shares its reduction over {names} and begins with a value that is no constant")
        return reduction

    # -- what is made

    def _axes(self) -> list[tuple[IterVar, PrimExpr]]:
        return list(zip(self._block.iter_vars, self._realize.iter_values, strict=True))

    def lowered(self) -> tuple[Stmt, list[Buffer]]:
        """What stands in the place of the nest, and the buffers that are needed for it."""
        results = [_private("cross_thread", buffer, [1]) for buffer in self._reduction.outputs]
        parts: list[Buffer] = []
        steps: list[Stmt] = []
        if len(self._serial) > len(self._kept) or conjuncts(self._realize.predicate):
            shape = [int(loop.extent.value) for loop in self._kept] or [1]  # type: ignore[attr-defined]
            parts = [_private("in_thread", buffer, shape) for buffer in self._reduction.outputs]
            steps += self._parts_of_threads(parts)
        steps.append(self._exchange(parts, results))
        body = seq(*steps)
        for loop in reversed(self._threads):
            body = loop.replace(body=body)
        return body, [*parts, *results]

    def _parts_of_threads(self, parts: Sequence[Buffer]) -> tuple[Stmt, Stmt]:
        """What initializes the part of a thread, and what it sums up."""
        reduction = self._reduction
        places = _Places(self._kept)
        begin = Block(
            places.axes, (), (), f"{self._block.name_hint}_in_thread_init", self._each_identity(parts, places)
        )
        initialized = places.nest(_realize(places.values, begin))
        places = _Places(self._kept, self._kept)
        own = self._own_axes()
        update = stored(
            parts,
            reduction.combine(
                [BufferLoad(part, places.indices) for part in parts],
                [substitute(operand, own.names) for operand in reduction.operands],
            ),
            places.indices,
        )
        block = Block(
            [*own.axes, *places.axes],
            (),
            (),
            f"{self._block.name_hint}_in_thread",
            update,
            annotations=self._block.annotations,
        )
        summed: Stmt = _realize([*own.values, *places.values], block, self._realize.predicate)
        for loop in reversed(self._serial):
            summed = loop.replace(body=summed)
        return initialized, summed

    def _each_identity(self, parts: Sequence[Buffer], places: _Places) -> Stmt:
        inits = self._reduction.inits
        return seq(
            *[BufferStore(part, init.value, places.indices) for part, init in zip(parts, inits, strict=True)]
        )

    def _own_axes(self) -> _Axes:
        """The block's data-parallel variables, and one for each loop of its reduction.

        Loops of threads are data-parallel now: each thread has a part of its own.
        """
        found = self._spatial_axes()
        for loop in self._reduced:
            found.add_loop(loop, IterVar.DataPar if _is_thread(loop) else IterVar.CommReduce)
        for axis, value in self._axes():
            if axis.iter_type == IterVar.CommReduce:
                found.names[axis.var] = substitute(value, found.names)
        return found

    def _spatial_axes(self) -> _Axes:
        found = _Axes()
        for axis, value in self._axes():
            if axis.iter_type == IterVar.DataPar:
                found.add(axis, value)
        return found

    def _exchange(self, parts: Sequence[Buffer], results: Sequence[Buffer]) -> Stmt:
        """For each iteration of the loops that are kept: what combines the parts of the threads, and what writes the result."""
        places = _Places(self._kept)
        if parts:
            own = _Axes(list(places.axes), list(places.values))
            for loop in self._sharing:
                own.add_loop(loop, IterVar.DataPar)
            given: list[PrimExpr] = [BufferLoad(part, places.indices) for part in parts]
        else:
            own = self._own_axes()
            given = [substitute(operand, own.names) for operand in self._reduction.operands]
        found = [BufferLoad(result, [const(0)]) for result in results]
        threads = [own.names[loop.loop_var] for loop in self._sharing]
        call = tvm_thread_allreduce(const(len(given), "uint32"), *given, const(True), *found, *threads)
        nothing = reinterpret("handle", const(0, "uint64"))
        body = AttrStmt(self._reduction.combiner, "reduce_scope", nothing, Evaluate(call))
        block = Block(own.axes, (), (), f"{self._block.name_hint}_cross_thread", body)
        values = [substitute(value, places.names) for value in own.values]
        return places.nest(seq(_realize(values, block), *self._write_back(results, places.names)))

    def _write_back(self, results: Sequence[Buffer], renamed: dict[Any, Any]) -> list[Stmt]:
        """Blocks that write the results: to memory that threads share by the first of them, to their own by each."""
        outputs = list(zip(self._reduction.outputs, results, strict=True))
        own = [item for item in outputs if item[0].scope() == "local"]
        common = [item for item in outputs if item[0].scope() != "local"]
        within = self._predicate_at_begin(renamed)
        first = [EQ(loop.loop_var, loop.min) for loop in self._sharing]
        return [
            self._written(pairs, conjunction(clauses), renamed)
            for pairs, clauses in ((common, [*first, *within]), (own, within))
            if pairs
        ]

    def _predicate_at_begin(self, renamed: dict[Any, Any]) -> list[PrimExpr]:
        """The clauses under which the reduction begins: elsewhere there is nothing that it writes.

        One over an empty domain writes its identity: whatever clauses say of its own loops, there is no iteration for which they do.
        """
        begin: dict[Any, Any] = {loop.loop_var: loop.min for loop in self._reduced}
        empty = empty_domain([axis for axis, _ in self._axes() if axis.iter_type == IterVar.CommReduce])
        analyzer = Analyzer()
        found: list[PrimExpr] = []
        for clause in conjuncts(self._realize.predicate):
            at_begin = substitute(clause, begin)
            if empty is not None and begin.keys() & set(variables_in(clause)):
                at_begin = Or(at_begin, empty)
            found.append(analyzer.simplify(substitute(at_begin, renamed)))
        return [clause for clause in found if not (isinstance(clause, IntImm) and clause.value)]

    def _written(
        self, pairs: Sequence[tuple[Buffer, Buffer]], predicate: PrimExpr | None, renamed: dict[Any, Any]
    ) -> Stmt:
        own = self._spatial_axes()
        indices = [substitute(index, own.names) for index in self._reduction.indices]
        body = seq(
            *[BufferStore(output, BufferLoad(result, [const(0)]), indices) for output, result in pairs]
        )
        block = Block(own.axes, (), (), f"{self._block.name_hint}_write_back", body)
        return _realize([substitute(value, renamed) for value in own.values], block, predicate)


def _is_unit(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value == 1


def _private(prefix: str, buffer: Buffer, shape: Sequence[int]) -> Buffer:
    return decl_buffer(shape, buffer.dtype, f"{prefix}_{buffer.name}", scope="local")


def _realize(values: Iterable[PrimExpr], block: Block, predicate: PrimExpr | None = None) -> BlockRealize:
    return BlockRealize(values, const(True) if predicate is None else predicate, stating_its_accesses(block))


@dataclass
class _Axes:
    """Variables of a block that is made."""

    axes: list[IterVar] = field(default_factory=list)
    values: list[PrimExpr] = field(default_factory=list)
    names: dict[Any, Any] = field(default_factory=dict)
    """By the variables that they stand for: those of the block that was, and of loops."""

    def add(self, axis: IterVar, value: PrimExpr) -> None:
        """One that the block had."""
        self.names[axis.var] = fresh = Var(axis.var.name, axis.var.dtype)
        self.axes.append(IterVar(axis.dom, fresh, axis.iter_type))
        self.values.append(value)

    def add_loop(self, loop: For, kind: int) -> None:
        """One that is what a loop runs through."""
        var = loop.loop_var
        self.names[var] = fresh = Var(f"v_{var.name}", var.dtype)
        self.axes.append(IterVar(Range.from_min_extent(loop.min, loop.extent), fresh, kind))
        self.values.append(var)


class _Places:
    """Where a thread keeps the parts of the iterations of some loops: variables of a block say it, from those of loops.

    The loops are copies, or the loops themselves where they are given twice.
    """

    def __init__(self, loops: Sequence[For], themselves: Sequence[For] = ()) -> None:
        self._loops = loops
        fresh = [
            loop.loop_var if themselves else Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops
        ]
        self.names: dict[Any, Any] = {loop.loop_var: var for loop, var in zip(loops, fresh, strict=True)}
        """By variables of the loops, those of their copies."""
        self.values: list[PrimExpr] = [
            var if _is_zero(loop.min) else var - loop.min for loop, var in zip(loops, fresh, strict=True)
        ]
        self.axes = [
            IterVar(
                Range.from_min_extent(const(0, loop.loop_var.dtype), loop.extent),
                Var(f"v_{loop.loop_var.name}", loop.loop_var.dtype),
                IterVar.DataPar,
            )
            for loop in loops
        ]

    @property
    def indices(self) -> list[PrimExpr]:
        """The place in terms of the block's variables."""
        return [axis.var for axis in self.axes] or [const(0)]

    def nest(self, body: Stmt) -> Stmt:
        """A statement in the copies of the loops."""
        for loop in reversed(self._loops):
            kind = loop.kind if loop.kind == ForKind.UNROLLED else ForKind.SERIAL  # threads meet in no vector
            body = For(self.names[loop.loop_var], loop.min, loop.extent, kind, body)
        return body


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


@dataclass(frozen=True)
class LowerCrossThreadReduction(PrimFuncPass):
    """Let each thread of a shared reduction compute a part of it, and combine the parts of all.

    A reduction is shared where loops bound to ``threadIdx`` feed its reduction variables. Where there are serial loops of the reduction
    besides, or a predicate, a thread sums up its part in memory of its own, which begins with the identity. ``tvm_thread_allreduce``
    combines what the threads have: all of them come to it, and all of them get the result, of which the first one writes what lies
    in memory that they share.

    Before::

        for i in range(128):
            for k_0 in range(4):
                for k_1 in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(128, i)
                        vk = T.axis.reduce(120, k_0 * 32 + k_1)
                        T.where(k_0 * 32 + k_1 < 120)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

    After::

        in_thread_B = T.alloc_buffer((1,), scope="local")
        cross_thread_B = T.alloc_buffer((1,), scope="local")
        for i in range(128):
            for k_1 in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B_in_thread_init"):
                    in_thread_B[0] = T.float32(0)
                for k_0 in range(4):
                    with T.block("B_in_thread"):
                        vi, v_k_0, v_k_1 = T.axis.remap("SRS", [i, k_0, k_1])
                        T.where(k_0 * 32 + k_1 < 120)
                        in_thread_B[0] = in_thread_B[0] + A[vi, v_k_0 * 32 + v_k_1]
                with T.block("B_cross_thread"):
                    v_k_1 = T.axis.spatial(32, k_1)
                    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                        T.tvm_thread_allreduce(T.uint32(1), in_thread_B[0], T.bool(True), cross_thread_B[0], v_k_1)
                with T.block("B_write_back"):
                    vi = T.axis.spatial(128, i)
                    T.where(k_1 == 0)
                    B[vi] = cross_thread_B[0]

    Raises:
        IRValueError: the combiner is no reducer, also none written by hand, or the block has no init; other statements stand in the
            loops of the reduction; such a loop is bound to something other than threads of a block, or decides where the result lies.
    """

    pass_name = "tir.LowerCrossThreadReduction"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without reductions that threads share."""
        return func.replace(body=_Lower().visit(func.body))
