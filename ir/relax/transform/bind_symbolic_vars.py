"""BindSymbolicVars: replace symbolic shape variables of functions by values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError, IRValueError
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import Function
from ..symbolic_vars import defined_symbolic_vars, free_symbolic_vars
from .binding_rewriter import rewrite_functions


@dataclass(frozen=True)
class BindSymbolicVars(ModulePass):
    """Give symbolic variables values.

    Before: ``def main(x: R.Tensor(("n", 8), "float32"))``

    After ``BindSymbolicVars({"n": 16})``: ``def main(x: R.Tensor((16, 8), "float32"))``

    Args:
        binding_map: values by variable or by its name.
        func_name: the function to change; None changes all functions that have the variables.
    """

    binding_map: Mapping[Any, Any]
    func_name: str | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with bound variables."""
        if self.func_name is not None:
            func = mod[self.func_name]
            if not isinstance(func, Function):
                raise IRTypeError(
                    f"BindSymbolicVars: {self.func_name} is no Relax function but a {type(func).__name__}"
                )
            var = mod.get_global_var(self.func_name)
            bound = func.bind_symbolic_vars(self.binding_map)
            return mod.replace(
                functions={key: bound if key is var else item for key, item in mod.functions.items()}
            )
        used: set[Any] = set()

        def bind(_: Any, func: Function) -> Function:
            variables = [*defined_symbolic_vars(func), *free_symbolic_vars(func)]
            found = {
                key: value
                for key, value in self.binding_map.items()
                if any(var is key or (isinstance(key, str) and var.name == key) for var in variables)
            }
            used.update(found)
            return func.bind_symbolic_vars(found) if found else func

        result = rewrite_functions(mod, bind)
        missing = [key for key in self.binding_map if key not in used]
        if missing:
            raise IRValueError(f"BindSymbolicVars: no function has the symbolic variable {missing[0]}")
        return result
