"""UpdateVDevice: one virtual device of a module is replaced by another."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Replaces one device of a list in struct infos and attributes; others that look like it are others."""

    def __init__(self, devices: Sequence[VDevice], index: int, new: VDevice) -> None:
        super().__init__()
        self._devices, self._index, self._new = devices, index, new

    def visit_vdevice(self, vdevice: VDevice) -> VDevice:
        return self._new if _number(self._devices, vdevice) == self._index else vdevice

    def visit_call_(self, expr: Any) -> Any:
        call = super().visit_call_(expr)
        attrs = {
            key: self.visit_vdevice(value) if isinstance(value, VDevice) else value
            for key, value in call.attrs.items()
        }
        if any(attrs[key] is not call.attrs[key] for key in attrs):
            call = call.replace(attrs=attrs, struct_info_=call.struct_info_)
        return call


def _number(devices: Sequence[VDevice], vdevice: VDevice) -> int:
    """Which device of a list this is: that very object, else the first that equals it; -1 for none."""
    same = [number for number, item in enumerate(devices) if item is vdevice]
    equal = [number for number, item in enumerate(devices) if item == vdevice]
    return next(iter(same or equal), -1)


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
        replace = _Replace(tuple(devices), self.index, self.new_vdevice)
        devices[self.index] = self.new_vdevice
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            new = replace.visit_expr(func) if isinstance(func, Function) else func
            if new is not func:
                changes[var] = SignatureChange(new)
        result = change_signatures(mod.clone(), changes)
        result.update_global_info("vdevice", devices)
        return result
