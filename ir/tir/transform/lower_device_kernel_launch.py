"""LowerDeviceKernelLaunch: calls of kernels become launches, which say how many threads run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule
from ...node import Mutator
from ...transform import ModulePass, PassContext
from ..expr import Call, PrimExpr
from ..function import PrimFunc
from ..intrinsic.calls import call_packed
from ..kernel_launch import (
    CALLING_CONVENTION,
    DEVICE_KERNEL_LAUNCH,
    LAUNCH_PARAMS,
    KernelLaunch,
    kernel_launch,
)
from ..stmt_functor import substitute


class _Launch(Mutator):
    def __init__(self, kernels: Mapping[GlobalVar, tuple[PrimFunc, KernelLaunch]]) -> None:
        super().__init__()
        self._kernels = kernels

    def visit_Call(self, call: Call) -> PrimExpr:
        found = self._kernels.get(call.op) if isinstance(call.op, GlobalVar) else None
        if found is None:
            return self.generic_visit(call)  # type: ignore[no-any-return]
        kernel, launch = found
        values = dict(zip(kernel.params, call.args, strict=True))
        given = [substitute(value, values) for value in launch.values]
        return call_packed(kernel.attrs["global_symbol"], *call.args, *given)


@dataclass(frozen=True)
class LowerDeviceKernelLaunch(ModulePass):
    """Replace calls of kernels by packed calls of the functions that launch them, and tell each kernel's launch parameters.

    A launch is given the kernel's arguments, then the extents of its axes and, where it has some, the bytes of dynamic shared memory.

    Before::

        def main(A: T.Buffer((32,), "float32")):
            main_kernel(A.data)

        def main_kernel(A: T.handle("float32")):
            T.func_attr({"target": T.target("cuda"), "tir.is_global_func": True})
            i = T.launch_thread("threadIdx.x", 32)
            ...

    After::

        def main(A: T.Buffer((32,), "float32")):
            T.call_packed("main_kernel", A.data, 32)

        def main_kernel(A: T.handle("float32")):
            T.func_attr({"calling_conv": 2, "tir.kernel_launch_params": ["threadIdx.x"], "target": T.target("cuda"), ...})
            i = T.launch_thread("threadIdx.x", 32)
            ...
    """

    pass_name = "tir.LowerDeviceKernelLaunch"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module whose host functions launch."""
        launches = {
            var: (func, kernel_launch(func))
            for var, func in mod.functions.items()
            if isinstance(func, PrimFunc) and _is_called_by_hosts(func)
        }
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            if var in launches:
                kernel, launch = launches[var]
                functions[var] = kernel.with_attr(CALLING_CONVENTION, DEVICE_KERNEL_LAUNCH).with_attr(
                    LAUNCH_PARAMS, launch.params
                )
            elif isinstance(func, PrimFunc):
                functions[var] = func.replace(body=_Launch(launches).visit(func.body))
            else:
                functions[var] = func
        return mod.replace(functions=functions)


def _is_called_by_hosts(func: PrimFunc) -> bool:
    target = func.attrs.get("target")
    return bool(func.attrs.get("tir.is_global_func")) and target is not None and target.is_gpu
