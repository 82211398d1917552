"""Host functions that launch through a queue: what they are given besides their arguments, and where their memory is.

Host functions of a whole model are native code that calls nothing but the queue's function for launches
(:mod:`ir.codegen.llvm.launch`). They allocate nothing: what kernels of one function hand over lies in scratch memory, a parameter of the
function, which the model's plan of memory has a place for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from ...attrs import DictAttrs
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule
from ...node import Mutator, Visitor
from ...op import Op
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.host_accesses import HOST_ACCESS, host_accesses
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.intrinsic.gpu import encode_tensor_map, launch_kernel
from ...tir.intrinsic.memory import address_of
from ...tir.kernel_launch import DYNAMIC_SHARED_MEMORY, KernelLaunch, is_kernel, kernel_launch
from ...tir.operators import logical_and
from ...transform import ModulePass, PassContext
from ..error import CodegenError
from .host_allocations import allocated_bytes, why_not_handed_over
from .tensor_maps import PLAIN, PROMOTED, SWIZZLES, ZEROS, is_encoding, told_tensor
from .types import is_half

SCRATCH = "loopsmith.scratch"
"""Attribute of a function: the number of the parameter that is the memory which its kernels hand over, as bytes."""
SCRATCH_ALIGNMENT = 256
"""Bytes on which allocations of a device begin, and so do those in scratch memory."""
_AXES = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz")
_PACKED = Op.get("tir.tvm_call_packed")
"""What launches are before this pass, see :class:`ir.tir.transform.LowerDeviceKernelLaunch`."""


def scratch_bytes(host: PrimFunc) -> list[E.PrimExpr]:
    """The sizes of the allocations of a host function, each a multiple of :data:`SCRATCH_ALIGNMENT`, in their order."""
    look = _Allocations()
    look.visit(host.body)
    return [_rounded_bytes(item) for item in look.found]


class _Allocations(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[S.Allocate] = []

    def visit_Allocate(self, node: S.Allocate) -> None:
        self.found.append(node)
        self.generic_visit(node)


def _rounded_bytes(node: S.Allocate) -> E.PrimExpr:
    step = E.IntImm("int64", SCRATCH_ALIGNMENT)
    return (allocated_bytes(node) + (SCRATCH_ALIGNMENT - 1)) // step * step


class _InScratch(Mutator):
    """Gives allocations their places in scratch memory, one behind the other."""

    def __init__(self, name: str, scratch: Buffer | None) -> None:
        super().__init__()
        self._name, self._scratch = name, scratch
        self._end: E.PrimExpr = E.IntImm("int64", 0)

    def visit_PrimExpr(self, node: E.PrimExpr) -> E.PrimExpr:
        return node

    def visit_Allocate(self, node: S.Allocate) -> S.Stmt:
        if (reason := why_not_handed_over(node)) is not None:
            raise CodegenError(f"{self._name}: {reason}")
        if self._scratch is None:
            raise CodegenError(
                f"{self._name}: kernels hand over {node.buffer_var.name}, for which the function has no scratch memory; run"
                " ir.relax.transform.PlanKernelScratch"
            )
        place = address_of(E.BufferLoad(self._scratch, [self._end]))
        self._end = self._end + _rounded_bytes(node)
        return S.LetStmt(node.buffer_var, place, self.visit(node.body))


class _Launches(Mutator):
    """Replaces packed calls of kernels by launches, and has tensor maps made by who launches."""

    def __init__(self, queue: E.Var, kernels: Mapping[str, tuple[int, PrimFunc, KernelLaunch]]) -> None:
        super().__init__()
        self._queue, self._kernels = queue, kernels

    def visit_PrimExpr(self, node: E.PrimExpr) -> E.PrimExpr:
        return node

    def visit_LetStmt(self, node: S.LetStmt) -> S.Stmt:
        made: S.LetStmt = self.generic_visit(node)
        return made.replace(value=self._encoded(made.value)) if is_encoding(made.value) else made

    def _encoded(self, call: E.PrimExpr) -> E.Call:
        told = told_tensor(call)  # type: ignore[arg-type]
        flags = (PLAIN, SWIZZLES[told.swizzle], PROMOTED, ZEROS)
        layout = (
            *told.shape[::-1],
            *told.strides[-2::-1],
            *told.box[::-1],
        )  # that of the innermost dimension is known
        return encode_tensor_map(self._queue, told.kind, told.address, *flags, *layout)

    def visit_Evaluate(self, node: S.Evaluate) -> S.Stmt:
        call = node.value
        if not isinstance(call, E.Call) or call.op is not _PACKED:
            return node
        name = call.args[0].value  # type: ignore[attr-defined]
        if name not in self._kernels:
            raise CodegenError(f"the host's code calls the function {name!r}, and a device has kernels only")
        number, kernel, launch = self._kernels[name]
        count = len(kernel.params)
        values = [_passed(value, param) for value, param in zip(call.args[1:], kernel.params)]
        told = dict(zip(launch.params, call.args[1 + count :], strict=True))
        dimensions = [told.get(tag, E.IntImm("int32", 1)) for tag in _AXES]
        shared = told.get(DYNAMIC_SHARED_MEMORY, E.IntImm("int32", 0))
        started = S.Evaluate(launch_kernel(self._queue, number, *dimensions, shared, *values), node.span)
        unknown = [item for item in dimensions if not isinstance(item, E.IntImm)]
        if any(item.value == 0 for item in dimensions if isinstance(item, E.IntImm)):
            return S.seq()
        # a launch of no threads is an error for the driver
        return (
            S.IfThenElse(reduce(logical_and, [item > 0 for item in unknown]), started) if unknown else started
        )


def _passed(value: E.PrimExpr, param: E.Var) -> E.PrimExpr:
    """An argument in the type that the kernel's parameter has in CUDA C++ (:func:`.types.value_type`)."""
    if param.dtype == "handle":
        return value
    wanted = "float32" if is_half(param.dtype) else param.dtype
    return value if value.dtype == wanted else E.Cast(wanted, value)


