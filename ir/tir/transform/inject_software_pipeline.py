"""InjectSoftwarePipeline: iterations of annotated loops overlap, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from ...error import IRValueError
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Range, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
    stmt_list,
)
from ..stmt_functor import StmtExprMutator
from .pipeline_dependences import Child, Dependences, child_of
from .pipeline_parts import ASYNC_STAGES, ORDER, PIPELINE, STAGE, PipelineParts, stated
from .pipeline_queues import COMMIT
from .pipeline_versions import with_versions
from .prim_func_pass import PrimFuncPass

DOUBLE_BUFFER = "double_buffer_scope"
_NOTHING = Evaluate(const(0))


@dataclass(frozen=True)
class _Body:
    """The body of a loop taken apart."""

    children: Sequence[Stmt]
    allocated: Sequence[Buffer]
    """What each iteration has for itself."""


def _is_scope(stmt: Stmt) -> TypeGuard[BlockRealize]:
    """Whether a statement is a block that only holds others, and buffers."""
    if not isinstance(stmt, BlockRealize):
        return False
    block = stmt.block
    plain = not block.iter_vars and block.init is None and not block.match_buffers
    return plain and not set(block.annotations) - {DOUBLE_BUFFER}


def _around(stmt: Stmt) -> tuple[Stmt, Callable[[Stmt], Stmt]] | None:
    """What a statement that says something of its body has inside, and how to say the same of another body.

    None where it is no such statement, or what it says may change while the body runs.
    """
    if isinstance(stmt, LetStmt) and not reads_memory(stmt.value):
        return stmt.body, lambda body: LetStmt(stmt.var, stmt.value, body, stmt.span)
    if isinstance(stmt, IfThenElse) and stmt.else_case is None and not reads_memory(stmt.condition):
        return stmt.then_case, lambda body: IfThenElse(stmt.condition, body, None, stmt.span)
    if isinstance(stmt, AttrStmt) and stmt.thread is None and not reads_memory(stmt.value):
        return stmt.body, lambda body: stmt.replace(body=body)
    return None


def _under(condition: PrimExpr) -> Callable[[Stmt], Stmt]:
    """Puts a statement under a condition."""
    return lambda statement: IfThenElse(condition, statement)


def _doubled(statement: Stmt) -> set[Var]:
    """The addresses of the buffers that blocks in a statement ask two versions of."""
    found: set[Var] = set()

    def note(node: Any) -> None:
        if isinstance(node, Block) and DOUBLE_BUFFER in node.annotations:
            found.add(node.writes[int(node.annotations[DOUBLE_BUFFER])].buffer.data)

    post_order_visit(statement, note)
    return found


class _Inject(StmtExprMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self._by_data: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffer_map.values()}
        self._ranges: dict[Var, Range] = {}
        """Of the variables of loops and threads around."""
        self._threads: set[Var] = set()
        self._parts: dict[int, tuple[Stmt, tuple[Stmt | None, ...]]] = {}
        """By identity of what became of a pipeline: prologue, steady state and epilogue; the statement is kept with them."""

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Block(self, block: Block) -> Block:
        self._by_data.update((buffer.data, buffer) for buffer in block.alloc_buffers)
        mapped = self.generic_visit(block)
        if DOUBLE_BUFFER in mapped.annotations:
            rest = {key: value for key, value in mapped.annotations.items() if key != DOUBLE_BUFFER}
            mapped = mapped.replace(annotations=rest)
        return mapped

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.thread is None:
            return super().visit_AttrStmt(stmt)
        self._enter(stmt.thread.var, const(0, stmt.thread.var.dtype), stmt.value, stmt.thread.thread_tag)
        return super().visit_AttrStmt(stmt)

    def _enter(self, var: Var, start: PrimExpr, extent: PrimExpr, thread_tag: str = "") -> None:
        self._ranges[var] = Range.from_min_extent(start, extent)
        if thread_tag and not thread_tag.startswith("blockIdx"):
            self._threads.add(var)

    def visit_For(self, loop: For) -> Stmt:
        doubled = _doubled(loop.body) if STAGE in loop.annotations else set()
        tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
        self._enter(loop.loop_var, loop.min, loop.extent, tag)
        mapped = self.generic_visit(loop)
        del self._ranges[loop.loop_var]
        self._threads.discard(loop.loop_var)
        given = [key for key in PIPELINE if key in loop.annotations]
        if not given:
            return mapped
        if STAGE not in given or ORDER not in given:
            raise IRValueError(
                f"loop {loop.loop_var.name!r} has {', '.join(given)}; a software pipeline needs {STAGE} and {ORDER}"
            )
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise IRValueError(
                f"software pipeline of loop {loop.loop_var.name!r}: the loop is {loop.kind.name.lower()};"
                " iterations of a serial or an unrolled loop can overlap"
            )
        return self._pipeline(mapped, doubled)

    # ---- taking the loop apart -----------------------------------------------------------------------------------
    def _pipeline(self, loop: For, doubled: set[Var]) -> Stmt:
        name = loop.loop_var.name
        _refuse_axes(loop)
        stages = _numbers(loop, STAGE)
        taken = self._body(loop, len(stages))
        order, async_stages = _numbers(loop, ORDER), _numbers(loop, ASYNC_STAGES)
        _check_annotations(name, taken.children, stages, order, async_stages)
        buffers = self._by_data | {buffer.data: buffer for buffer in taken.allocated}
        children = [
            child_of(at, statement, stages[at], order[at], stages[at] in async_stages, buffers)
            for at, statement in enumerate(taken.children)
        ]
        private = {buffer.data for buffer in taken.allocated}
        _check_queues(name, children, private)
        dependences = Dependences(loop, children, private, self._ranges, self._threads)
        dependences.check()
        counts = {
            buffer.data: dependences.versions(buffer.data, 2 if buffer.data in doubled else 1)
            for buffer in taken.allocated
        }
        versions = {data: count for data, count in counts.items() if count > 1}
        allocated = [
            with_versions(buffer, versions[buffer.data]) if buffer.data in versions else buffer
            for buffer in taken.allocated
        ]
        versioned = {buffer.data: buffer for buffer in allocated if buffer.data in versions}
        self._by_data.update((buffer.data, buffer) for buffer in allocated)
        parts = PipelineParts(self._by_data, self._ranges, loop, dependences, versioned).parts()
        body = seq([part for part in parts if part is not None])
        whole = stated(Block((), (), (), "", body, None, tuple(allocated)), self._by_data)
        result = BlockRealize((), const(True), whole)
        self._parts[id(result)] = (result, parts)
        return result

    def _body(self, loop: For, count: int) -> _Body:
        """The children of a loop; what blocks and pipelines among them hold counts in their place if as many are annotated."""
        body = loop.body
        allocated: list[Buffer] = []
        around: list[Callable[[Stmt], Stmt]] = []
        while not isinstance(body, SeqStmt):
            if _is_scope(body) and not reads_memory(body.predicate) and id(body) not in self._parts:
                allocated += body.block.alloc_buffers
                if not _is_true(body.predicate):
                    around.append(_under(body.predicate))
                body = body.block.body
                continue
            found = _around(body)
            if found is None:
                break
            body, wrap = found
            around.append(wrap)

        def within(statement: Stmt) -> Stmt:
            for wrap in reversed(around):
                statement = wrap(statement)
            return statement

        children = list(stmt_list(body))
        opened: list[Stmt] = []
        own: list[Buffer] = []
        for child in children:
            parts = self._opened(child)
            opened += [child] if parts is None else parts
            if parts is not None and isinstance(child, BlockRealize):
                own += child.block.alloc_buffers
        if len(opened) == count and len(children) != count:
            children, allocated = opened, [*allocated, *own]
        return _Body([within(child) for child in children], allocated)

    def _opened(self, child: Stmt) -> Sequence[Stmt] | None:
        """The statements that count in the place of a child."""
        if id(child) in self._parts:
            return [_NOTHING if part is None else part for part in self._parts[id(child)][1]]
        if _is_scope(child) and _is_true(child.predicate) and isinstance(child.block.body, SeqStmt):
            return child.block.body.seq
        return None


def _is_true(condition: PrimExpr) -> bool:
    return isinstance(condition, IntImm) and condition.value != 0


# ---- what is refused ---------------------------------------------------------------------------------------------


def _refuse_axes(loop: For) -> None:
    def look(node: Any) -> None:
        if isinstance(node, Block) and node.iter_vars:
            raise IRValueError(
                f"software pipeline of loop {loop.loop_var.name!r}: block {node.name_hint!r} has iteration variables;"
                " run ConvertBlocksToOpaque before InjectSoftwarePipeline"
            )

    post_order_visit(loop.body, look)


def _numbers(loop: For, key: str) -> list[int]:
    """The numbers of an annotation; none where there is none."""
    given = loop.annotations.get(key, ())
    if not isinstance(given, tuple | list) or not all(isinstance(item, int | IntImm) for item in given):
        raise IRValueError(f"loop {loop.loop_var.name!r}: {key} is {given!r}, expected a list of integers")
    return [int(item) for item in given]


def _check_annotations(
    name: str,
    children: Sequence[Stmt],
    stages: Sequence[int],
    order: Sequence[int],
    async_stages: Sequence[int],
) -> None:
    shown = ", ".join(map(_shown, children))
    for key, numbers in ((STAGE, stages), (ORDER, order)):
        if len(numbers) != len(children):
            raise IRValueError(
                f"software pipeline of loop {name!r}: {key} has {len(numbers)} entries, the loop's body"
                f" {len(children)} children: {shown}; give one for each"
            )
    for position, stage in enumerate(stages):
        if stage < 0:
            raise IRValueError(
                f"software pipeline of loop {name!r}: {STAGE} of child {position} ({_shown(children[position])}) is {stage};"
                " expected at least 0"
            )
    for position, place in enumerate(order):
        if place not in range(len(order)) or place in order[:position]:
            raise IRValueError(
                f"software pipeline of loop {name!r}: {ORDER} {list(order)} is no permutation of 0 to {len(order) - 1}:"
                f" look at child {position} ({_shown(children[position])})"
            )
    for stage in async_stages:
        if stage not in stages:
            raise IRValueError(
                f"software pipeline of loop {name!r}: {ASYNC_STAGES} has stage {stage}; there are {sorted(set(stages))}"
            )


def _shown(statement: Stmt) -> str:
    name = statement.block.name_hint if isinstance(statement, BlockRealize) else ""
    return f"block {name!r}" if name else f"a {type(statement).__name__}"


def _check_queues(name: str, children: Sequence[Child], private: set[Var]) -> None:
    """Refuse copies that nobody waits for, and queues within children that the pipeline would mix up."""
    nested = [child for child in children if _has_queues(child.statement)]
    asynchronous = [child for child in children if child.is_async]
    if nested and (len(nested) > 1 or asynchronous):
        raise IRValueError(
            f"software pipeline of loop {name!r}: {nested[0]} has asynchronous stages of its own, which would be mixed with"
            " others; make one of both pipelines synchronous"
        )
    for child in asynchronous:
        for region in child.writes:
            if region.buffer.data not in private:
                raise IRValueError(
                    f"software pipeline of loop {name!r}: {child} of asynchronous stage {child.stage} writes buffer"
                    f" {region.buffer.name}, for which nothing behind the loop would wait; allocate it in the loop's body"
                )


def _has_queues(statement: Stmt) -> bool:
    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, AttrStmt) and node.attr_key == COMMIT:
            found.append(node)

    post_order_visit(statement, look)
    return bool(found)


@dataclass(frozen=True)
class InjectSoftwarePipeline(PrimFuncPass):
    """Overlap the iterations of loops: while one is in a late stage, the next ones are in earlier stages.

    Runs behind ConvertBlocksToOpaque. The annotations of a loop have one number for each child of its body:
    ``software_pipeline_stage`` says in which stage it runs, so many iterations of the pipeline behind the begin of its iteration, and
    ``software_pipeline_order`` at which position among all children. A child that is a block without predicate and annotations whose
    body is a sequence counts as many children as that has, and a pipeline within as its prologue, steady state and epilogue, if the
    annotations are as many; else each of them is one child.

    Buffers that are allocated in the loop's body get a leading dimension for as many versions as iterations under way may need (with
    ``double_buffer_scope`` on a block, the position of a buffer among those that it writes, at least two).

    Children of the stages in ``software_pipeline_async_stages`` are marked as asynchronous (``async_scope``) and committed to the queue
    of their stage (``async_commit_queue_scope``); those that need what they copy wait (``async_wait_queue_scope``) until all but
    ``async_wait_inflight_count`` groups of that queue have arrived.

    Different parameters are taken for different memory, as schedules do.

    Before::

        for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            with T.block(""):
                B = T.alloc_buffer((1,), scope="shared")
                B[0] = A[i] * 2.0
                C[i] = B[0] + 1.0

    After (blocks left out)::

        B = T.alloc_buffer((2, 1), scope="shared")
        B[0, 0] = A[0] * 2.0
        for i in range(15):
            B[(i + 1) % 2, 0] = A[i + 1] * 2.0
            C[i] = B[i % 2, 0] + 1.0
        C[15] = B[1, 0] + 1.0

    Refused, with the loop and the child: lists of other lengths, an order that is no permutation, a dependence between children that the
    order breaks, copies of asynchronous stages to buffers from outside of the loop.
    """

    pass_name = "tir.InjectSoftwarePipeline"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose annotated loops are pipelines."""
        return func.replace(body=_Inject(func).visit(func.body))
