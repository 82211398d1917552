"""Plans of functions with static shapes: which kernels to call in which order, and where every buffer is.

A plan is what the driver function (:mod:`ir.codegen.model_driver`) is generated from; nothing of it is decided at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import IntImm
from ...tir.function import PrimFunc
from ..expr import Call, Constant, Expr, MatchCast, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..function import Function
from ..struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ..struct_info_lattice import static_dims
from .memory_plan import Lifetime, MemoryPlan, plan_memory

VIEW_OPS = frozenset(
    {
        "relax.reshape",
        "relax.flatten",
        "relax.expand_dims",
        "relax.squeeze",
        "relax.vm.reshape",
        "relax.memory.ensure_zero_offset",
        "relax.to_vdevice",
        "relax.hint_on_device",
        "relax.nn.dropout_inference",
    }
)
"""Operators whose result is the same memory under another shape (or the same one)."""


class NotNative(IRError):
    """A function cannot be one native function; the message says which construct needs the virtual machine."""


@dataclass(slots=True)
class Slot:
    """A buffer: ``kind`` is ``input``, ``output``, ``constant`` or ``arena``; ``index`` counts within the kind.

    For the arena, ``index`` is the byte offset once memory is planned.
    """

    kind: str
    index: int
    n_bytes: int
    dtype: str
    shape: tuple[int, ...]
    first: int = -1
    last: int = -1


@dataclass(slots=True)
class KernelCall:
    """A call of a PrimFunc: buffers, then integers."""

    kernel: GlobalVar
    buffers: list[Slot]
    scalars: list[int]


@dataclass(slots=True)
class NativePlan:
    """A function as calls of kernels.

    Attributes:
        name: the function.
        params: description of the parameters as plain data (see ``runners.program``).
        inputs, outputs: the flattened tensors.
        result: how the result is put together from outputs, inputs and constants, as plain data.
        constants: arrays in use, by index.
    """

    name: str
    params: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    calls: list[KernelCall] = field(default_factory=list)
    memory: MemoryPlan = field(default_factory=lambda: plan_memory([]))


class ConstantTable:
    """The constants of a module, each array once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}

    def number(self, array: np.ndarray) -> int:
        """The number of an array."""
        found = self._numbers.get(id(array))
        if found is None:
            found = self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return found


def static_shape(info: StructInfo, what: str) -> tuple[int, ...]:
    """The extents of a tensor as integers; raises NotNative where they are not known."""
    if isinstance(info, TensorStructInfo) and info.dtype:
        dims = static_dims(info.shape_values)
        if dims is not None:
            return tuple(dims)
    raise NotNative(f"{what} has no static shape: {info}")


def _n_bytes(shape: tuple[int, ...], dtype: str) -> int:
    total = dt.bytes_of(dtype)
    for extent in shape:
        total *= extent
    return total


