"""RealizeVDevice: which virtual device every tensor lives on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...global_info import VDevice
from ...module import IRModule
from ...op import Op
from ...target.kind import get_kind
from ...transform import PassContext
from ..expr import Call, Expr, Var, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import TensorStructInfo
from .function_pass import FunctionPass


def hinted_device(mod: IRModule, call: Call) -> VDevice:
    """The virtual device that a ``hint_on_device`` names: itself, or by device type, number and memory scope.

    Raises:
        IRValueError: the module has no such device.
    """
    given = call.attrs.get("vdevice")
    if isinstance(given, VDevice):
        return given
    kind, index = call.attrs["device_type"], int(call.attrs["index"])
    scope = str(call.attrs.get("memory_scope", "global"))
    known = [item for item in mod.global_infos.get("vdevice", ()) if isinstance(item, VDevice)]
    for device in known:
        number = get_kind(device.target_kind).device_type
        if (device.vdevice_id, device.memory_scope) == (index, scope) and kind in (
            device.target_kind,
            number,
            {1: "cpu", 2: "gpu"}.get(number),
        ):
            return device
    raise IRValueError(
        f"RealizeVDevice: hint_on_device asks for device {kind}:{index} with memory {scope!r}; the module's virtual devices"
        f" are {', '.join(map(str, known)) or 'none'}"
    )


class _Realizer(ExprMutator):
    """Carries devices forwards through operators, and turns hints into copies between devices."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def visit_call_(self, call: Any) -> Any:
        new = super().visit_call_(call)
        if is_call_to(new, "relax.hint_on_device"):
            return self._hint(new)
        device = self._common([new])
        return _placed(new, call.struct_info, device) if isinstance(new.op, Op) else new

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        info = value.struct_info_
        if isinstance(info, TensorStructInfo) and info.vdevice is not None:
            var = self.with_struct_info(binding.var, info)  # which may be declared without the device
            self.set_var_remap(binding.var.vid, var)
            binding = binding.replace(var=var)
        self.reemit_binding(binding, value)

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

    def _hint(self, call: Call) -> Expr:
        wanted = hinted_device(self._mod, call)
        source = call.args[0]
        info = source.struct_info
        assert isinstance(info, TensorStructInfo)  # the operator's inference asks for one
        placed = TensorStructInfo(info.shape, info.dtype, wanted, info.ndim)
        if info.vdevice is None and isinstance(source, Var) and self.lookup_binding(source) is not None:
            # The value has no device yet: it is made on the wanted one.
            return call.replace(args=(source,), struct_info_=placed)  # type: ignore[no-any-return]
        if info.vdevice == wanted:
            return source
        copy = Op.get("relax.to_vdevice")
        return call.replace(op=copy, args=(source,), attrs={"dst_vdevice": wanted}, struct_info_=placed)  # type: ignore[no-any-return]


def _placed(call: Call, info: Any, device: VDevice | None) -> Call:
    """A call whose result is on a device, unless that is known to be on another one."""
    if call.struct_info_ is not None:
        info = call.struct_info_
    if device is None or not isinstance(info, TensorStructInfo) or info.vdevice is not None:
        return call
    placed = TensorStructInfo(info.shape, info.dtype, device, info.ndim)
    return call.replace(sinfo_args=(placed,) if call.sinfo_args else (), struct_info_=placed)  # type: ignore[no-any-return]


class _Backwards(ExprMutator):
    """Gives values the device that a hint behind them asks for."""

    def __init__(self, mod: IRModule, wanted: dict[Var, VDevice]) -> None:
        super().__init__(mod)
        self._mod, self._wanted = mod, wanted

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        if is_call_to(value, "relax.hint_on_device"):
            source = value.args[0].struct_info_
            if isinstance(source, TensorStructInfo) and source.vdevice == hinted_device(self._mod, value):
                value = value.args[0]
        if isinstance(value, Call):
            value = _placed(value, value.struct_info_, self._wanted.get(binding.var))
        self.reemit_binding(binding, value)


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
        forward = _Realizer(mod).visit_expr(func)
        wanted: dict[Var, VDevice] = {}
        for block in reversed(forward.body.blocks):
            for binding in reversed(block.bindings):
                value: Any = binding.value  # type: ignore[attr-defined]
                device = wanted.get(binding.var)
                if is_call_to(value, "relax.hint_on_device"):
                    device = hinted_device(mod, value)
                if device is None or not isinstance(value, Call):
                    continue
                for arg in value.args:
                    info = arg.struct_info_
                    if isinstance(arg, Var) and isinstance(info, TensorStructInfo) and info.vdevice is None:
                        wanted.setdefault(arg, device)
        if not wanted:
            return forward
        return _Realizer(mod).visit_expr(_Backwards(mod, wanted).visit_expr(forward))
