"""BindSymbolicVars: replace symbolic shape variables of functions by values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..symbolic_vars import defined_symbolic_vars, free_symbolic_vars


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
            bound = func.bind_symbolic_vars(self.binding_map)
            return change_signatures(mod, {mod.get_global_var(self.func_name): SignatureChange(bound)})
        used: set[Any] = set()
        changes: dict[GlobalVar, SignatureChange] = {}
        for gvar, func in mod.functions.items():
            if not isinstance(func, Function):
                continue
            variables = [*defined_symbolic_vars(func), *free_symbolic_vars(func)]
            found = {
                key: value
                for key, value in self.binding_map.items()
                if any(var is key or (isinstance(key, str) and var.name == key) for var in variables)
            }
            if found:
                used.update(found)
                changes[gvar] = SignatureChange(func.bind_symbolic_vars(found))
        missing = [key for key in self.binding_map if key not in used]
        if missing:
            raise IRValueError(f"BindSymbolicVars: no function has the symbolic variable {missing[0]}")
        return change_signatures(mod, changes)
