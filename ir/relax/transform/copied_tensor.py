"""A copy of a tensor, for passes behind those that schedule kernels."""

from __future__ import annotations

from typing import Any

from ... import te
from ...external import external
from ...module import IRModule
from ...target.target import Target
from ...tir.function import PrimFunc
from ..block_builder import BlockBuilder
from ..devices import PROCESSOR, device_number, vdevice_of
from ..expr import Expr, Var
from ..op.base import call_tir
from ..te_conversion import gen_call_tir_inputs


def emit_copy(builder: BlockBuilder, tensor: Expr) -> Var:
    """Bind a copy of a tensor, made by a kernel that the target in force can run as it is.

    Args:
        builder: where it is bound, and to whose module the kernel is added.
        tensor: of known shape and dtype.
    """
    func, args, info, tir_vars = gen_call_tir_inputs(_identity, tensor)
    target = Target.current(allow_none=True)
    if target is not None and target.is_gpu:
        func = _on_device(func, device_number(vdevice_of(tensor.struct_info)))
    return builder.emit(call_tir(builder.add_func(func, "copy"), args, info, tir_vars))


def _identity(data: Any) -> Any:
    return te.compute(data.shape, lambda *indices: data(*indices), name="T_copy")


def _on_device(func: PrimFunc, number: int) -> Any:
    """The kernel with its loops bound to threads, or as one of the processor beside the device."""
    if number == PROCESSOR:
        return func.with_attr("tir.is_host_func", True)
    (bound,) = external("DefaultGPUSchedule")()(IRModule({"copy": func})).functions.values()
    return bound
