"""SplitHostDevice: what a device runs becomes kernels of their own, which the host calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule, fresh_name
from ...node import Mutator
from ...transform import ModulePass, PassContext
from ..analysis.undefined_vars import undefined_vars
from ..expr import Call, PrimExpr
from ..function import PrimFunc
from ..kernel_launch import CLUSTER_DIMS
from ..stmt import AttrStmt, Evaluate, Stmt


class _Split(Mutator):
    """Rewrites one function; its kernels are collected in ``kernels``."""

    def __init__(self, name: str, func: PrimFunc, taken: set[str]) -> None:
        super().__init__()
        self._name, self._func, self._taken = name, func, taken
        self.kernels: dict[GlobalVar, PrimFunc] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key != "target":
            return self.generic_visit(stmt)  # type: ignore[no-any-return]
        params = undefined_vars(stmt.body)
        name = GlobalVar(fresh_name(f"{self._name}_kernel", self._taken, first=""))
        attrs: dict[str, Any] = {
            "global_symbol": name.name_hint,
            "target": stmt.node,
            "tir.is_global_func": True,
        }
        for kept in ("tir.noalias", CLUSTER_DIMS):
            if kept in self._func.attrs:
                attrs[kept] = self._func.attrs[kept]
        self.kernels[name] = PrimFunc(params, stmt.body, attrs=attrs)
        return Evaluate(Call("void", name, tuple(params)), stmt.span)


@dataclass(frozen=True)
class SplitHostDevice(ModulePass):
    """Make a kernel of each region that AnnotateDeviceRegions has marked; its parameters are what it uses from outside.

    What is left of the function is for its target's host.

    Before::

        def main(A: T.Buffer((32,), "float32")):
            T.func_attr({"target": T.target({"kind": "cuda", "host": "llvm"})})
            with T.attr(T.target("cuda"), "target", 0):
                i = T.launch_thread("threadIdx.x", 32)
                A[i] = T.float32(0)

    After::

        def main(A: T.Buffer((32,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            main_kernel(A.data)

        def main_kernel(A: T.handle("float32")):
            T.func_attr({"target": T.target("cuda"), "tir.is_global_func": True})
            i = T.launch_thread("threadIdx.x", 32)
            A_1 = T.Buffer((32,), data=A)
            A_1[i] = T.float32(0)
    """

    pass_name = "tir.SplitHostDevice"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module of host functions and kernels."""
        taken = {var.name_hint for var in mod.functions}
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[var] = func
                continue
            split = _Split(var.name_hint, func, taken)
            body = split.visit(func.body)
            if split.kernels:
                func = func.replace(body=body).with_attr("target", func.attrs["target"].host)
            functions[var] = func
            functions.update(split.kernels)
        return mod.replace(functions=functions)
