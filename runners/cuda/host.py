"""Host functions of CUDA programs as native code finds them: they compute sizes and launch kernels, and touch no element of an array.

What such a function allocates for its kernels is memory of the device. :class:`DeviceAllocations` makes of it a number, which calls of
:data:`ALLOCATE` and :data:`FREE` give and take back; the module that owns the code answers them::

    B = T.allocate([128], "float32", "global")         with T.LetStmt(T.call_packed(ALLOCATE, 512), var=B_address):
    T.call_packed("main_kernel", B, A.data, 4, 32)  ->     T.call_packed("main_kernel", B_address, A.data, 4, 32)
                                                           T.call_packed(FREE, B_address)

A tensor map becomes a number, too: the address of what a call of :data:`ENCODE_TENSOR_MAP` has made of a type's number in CUDA's driver,
the address, the swizzle, the shape, strides in bytes and the box.
"""

from __future__ import annotations

from typing import Any

from ir.attrs import DictAttrs
from ir.codegen.cuda.host_allocations import allocated_bytes, why_not_handed_over
from ir.codegen.cuda.tensor_maps import is_encoding, told_tensor
from ir.codegen.llvm.symbols import function_name
from ir.module import IRModule
from ir.node import Mutator, Visitor
from ir.tir import expr as E
from ir.tir import stmt as S
from ir.tir.analysis.host_accesses import HOST_ACCESS, host_accesses
from ir.tir.analysis.written_params import stored_params
from ir.tir.function import PrimFunc
from ir.tir.intrinsic.calls import call_packed
from ir.tir.kernel_launch import is_kernel

from ..error import RunnerError

ALLOCATE, FREE = "loopsmith.cuda.allocate", "loopsmith.cuda.free"
ENCODE_TENSOR_MAP = "loopsmith.cuda.encode_tensor_map"


def host_functions(lowered: IRModule) -> IRModule:
    """The host's part of a lowered module, with its allocations on the device.

    Raises:
        RunnerError: there is none, or a host function reads or writes elements, which lie on the device.
    """
    found = {var: func for var, func in lowered.functions.items() if not is_kernel(func)}
    if not found:
        raise RunnerError(
            "the module has kernels only; what is run is a function that launches them, as lowering a scheduled program gives"
        )
    hosts = {
        var: _on_device(var.name_hint, func) if isinstance(func, PrimFunc) else func
        for var, func in found.items()
    }
    return lowered.replace(functions=hosts)


def _on_device(name: str, func: PrimFunc) -> PrimFunc:
    if found := host_accesses(func):
        raise RunnerError(HOST_ACCESS.format(function=name, buffer=found[0].name))
    body = DeviceAllocations().visit(func.body)
    attrs = {key: value for key, value in func.attrs.dict.items() if key != "target"}
    made: PrimFunc = func.replace(body=body, attrs=DictAttrs(attrs))
    return made


def stored_by_kernels(lowered: IRModule) -> dict[str, tuple[int, ...]]:
    """The numbers of the parameters of each host function to which kernels store that it launches, by its name there."""
    kernels = {
        str(func.attrs["global_symbol"]): stored_params(func)
        for func in lowered.functions.values()
        if is_kernel(func)
    }
    found = {}
    for var, func in lowered.functions.items():
        if isinstance(func, PrimFunc) and not is_kernel(func):
            stores = _StoredAddresses(kernels)
            stores.visit(func.body)
            data = [getattr(func.buffer_map.get(param), "data", param) for param in func.params]
            found[function_name(lowered, var)] = tuple(
                number for number, address in enumerate(data) if address in stores.found
            )
    return found


class _StoredAddresses(Visitor):
    """Addresses that kernels are given and store to."""

    def __init__(self, kernels: dict[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.found: set[E.Var] = set()
        self._kernels = kernels

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.args[0], "value", None) if call.args else None
        if name in self._kernels:
            given = call.args[1:]
            stored = [given[number] for number in self._kernels[name]]
            self.found.update(address for address in stored if isinstance(address, E.Var))
        self.generic_visit(call)


class DeviceAllocations(Mutator):
    """Makes calls of the host's allocations; see above."""

    def __init__(self) -> None:
        super().__init__()
        self._addresses: dict[E.Var, E.Var] = {}

    def visit_Allocate(self, node: S.Allocate) -> Any:
        if (reason := why_not_handed_over(node)) is not None:
            raise RunnerError(reason)
        address = E.Var(f"{node.buffer_var.name}_address", "int64")
        self._addresses[node.buffer_var] = address
        body = self.visit(node.body)
        freed = S.Evaluate(call_packed(FREE, address))
        return S.LetStmt(
            address, call_packed(ALLOCATE, allocated_bytes(node), dtype="int64"), S.SeqStmt([body, freed])
        )

    def visit_LetStmt(self, node: S.LetStmt) -> Any:
        if not is_encoding(node.value):
            return self.generic_visit(node)
        told = told_tensor(node.value)  # type: ignore[arg-type]
        encoded = E.Var(f"{node.var.name}_address", "int64")
        self._addresses[node.var] = encoded
        layout = (*told.shape, *told.strides, *told.box)
        made = call_packed(
            ENCODE_TENSOR_MAP, told.kind, self.visit(told.address), told.swizzle, *layout, dtype="int64"
        )
        return S.LetStmt(encoded, made, self.visit(node.body))

    def visit_DeclBuffer(self, node: S.DeclBuffer) -> Any:
        return self.visit(node.body) if node.buffer.data in self._addresses else self.generic_visit(node)

    def visit_Var(self, var: E.Var) -> Any:
        return self._addresses.get(var, var)
