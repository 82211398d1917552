"""PlanWorkspace: the large buffers of a function get places in one workspace, which the runtime keeps between calls."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ... import dtype as dt
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule, fresh_name
from ...node import Mutator, post_order_visit
from ...transform import ModulePass, PassContext
from ...type import PointerType, PrimType
from ..analysis.undefined_vars import undefined_vars
from ..buffer import Buffer
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Var
from ..function import OUTLINED, PrimFunc
from ..intrinsic.matrix_registers import MATRIX_SCOPE
from ..operators import const
from ..stmt import WORKSPACE, Allocate, AllocateConst, DeclBuffer, Evaluate, LetStmt, Stmt
from ..stmt_functor import substitute

_LINE_BYTES = 64


@dataclass(frozen=True)
class _Large:
    """A buffer that has its place in the workspace."""

    var: Var
    dtype: str
    elements: int
    offset: int


class _TakeOut(Mutator):
    """Takes large allocations out of a function's body and places them one behind the other."""

    def __init__(self, options: PlanWorkspace, func: PrimFunc) -> None:
        super().__init__()
        self.options = options
        self.found: list[_Large] = []
        self.bytes = 0
        self._stack = 0
        self._defined: set[Var] = {*func.params, *(buffer.data for buffer in func.buffer_map.values())}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self._defined.add(node.var)
        return self.generic_visit(node)

    def visit_AllocateConst(self, node: AllocateConst) -> Stmt:
        self._defined.add(node.buffer_var)
        return self.generic_visit(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        """A buffer that is declared on no memory is an allocation."""
        buffer = node.buffer
        if buffer.data in self._defined:
            return self.generic_visit(node)
        return self.visit(Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), node))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if any(item.var is node.buffer_var for item in self.found):  # a variable may be allocated in turn
            again = Var(node.buffer_var.name, node.buffer_var.type_annotation)
            body = substitute(node.body, {node.buffer_var: again})
            return self.visit(node.replace(buffer_var=again, body=body))
        self._defined.add(node.buffer_var)
        extents = [extent.value for extent in node.extents if isinstance(extent, IntImm)]
        if len(extents) != len(node.extents) or WORKSPACE in node.annotations:
            return self.generic_visit(node)
        elements = max(1, prod(extents))
        size = elements * max(1, dt.bits(node.dtype) // 8) * dt.lanes(node.dtype)
        scope = getattr(node.buffer_var.type_annotation, "storage_scope", "")
        if scope == MATRIX_SCOPE:  # registers
            return self.generic_visit(node)
        limit = self.options.largest_local if scope.startswith("local") else self.options.largest_on_stack
        if size <= limit and self._stack + size <= self.options.stack_bytes:
            self._stack += size
            return self.generic_visit(node)
        self.found.append(_Large(node.buffer_var, node.dtype, elements, self.bytes))
        # an odd number of cache lines between buffers keeps equal offsets out of the same cache set
        self.bytes += -(-size // _LINE_BYTES) * _LINE_BYTES + _LINE_BYTES
        return self.visit(node.body)


class _Mark(Mutator):
    """Marks allocations as the runtime's, where they are."""

    def __init__(self, found: list[_Large]) -> None:
        super().__init__()
        self.vars = {item.var for item in found}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        mapped: Allocate = self.generic_visit(node)
        return (
            mapped.replace(annotations={**mapped.annotations, WORKSPACE: True})
            if node.buffer_var in self.vars
            else mapped
        )


def _returns(body: Stmt) -> bool:
    found: list[object] = []
    post_order_visit(
        body,
        lambda node: (
            found.append(node) if getattr(getattr(node, "op", None), "name", "") == "tir.ret" else None
        ),
    )
    return bool(found)


def _compute(func: PrimFunc, body: Stmt, plan: _TakeOut) -> tuple[PrimFunc, list[PrimExpr]]:
    """The function that does the work, and what the original function passes to it."""
    known = {buffer.data: (param, buffer) for param, buffer in func.buffer_map.items()}
    workspace = Buffer(
        Var("workspace", PointerType(PrimType("uint8"), "global")),
        "uint8",
        (const(plan.bytes),),
        name="workspace",
    )
    places = {
        item.var: (
            Call("handle", "tir.address_of", (BufferLoad(workspace, (const(item.offset),)),)),
            Buffer(item.var, item.dtype, (const(item.elements),), name=item.var.name),
        )
        for item in plan.found
    }
    params: list[Var] = []
    args: list[PrimExpr] = []
    buffers: dict[Var, Buffer] = {}
    for var in undefined_vars(body):
        if var in places:
            address, buffer = places[var]
            param = Var(f"{var.name}_handle", "handle")
            buffers[param] = buffer
            args.append(address)
        elif var in known and all(isinstance(extent, IntImm) for extent in known[var][1].shape):
            param, buffer = known[var]
            buffers[param] = buffer
            args.append(var)
        else:
            param = var
            args.append(var)
        params.append(param)
    kept = {key: func.attrs[key] for key in ("tir.noalias", "target") if key in func.attrs}
    return PrimFunc(params, body, buffer_map=buffers, attrs={**kept, OUTLINED: "compute"}), [
        workspace.data,
        *args,
    ]


@dataclass(frozen=True)
class PlanWorkspace(ModulePass):
    """Give large allocations of constant size places in one piece of memory that the function gets from the runtime.

    The work moves to a function of its own (``tir.outlined = "compute"``) whose parameters do not overlap, which is how
    code generation learns that the places do not. Small buffers stay: on the stack, or in registers. A function that
    returns a value is left in one piece; its large allocations are marked as the runtime's where they are.

    Args:
        largest_on_stack: bytes of a buffer that may live on the stack.
        largest_local: the same for buffers of local scope.
        stack_bytes: bytes on the stack of one function in all.

    Before::

        def main(A: T.Buffer((20000,), "float32")):
            first = T.allocate([20000], "float32", "global")
            second = T.allocate([20000], "float32", "global")
            ...

    After::

        def main(A: T.Buffer((20000,), "float32")):
            workspace = T.allocate([160128], "uint8", "global", annotations={"tir.workspace": True})
            main_compute(A.data, T.address_of(workspace[0]), T.address_of(workspace[80064]))

        def main_compute(A, first, second):
            T.func_attr({"tir.outlined": "compute"})
            ...
    """

    largest_on_stack: int = 32 * 1024
    largest_local: int = 128 * 1024
    stack_bytes: int = 512 * 1024
    pass_name = "tir.PlanWorkspace"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with workspaces."""
        options = self.configured(ctx)
        taken = {var.name_hint for var in mod.functions}
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            functions[var] = func
            if not isinstance(func, PrimFunc):
                continue
            plan = _TakeOut(options, func)
            body = plan.visit(func.body)
            if not plan.found:
                functions[var] = func.replace(body=body)
                continue
            if _returns(func.body):
                functions[var] = func.replace(body=_Mark(plan.found).visit(func.body))
                continue
            inner = GlobalVar(fresh_name(f"{var.name_hint}_compute", taken))
            functions[inner], (data, *args) = _compute(func, body, plan)
            allocation = Allocate(
                data,
                "uint8",
                (const(plan.bytes),),
                const(True),
                Evaluate(Call("void", inner, args)),
                {WORKSPACE: True},
            )
            functions[var] = func.replace(body=allocation)
        return (
            mod
            if len(functions) == len(mod.functions)
            and all(functions[var] is func for var, func in mod.functions.items())
            else mod.replace(functions=functions)
        )