@dataclass(frozen=True)
class LaunchThroughQueue(ModulePass):
    """Host functions take a queue before their arguments, launch kernels through it, and have their memory in scratch memory.

    A kernel's number is its place among the kernels of the module. Tensor maps, which kernels take by value, are made by the queue, too.

    Before::

        def main(A: T.Buffer((128,), "float32"), scratch: T.Buffer((512,), "uint8")):
            T.func_attr({"loopsmith.scratch": 1})
            B = T.allocate([128], "float32", "global")
            T.call_packed("main_kernel", B, A.data, 4, 32)

    After::

        def main(queue: T.handle, A: T.Buffer((128,), "float32"), scratch: T.Buffer((512,), "uint8")):
            B: T.handle("float32") = T.address_of(scratch[0])
            T.launch_kernel(queue, 0, 4, 1, 1, 32, 1, 1, 0, B, A.data)

    Raises:
        CodegenError: the host's code reads or writes elements, which lie on the device; kernels hand over memory, and the function has no
            scratch memory; or a tensor map is one of a dtype that the driver does not have.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with host functions that launch."""
        kernels = {
            str(func.attrs["global_symbol"]): (number, func, kernel_launch(func))
            for number, func in enumerate(filter(is_kernel, mod.functions.values()))
        }
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, func in mod.functions.items():
            is_host = isinstance(func, PrimFunc) and not is_kernel(func)
            functions[var] = _host(var.name_hint, func, kernels) if is_host else func  # type: ignore[arg-type]
        return mod.replace(functions=functions)


def _host(name: str, func: PrimFunc, kernels: Mapping[str, tuple[int, PrimFunc, KernelLaunch]]) -> PrimFunc:
    if found := host_accesses(func):
        raise CodegenError(HOST_ACCESS.format(function=name, buffer=found[0].name))
    number = func.attrs.get(SCRATCH)
    scratch = None if number is None else func.buffer_map[func.params[int(getattr(number, "value", number))]]
    queue = E.Var("queue", "handle")
    body = _Launches(queue, kernels).visit(_InScratch(name, scratch).visit(func.body))
    attrs = {key: value for key, value in func.attrs.dict.items() if key not in (SCRATCH, "target")}
    made: PrimFunc = func.replace(params=(queue, *func.params), body=body, attrs=DictAttrs(attrs))
    return made
