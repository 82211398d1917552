"""UpdateVDevice: one virtual device of a module is replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...global_info import VDevice
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr_substitution import ExprSubstitution
from ..function import Function
from ..function_signature import SignatureChange, change_signatures


class _Replace(ExprSubstitution):
    """Replaces a device in struct infos and attributes."""

    def __init__(self, old: VDevice, new: VDevice) -> None:
        super().__init__()
        self._old, self._new = old, new

    def visit_vdevice(self, vdevice: VDevice) -> VDevice:
        return self._new if vdevice == self._old else vdevice

    def visit_call_(self, expr: Any) -> Any:
        call = super().visit_call_(expr)
        attrs = {key: self._new if value == self._old else value for key, value in call.attrs.items()}
        if any(attrs[key] is not call.attrs[key] for key in attrs):
            call = call.replace(attrs=attrs, struct_info_=call.struct_info_)
        return call


@dataclass(frozen=True)
class UpdateVDevice(ModulePass):
    """Replace the module's virtual device number ``index`` by another one, everywhere.

    Before: ``I.module_global_infos({"vdevice": [I.vdevice("llvm")]})``, ``x: R.Tensor((8,), "float32", "llvm")``

    After ``UpdateVDevice(VDevice("cuda"), 0)``: the same with ``cuda``.

    Args:
        new_vdevice: the device to put in.
        index: the number of the device to replace in the module's list.
    """

    new_vdevice: VDevice
    index: int

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module on the new device."""
        devices = list(mod.global_infos.get("vdevice", ()))
        if not 0 <= self.index < len(devices):
            raise IRValueError(
                f"UpdateVDevice: index {self.index} is out of range, the module has {len(devices)} virtual devices"
            )
        replace = _Replace(devices[self.index], self.new_vdevice)
        devices[self.index] = self.new_vdevice
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            new = replace.visit_expr(func) if isinstance(func, Function) else func
            if new is not func:
                changes[var] = SignatureChange(new)
        result = change_signatures(mod.clone(), changes)
        result.update_global_info("vdevice", devices)
        return result
