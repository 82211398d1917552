"""LowerAutoCopy: copies between memories, by all threads of a block and in the form that each pair of memories is quickest with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...node import post_order_visit
from ...target.gpu_facts import WARP
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import IntImm, IterVar, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import AttrStmt, Block, BlockRealize, For, IfThenElse, LetStmt, Stmt, While
from ..stmt_functor import StmtExprMutator, loads_in, variables_in
from ..thread_axis import is_private_scope
from .auto_copy_fragments import ACCUMULATOR, LOADED, TiledCopy, lowered_fragments
from .auto_copy_nest import AUTO_COPY, CopyNest, is_auto_copy
from .auto_copy_threads import ThreadAxis, shared_among
from .bank_conflicts import BankConflicts, paddable, padded, with_pitch
from .pipeline_parts import Tidy
from .prim_func_pass import PrimFuncPass

VECTOR_BYTES, LOCAL_STAGE = "vector_bytes", "local_stage"
_OPTIONS = (AUTO_COPY, VECTOR_BYTES, LOCAL_STAGE)
_AXES = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


class _Lower(StmtExprMutator):
    def __init__(self, pitched: dict[Var, Buffer]) -> None:
        super().__init__()
        self.axes: dict[str, ThreadAxis] = {}
        """The threads that run what is visited, by tag."""
        self.all_axes: dict[str, ThreadAxis] = {}
        self._pitched = pitched
        self._depends: dict[Var, set[Var]] = {}
        """Variables whose values, or whether they have one, differ between threads: the variables of those."""
        self._apart: set[Var] = set()
        """Variables of threads of which only some may run what is visited."""
        self.simplifier = IndexSimplifier()
        self.lowered: list[Block] = []

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self._pitched.get(buffer.data, buffer)

    # ---- which threads run -----------------------------------------------------------------------------------------
    def _threads_of(self, *exprs: Any, besides: Buffer | None = None) -> set[Var]:
        """The variables of threads on which expressions depend, besides what is loaded from a buffer."""
        found: set[Var] = set()
        for expr in exprs:
            for var in variables_in(expr):
                found |= self._depends.get(var, set())
            loaded = {load.buffer for load in loads_in(expr)} - {besides}
            if any(is_private_scope(buffer.scope()) for buffer in loaded):
                found |= {axis.var for axis in self.axes.values()}
        return found

    def _where(self, threads: Iterable[Var], statement: Any) -> Any:
        """Visit what only some of the threads run."""
        outer, self._apart = self._apart, self._apart | set(threads)
        result = self.visit(statement)
        self._apart = outer
        return result

    def _begin(self, var: Var, start: PrimExpr, extent: PrimExpr, axis: IterVar | None) -> None:
        self.simplifier.bind_range(var, start, extent)
        tag = axis.thread_tag if axis is not None else ""
        if tag in _AXES:
            self._depends[var] = {var}
            if isinstance(extent, IntImm):
                self.axes[tag] = self.all_axes[tag] = ThreadAxis(var, start, extent.value, tag)

    def visit_For(self, loop: For) -> Stmt:
        outer = dict(self.axes)
        threads = self._threads_of(loop.min, loop.extent)
        self._depends[loop.loop_var] = threads
        self._begin(loop.loop_var, loop.min, loop.extent, loop.thread_binding)
        body = self._where(threads, loop.body)
        self.axes = outer
        return loop if body is loop.body else loop.replace(body=body)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        outer = dict(self.axes)
        if stmt.thread is not None:
            self._begin(stmt.thread.var, const(0, stmt.thread.var.dtype), stmt.value, stmt.thread)
        result = super().visit_AttrStmt(stmt)
        self.axes = outer
        return result

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        self._depends[stmt.var] = self._threads_of(stmt.value)
        return self.generic_visit(stmt)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        return self._under(stmt, stmt.condition)

    def visit_While(self, stmt: While) -> Stmt:
        return self._under(stmt, stmt.condition)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        return self._under(realize, realize.predicate)

    def _under(self, stmt: Any, condition: PrimExpr) -> Any:
        outer, self._apart = self._apart, self._apart | self._threads_of(condition)
        result = self.generic_visit(stmt)
        self._apart = outer
        return result

    # ---- the copies ------------------------------------------------------------------------------------------------
    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        return self._copy(mapped) if is_auto_copy(block) else mapped

    def _copy(self, block: Block) -> Block:
        nest = CopyNest(block)
        vector_bytes, by_registers = self._options(nest)
        apart = self._apart | self._threads_of(*nest.mentioned(), besides=nest.source)
        axes = [self.axes[tag] for tag in _AXES if tag in self.axes]
        together = [axis for axis in axes if axis.var not in apart]
        source, target = nest.source.scope(), nest.target.scope()
        needed: list[Buffer] = []
        if source == ACCUMULATOR and target == "global":
            body, needed = TiledCopy(nest).by_shared_memory(self._warp(nest, together), vector_bytes)
        elif (source == ACCUMULATOR and _is_memory(target)) or (target in LOADED and _is_memory(source)):
            body = lowered_fragments(nest)
        elif _is_memory(source) and _is_memory(target):
            body, needed = shared_among(nest, together, vector_bytes, by_registers)
        else:
            body = block.body
        notes = {key: value for key, value in block.annotations.items() if key not in _OPTIONS}
        lowered: Block = block.replace(
            body=body, annotations=notes, alloc_buffers=(*block.alloc_buffers, *needed)
        )
        self.lowered.append(lowered)
        return lowered

    def _warp(self, nest: CopyNest, together: list[ThreadAxis]) -> tuple[ThreadAxis, list[ThreadAxis]]:
        """The axis of the threads that share fragments, and the others."""
        axis = self.axes.get("threadIdx.x")
        if axis is None or axis.extent != WARP or axis not in together:
            raise nest.refusal(
                f"fragments are stored to global memory by the {WARP} threads of a warp: all those along threadIdx.x, and no others"
            )
        return axis, [self.axes[tag] for tag in _AXES if tag in self.axes and self.axes[tag] is not axis]

    def _options(self, nest: CopyNest) -> tuple[int, bool]:
        """Bytes that a thread copies at once, and whether copies go by registers."""
        notes = {key: getattr(value, "value", value) for key, value in nest.block.annotations.items()}
        vector_bytes, by_registers = notes.get(VECTOR_BYTES, 1), bool(notes.get(LOCAL_STAGE, False))
        if not isinstance(vector_bytes, int) or vector_bytes < 1:
            raise nest.refusal(f"{VECTOR_BYTES} is {vector_bytes!r}; expected a number of at least 1")
        is_load = nest.source.scope() == "global" and nest.target.scope().startswith("shared")
        if by_registers and not is_load:
            raise nest.refusal(
                f"{LOCAL_STAGE} is for copies from global to shared memory, not from {nest.source.scope()} to {nest.target.scope()}"
            )
        return vector_bytes, by_registers


class _Settle(StmtExprMutator):
    """Puts buffers with their padding in place, and what the copies became in short form."""

    def __init__(self, lower: _Lower, buffers: dict[Buffer, Buffer], pitches: dict[Var, PrimExpr]) -> None:
        super().__init__()
        self._lowered = {id(block) for block in lower.lowered}
        self._tidy = Tidy(lower.simplifier)
        self._settled, self._pitches = buffers, pitches

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self._settled.get(buffer, buffer)

    def visit_Var(self, var: Var) -> PrimExpr:
        return self._pitches.get(var, var)

    def visit_Block(self, block: Block) -> Block:
        mapped: Block = self.generic_visit(block)
        return mapped.replace(body=self._tidy.visit(mapped.body)) if id(block) in self._lowered else mapped


def _is_memory(scope: str) -> bool:
    """Whether all threads of a block see memory of a scope."""
    return not is_private_scope(scope)


def _copied(func: PrimFunc) -> set[Var] | None:
    """The addresses of what is copied automatically; None where no block asks for it."""
    found: list[Block] = []
    post_order_visit(
        func.body,
        lambda node: found.append(node) if isinstance(node, Block) and is_auto_copy(node) else None,
    )
    return (
        {region.buffer.data for block in found for region in (*block.reads, *block.writes)} if found else None
    )


@dataclass(frozen=True)
class LowerAutoCopy(PrimFuncPass):
    """Schedule blocks annotated ``auto_copy``, whose body is a nest of loops around one store of an element of another buffer.

    Runs on opaque blocks behind UnifyThreadBinding and CompactBufferAllocation.

    - Between global and shared memory, the threads around the block that neither the copy nor a condition around it depends on share it
      out: neighbours copy what is contiguous in global memory, ``vector_bytes`` (1 unless given) bytes at once. With ``local_stage``,
      from global to shared memory, all of a thread's loads go to registers before it stores.
    - From shared or global memory to fragments of the scopes ``wmma.matrix_a`` and ``wmma.matrix_b``, and from ``wmma.accumulator`` to
      shared memory, each tile of 16 by 16 is an instruction; from ``wmma.accumulator`` to global memory it goes by shared memory.
    - Other copies stay as they are.

    Rows of shared memory that is copied so are padded where the threads of a warp would find what they access in the same banks.

    Before::

        with T.block("A_shared"):
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for x, y in T.grid(64, 32):
                A_shared[x, y] = A[x, k * 32 + y]

    After, for 128 threads::

        with T.block("A_shared"):
            for turn in range(4):
                for lane in T.vectorized(4):
                    A_shared[turn * 16 + threadIdx_x // 8, threadIdx_x % 8 * 4 + lane] = A[
                        turn * 16 + threadIdx_x // 8, k * 32 + threadIdx_x % 8 * 4 + lane
                    ]

    Raises:
        IRValueError: an annotated block does something else, or an option does not fit its memories.
    """

    pass_name = "tir.LowerAutoCopy"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose annotated copies are scheduled."""
        copied = _copied(func)
        if copied is None:
            return func
        plain = {data: buffer for data, buffer in paddable(func.body).items() if data in copied}
        pitched = {data: with_pitch(buffer) for data, buffer in plain.items()}
        lower = _Lower({data: buffer for data, (buffer, _) in pitched.items()})
        body = lower.visit(func.body)
        axes = [lower.all_axes[tag] for tag in _AXES if tag in lower.all_axes]
        conflicts = BankConflicts(body, pitched, axes)
        buffers: dict[Buffer, Buffer] = {}
        pitches: dict[Var, PrimExpr] = {}
        for data, (buffer, pitch) in pitched.items():
            padding = conflicts.padding(data)
            buffers[buffer] = padded(plain[data], padding)
            pitches[pitch] = plain[data].shape[-1] + const(padding, pitch.dtype)
        return func.replace(body=_Settle(lower, buffers, pitches).visit(body))
