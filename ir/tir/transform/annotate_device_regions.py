"""AnnotateDeviceRegions: mark the parts of a function that a device runs."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt import AttrStmt, Stmt
from .prim_func_pass import PrimFuncPass


class _Annotate(Mutator):
    def __init__(self, target: object) -> None:
        super().__init__()
        self._target = target

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.attr_key == "target":
            return stmt
        if stmt.thread is None:
            return self.generic_visit(stmt)  # type: ignore[no-any-return]
        return AttrStmt(self._target, "target", const(0), stmt)


@dataclass(frozen=True)
class AnnotateDeviceRegions(PrimFuncPass):
    """Mark what threads run in a function whose target is a device with a host; its other statements are the host's.

    Before::

        T.func_attr({"target": T.target({"kind": "cuda", "host": "llvm"})})
        i = T.launch_thread("threadIdx.x", 32)
        B[i] = A[i]

    After::

        T.func_attr({"target": T.target({"kind": "cuda", "host": "llvm"})})
        with T.attr(T.target("cuda"), "target", 0):
            i = T.launch_thread("threadIdx.x", 32)
            B[i] = A[i]
    """

    pass_name = "tir.AnnotateDeviceRegions"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with marks; the same one where its target has no host."""
        target = func.attrs.get("target")
        if target is None or target.host is None:
            return func
        body = _Annotate(target.replace(host=None)).visit(func.body)
        return func if body is func.body else func.replace(body=body)
