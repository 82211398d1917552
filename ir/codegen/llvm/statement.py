"""Statements of lowered PrimFuncs: loops, conditions, memory, and the ends of a function.

Buffers are ``alloca``s, which LLVM turns into registers when all their indices are constant, or come from the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.undefined_vars import undefined_vars
from ..error import CodegenError
from .builder import FunctionBuilder, Value, constant
from .conversion import to_memory
from .emitter import FunctionEmitter, prints_statement
from .kernel_context import FAILED, OK, OUT_OF_MEMORY
from .matrix import allocate_register, is_matrix_register
from .memory import store
from .tile_order import step_of, store_step
from .types import element_bytes, memory_type

_MOST_UNROLLED = 16
"""LLVM unrolls loops of so few iterations, and needs no vectors along them."""
_TOO_MANY_TO_COPY = 128
"""Loops of so many iterations, or more, LLVM does not unroll as a whole."""


@prints_statement(S.SeqStmt)
def _seq(emitter: FunctionEmitter, node: S.SeqStmt) -> None:
    for item in node.seq:
        emitter.statement(item)


@prints_statement(S.AttrStmt)
def _attribute(emitter: FunctionEmitter, node: S.AttrStmt) -> None:
    if node.attr_key in ("thread_extent", "virtual_thread"):
        raise CodegenError(
            f"a loop is bound to {node.node.thread_tag} ({node.attr_key}), and a processor has no threads to bind loops to; build for the"
            " target cuda, or schedule with parallel and vectorize in place of bind"
        )
    emitter.statement(node.body)


@prints_statement(S.DeclBuffer)
def _declaration(emitter: FunctionEmitter, node: S.DeclBuffer) -> None:
    emitter.statement(node.body)


# -- values ------------------------------------------------------------------------
@prints_statement(S.BufferStore)
def _store(emitter: FunctionEmitter, node: S.BufferStore) -> None:
    step = step_of(emitter, node)
    if step is not None:
        store_step(emitter, step)
        return
    emitter.tile = None  # what it has loaded may be what is stored now
    with _step(emitter, node if _is_scalar_reduction(node, node.value) else None, node.value):
        store(emitter, node.buffer, node.indices, node.value, node.predicate)


@prints_statement(S.LetStmt)
def _let(emitter: FunctionEmitter, node: S.LetStmt) -> None:
    with _step(emitter, _store_of_step(node), node.value):
        emitter.variables[node.var] = emitter.value(node.value)
    emitter.statement(node.body)


@contextmanager
def _step(emitter: FunctionEmitter, reduction: S.BufferStore | None, value: E.PrimExpr) -> Iterator[None]:
    """Where a value is printed that a store takes as the next partial result of a reduction, if it does."""
    if reduction is not None:
        emitter.reduction_update = value
        emitter.reduction_is_long = _is_long(emitter.loop, reduction)
    yield
    emitter.reduction_update = None


def _is_long(loop: S.For | None, reduction: S.BufferStore) -> bool:
    """Whether a reduction is over a loop that LLVM will not unroll."""
    if loop is None or (isinstance(loop.extent, E.IntImm) and loop.extent.value <= _MOST_UNROLLED):
        return False
    return not any(loop.loop_var in undefined_vars(index) for index in reduction.indices)


def _is_scalar_reduction(store: S.BufferStore, value: E.PrimExpr) -> bool:
    """Whether storing the value is ``x[i] = x[i] op value`` of one float: a step of a reduction.

    What looks like one and is none stands in a call of ``in_order``, see :class:`ir.tir.transform.KeepFloatOrder`.
    """
    if (
        not isinstance(value, E.Add | E.Mul | E.Max | E.Min)
        or not dt.is_float(value.dtype)
        or dt.lanes(value.dtype) != 1
    ):
        return False
    return any(
        isinstance(side, E.BufferLoad)
        and side.buffer is store.buffer
        and len(side.indices) == len(store.indices)
        and all(expr_deep_equal(x, y) for x, y in zip(side.indices, store.indices))
        for side in (value.a, value.b)
    )


def _behind_names(body: S.Stmt) -> Sequence[S.Stmt]:
    """The statements behind the names that a body begins with."""
    while isinstance(body, S.LetStmt):
        body = body.body
    return body.seq if isinstance(body, S.SeqStmt) else (body,)


def _store_of_step(node: S.LetStmt) -> S.BufferStore | None:
    """The store of a variable that is one of several partial results, all computed first and then stored; None for others."""
    if not dt.is_float(node.var.dtype):
        return None
    stores = _behind_names(node.body)
    return next(
        (
            store
            for store in stores
            if isinstance(store, S.BufferStore)
            and store.value is node.var
            and _is_scalar_reduction(store, node.value)
        ),
        None,
    )


@prints_statement(S.Evaluate)
def _evaluate(emitter: FunctionEmitter, node: S.Evaluate) -> None:
    value = node.value
    if isinstance(value, E.IntImm):
        return
    if isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.ret":
        _return(emitter, value)
        return
    emitter.tile = None
    emitter.value(value)


def _return(emitter: FunctionEmitter, call: E.Call) -> None:
    if emitter.is_part or (call.args and emitter.result is None):
        raise CodegenError("T.ret is not possible inside of a parallel loop")
    if call.args and emitter.result is not None:
        dtype = call.args[0].dtype
        result = to_memory(emitter.b, emitter.value(call.args[0]), dtype)
        emitter.b.store(result, emitter.result, element_bytes(dtype))
    emitter.leave_with(Value(str(OK), "i32"))
    emitter.b.label(emitter.b.fresh("unreachable"))


# -- conditions --------------------------------------------------------------------
@prints_statement(S.IfThenElse)
def _if(emitter: FunctionEmitter, node: S.IfThenElse) -> None:
    b = emitter.b
    then, join = b.fresh("then"), b.fresh("join")
    otherwise = b.fresh("else") if node.else_case is not None else join
    b.cond_branch(emitter.value(node.condition), then, otherwise)
    for label, body in ((then, node.then_case), (otherwise, node.else_case)):
        if body is not None:
            b.label(label)
            emitter.statement(body)
            b.branch(join)
    b.label(join)


@prints_statement(S.AssertStmt)
def _assert(emitter: FunctionEmitter, node: S.AssertStmt) -> None:
    condition = emitter.value(node.condition)
    text = str(getattr(node.message, "value", node.message))
    failed = emitter.b.binary("xor", condition, constant(1, "i1"))
    emitter.fail_if(failed, lambda: emitter.set_error(f"assertion failed: {text}", FAILED))
    emitter.statement(node.body)


# -- loops -------------------------------------------------------------------------
@prints_statement(S.While)
def _while(emitter: FunctionEmitter, node: S.While) -> None:
    b = emitter.b
    emitter.inner += 1
    head, body, done = b.fresh("while"), b.fresh("body"), b.fresh("done")
    b.branch(head)
    b.label(head)
    b.cond_branch(emitter.value(node.condition), body, done)
    b.label(body)
    emitter.statement(node.body)
    b.branch(head)
    b.label(done)


@prints_statement(S.For)
def _for(emitter: FunctionEmitter, loop: S.For) -> None:
    if loop.kind == S.ForKind.THREAD_BINDING:
        raise CodegenError(f"loop {loop.loop_var.name} is bound to a GPU thread; a CPU kernel has none")
    b = emitter.b
    start, extent = emitter.index(loop.min), emitter.index(loop.extent)
    has_end = _end_fits(b, loop, start, extent)
    end = b.add(start, extent if has_end else b.add(extent, constant(-1, "i64")))
    head, latch, done = b.fresh("loop"), b.fresh("latch"), b.fresh("done")
    name = b.fresh("i")
    before = b.block
    if extent.literal is not None and extent.literal > 0:
        b.branch(head)
    else:
        some = b.icmp("slt", start, end) if has_end else b.icmp("sgt", extent, constant(0, "i64"))
        b.cond_branch(some, head, done)
    b.label(head)
    b.emit(f"%{name} = phi i64 [{start.ref}, %{before}], [%{name}.next, %{latch}]")
    bits = max(b.magnitude(start), b.magnitude(extent)) + 1
    emitter.variables[loop.loop_var] = b.bound(Value(f"%{name}", "i64"), bits)
    outer, emitter.loop = emitter.loop, loop
    is_innermost = _loop_body(emitter, loop.body)
    emitter.loop = outer
    b.branch(latch)
    b.label(latch)
    # without a sign, -1 + 1 would overflow
    unsigned = "nuw " if start.literal is not None and start.literal >= 0 else ""
    b.emit(f"%{name}.next = add {unsigned}nsw i64 %{name}, 1")
    if has_end:
        more = b.icmp("slt", Value(f"%{name}.next", "i64"), end)
    else:  # the end is the last value
        more = b.icmp("ne", Value(f"%{name}", "i64"), end)
    if S.SHAPED in loop.annotations:
        b.emit(f"br i1 {more.ref}, label %{head}, label %{done}, !llvm.loop {emitter.context.keep_loop()}")
    else:
        emitter.context.wants_vectorizer |= is_innermost
        if is_innermost and _is_short_reduction(loop):
            b.emit(
                f"br i1 {more.ref}, label %{head}, label %{done}, !llvm.loop {emitter.context.rolled_loop()}"
            )
        else:
            b.cond_branch(more, head, done)
    b.label(done)


def _is_short_reduction(loop: S.For) -> bool:
    """Whether a loop, the innermost one, reduces so few numbers that LLVM would copy it as a whole before it thinks of vectors.

    A chain of scalar operations is all that its vectorizer would find.
    """
    if not isinstance(loop.extent, E.IntImm) or loop.extent.value >= _TOO_MANY_TO_COPY:
        return False
    return all(isinstance(item, S.BufferStore) and _is_long(loop, item) for item in _behind_names(loop.body))


def _end_fits(b: FunctionBuilder, loop: S.For, start: Value, extent: Value) -> bool:
    """Whether the number behind the last one of a loop is an int64, as far as that is known."""
    if start.literal is not None and extent.literal is not None:
        return start.literal + extent.literal < 1 << 63
    if start.literal is not None and start.literal <= 0:
        return True
    if isinstance(loop.extent, E.Sub) and loop.extent.b is loop.min:  # a range that is given by both ends
        return True
    return max(b.magnitude(start), b.magnitude(extent)) < 63


def _loop_body(emitter: FunctionEmitter, body: S.Stmt) -> bool:
    """Prints the body of a loop; whether there is no loop in it."""
    emitter.inner += 1
    inner, outer = emitter.inner, (emitter.body, emitter.library_instructions)
    emitter.body, emitter.library_instructions = body, None
    emitter.statement(body)
    emitter.body, emitter.library_instructions = outer
    return emitter.inner == inner


# -- memory ------------------------------------------------------------------------
@prints_statement(S.Allocate)
def _allocate(emitter: FunctionEmitter, node: S.Allocate) -> None:
    if is_matrix_register(emitter, node):
        allocate_register(emitter, node)
        return
    count, *others = [_extent(emitter, extent) for extent in node.extents] or [Value("1", "i64")]
    for extent in others:
        count = _exactly(emitter, "mul", count, extent)
    if count.literal is None or S.WORKSPACE in node.annotations:
        size = element_bytes(node.dtype) * dt.lanes(node.dtype)
        _from_runtime(emitter, node, _exactly(emitter, "mul", count, Value(str(size), "i64")))
        return
    elements = max(1, count.literal)
    emitter.private.add(node.buffer_var)
    emitter.variables[node.buffer_var] = emitter.b.alloca(f"[{elements} x {memory_type(node.dtype)}]", 64)
    emitter.statement(node.body)


_ARITHMETIC_OF_EXTENTS: dict[type[E.PrimExpr], str] = {E.Mul: "mul", E.Add: "add", E.Sub: "sub"}


def _extent(emitter: FunctionEmitter, expr: E.PrimExpr) -> Value:
    """An extent as i64, which flattening has made a product: what wrapped would be an allocation that is too small."""
    if isinstance(expr, E.Mul | E.Add | E.Sub):
        operation = _ARITHMETIC_OF_EXTENTS[type(expr)]
        return _exactly(emitter, operation, _extent(emitter, expr.a), _extent(emitter, expr.b))
    if isinstance(expr, E.Cast) and {expr.dtype, expr.value.dtype} <= {"int32", "int64"}:
        return _extent(emitter, expr.value)
    return emitter.index(expr)


def _exactly(emitter: FunctionEmitter, operation: str, x: Value, y: Value) -> Value:
    """A result of arithmetic on sizes; leaves where 64 bits do not hold it."""
    b = emitter.b
    bits = (b.magnitude(x), b.magnitude(y))
    if (sum(bits) if operation == "mul" else max(bits) + 1) < 64:
        return b.mul(x, y) if operation == "mul" else b.binary(f"{operation} nsw", x, y)
    name = emitter.module.declare(f"llvm.s{operation}.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
    pair = b.define(f"call {{ i64, i1 }} @{name}(i64 {x.ref}, i64 {y.ref})", "{ i64, i1 }")
    emitter.fail_if(
        b.define(f"extractvalue {{ i64, i1 }} {pair.ref}, 1", "i1"),
        lambda: emitter.set_error(
            "out of memory: int64 does not hold the size of an allocation", OUT_OF_MEMORY
        ),
    )
    return b.define(f"extractvalue {{ i64, i1 }} {pair.ref}, 0", "i64")


def _from_runtime(emitter: FunctionEmitter, node: S.Allocate, size: Value) -> None:
    """Memory that the runtime keeps between calls; for an extent of zero a byte, so that null always means that there is none left."""
    b = emitter.b
    if size.literal is None:
        size = b.call(emitter.module.intrinsic("smax", "i64", 2), "i64", [size, Value("1", "i64")])
    emitter.module.declare("loopsmith_workspace_acquire", "ptr", ["i64"], " nounwind")
    emitter.module.declare("loopsmith_workspace_release", "void", ["ptr"], " nounwind")
    pointer = b.define(f"call noalias ptr @loopsmith_workspace_acquire(i64 {size.ref})", "ptr")
    emitter.fail_if(
        b.icmp("eq", pointer, Value("null", "ptr")),
        lambda: emitter.set_error("out of memory", OUT_OF_MEMORY),
    )
    emitter.variables[node.buffer_var] = pointer
    with emitter.releasing(lambda: _release(emitter, pointer)):
        emitter.statement(node.body)


def _release(emitter: FunctionEmitter, pointer: Value) -> None:
    emitter.b.call("loopsmith_workspace_release", "void", [pointer])


@prints_statement(S.AllocateConst)
def _constants(emitter: FunctionEmitter, node: S.AllocateConst) -> None:
    raw = node.data.tobytes()
    name = f"{emitter.b.name}.constant.{emitter.b.fresh('k')}"
    body = "".join(f"\\{byte:02X}" for byte in raw)
    emitter.module.add_global(
        f'@{name} = private unnamed_addr constant [{len(raw)} x i8] c"{body}", align 64'
    )
    emitter.variables[node.buffer_var] = Value(f"@{name}", "ptr")
    emitter.statement(node.body)
