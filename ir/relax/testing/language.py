"""What the operators of the language mean to the evaluator: calls of kernels and functions, closures, shapes, memory.

Memory is that of a machine: a tensor in storage is a view of its bytes, so that a plan which places two living tensors at one
place computes wrong numbers here as it does in native code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...registry import get_global_func
from ..expr import Call
from ..struct_info import StructInfo, TupleStructInfo
from .evaluate import FUNCTIONS_WITH_CONTEXT, OPERATORS, Evaluator
from .values import Closure, EvaluationError, Gone, Storage, computing, fresh, replaced


def _means(*names: str) -> Callable[[Callable[[Evaluator, Call], Any]], Callable[[Evaluator, Call], Any]]:
    def register(function: Callable[[Evaluator, Call], Any]) -> Callable[[Evaluator, Call], Any]:
        for name in names:
            OPERATORS[f"relax.{name}"] = function
        return function

    return register


# -- calls with outputs ----------------------------------------------------------------------------------------


def _outputs(self: Evaluator, info: StructInfo) -> list[np.ndarray]:
    fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return [fresh(self.extents(item.shape_values), item.dtype) for item in fields]  # type: ignore[attr-defined]


def _result(info: StructInfo, outputs: list[Any]) -> Any:
    return outputs if isinstance(info, TupleStructInfo) else outputs[0]


def _unchanged(before: Sequence[Any], passed: Sequence[Any], what: str) -> None:
    for index, (old, new) in enumerate(zip(before, passed)):
        if isinstance(old, np.ndarray) and old.tobytes() != new.tobytes():
            raise EvaluationError(f"{what} writes to its argument {index}, which is no output of the call")


@_means("call_tir", "call_tir_with_grad")
def _call_tir(self: Evaluator, call: Call) -> Any:
    callee, inputs, *scalars = self.operands(call.args)
    info = call.sinfo_args[0]
    outputs = _outputs(self, info)
    written = range(len(inputs), len(inputs) + len(outputs))
    self.kernel(callee, [*inputs, *outputs, *(scalars[0] if scalars else ())], written)
    return _result(info, outputs)


def _inplace(call: Call) -> list[int]:
    return [int(getattr(index, "value", index)) for index in call.attrs["inplace_indices"]]


@_means("call_tir_inplace")
def _call_tir_inplace(self: Evaluator, call: Call) -> Any:
    callee, inputs, *scalars = self.operands(call.args)
    info, indices = call.sinfo_args[0], _inplace(call)
    what = f"an in-place call of {call.args[0]}"
    inputs = [self.writable(arg, what) if index in indices else arg for index, arg in enumerate(inputs)]
    inputs = self.kept_apart(callee, inputs, [index for index in indices if index != -1])
    made = iter(_outputs(self, info))
    outputs = [item if index == -1 else inputs[index] for item, index in zip(made, indices, strict=True)]
    new = [item for item, index in zip(outputs, indices) if index == -1]
    args = [*inputs, *new, *(scalars[0] if scalars else ())]
    written = {*(index for index in indices if index != -1), *range(len(inputs), len(inputs) + len(new))}
    for index in indices:
        if index != -1:
            self.overwritten(inputs[index], f"{what} overwrote its memory")
    self.kernel(callee, args, written)
    return _result(info, outputs)


@_means("call_dps_packed")
def _call_dps_packed(self: Evaluator, call: Call) -> Any:
    callee, inputs = self.operands(call.args)
    info = call.sinfo_args[0]
    outputs = _outputs(self, info)
    passed = [item.copy() if isinstance(item, np.ndarray) else item for item in inputs]
    self.invoke(callee, [*passed, *outputs])
    _unchanged(inputs, passed, f"the function {call.args[0]}")
    return _result(info, outputs)


@_means("call_pure_packed")
def _call_pure_packed(self: Evaluator, call: Call) -> Any:
    callee, *args = self.operands(call.args)
    passed = [replaced(arg, np.copy) for arg in args]
    result = self.invoke(callee, passed)
    _unchanged(args, passed, f"the pure function {call.args[0]}")
    return result


@_means("call_inplace_packed")
def _call_inplace_packed(self: Evaluator, call: Call) -> Any:
    callee, *args = self.operands(call.args)
    indices = _inplace(call)
    what = f"an in-place call of {call.args[0]}"
    args = [self.writable(arg, what) if index in indices else arg for index, arg in enumerate(args)]
    passed = [arg if index in indices else replaced(arg, np.copy) for index, arg in enumerate(args)]
    for index in indices:
        if index != -1 and isinstance(args[index], np.ndarray):
            self.overwritten(args[index], f"{what} overwrote its memory")
    result = self.invoke(callee, passed)
    _unchanged(
        [None if index in indices else arg for index, arg in enumerate(args)], passed, f"{call.args[0]}"
    )
    results = result if isinstance(result, list) and len(indices) > 1 else [result]
    for item, index in zip(results, indices):
        same = item is passed[index] or (
            isinstance(item, np.ndarray)
            and isinstance(passed[index], np.ndarray)
            and item.ctypes.data == passed[index].ctypes.data
        )
        if index != -1 and not same:
            raise EvaluationError(
                f"the in-place call of {call.args[0]} does not return its argument {index}, which it declares"
            )
    return result


@_means("call_builtin_with_ctx")
def _call_builtin(self: Evaluator, call: Call) -> Any:
    callee, args = self.operands(call.args)
    with_context = FUNCTIONS_WITH_CONTEXT.get(getattr(callee, "global_symbol", ""))
    return self.invoke(callee, args) if with_context is None else with_context(self, *args)


@_means("vm.call_tir_dyn")
def _call_tir_dyn(self: Evaluator, call: Call) -> Any:
    callee, args = self.operands(call.args)
    *tensors, scalars = args
    return self.invoke(callee, [*tensors, *scalars] if isinstance(scalars, tuple) else args)


# -- closures --------------------------------------------------------------------------------------------------


@_means("make_closure")
def _make_closure(self: Evaluator, call: Call) -> Any:
    callee, captured = self.operands(call.args)
    return _closure(self, callee, *captured)


def _closure(self: Evaluator, callee: Any, *captured: Any) -> Closure:
    if isinstance(callee, Closure):
        return Closure(callee.function, callee.frame, [*callee.captured, *captured])
    return Closure(callee, None, captured)


@_means("invoke_closure", "invoke_pure_closure")
def _invoke_closure(self: Evaluator, call: Call) -> Any:
    callee, args = self.operands(call.args)
    return self.invoke(callee, args)


FUNCTIONS_WITH_CONTEXT["vm.builtin.make_closure"] = _closure
FUNCTIONS_WITH_CONTEXT["vm.builtin.invoke_closure"] = lambda self, callee, *args: self.invoke(callee, args)


# -- shapes, printing ------------------------------------------------------------------------------------------


@_means("shape_of")
def _shape_of(self: Evaluator, call: Call) -> Any:
    return tuple(self.operands(call.args)[0].shape)


@_means("tensor_to_shape")
def _tensor_to_shape(self: Evaluator, call: Call) -> Any:
    return tuple(int(value) for value in self.operands(call.args)[0])


@_means("shape_to_tensor")
def _shape_to_tensor(self: Evaluator, call: Call) -> Any:
    return np.asarray(self.operands(call.args)[0], "int64")


@_means("null_value")
def _null_value(self: Evaluator, call: Call) -> Any:
    return None


@_means("print")
def _print(self: Evaluator, call: Call) -> Any:
    get_global_func("relax.run.print")(*self.operands(call.args))  # type: ignore[misc]
    return []


@_means("assert_op")
def _assert(self: Evaluator, call: Call) -> Any:
    operands = self.operands(call.args)
    with computing("relax.assert_op"):
        get_global_func("relax.run.assert_op")(*operands)  # type: ignore[misc]
    return []


_KINDS = {"i": 0, "u": 1, "f": 2, "b": 1}


@_means("inspect.tensor_dtype_code")
def _dtype_code(self: Evaluator, call: Call) -> Any:
    dtype = self.operands(call.args)[0].dtype
    return np.uint8(4 if dtype.name == "bfloat16" else _KINDS[dtype.kind])


@_means("inspect.tensor_dtype_bits")
def _dtype_bits(self: Evaluator, call: Call) -> Any:
    return np.uint8(8 * self.operands(call.args)[0].dtype.itemsize)


@_means("inspect.tensor_dtype_lanes")
def _dtype_lanes(self: Evaluator, call: Call) -> Any:
    return np.uint16(1)


@_means("inspect.tensor_ndim")
def _ndim(self: Evaluator, call: Call) -> Any:
    return np.int32(self.operands(call.args)[0].ndim)


@_means("inspect.tensor_shape_i")
def _shape_i(self: Evaluator, call: Call) -> Any:
    tensor, axis = self.operands(call.args)
    return np.int64(tensor.shape[int(axis)])


@_means("inspect.tensor_stride_i")
def _stride_i(self: Evaluator, call: Call) -> Any:
    tensor, axis = self.operands(call.args)
    return np.int64(math.prod(tensor.shape[int(axis) + 1 :]))


@_means("inspect.tensor_byte_offset", "inspect.tensor_elem_offset")
def _offset(self: Evaluator, call: Call) -> Any:
    return np.uint64(0)


# -- memory ----------------------------------------------------------------------------------------------------


@_means("builtin.alloc_tensor")
def _new_tensor(self: Evaluator, call: Call) -> Any:
    shape, dtype, *_ = self.operands(call.args)
    return fresh(shape, dtype)


@_means("memory.alloc_storage", "vm.alloc_storage")
def _alloc_storage(self: Evaluator, call: Call) -> Any:
    return new_storage(self.operands(call.args)[0])


def new_storage(size: Sequence[int]) -> Storage:
    """Storage of a number of bytes, given as a shape of one extent."""
    if len(size) != 1:
        raise EvaluationError(f"storage has one size in bytes, got {tuple(size)}")
    # all bits set is NaN in every float, so that nobody reads zeros that nobody wrote
    return Storage(np.full(int(size[0]), 0xFF, "uint8"))


@_means("memory.alloc_tensor", "vm.alloc_tensor")
def _alloc_tensor(self: Evaluator, call: Call) -> Any:
    storage, offset, shape, dtype, *_ = self.operands(call.args)
    return tensor_in(storage, int(offset), shape, dtype)


def tensor_in(storage: Storage, offset: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    """The tensor that begins at a byte of a storage."""
    numpy_dtype = dt.to_numpy(dtype)
    size = math.prod(shape) * numpy_dtype.itemsize
    if offset < 0 or offset + size > len(storage.memory):
        raise EvaluationError(
            f"a tensor {tuple(shape)} of {dtype} at byte {offset} does not fit a storage of {len(storage.memory)}"
        )
    return storage.memory[offset : offset + size].view(numpy_dtype).reshape(shape)


@_means("memory.kill_storage", "memory.kill_tensor", "vm.kill_object")
def _kill(self: Evaluator, call: Call) -> Any:
    variable = call.args[0]
    self.operands(call.args)
    self.frame.values[variable.vid] = Gone(f"{variable.name_hint} was released")  # type: ignore[attr-defined]
    return []
