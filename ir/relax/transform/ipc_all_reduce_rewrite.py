"""IPCAllReduceRewrite: all-reduce over memory that processes of one machine share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.memory import MemoryAnalysis
from ..expr import Call, PrimValue, SeqExpr, StringImm, Var, is_call_to
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from .function_pass import FunctionPass

ALL_REDUCE = "runtime.disco.allreduce"
CUSTOM_ALL_REDUCE = "runtime.disco.cuda_ipc.custom_allreduce"
SCOPE = "ipc_memory"
"""The storage scope of memory that processes share."""


def _is_all_reduce(value: object) -> bool:
    return (
        isinstance(value, Call) and isinstance(value.op, ExternFunc) and value.op.global_symbol == ALL_REDUCE
    )


class _Rewriter(ExprMutator):
    """Calls the custom all-reduce, and puts what it reads into shared memory."""

    def __init__(self, mod: IRModule, strategy: int) -> None:
        super().__init__(mod)
        self._strategy = strategy
        self._shared: set[Var] = set()

    def visit_seq_expr_(self, seq: Any) -> Any:
        self._collect(seq)
        return super().visit_seq_expr_(seq)

    def _collect(self, seq: SeqExpr) -> None:
        """Storage (or tensors allocated by themselves) that an all-reduce of sums reads."""
        aliases = MemoryAnalysis().aliases(seq)
        for block in seq.blocks:
            for binding in block.bindings:
                value: Any = binding.value  # type: ignore[attr-defined]
                if _is_all_reduce(value) and self._is_sum(value):
                    roots = aliases.roots(value.args[0])
                    self._shared.update(root.owner for root in roots if root.owner is not None)

    def _is_sum(self, call: Call) -> bool:
        kind = call.args[1] if len(call.args) > 1 else None
        values = getattr(kind, "values", None) or [getattr(kind, "value", None)]
        return getattr(values[0], "value", values[0]) == 0

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not _is_all_reduce(call) or not self._is_sum(call):
            return call
        args = (call.args[0], PrimValue(self._strategy), *call.args[2:])
        return call.replace(op=ExternFunc(CUSTOM_ALL_REDUCE), args=args, struct_info_=call.struct_info)

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        if binding.var in self._shared and is_call_to(value, "relax.builtin.alloc_tensor"):
            value = value.with_args((*value.args[:3], StringImm(SCOPE)))
        elif binding.var in self._shared and is_call_to(value, "relax.memory.alloc_storage"):
            value = value.with_args((*value.args[:2], StringImm(SCOPE), *value.args[3:]))
        self.reemit_binding(binding, value)


@dataclass(frozen=True)
class IPCAllReduceRewrite(FunctionPass):
    """Rewrite all-reduce (of sums) to the custom implementation over memory shared between the GPUs' processes.

    Before::

        alloc = R.builtin.alloc_tensor(R.shape([m, n]), R.dtype("float16"), R.prim_value(0))
        _ = R.call_packed("runtime.disco.allreduce", alloc, R.shape([0]), R.prim_value(True), out)

    After::

        alloc = R.builtin.alloc_tensor(R.shape([m, n]), R.dtype("float16"), R.prim_value(0), R.str("ipc_memory"))
        _ = R.call_packed("runtime.disco.cuda_ipc.custom_allreduce", alloc, R.prim_value(strategy), R.prim_value(True), out)

    Args:
        allreduce_strategy: the number of the strategy: 0 ring, 1 one-shot, 2 two-shot, 3 chosen when it runs.
    """

    allreduce_strategy: int

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with custom all-reduce."""
        return _Rewriter(mod, self.allreduce_strategy).visit_expr(func)
