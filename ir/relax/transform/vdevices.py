"""UpdateVDevice and RealizeVDevice: which virtual device every tensor lives on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...global_info import VDevice
from ...module import IRModule
from ...node import Mutator
from ...op import Op
from ...transform import ModulePass, PassContext
from ..expr import Call, Expr, Var
from ..function import Function
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass


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


class _Realizer(BindingRewriter):
    """Carries devices forwards through operators, and turns hints into copies between devices."""

    def visit_call(self, var: Var, call: Call) -> None:
        if is_call_to(call, "relax.hint_on_device"):
            self._hint(var, call)
            return
        device = self._common([call])
        info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
        if (
            device is not None
            and isinstance(info, TensorStructInfo)
            and info.vdevice is None
            and isinstance(call.op, Op)
        ):
            placed = TensorStructInfo(info.shape, info.dtype, device, info.ndim)
            sinfo = [placed] if call.sinfo_args else None
            self.bind(var, Call(call.op, call.args, call.attrs, sinfo, call.span, placed))
            return
        self.bind(var, call)

    def _common(self, exprs: list[Expr]) -> VDevice | None:
        found: list[VDevice] = []

        def visit(node: Any) -> None:
            info = getattr(node, "struct_info_", None)
            if isinstance(node, Var) and isinstance(info, TensorStructInfo) and info.vdevice is not None:
                if info.vdevice not in found:
                    found.append(info.vdevice)
            elif not isinstance(node, Var):
                node._visit_children(visit)

        for expr in exprs:
            visit(expr)
        if len(found) > 1:
            raise IRValueError(
                f"RealizeVDevice: operands are on different devices: {found[0]} and {found[1]}; insert to_vdevice"
            )
        return found[0] if found else None

    def _hint(self, var: Var, call: Call) -> None:
        wanted = call.attrs.get("dst_vdevice") or call.attrs.get("vdevice")
        source = call.args[0]
        info = source.struct_info_
        if not isinstance(info, TensorStructInfo) or not isinstance(wanted, VDevice):
            self.replace_var(var, source)
            return
        placed = TensorStructInfo(info.shape, info.dtype, wanted, info.ndim)
        if info.vdevice is None and isinstance(source, Var) and self.lookup(source) is not None:
            # The value has no device yet: it is made on the wanted one.
            self.bind(
                var, Call(Op.get("relax.hint_on_device"), (source,), call.attrs, None, call.span, placed)
            )
        elif info.vdevice == wanted:
            self.bind(var, source)
        else:
            self.bind(
                var,
                Call(Op.get("relax.to_vdevice"), (source,), {"dst_vdevice": wanted}, None, call.span, placed),
            )


class _Backwards(BindingRewriter):
    """Gives values the device that a hint behind them asks for."""

    def __init__(self, mod: IRModule, wanted: dict[Var, VDevice]) -> None:
        super().__init__(mod)
        self._wanted = wanted

    def visit_call(self, var: Var, call: Call) -> None:
        info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
        device = self._wanted.get(var)
        if is_call_to(call, "relax.hint_on_device"):
            source = call.args[0].struct_info_
            if isinstance(source, TensorStructInfo) and source.vdevice == call.attrs.get("dst_vdevice"):
                self.bind(var, call.args[0])
                return
        if device is not None and isinstance(info, TensorStructInfo) and info.vdevice is None:
            placed = TensorStructInfo(info.shape, info.dtype, device, info.ndim)
            sinfo = [placed] if call.sinfo_args else None
            call = Call(call.op, call.args, call.attrs, sinfo, call.span, placed)
        self.bind(var, call)


@dataclass(frozen=True)
class RealizeVDevice(FunctionPass):
    """Propagate virtual devices: results live where their operands do, and ``R.hint_on_device`` becomes a copy where they differ.

    Before::

        y = R.hint_on_device(x, R.device(2, 0))   # x: R.Tensor((8,), "float32", "llvm")
        z = R.exp(y)

    After::

        y: R.Tensor((8,), "float32", "cuda") = R.to_vdevice(x, dst_vdevice="cuda")
        z: R.Tensor((8,), "float32", "cuda") = R.exp(y)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with devices on all tensors that have one."""
        forward = _Realizer(mod).rewrite(func)
        wanted: dict[Var, VDevice] = {}
        for block in reversed(forward.body.blocks):
            for binding in reversed(block.bindings):
                value: Any = binding.value  # type: ignore[attr-defined]
                device = wanted.get(binding.var)
                if is_call_to(value, "relax.hint_on_device"):
                    device = value.attrs.get("dst_vdevice")
                if device is None or not isinstance(value, Call):
                    continue
                for arg in value.args:
                    info = arg.struct_info_
                    if isinstance(arg, Var) and isinstance(info, TensorStructInfo) and info.vdevice is None:
                        wanted.setdefault(arg, device)
        if not wanted:
            return forward
        return _Realizer(mod).rewrite(_Backwards(mod, wanted).rewrite(forward))
