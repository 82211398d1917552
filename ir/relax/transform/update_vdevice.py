"""UpdateVDevice: one virtual device of a module is replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...global_info import VDevice
from ...module import IRModule
from ...node import Mutator
from ...transform import ModulePass, PassContext
from ..expr import Call, Var
from ..function import Function


class _Replace(Mutator):
    """Replaces a device in struct infos, variables and attributes."""

    def __init__(self, old: VDevice, new: VDevice) -> None:
        super().__init__()
        self._old, self._new = old, new
        self._vars: dict[Any, Var] = {}

    def visit_VDevice(self, device: VDevice) -> VDevice:
        return self._new if device == self._old else device

    def visit_Var(self, var: Any) -> Any:
        if not isinstance(var, Var) or var.struct_info_ is None:
            return var
        found = self._vars.get(var)
        if found is None:
            info = self.visit(var.struct_info_)
            found = self._vars[var] = var if info is var.struct_info_ else type(var)(var.vid, info, var.span)
        return found

    def visit_Call(self, call: Any) -> Any:
        if not isinstance(call, Call):
            return call
        new = self.generic_visit(call)
        attrs = {key: self._new if value == self._old else value for key, value in call.attrs.items()}
        if any(attrs[key] is not call.attrs[key] for key in attrs):
            new = Call(new.op, new.args, attrs, new.sinfo_args, new.span)
        info = call.struct_info_
        if info is not None and new.struct_info_ is None:
            new = Call(new.op, new.args, new.attrs, new.sinfo_args, new.span, self.visit(info))
        return new

    def visit_GlobalVar(self, var: GlobalVar) -> GlobalVar:
        return var


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
        functions = {}
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                params = [replace.visit(param) for param in func.params]
                ret = None if func.ret_struct_info is None else replace.visit(func.ret_struct_info)
                func = Function(params, replace.visit(func.body), ret, func.is_pure, func.attrs, func.span)
            functions[var] = func
        result = mod.replace(functions=functions)
        result.update_global_info("vdevice", devices)
        return result
