"""InjectPTXLDG32: loads under a condition become instructions with a predicate, without a branch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from ..analysis.own_memory import own_memory
from ..expr import BufferLoad, Call, FloatImm, PrimExpr, Var
from ..function import PrimFunc
from ..op import ptx_ldg32
from ..stmt import BufferStore, Evaluate, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass

_DTYPE = "float32"


class _Inject(StmtExprMutator):
    def __init__(self, read_only: frozenset[Var]) -> None:
        super().__init__()
        self._read_only = read_only

    def visit_Buffer(self, buffer: Any) -> Any:
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        choice, scope = store.value, store.buffer.scope()
        is_choice = isinstance(choice, Call) and getattr(choice.op, "name", "") == "tir.if_then_else"
        is_near = scope == "local" or scope.startswith("shared")
        if not is_choice or not is_near or store.predicate is not None or len(store.indices) != 1:
            return store
        condition, load, other = choice.args  # type: ignore[attr-defined]
        if (
            not self._is_loaded(load)
            or not _is_zero(other)
            or store.indices[0].dtype not in ("int32", "int64")
        ):
            return store
        return Evaluate(ptx_ldg32(store.buffer.data, condition, load, store.indices[0]), store.span)

    def _is_loaded(self, value: Any) -> bool:
        """Whether a value is a float32 from global memory that the function does not write."""
        return (
            isinstance(value, BufferLoad)
            and value.dtype == value.buffer.dtype == _DTYPE
            and value.predicate is None
            and value.buffer.scope() == "global"
            and value.buffer.data in self._read_only
        )


def _is_zero(value: Any) -> bool:
    return isinstance(value, FloatImm) and value.value == 0 and math.copysign(1, value.value) > 0


def _read_only(func: PrimFunc) -> frozenset[Var]:
    """The addresses of memory that a function does not write, by whatever name."""
    written: set[Var] = set()

    def look(node: Any) -> None:
        if isinstance(node, BufferStore):
            written.add(node.buffer.data)

    post_order_visit(func.body, look)
    return own_memory(func) - written


@dataclass(frozen=True)
class InjectPTXLDG32(PrimFuncPass):
    """Turn stores of float32 values that are loaded from global memory under a condition, else zero, into ``ptx_ldg32``.

    To registers or shared memory, behind FlattenBuffer. The instruction reads by the cache of what nobody writes while a kernel runs:
    memory that the function writes, or that may be the memory of another parameter because the function does not say ``tir.noalias``, is
    loaded as before.

    ``enable_inject_ptx_intrin`` switches the pass on or off; None is what the option ``tir.ptx_ldg32`` says.

    Before::

        B[tx] = T.if_then_else(tx < n, A[tx], T.float32(0))

    After::

        T.ptx_ldg32(B.data, tx < n, A[tx], tx)
    """

    enable_inject_ptx_intrin: bool | None = None
    pass_name = "tir.InjectPTXLDG32"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with predicated loads."""
        asked = self.enable_inject_ptx_intrin
        if not (bool(ctx.get("tir.ptx_ldg32")) if asked is None else asked):
            return func
        return func.replace(body=_Inject(_read_only(func)).visit(func.body))
