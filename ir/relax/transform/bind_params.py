"""BindParams: replace parameters of a function by constants, such as trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Expr
from ..function import Function
from ..function_signature import SignatureChange, change_signatures


@dataclass(frozen=True)
class BindParams(ModulePass):
    """Bind parameters (by name or variable) to arrays; the parameters disappear from the signature, and from all calls.

    Before::

        @R.function
        def main(x: R.Tensor((1, 4), "float32"), w: R.Tensor((4, 2), "float32")):
            return R.matmul(x, w)

    After ``BindParams("main", {"w": array})``::

        @R.function
        def main(x: R.Tensor((1, 4), "float32")):
            return R.matmul(x, metadata["relax.expr.Constant"][0])

    Args:
        func_name: the function.
        params: arrays (numpy, NDArray) by parameter name or by relax.Var.
    """

    func_name: str
    params: Mapping[Any, Any]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with bound parameters."""
        func = mod[self.func_name]
        if not isinstance(func, Function):
            raise IRTypeError(
                f"BindParams: {self.func_name} is no Relax function but a {type(func).__name__}"
            )
        bound = func.bind_params(self.params)
        left = {param.vid for param in bound.params}
        kept = [number for number, param in enumerate(func.params) if param.vid in left]

        def call(builder: BlockBuilder, old: Call) -> Expr:
            return old.with_args([old.args[number] for number in kept])

        return change_signatures(mod, {mod.get_global_var(self.func_name): SignatureChange(bound, call)})
