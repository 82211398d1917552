"""Calls of native functions that take packed arguments (:class:`ir.tir.transform.MakePackedAPI`) with arrays and numbers of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dlpack_layout import TypeCode, tensor_struct

_MOST_SIGNED = (1 << 63) - 1
_RESULTS = {TypeCode.FLOAT: "float64", TypeCode.UINT: "uint64"}
"""How the 8 bytes of a result are read that is no signed integer."""


def call_with_packed_arguments(function: Callable[..., Any], *args: Any) -> Any:
    """Call a native function of packed arguments; what it returns, a number or None.

    Args:
        function: of a module that :func:`ir.codegen.build.build` made.
        args: arrays of numpy, numbers, and None for null.

    Raises:
        KernelError: what the function asserts of its arguments does not hold; the message says which.
    """
    values, codes = np.zeros(max(1, len(args)), "int64"), np.zeros(max(1, len(args)), "int32")
    alive: list[Any] = []
    for position, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            struct, kept = tensor_struct(arg)
            alive += [struct, *kept]
            values[position], codes[position] = ctypes.addressof(struct), TypeCode.TENSOR
        elif arg is None:
            codes[position] = TypeCode.NULL
        elif isinstance(arg, float | np.floating):
            values[position : position + 1].view("float64")[0] = arg
            codes[position] = TypeCode.FLOAT
        elif arg > _MOST_SIGNED:
            values[position : position + 1].view("uint64")[0] = arg
            codes[position] = TypeCode.UINT
        else:
            values[position], codes[position] = arg, TypeCode.INT
    result, code = np.zeros(1, "int64"), np.zeros(1, "int32")
    function(values, codes, len(args), result, code, np.zeros(1, "uint8"))
    if code[0] == TypeCode.NULL:
        return None
    return result.view(_RESULTS.get(code[0], "int64"))[0].item()