class _Planner:
    """Walks the bindings once, with the places of all values in a table."""

    def __init__(self, mod: IRModule, name: str, func: Function, constants: ConstantTable) -> None:
        self._mod = mod
        self._name = name
        self._func = func
        self._constants = constants
        self._values: dict[Var, Any] = {}
        self._arena: list[Slot] = []
        self._constant_slots: dict[int, Slot] = {}
        self.plan = NativePlan(name, [], [])

    def run(self) -> NativePlan:
        for param in self._func.params:
            value, described = self._param(param.struct_info, param.name_hint)
            self._values[param] = value
            self.plan.params.append({"name": param.name_hint, **described})
        for block in self._func.body.blocks:
            for binding in block.bindings:
                bound: Expr = binding.value  # type: ignore[attr-defined]
                if isinstance(binding, MatchCast):
                    self._check_cast(binding)
                    self._values[binding.var] = self._operand(bound)
                else:
                    self._values[binding.var] = self._binding(binding.var, bound)
        self.plan.result = self._result(self._operand(self._func.body.body))
        self._place()
        return self.plan

    # ---- parameters and results -------------------------------------------------------------------------------

    def _param(self, info: StructInfo, name: str) -> tuple[Any, dict[str, Any]]:
        if isinstance(info, TupleStructInfo):
            pairs = [self._param(item, f"{name}[{index}]") for index, item in enumerate(info.fields)]
            return [pair[0] for pair in pairs], {"fields": [pair[1] for pair in pairs]}
        if isinstance(info, ShapeStructInfo):
            dims = static_dims(info.values)
            if dims is None:
                raise NotNative(f"parameter {name} is a symbolic shape")
            return ("shape", list(dims)), {"shape_value": list(dims)}
        shape = static_shape(info, f"parameter {name}")
        dtype = info.dtype  # type: ignore[attr-defined]
        slot = Slot("input", len(self.plan.inputs), _n_bytes(shape, dtype), dtype, shape)
        described = {"shape": list(shape), "dtype": dtype}
        self.plan.inputs.append({"name": name, **described, "alignment": dt.bytes_of(dt.element_of(dtype))})
        return slot, described

    def _result(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._result(item) for item in value]
        if isinstance(value, tuple):
            return {value[0]: value[1]}
        slot = _base(value)
        shape = list(value.shape)
        if slot.kind == "arena":
            slot.kind, slot.index = "output", len(self.plan.outputs)
            self.plan.outputs.append({"name": f"output{slot.index}", "shape": shape, "dtype": slot.dtype})
        if slot.kind == "output":
            made = self.plan.outputs[slot.index]["shape"]
            spec: Any = slot.index
        else:
            made = list(slot.shape)
            spec = {slot.kind: slot.index}
        return spec if shape == made else {"view": [spec, shape]}

    def _check_cast(self, binding: MatchCast) -> None:
        if isinstance(binding.struct_info, TensorStructInfo):
            static_shape(binding.struct_info, "a match_cast")
            if static_dims(getattr(binding.value.struct_info, "shape_values", None)) is None:
                raise NotNative("a match_cast checks a shape at run time")

    # ---- values ---------------------------------------------------------------------------------------------

    def _operand(self, expr: Expr) -> Any:
        if isinstance(expr, Var):
            return self._values[expr]
        if isinstance(expr, Constant):
            return self._constant(expr)
        if isinstance(expr, Tuple):
            return [self._operand(item) for item in expr.fields]
        if isinstance(expr, TupleGetItem):
            return self._operand(expr.tuple_value)[expr.index]
        if isinstance(expr, ShapeExpr):
            dims = static_dims(expr.values)
            if dims is None:
                raise NotNative("a shape is symbolic")
            return ("shape", list(dims))
        if isinstance(expr, PrimValue) and hasattr(expr.value, "value"):
            return ("value", expr.value.value)
        raise NotNative(f"{type(expr).__name__} needs the virtual machine")

    def _constant(self, expr: Constant) -> Slot:
        number = self._constants.number(expr.data)
        found = self._constant_slots.get(number)
        if found is None:
            shape = tuple(expr.data.shape)
            found = Slot("constant", number, expr.data.nbytes, dt.from_numpy(expr.data.dtype), shape)
            self._constant_slots[number] = found
        return found

    def _binding(self, var: Var, value: Expr) -> Any:
        if not isinstance(value, Call):
            return self._operand(value)
        name = value.op.name if isinstance(value.op, Op) else ""
        if name in ("relax.call_tir", "relax.call_tir_inplace"):
            return self._call_tir(value, inplace=name == "relax.call_tir_inplace")
        if name in VIEW_OPS:
            source = self._operand(value.args[0])
            shape = static_shape(var.struct_info, f"the result of {name}")
            return _View.of(source, shape)
        what = name or (value.op.name_hint if isinstance(value.op, GlobalVar) else type(value.op).__name__)
        raise NotNative(f"a call of {what} needs the virtual machine")

    def _call_tir(self, call: Call, inplace: bool) -> Any:
        kernel = call.args[0]
        callee = self._mod[kernel] if isinstance(kernel, GlobalVar) else None
        if not isinstance(callee, PrimFunc):
            raise NotNative("call_tir of something that is no PrimFunc of the module")
        args = _flat(self._operand(call.args[1]))
        scalars: list[int] = []
        if len(call.args) > 2:
            dims = static_dims(call.args[2].values) if isinstance(call.args[2], ShapeExpr) else None
            if dims is None:
                raise NotNative("a kernel takes symbolic values")
            scalars = list(dims)
        info = call.sinfo_args[0]
        infos = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
        step = len(self.plan.calls)
        made: list[Slot] = []
        fresh: list[Slot] = []
        indices = call.attrs.get("inplace_indices") if inplace else None
        positions = (
            [int(getattr(item, "value", item)) for item in indices]
            if indices is not None
            else [-1] * len(infos)
        )
        for item, position in zip(infos, positions, strict=True):
            if position >= 0:
                made.append(args[position])
                continue
            shape = static_shape(item, "the result of call_tir")
            dtype = item.dtype  # type: ignore[attr-defined]
            slot = Slot("arena", 0, _n_bytes(shape, dtype), dtype, shape, step, step)
            self._arena.append(slot)
            made.append(slot)
            fresh.append(slot)
        buffers = [*args, *fresh]
        for slot in buffers:
            _base(slot).last = step
        scalars += self._implied_symbols(callee, buffers, len(scalars))
        self.plan.calls.append(KernelCall(kernel, [_base(slot) for slot in buffers], scalars))  # type: ignore[arg-type]
        return made if isinstance(info, TupleStructInfo) else made[0]

    def _implied_symbols(self, callee: PrimFunc, buffers: list[Slot], n_scalars: int) -> list[int]:
        """Values of the symbolic extents that the kernel takes behind its scalars, in the order of its signature."""
        handles = [param for param in callee.params if param in callee.buffer_map]
        scalars = {param for param in callee.params if param not in callee.buffer_map}
        values: dict[Any, int] = {}
        if len(handles) != len(buffers) or len(scalars) != n_scalars:
            raise IRError(
                f"{self._name}: a kernel takes {len(handles)} buffers and {len(scalars)} scalars,"
                f" call_tir gives {len(buffers)} and {n_scalars}"
            )
        for handle, slot in zip(handles, buffers, strict=True):
            for extent, actual in zip(callee.buffer_map[handle].shape, slot.shape, strict=True):
                if not isinstance(extent, IntImm) and extent not in scalars and extent not in values:
                    if not hasattr(extent, "name"):
                        continue
                    values[extent] = actual
        return list(values.values())

    # ---- memory ---------------------------------------------------------------------------------------------

    def _place(self) -> None:
        kept = [slot for slot in self._arena if slot.kind == "arena"]
        self.plan.memory = plan_memory([Lifetime(slot.n_bytes, slot.first, slot.last) for slot in kept])
        for slot, offset in zip(kept, self.plan.memory.offsets, strict=True):
            slot.index = offset


class _View(Slot):
    """The memory of another slot under another shape."""

    __slots__ = ("base",)
    base: Slot

    @staticmethod
    def of(source: Slot, shape: tuple[int, ...]) -> Slot:
        base = _base(source)
        view = _View("", 0, source.n_bytes, source.dtype, shape)
        view.base = base
        return view


def _base(slot: Slot) -> Slot:
    return slot.base if isinstance(slot, _View) else slot


def _flat(value: Any) -> list[Slot]:
    if isinstance(value, list):
        return [item for part in value for item in _flat(part)]
    if isinstance(value, tuple):
        raise NotNative("a kernel takes a shape as a buffer")
    return [value]


def plan_native(mod: IRModule, name: str, func: Function, constants: ConstantTable) -> NativePlan:
    """The plan of a function with static shapes.

    Raises:
        NotNative: something in it needs the virtual machine.
    """
    return _Planner(mod, name, func, constants).run()
