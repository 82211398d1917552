"""Statements of lowered PrimFuncs as LLVM code: loops, memory, calls.

Buffers are ``alloca``s, which LLVM turns into registers when all their indices are constant, or come from the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...node import Visitor
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.buffer import Buffer
from ...tir.expr import Var
from ...tir.function import OUTLINED
from .builder import FunctionBuilder, Value, constant
from .compile import CodegenError
from .expression import ExpressionEmitter
from .kernel_context import KernelContext, PackedSite, function_symbol
from .types import element_bytes, memory_type

#: Return codes of kernels.
OK, FAILED, OUT_OF_MEMORY = 0, -1, -2

_UNROLL_LIMIT = 1 << 14  # copies of a body; beyond, an unrolled loop stays a loop


def _is_scalar_reduction(store: S.BufferStore, value: E.PrimExpr) -> bool:
    """Whether storing the value is ``x[i] = x[i] op value`` of one float: a step of a reduction."""
    if (
        value.__class__ not in (E.Add, E.Mul, E.Max, E.Min)
        or not dt.is_float(value.dtype)
        or dt.lanes(value.dtype) != 1
    ):
        return False
    return any(
        isinstance(side, E.BufferLoad)
        and side.buffer is store.buffer
        and len(side.indices) == len(store.indices)
        and all(expr_deep_equal(x, y) for x, y in zip(side.indices, store.indices))
        for side in (value.a, value.b)  # type: ignore[attr-defined]
    )


def _is_reduction_step(node: S.LetStmt) -> bool:
    """Whether a variable is one of several partial results, all computed first and then stored."""
    body: S.Stmt = node.body
    while isinstance(body, S.LetStmt):
        body = body.body
    stores = body.seq if isinstance(body, S.SeqStmt) else (body,)
    return any(
        isinstance(store, S.BufferStore)
        and store.value is node.var
        and _is_scalar_reduction(store, node.value)
        for store in stores
    )


class FunctionEmitter(ExpressionEmitter, Visitor):
    """Emits the statements of one LLVM function."""

    def __init__(self, context: KernelContext, builder: FunctionBuilder) -> None:
        ExpressionEmitter.__init__(self, context.module, builder)
        Visitor.__init__(self)
        self.context = context
        self.outlined_attributes = context.outlined_attributes
        self.result: Value | None = None
        self._cleanups: list[Callable[[], None]] = []

    # -- leaving -----------------------------------------------------------------
    def leave_with(self, code: Value) -> None:
        """Returns from the function, giving back what was acquired inside."""
        for cleanup in reversed(self._cleanups):
            cleanup()
        self.b.ret(code)

    def _fail_if(self, condition: Value, emit_error: Callable[[], Value]) -> None:
        bad, good = self.b.fresh("fail"), self.b.fresh("ok")
        self.b.cond_branch(condition, bad, good)
        self.b.label(bad)
        self.leave_with(emit_error())
        self.b.label(good)

    def _set_error(self, text: str, code: int = FAILED) -> Value:
        self.module.declare("loopsmith_set_error", "void", ["ptr"])
        self.b.call("loopsmith_set_error", "void", [self.module.string(text)])
        return Value(str(code), "i32")

    def _check_status(self, status: Value) -> None:
        self._fail_if(self.b.icmp("ne", status, Value("0", "i32")), lambda: status)

    # -- statements --------------------------------------------------------------
    def visit_SeqStmt(self, node: S.SeqStmt) -> None:
        for item in node.seq:
            self.visit(item)

    def visit_BufferStore(self, node: S.BufferStore) -> None:
        outer = self.reduction_update
        self.reduction_update = node.value if _is_scalar_reduction(node, node.value) else None
        self.store(node.buffer, node.indices, node.value, node.predicate)
        self.reduction_update = outer

    def visit_LetStmt(self, node: S.LetStmt) -> None:
        outer = self.reduction_update
        self.reduction_update = node.value if _is_reduction_step(node) else None
        self.variables[node.var] = self.value(node.value)
        self.reduction_update = outer
        self.visit(node.body)

    def visit_AttrStmt(self, node: S.AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            raise CodegenError(f"{node.attr_key} is for GPUs; a CPU kernel has no threads to bind loops to")
        self.visit(node.body)

    def visit_DeclBuffer(self, node: S.DeclBuffer) -> None:
        self.visit(node.body)

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        condition = self.value(node.condition)
        if condition.ref in ("true", "false"):
            chosen = node.then_case if condition.ref == "true" else node.else_case
            if chosen is not None:
                self.visit(chosen)
            return
        then, join = self.b.fresh("then"), self.b.fresh("join")
        otherwise = self.b.fresh("else") if node.else_case is not None else join
        self.b.cond_branch(condition, then, otherwise)
        for label, body in ((then, node.then_case), (otherwise, node.else_case)):
            if body is None:
                continue
            self.b.label(label)
            self.enter()
            self.visit(body)
            self.leave()
            self.b.branch(join)
        self.b.label(join)

    def visit_While(self, node: S.While) -> None:
        head, body, done = self.b.fresh("while"), self.b.fresh("body"), self.b.fresh("done")
        self.b.branch(head)
        self.b.label(head)
        self.enter()
        self.b.cond_branch(self.value(node.condition), body, done)
        self.b.label(body)
        self.visit(node.body)
        self.leave()
        self.b.branch(head)
        self.b.label(done)

    def visit_AssertStmt(self, node: S.AssertStmt) -> None:
        condition = self.value(node.condition)
        text = str(getattr(node.message, "value", node.message))
        failed = self.b.binary("xor", condition, constant(1, "i1"))
        self._fail_if(failed, lambda: self._set_error(f"assertion failed: {text}"))
        self.visit(node.body)

    def visit_Evaluate(self, node: S.Evaluate) -> None:
        value = node.value
        if isinstance(value, E.IntImm):
            return
        if isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.ret":
            self._return(value)
            return
        self.value(value)

    def _return(self, call: E.Call) -> None:
        if self.result is None:
            raise CodegenError("T.ret is not possible inside of a parallel loop")
        dtype = call.args[0].dtype
        self.b.store(self._to_memory(self.value(call.args[0]), dtype), self.result, element_bytes(dtype))
        self.leave_with(Value(str(OK), "i32"))
        self.b.label(self.b.fresh("unreachable"))

    # -- loops ---------------------------------------------------------------------
    def visit_For(self, loop: S.For) -> None:
        start, extent = self.index(loop.min), self.index(loop.extent)
        first, count = start.literal, extent.literal
        if count is not None and count <= 0:
            return
        if count == 1:
            self.variables[loop.loop_var] = start
            self.visit(loop.body)
            return
        if loop.kind == S.ForKind.THREAD_BINDING:
            raise CodegenError(f"loop {loop.loop_var.name} is bound to a GPU thread; a CPU kernel has none")
        if loop.kind == S.ForKind.UNROLLED and count is not None and count * self._copies <= _UNROLL_LIMIT:
            self._copies *= count
            for i in range(count):
                self.variables[loop.loop_var] = (
                    Value(str(first + i), "i64")
                    if first is not None
                    else self.b.add(start, Value(str(i), "i64"))
                )
                self.visit(loop.body)
            self._copies //= count
            return
        end = self.b.add(start, extent)
        self.serial_loop(loop, start, end)

    def serial_loop(self, loop: S.For, start: Value, end: Value) -> None:
        """The loop over ``[start, end)``."""
        b = self.b
        head, latch, done = b.fresh("loop"), b.fresh("latch"), b.fresh("done")
        name = b.fresh("i")
        before = b.block
        if start.literal is not None and end.literal is not None:
            b.branch(head)
        else:
            b.cond_branch(b.icmp("slt", start, end), head, done)
        b.label(head)
        b.emit(f"%{name} = phi i64 [{start.ref}, %{before}], [%{name}.next, %{latch}]")
        self.variables[loop.loop_var] = Value(f"%{name}", "i64")
        self.loop_depth += 1
        self._depth[f"%{name}"] = self.loop_depth
        self.enter()
        self.visit(loop.body)
        self.leave()
        self.loop_depth -= 1
        b.branch(latch)
        b.label(latch)
        b.emit(f"%{name}.next = add nuw nsw i64 %{name}, 1")
        more = b.icmp("slt", Value(f"%{name}.next", "i64"), end)
        # copies of a scalar loop inside an unrolled one are too many to be worth LLVM's time
        if id(loop) in self.context.shapes.shaped or self._copies > 4:
            b.emit(f"br i1 {more.ref}, label %{head}, label %{done}, !llvm.loop {self.context.keep_loop()}")
        else:
            if id(loop) in self.context.shapes.scalar_innermost:
                self.context.wants_vectorizer = True
            b.cond_branch(more, head, done)
        b.label(done)

    # -- memory --------------------------------------------------------------------
    def visit_Allocate(self, node: S.Allocate) -> None:
        count: Value = Value("1", "i64")
        for extent in node.extents:
            count = self.b.mul(count, self.index(extent))
        size = element_bytes(node.dtype) * dt.lanes(node.dtype)
        if count.literal is None or S.WORKSPACE in node.annotations:
            self._from_runtime(node.buffer_var, self.b.mul(count, Value(str(size), "i64")), node.body)
            return
        elements = max(1, count.literal)
        self.variables[node.buffer_var] = self.b.alloca(f"[{elements} x {memory_type(node.dtype)}]", 64)
        self.visit(node.body)

    def _from_runtime(self, var: Var, size: Value, body: S.Stmt) -> None:
        """Memory that the runtime keeps between calls."""
        b = self.b
        self.module.declare("loopsmith_workspace_acquire", "ptr", ["i64"], " nounwind")
        self.module.declare("loopsmith_workspace_release", "void", ["ptr"], " nounwind")
        pointer = b.define(f"call noalias ptr @loopsmith_workspace_acquire(i64 {size.ref})", "ptr")
        self._fail_if(
            b.icmp("eq", pointer, Value("null", "ptr")),
            lambda: self._set_error("out of memory", OUT_OF_MEMORY),
        )
        self.variables[var] = pointer

        def release() -> None:
            b.call("loopsmith_workspace_release", "void", [pointer])

        self._cleanups.append(release)
        self.visit(body)
        self._cleanups.pop()
        release()

    def visit_AllocateConst(self, node: S.AllocateConst) -> None:
        data = node.data.numpy() if hasattr(node.data, "numpy") else np.asarray(node.data)
        raw = np.ascontiguousarray(data).tobytes()
        name = f"{self.b.name}.constant.{self.b.fresh('k')}"
        body = "".join(f"\\{byte:02X}" for byte in raw)
        self.module.add_global(
            f'@{name} = private unnamed_addr constant [{len(raw)} x i8] c"{body}", align 64'
        )
        self.variables[node.buffer_var] = Value(f"@{name}", "ptr")
        self.visit(node.body)

    # -- calls ---------------------------------------------------------------------
    def call_function(self, call: E.Call) -> Value:
        """Calls another PrimFunc of the module and returns early when it fails."""
        args = []
        for arg in call.args:
            value = self.value(arg)
            args.append(value if value.type == "ptr" or dt.is_float(arg.dtype) else self._wide(value))
        callee = self.context.program[call.op]
        name = function_symbol(self.context.program, call.op)
        if callee.attrs.get(OUTLINED) == "parallel":
            status = self._share(name, args)
        else:
            status = self.b.call(name, "i32", args)
        self._check_status(status)
        return status

    def _share(self, name: str, args: list[Value]) -> Value:
        """Lets the runtime's threads call a function over parts of the range of iterations, which starts at 0."""
        _, extent, *captured = args
        env = self.b.alloca(f"[{max(1, len(captured))} x i64]", 8)
        for i, value in enumerate(captured):
            place = self.b.define(f"getelementptr i64, ptr {env.ref}, i64 {i}", "ptr")
            self.b.store(value, place, 8)
        self.module.declare("loopsmith_parallel_for", "i32", ["ptr", "i64", "ptr"])
        return self.b.call("loopsmith_parallel_for", "i32", [Value(f"@{name}.part", "ptr"), extent, env])

    def call_packed(self, call: E.Call) -> Value:
        """Calls a registered Python function through a pointer that the loader fills in."""
        name = call.args[0].value  # type: ignore[attr-defined]
        site = PackedSite(name)
        values = call.args[1:]
        array = self.b.alloca(f"[{max(1, len(values))} x i64]", 8)
        for i, arg in enumerate(values):
            place = self.b.define(f"getelementptr i64, ptr {array.ref}, i64 {i}", "ptr")
            value = self.value(arg)
            if isinstance(arg, E.StringImm):
                site.arguments.append(("string", "", 0))
            elif value.type == "ptr":
                site.arguments.append(_pointer_description(arg))
            elif dt.is_float(arg.dtype):
                value = self.convert(value, arg.dtype, "float64")
                site.arguments.append(("float", arg.dtype, 0))
            else:
                value = self._wide(value, not dt.is_int(arg.dtype))
                site.arguments.append(("int", arg.dtype, 0))
            self.b.store(value, place, 8)
        number = len(self.context.packed_sites)
        self.context.packed_sites.append(site)
        result = self.b.alloca("i64", 8)
        self.b.store(Value("0", "i64"), result, 8)
        target = self.b.load("ptr", Value("@loopsmith.packed", "ptr"), 8)
        self._fail_if(
            self.b.icmp("eq", target, Value("null", "ptr")),
            lambda: self._set_error(f"no registered function can be called here; {name} is needed"),
        )
        status = self.b.define(
            f"call i32 {target.ref}(i32 {number}, ptr {array.ref}, ptr {result.ref})", "i32"
        )
        self._check_status(status)
        if dt.is_float(call.dtype):
            return self.convert(self.b.load("double", result, 8), "float64", call.dtype)
        return self.convert(
            self.b.load("i64", result, 8), "int64", call.dtype if call.dtype != "void" else "int32"
        )

    def generic_visit(self, node: Any) -> None:
        raise CodegenError(
            f"code generation has no statement {type(node).__name__}; lower the function with ir.tir.lower first"
        )


def _pointer_description(arg: E.PrimExpr) -> tuple[str, str, int]:
    """dtype and number of elements behind a pointer argument, as far as they are known."""
    if isinstance(arg, E.Call) and arg.args and isinstance(arg.args[0], E.BufferLoad):
        buffer: Buffer = arg.args[0].buffer
        index = arg.args[0].indices[0] if arg.args[0].indices else None
        extent = buffer.shape[0] if buffer.shape else None
        skipped = index.value if isinstance(index, E.IntImm) else 0 if index is None else None
        if isinstance(extent, E.IntImm) and skipped is not None:
            return ("pointer", buffer.dtype, extent.value - skipped)
        return ("pointer", buffer.dtype, 0)
    return ("pointer", "uint8", 0)
