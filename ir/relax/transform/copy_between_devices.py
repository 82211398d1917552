"""CopyBetweenDevices: kernels have the device of their outputs, and find their operands there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...global_info import VDevice
from ...json_format import load_json, save_json
from ...module import IRModule
from ...op import Op
from ...target.target import Target
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..devices import MAIN, PROCESSOR, device_number, vdevice_of
from ..expr import Call, Expr, Tuple, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.base import to_vdevice
from ..struct_info import TensorStructInfo, TupleStructInfo
from .grouping import NameTable

_WITH_OUTPUTS = ("relax.call_tir", "relax.call_tir_inplace")


class _Rewriter(ExprMutator):
    def __init__(self, mod: IRModule, result: IRModule, names: NameTable, target: Target) -> None:
        super().__init__(mod)
        self._result, self._names = result, names
        self._vdevices = {MAIN: VDevice(target), PROCESSOR: VDevice("llvm")}
        self._on_host: dict[GlobalVar, GlobalVar] = {}

    def looks_at(self, callee: Any) -> bool:
        return isinstance(callee, Op) and callee.name in _WITH_OUTPUTS

    def visit_call_(self, expr: Any) -> Any:
        call = super().visit_call_(expr)
        if not is_call_to(call, *_WITH_OUTPUTS) or not isinstance(call.args[1], Tuple):
            return call
        info = call.sinfo_args[0]
        outputs = info.fields if isinstance(info, TupleStructInfo) else (info,)
        number = max(device_number(vdevice_of(item)) for item in outputs)
        operands = [self._at(number, item) for item in call.args[1].fields]
        if number == MAIN and all(a is b for a, b in zip(operands, call.args[1].fields)):
            return call
        callee = self._host_kernel(call.args[0]) if number == PROCESSOR else call.args[0]
        return call.replace(args=(callee, Tuple(operands), *call.args[2:]))

    def _at(self, number: int, operand: Expr) -> Expr:
        info = operand.struct_info_
        if not isinstance(info, TensorStructInfo) or device_number(vdevice_of(info)) == number:
            return operand
        copied: Call = to_vdevice(operand, self._vdevices[number])
        return self.builder_.emit(copied)

    def _host_kernel(self, kernel: Any) -> GlobalVar:
        """The function as one of the processor's."""
        if kernel not in self._on_host:
            func = self._result[kernel]
            assert isinstance(func, PrimFunc)
            own: PrimFunc = load_json(save_json(func))  # no two functions of a module share variables
            made = own.without_attr("global_symbol").with_attr("tir.is_host_func", True)
            self._on_host[kernel] = self._names.add(self._result, f"{kernel.name_hint}_host", made)
        return self._on_host[kernel]


@dataclass(frozen=True)
class CopyBetweenDevices(ModulePass):
    """Operands of kernels are copied to where the outputs are; kernels whose outputs are on the processor are the processor's.

    A module for a GPU may have tensors on the processor, as ``R.to_vdevice``, ``R.hint_on_device`` and RealizeVDevice say. Runs within
    ``with target:`` on kernels that have no schedules yet; does nothing for processors.

    Before (for a GPU)::

        lv: R.Tensor((8,), "float32", "llvm") = R.to_vdevice(x, dst_vdevice="llvm")
        y = R.call_tir(cls.add, (lv, R.const([1.0, ...])), out_sinfo=R.Tensor((8,), "float32", "llvm"))

    After::

        lv: R.Tensor((8,), "float32", "llvm") = R.to_vdevice(x, dst_vdevice="llvm")
        gv: R.Tensor((8,), "float32", "llvm") = R.to_vdevice(R.const([1.0, ...]), dst_vdevice="llvm")
        y = R.call_tir(cls.add_host, (lv, gv), out_sinfo=R.Tensor((8,), "float32", "llvm"))

    Raises:
        IRValueError: a tensor is on a device that a model for the target does not have.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module whose kernels run where their outputs are."""
        target = Target.current(allow_none=True)
        if target is None or not target.is_gpu:
            return mod
        result = mod.clone()
        names = NameTable(mod)
        changed = False
        for var, func in list(mod.functions.items()):
            if isinstance(func, Function):
                made = _Rewriter(mod, result, names, target).visit_expr(func)
                changed |= made is not func
                result.functions[var] = made
        return result if changed else mod


__all__ = ["CopyBetweenDevices"]
