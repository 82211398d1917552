"""UnrollLoop: unrolled loops, and small loops inside ``pragma_auto_unroll_max_step``, become straight-line code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt, seq
from ..stmt_functor import substitute
from .fresh_copy import fresh_copy
from .prim_func_pass import PrimFuncPass
from .simplify_indices import SimplifyMutator


class _Unroll(Mutator):
    def __init__(self, options: UnrollLoop) -> None:
        super().__init__()
        self.options = options
        self.max_step = options.auto_max_step
        self.explicit = options.explicit_unroll
        self.steps = 0  # statements executed by what was visited last, if unrolled
        self.normal_depth = 0  # loops in it that stay loops
        self.unroll_depth = 0

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        key = node.attr_key
        if key == "pragma_auto_unroll_max_step":
            saved, self.max_step = self.max_step, _number(node.value)
            body = self.visit(node.body)
            self.max_step = saved
            return body
        if key == "pragma_unroll_explicit":
            saved_explicit, self.explicit = self.explicit, bool(_number(node.value))
            body = self.visit(node.body)
            self.explicit = saved_explicit
            return body
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        self.steps += 1
        return node

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        self.steps += 1
        return node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        steps = normal = unrolled = 0
        mapped = []
        for item in node.seq:
            self.steps = self.normal_depth = self.unroll_depth = 0
            mapped.append(self.visit(item))
            steps += self.steps
            normal = max(normal, self.normal_depth)
            unrolled = max(unrolled, self.unroll_depth)
        self.steps, self.normal_depth, self.unroll_depth = steps, normal, unrolled
        return node if all(a is b for a, b in zip(mapped, node.seq)) else SeqStmt(mapped, node.span)

    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        automatic = (
            loop.kind == ForKind.SERIAL
            and extent is not None
            and self.normal_depth == 0
            and self.unroll_depth <= self.options.auto_max_depth
            and (extent * self.steps <= self.max_step or extent <= self.options.auto_max_extent)
        )
        if (
            not automatic
            and self.options.unroll_local_access
            and loop.kind == ForKind.SERIAL
            and extent is not None
            and self.normal_depth == 0
            and extent * self.steps <= self.options.local_max_step
            and _indexes_local(body, loop.loop_var)
        ):
            automatic = True
        unrolled = extent is not None and (loop.kind == ForKind.UNROLLED or automatic)
        limit = self.options.max_statements
        if unrolled and limit is not None and extent is not None and extent * self.steps > limit:
            # the inner loops are what registers and vectors need; the compiler's time is not worth the outer ones
            loop = loop.replace(kind=ForKind.SERIAL)
            unrolled = False
        if not unrolled:
            if extent is None or extent > 1:
                self.normal_depth += 1
            return loop if body is loop.body else loop.replace(body=body)
        assert extent is not None
        self.steps *= extent
        self.unroll_depth += 1
        if self.options.expand and (self.explicit or loop.kind == ForKind.UNROLLED):
            dtype = loop.loop_var.dtype
            copies = [substitute(body, {loop.loop_var: loop.min + const(i, dtype)}) for i in range(extent)]
            return seq(
                [SimplifyMutator().visit(fresh_copy(item) if i else item) for i, item in enumerate(copies)]
            )
        return For(
            loop.loop_var, loop.min, loop.extent, ForKind.UNROLLED, body, None, loop.annotations, loop.span
        )


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def _indexes_local(body: Stmt, var: Var) -> bool:
    """Whether a buffer of local scope is indexed with the variable: only constant indices keep it in registers."""
    found = False

    def uses(node: Any) -> None:
        nonlocal found
        found = found or node is var

    def check(node: Any) -> None:
        if isinstance(node, BufferLoad | BufferStore) and not found and node.buffer.scope() == "local":
            for index in node.indices:
                post_order_visit(index, uses)

    post_order_visit(body, check)
    return found


@dataclass(frozen=True)
class UnrollLoop(PrimFuncPass):
    """Unroll loops marked so, and serial loops that the pragmas allow.

    ``pragma_auto_unroll_max_step = n`` unrolls the loops below it, from the inside out, as long as a nest executes at
    most ``n`` statements.

    Args:
        auto_max_step: the limit where no pragma sets one.
        auto_max_depth: nested loops unrolled at most.
        auto_max_extent: loops up to this extent are always unrolled.
        explicit_unroll: copy the body; otherwise only mark automatic loops as unrolled (``pragma_unroll_explicit``).
        expand: copy bodies at all. The default lowering leaves that to code generation, which does it without
            building the copies as nodes.
        unroll_local_access: also unroll small loops that index buffers of local scope, which keeps them in registers.
        local_max_step: the limit of statements for that.
        max_statements: a loop whose copies would have more statements than this stays a loop, marked or not.

    The option ``tir.UnrollLoop`` of the PassContext sets these by name.

    Before::

        for i in T.unroll(2):
            A[i] = 0.0

    After::

        A[0] = 0.0
        A[1] = 0.0
    """

    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    expand: bool = True
    unroll_local_access: bool = False
    local_max_step: int = 256
    max_statements: int | None = None
    pass_name = "tir.UnrollLoop"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The unrolled function."""
        return func.replace(body=_Unroll(self.configured(ctx)).visit(func.body))
