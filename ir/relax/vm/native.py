"""From a lowered function with static shapes to a plan: which kernels to call in which order, and where every buffer is.

The function is what the lowering passes (:mod:`ir.relax.pipeline`) left: memory is allocated explicitly and shared already,
so nothing is decided here. Storage that the function returns a tensor of becomes an output of the native function, all other
storage lies one behind the other in its workspace. A plan is what the driver (:mod:`ir.codegen.model_driver`) is printed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from ... import dtype as dt
from ...codegen.llvm.signature import symbols_of
from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.analysis.packed_functions import packed_functions
from ...tir.function import PrimFunc
from ...tir.operators import const
from ..analysis.kernel_operands import kernel_operands
from ..analysis.memory import MemoryAnalysis
from ..analysis.operands_apart import OperandsApart
from ..devices import MAIN, device_number, vdevice_of
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from ..function import ExternFunc, Function
from ..op.memory_effect import Path
from ..struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ..struct_info_lattice import static_dims
from ..transform.memory_plan import aligned
from ..transform.vm_shape_lower import MatchShapeCode


class NotNative(IRError):
    """A function cannot be one native function; the message says which construct needs the virtual machine."""


@dataclass(eq=False, slots=True)
class Memory:
    """Memory of its own: ``kind`` is ``input``, ``output``, ``constant`` or ``workspace``.

    ``index`` counts within the kind; for the workspace it is the byte at which the memory begins.
    """

    kind: str
    index: int
    n_bytes: int
    tensors: list[Tensor] = field(default_factory=list)
    """Those that the function makes in it."""


@dataclass(eq=False, slots=True)
class Tensor:
    """A tensor, or a view of one under another shape."""

    memory: Memory
    offset: int
    shape: tuple[int, ...]
    dtype: str
    base: Tensor | None = None
    """What a view is a view of."""
    first: int = 0
    last: int = 0
    """The first and the last kernel call while it is live."""

    @property
    def n_bytes(self) -> int:
        """The bytes of its elements."""
        return dt.bytes_of(self.dtype) * prod(self.shape)

    @property
    def owner(self) -> Tensor:
        """The tensor itself, or what it is a view of."""
        return self if self.base is None else self.base.owner

    @property
    def place(self) -> tuple[str, int]:
        """Kind and index of the buffer that kernels get."""
        return self.memory.kind, self.memory.index + self.offset


@dataclass(slots=True)
class KernelCall:
    """A call of a PrimFunc: buffers, then integers."""

    kernel: GlobalVar
    buffers: list[Tensor]
    scalars: list[int]


@dataclass(slots=True)
class NativePlan:
    """A function as calls of kernels.

    Attributes:
        name: the function.
        params: description of the parameters as plain data (see ``runners.program``).
        inputs, outputs: the flattened tensors; of the inputs also whether the function writes them.
        result: how the result is put together from outputs, inputs and constants, as plain data.
        calls: the kernels in order.
        workspace_bytes: memory of the calls that is neither input, output nor constant.
        memory: figures of the workspace: how many tensors share it, and what they would take without sharing
            (``total_bytes``), with the best sharing of all (``lower_bound_bytes``), and as it is (``arena_bytes``).
        apart: pairs of inputs that may not be the same memory: one that the function writes, and another one.
    """

    name: str
    params: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    calls: list[KernelCall] = field(default_factory=list)
    workspace_bytes: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    apart: list[list[int]] = field(default_factory=list)


class ConstantTable:
    """The constants of a module, each memory once, however many arrays there are of it."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[tuple[int, np.dtype, tuple[int, ...]], int] = {}

    def number(self, array: np.ndarray) -> int:
        """The number of an array."""
        key = (array.ctypes.data, array.dtype, array.shape)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.arrays)
            self.arrays.append(array)
        return found


@dataclass(frozen=True, slots=True)
class _Shape:
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Number:
    value: int | float


class _Nothing:
    """What a kernel, a check or a kill returns."""


_NOTHING = _Nothing()


def _static_shape(info: StructInfo, what: str) -> tuple[int, ...]:
    """The extents of a tensor as integers; raises NotNative where they are not known."""
    if isinstance(info, TensorStructInfo) and info.dtype:
        dims = static_dims(info.shape_values)
        if dims is not None:
            return tuple(dims)
    raise NotNative(f"{what} has no static shape: {info}")


