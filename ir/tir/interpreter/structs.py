"""Arguments of packed functions and tensors as structures, whose fields ``tvm_struct_get`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...dlpack_layout import Field, TypeCode, dlpack_dtype
from .. import expr as E
from .error import InterpreterError
from .lanes import Closure
from .memory import Pointer, pointers_to
from .numbers import number
from .protocol import Translator

_MOST_SIGNED = (1 << 63) - 1


class TensorStruct:
    """A tensor on the processor: what an array is to a packed function."""

    def __init__(self, array: np.ndarray, data: Pointer, loops: list[Any]) -> None:
        code, bits, lanes = dlpack_dtype(dt.from_numpy(array.dtype))
        steps = np.array([step // array.itemsize for step in array.strides], "int64")
        shape, strides = pointers_to([np.array(array.shape, "int64"), steps], loops)
        given = None if array.flags.c_contiguous else strides  # nobody needs to say those of a dense tensor
        self._fields: dict[int, Any] = {
            Field.DATA: data, Field.SHAPE: shape, Field.STRIDES: given, Field.NDIM: array.ndim, Field.TYPE_CODE: code,
            Field.TYPE_BITS: bits, Field.TYPE_LANES: lanes, Field.BYTE_OFFSET: 0, Field.DEVICE_TYPE: 1, Field.DEVICE_ID: 0,
        }  # fmt: skip

    def field(self, number: int) -> Any:
        """A field by its number."""
        if number not in self._fields:
            raise InterpreterError(
                f"a tensor has no field {number}; there are {sorted(map(int, self._fields))}"
            )
        return self._fields[number]


class PackedArguments:
    """An array of arguments, as a function that :class:`ir.tir.transform.MakePackedAPI` has made takes them, or of results.

    Args:
        values: arrays, numbers and None; results of a call are put into what is there.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self._structs: dict[int, Any] = {}

    @property
    def type_codes(self) -> np.ndarray:
        """What each argument is."""
        return np.array([_type_code(value) for value in self.values], "int32")

    def value(self, index: int, dtype: str, loops: list[Any]) -> Any:
        """One argument, as a number of a dtype or as an address."""
        found = self.values[index]
        if dtype != "handle":
            return number(found, dtype)
        if not isinstance(found, np.ndarray):
            return found
        if not self._structs:
            places = [at for at, value in enumerate(self.values) if isinstance(value, np.ndarray)]
            arrays = [self.values[at] for at in places]
            for at, array, data in zip(places, arrays, pointers_to(arrays, loops), strict=True):
                self._structs[at] = TensorStruct(array, data, loops)
        return self._structs[index]


def _type_code(value: Any) -> TypeCode:
    if value is None:
        return TypeCode.NULL
    if isinstance(value, np.ndarray):
        return TypeCode.TENSOR
    if isinstance(value, float | np.floating):
        return TypeCode.FLOAT
    return TypeCode.UINT if value > _MOST_SIGNED else TypeCode.INT


def struct_get(expressions: Translator, node: E.Call) -> Closure:
    """A field of a structure."""
    base, index = expressions.data(node.args[0]), expressions.index(node.args[1])
    field, loops = int(node.args[2].value), expressions.machine.loops  # type: ignore[attr-defined]

    def get(env: dict[Any, Any]) -> Any:
        struct = base(env)
        if isinstance(struct, PackedArguments):
            return struct.value(index(env), node.dtype, loops)
        if isinstance(struct, TensorStruct):
            return struct.field(field)
        raise InterpreterError(f"{node} reads a field of what is no structure")

    return get


def struct_set(expressions: Translator, node: E.Call) -> Closure:
    """Sets an argument, as which results are handed over."""
    base, index, value = (
        expressions.data(node.args[0]),
        expressions.index(node.args[1]),
        expressions.data(node.args[3]),
    )

    def store(env: dict[Any, Any]) -> int:
        struct = base(env)
        if not isinstance(struct, PackedArguments):
            raise InterpreterError(f"{node} sets a field of what is no structure")
        struct.values[index(env)] = value(env)
        return 0

    return store


def is_null(expressions: Translator, node: E.Call) -> Closure:
    """Whether an address leads nowhere."""
    value = expressions.data(node.args[0])
    return lambda env: value(env) is None


FORMS = {"tir.tvm_struct_get": struct_get, "tir.tvm_struct_set": struct_set, "tir.isnullptr": is_null}
