"""BindParams: replace parameters of a function by constants, such as trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import Function


@dataclass(frozen=True)
class BindParams(ModulePass):
    """Bind parameters (by name or variable) to arrays; the parameters disappear from the signature.

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
        var = mod.get_global_var(self.func_name)
        bound = func.bind_params(self.params)
        return mod.replace(
            functions={key: bound if key is var else item for key, item in mod.functions.items()}
        )