class _Planner:
    """Walks the bindings once, with the places of all values in a table."""

    def __init__(self, mod: IRModule, name: str, func: Function, constants: ConstantTable) -> None:
        self._mod = mod
        self._name = name
        self._func = func
        self._constants = constants
        self._values: dict[Var, Any] = {}
        self._storages: list[Memory] = []
        self._constant_memory: dict[int, Memory] = {}
        memory = MemoryAnalysis(mod, suspicious=False)
        self._written = set(memory.summary(func).writes)
        self._apart = OperandsApart(memory).of_function(func)
        self._inputs: dict[Path, int] = {}
        self.plan = NativePlan(name, [], [])

    def run(self) -> NativePlan:
        for number, param in enumerate(self._func.params):
            value, described = self._param(param.struct_info, param.name_hint, (number,))
            self._values[param] = value
            self.plan.params.append({"name": param.name_hint, **described})
        self.plan.apart = [[self._inputs[path] for path in pair] for pair in self._apart]
        for block in self._func.body.blocks:
            for binding in block.bindings:
                bound: Expr = binding.value  # type: ignore[attr-defined]
                value = self._call(binding.var, bound) if isinstance(bound, Call) else self._value(bound)
                self._values[binding.var] = value
        self.plan.result = self._result(self._value(self._func.body.body))
        self._place_storages()
        return self.plan

    # ---- parameters and results -------------------------------------------------------------------------------

    def _param(self, info: StructInfo, name: str, path: Path) -> tuple[Any, dict[str, Any]]:
        if isinstance(info, TupleStructInfo):
            pairs = [
                self._param(item, f"{name}[{index}]", (*path, index))
                for index, item in enumerate(info.fields)
            ]
            return [pair[0] for pair in pairs], {"fields": [pair[1] for pair in pairs]}
        if isinstance(info, ShapeStructInfo):
            dims = static_dims(info.values)
            if dims is None:
                raise NotNative(f"parameter {name} is a symbolic shape")
            return _Shape(tuple(dims)), {"shape_value": list(dims)}
        shape = _static_shape(info, f"parameter {name}")
        if device_number(vdevice_of(info)) != MAIN:
            raise NotNative(f"parameter {name} is on another device")
        dtype = info.dtype  # type: ignore[attr-defined]
        tensor = Tensor(Memory("input", len(self.plan.inputs), 0), 0, shape, dtype)
        described = {"shape": list(shape), "dtype": dtype}
        self._inputs[path] = len(self.plan.inputs)
        given = {"name": name, **described, "alignment": dt.bytes_of(dt.element_of(dtype))}
        self.plan.inputs.append({**given, "written": True} if path in self._written else given)
        return tensor, described

    def _result(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._result(item) for item in value]
        if isinstance(value, _Shape):
            return {"shape": list(value.dims)}
        if isinstance(value, _Number):
            return {"value": value.value}
        if not isinstance(value, Tensor):
            raise NotNative(f"a {type(value).__name__} is returned")
        memory, shape = value.memory, list(value.shape)
        if memory.kind == "workspace":
            if memory.tensors != [value.owner] or value.owner.offset != 0:
                raise NotNative("a tensor is returned that shares its storage with others")
            memory.kind, memory.index = "output", len(self.plan.outputs)
            made = list(value.owner.shape)
            self.plan.outputs.append(
                {"name": f"output{memory.index}", "shape": made, "dtype": value.owner.dtype}
            )
        spec: Any = memory.index if memory.kind == "output" else {memory.kind: memory.index}
        return spec if shape == list(value.owner.shape) else {"view": [spec, shape]}

    # ---- values ---------------------------------------------------------------------------------------------

    def _value(self, expr: Expr) -> Any:
        if isinstance(expr, Var):
            return self._values[expr]
        if isinstance(expr, Constant):
            return self._constant(expr)
        if isinstance(expr, Tuple):
            return [self._value(item) for item in expr.fields]
        if isinstance(expr, TupleGetItem):
            return self._value(expr.tuple_value)[expr.index]
        if isinstance(expr, ShapeExpr):
            dims = static_dims(expr.values)
            if dims is None:
                raise NotNative("a shape is symbolic")
            return _Shape(tuple(dims))
        if isinstance(expr, PrimValue) and hasattr(expr.value, "value"):
            return _Number(expr.value.value)
        raise NotNative(f"{type(expr).__name__} needs the virtual machine")

    def _constant(self, expr: Constant) -> Tensor:
        number = self._constants.number(expr.data)
        memory = self._constant_memory.setdefault(number, Memory("constant", number, 0))
        return Tensor(memory, 0, tuple(expr.data.shape), dt.from_numpy(expr.data.dtype))

    # ---- calls ----------------------------------------------------------------------------------------------

    def _call(self, var: Var, call: Call) -> Any:
        op = call.op
        if isinstance(op, GlobalVar) and isinstance(self._mod.functions.get(op), PrimFunc):
            return self._kernel(op, [self._value(arg) for arg in call.args])
        name = op.name if isinstance(op, Op) else getattr(op, "global_symbol", getattr(op, "name_hint", ""))
        if name == "relax.vm.call_tir_dyn" and isinstance(call.args[0], GlobalVar):
            return self._kernel(call.args[0], self._value(call.args[1]))
        method = _CALLS.get(name) if isinstance(op, Op | ExternFunc) else None
        if method is None:
            raise NotNative(f"a call of {name or type(op).__name__} needs the virtual machine")
        return method(self, call)

    def _alloc_storage(self, call: Call) -> Memory:
        (n_bytes,) = self._value(call.args[0]).dims
        if self._value(call.args[1]).value != MAIN:
            raise NotNative("memory of another device is allocated")
        memory = Memory("workspace", 0, n_bytes)
        self._storages.append(memory)
        return memory

    def _alloc_tensor(self, call: Call) -> Tensor:
        storage, offset, shape, dtype = call.args[:4]
        memory = self._value(storage)
        assert isinstance(dtype, DataTypeImm)
        step = len(self.plan.calls)
        tensor = Tensor(
            memory,
            self._value(offset).value,
            self._value(shape).dims,
            dtype.value,
            first=step,
            last=step,
        )
        if tensor.offset + tensor.n_bytes > memory.n_bytes:
            raise IRError(
                f"{self._name}: a {dtype.value} tensor of shape {list(tensor.shape)} at byte {tensor.offset} does"
                f" not fit a storage of {memory.n_bytes} bytes"
            )
        memory.tensors.append(tensor)
        return tensor

    def _reshape(self, call: Call) -> Tensor:
        source, shape = self._value(call.args[0]), self._value(call.args[1])
        if not isinstance(source, Tensor) or not isinstance(shape, _Shape):
            raise NotNative("the shape of a view is computed at run time")
        return Tensor(source.memory, source.offset, shape.dims, source.dtype, source)

    def _to_device(self, call: Call) -> Any:
        if len(call.args) > 1 and self._value(call.args[1]).value != MAIN:
            raise NotNative("a tensor is copied between devices")
        return self._value(call.args[0])

    def _nothing(self, call: Call) -> _Nothing:
        return _NOTHING

    def _holds(self, fits: bool) -> _Nothing:
        """A check of what is known: the caller has checked the parameters by their description."""
        if not fits:
            raise NotNative("a check that fails")
        return _NOTHING

    def _check_tensor(self, call: Call) -> _Nothing:
        value, (ndim, dtype) = self._value(call.args[0]), [arg.value for arg in call.args[1:3]]  # type: ignore[attr-defined]
        return self._holds(
            isinstance(value, Tensor)
            and ndim.value in (-1, len(value.shape))
            and dtype in ("", "void", value.dtype)
        )

    def _check_shape(self, call: Call) -> _Nothing:
        value, ndim = self._value(call.args[0]), self._value(call.args[1])
        return self._holds(isinstance(value, _Shape) and ndim.value in (-1, len(value.dims)))

    def _check_tuple(self, call: Call) -> _Nothing:
        value, size = self._value(call.args[0]), self._value(call.args[1])
        return self._holds(isinstance(value, list) and len(value) == size.value)

    def _match_shape(self, call: Call) -> _Nothing:
        value = self._value(call.args[0])
        dims = getattr(value, "shape", getattr(value, "dims", ()))
        codes = [self._value(arg).value for arg in call.args[3:-1]]
        equal, ignored = MatchShapeCode.ASSERT_EQUAL_TO_IMM, MatchShapeCode.NO_OP
        pairs = zip(dims, codes[::2], codes[1::2], strict=True)
        return self._holds(
            2 * len(dims) == len(codes)
            and all(code == ignored or (code == equal and number == dim) for dim, code, number in pairs)
        )

    def _kernel(self, kernel: GlobalVar, operands: list[Any]) -> _Nothing:
        callee: Any = self._mod[kernel]
        if packed_functions(callee):
            raise NotNative(f"kernel {kernel.name_hint} calls Python, which loads its code by itself")
        buffers: list[Tensor] = []
        scalars: list[int] = []
        for operand in operands:
            if isinstance(operand, Tensor):
                buffers.append(operand)
            elif isinstance(operand, _Shape):
                scalars += operand.dims
            elif isinstance(operand, _Number) and isinstance(operand.value, int):
                scalars.append(operand.value)
            else:
                raise NotNative(f"a kernel takes a {type(operand).__name__}")
        scalars += self._symbols(kernel, buffers, scalars)
        for tensor in buffers:
            tensor.owner.last = len(self.plan.calls)
        self.plan.calls.append(KernelCall(kernel, buffers, scalars))
        return _NOTHING

    def _symbols(self, kernel: GlobalVar, buffers: list[Tensor], scalars: list[int]) -> list[int]:
        """Values of the symbols that the kernel takes behind its scalars, in the order of its signature."""
        callee: Any = self._mod[kernel]
        handles = [param for param in callee.params if param in callee.buffer_map]
        numbers = [param for param in callee.params if param not in callee.buffer_map]
        if len(handles) != len(buffers) or len(numbers) != len(scalars):
            raise IRError(
                f"{self._name}: {kernel.name_hint} takes {len(handles)} buffers and {len(numbers)} scalars,"
                f" the call gives {len(buffers)} and {len(scalars)}"
            )
        if [*handles, *numbers] != list(callee.params):
            raise NotNative(f"kernel {kernel.name_hint} takes scalars before buffers")
        shapes = [[const(extent, "int64") for extent in tensor.shape] for tensor in buffers]
        operands = kernel_operands(callee, shapes, [const(number, "int64") for number in scalars])
        for place in operands.places:
            if place.difference != 0:
                raise IRError(
                    f"{self._name}: operand {place.operand} of the call of {kernel.name_hint} has shape"
                    f" {list(buffers[place.operand].shape)}, the kernel takes {place}"
                )
        implied = dict.fromkeys(var for var in symbols_of(callee) if var not in numbers)
        return [operands.symbols[var].value for var in implied]  # type: ignore[attr-defined]

    # ---- memory ---------------------------------------------------------------------------------------------

    def _place_storages(self) -> None:
        """Give storages their places, and count what is live at once."""
        plan = self.plan
        for memory in self._storages:
            if memory.kind == "workspace":
                memory.index = plan.workspace_bytes
                plan.workspace_bytes += aligned(memory.n_bytes)
        shared = [
            tensor for memory in self._storages if memory.kind == "workspace" for tensor in memory.tensors
        ]
        plan.memory = {
            "n_buffers": len(shared),
            "arena_bytes": plan.workspace_bytes,
            "total_bytes": sum(aligned(tensor.n_bytes) for tensor in shared),
            "lower_bound_bytes": _most_live(shared),
        }


