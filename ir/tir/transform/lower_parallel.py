"""LowerParallel: the body of a parallel loop becomes a function over a range of iterations, which threads share."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule, fresh_name
from ...node import Mutator
from ...transform import ModulePass, PassContext
from ..analysis.operations import operations_of
from ..analysis.undefined_vars import undefined_vars
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, Call, IntImm, PrimExpr, SizeVar, Var
from ..function import OUTLINED, PrimFunc
from ..operators import const
from ..stmt import Allocate, BufferStore, Evaluate, For, ForKind, LetStmt, Stmt, seq

_LEAST_OPERATIONS = 1 << 15
"""A parallel loop that does less is done (in a few microseconds) before other threads have begun."""


class _Outline(Mutator):
    """Rewrites one function; the functions made of its parallel loops are collected in ``made``."""

    def __init__(self, name: str, func: PrimFunc, taken: set[str], least: float) -> None:
        super().__init__()
        self.name = name
        self.func = func
        self.taken = taken
        self.least = least
        self.made: dict[GlobalVar, PrimFunc] = {}
        self._inside = False
        self._data: set[Var] = set()
        """What is computed on the way, which, other than loops and parameters, may have wrapped."""

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        if loop.kind != ForKind.PARALLEL:
            return self.generic_visit(loop)
        single = isinstance(loop.extent, IntImm) and loop.extent.value <= 1
        if self._inside or single or operations_of(loop) < self.least:
            return self.generic_visit(loop.replace(kind=ForKind.SERIAL))
        self._inside = True
        body = self.visit(loop.body)
        self._inside = False
        return self._launch(loop.replace(kind=ForKind.SERIAL, body=body))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self._data.add(node.var)
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def _launch(self, loop: For) -> Stmt:
        dtype = loop.loop_var.dtype
        begin, end = SizeVar("begin", dtype), SizeVar("end", dtype)
        start = begin if isinstance(loop.min, IntImm) and loop.min.value == 0 else loop.min + begin
        part = loop.replace(min=start, extent=end - begin)
        captured: list[Var] = undefined_vars(part, [begin, end])
        cells = {var: _cell(var) for var in captured if not dt.has_c_type(var.dtype)}
        passed = [cells[var].data if var in cells else var for var in captured]
        # a parameter that is an integer is an index: data gets its name inside
        renamed = {
            var: Var(var.name, var.dtype) for var in captured if var in self._data and dt.is_index(var.dtype)
        }
        body: Stmt = part
        for var, param in renamed.items():
            body = LetStmt(var, param, body)
        for var, cell in cells.items():
            body = LetStmt(var, BufferLoad(cell, (const(0),)), body)
        kept = {key: self.func.attrs[key] for key in ("tir.noalias", "target") if key in self.func.attrs}
        name = GlobalVar(fresh_name(f"{self.name}_parallel", self.taken, first="0"))
        params = [begin, end, *[renamed.get(var, var) for var in passed]]
        self.made[name] = PrimFunc(params, body, attrs={**kept, OUTLINED: "parallel"})
        launch: Stmt = Evaluate(Call("void", name, (const(0, dtype), loop.extent, *passed)))
        launch = seq([*[BufferStore(cell, var, (const(0),)) for var, cell in cells.items()], launch])
        for var, cell in cells.items():
            launch = Allocate(cell.data, var.dtype, cell.shape, const(True), launch)
        return launch


def _cell(var: Var) -> Buffer:
    """Memory by which a value goes to the threads."""
    return decl_buffer((1,), var.dtype, f"{var.name}_cell", scope="local")


@dataclass(frozen=True)
class LowerParallel(ModulePass):
    """Make a function of each parallel loop that is worth it, called with all its iterations and what it uses from outside.

    The function has the attribute ``tir.outlined = "parallel"``: its first two parameters are a range of iterations, and
    code generation hands the call to the runtime, whose threads call it with parts of the range. Loops inside of a
    parallel one, and short ones, become serial. What has no C type (half floats, vectors) goes through memory.

    Args:
        least_operations: loops that execute fewer operations are done before other threads have begun.

    Before::

        def main(A: T.Buffer((1048576,), "float32"), n: T.int32):
            for i in T.parallel(1048576):
                A[i] = T.float32(n)

    After::

        def main(A: T.Buffer((1048576,), "float32"), n: T.int32):
            main_parallel0(0, 1048576, A.data, n)

        def main_parallel0(begin: T.int32, end: T.int32, A_data: T.handle("float32"), n: T.int32):
            T.func_attr({"tir.outlined": "parallel"})
            for i in range(begin, end):
                A[i] = T.float32(n)
    """

    least_operations: float = _LEAST_OPERATIONS
    pass_name = "tir.LowerParallel"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with a function for every parallel loop."""
        taken = {var.name_hint for var in mod.functions}
        options = self.configured(ctx)
        functions: dict[GlobalVar, BaseFunc] = {}
        changed = False
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[var] = func
                continue
            outline = _Outline(var.name_hint, func, taken, options.least_operations)
            body = outline.visit(func.body)
            changed |= body is not func.body
            functions[var] = func.replace(body=body)
            functions.update(outline.made)
        return mod.replace(functions=functions) if changed else mod
