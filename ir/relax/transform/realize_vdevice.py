"""RealizeVDevice: which virtual device every tensor lives on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...global_info import VDevice
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call, Expr, Var
from ..function import Function
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass


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