def _most_live(tensors: list[Tensor]) -> int:
    """The largest sum of sizes that are live at one call; no plan needs less."""
    changes: dict[int, int] = {}
    for tensor in tensors:
        size = aligned(tensor.n_bytes)
        changes[tensor.first] = changes.get(tensor.first, 0) + size
        changes[tensor.last + 1] = changes.get(tensor.last + 1, 0) - size
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


_CALLS: dict[str, Callable[[_Planner, Call], Any]] = {
    "relax.vm.alloc_storage": _Planner._alloc_storage,
    "relax.vm.alloc_tensor": _Planner._alloc_tensor,
    "relax.vm.kill_object": _Planner._nothing,  # the workspace lives as long as the call
    "relax.null_value": _Planner._nothing,
    "vm.builtin.null_value": _Planner._nothing,
    "vm.builtin.check_tensor_info": _Planner._check_tensor,
    "vm.builtin.check_shape_info": _Planner._check_shape,
    "vm.builtin.check_tuple_info": _Planner._check_tuple,
    "vm.builtin.match_shape": _Planner._match_shape,
    "vm.builtin.reshape": _Planner._reshape,
    "vm.builtin.to_device": _Planner._to_device,
}
"""What becomes of calls other than of kernels."""


def plan_native(mod: IRModule, name: str, func: Function, constants: ConstantTable) -> NativePlan:
    """The plan of a lowered function with static shapes.

    Raises:
        NotNative: something in it needs the virtual machine.
        IRError: the function is wrong: a tensor that does not fit its storage, a kernel with too few arguments.
    """
    return _Planner(mod, name, func, constants).run()
