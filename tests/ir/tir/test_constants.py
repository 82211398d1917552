"""Constants of a PrimFunc: their bytes are those of the dtype that the program says, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.error import IRTypeError, IRValueError
from ir.tir.interpreter.machine import Interpreter

NUMBERS = np.arange(6, dtype="float32").reshape(2, 3)


def copy_of(data: Any, dtype: str = "float32", extent: int = 6) -> tir.PrimFunc:
    """Copies a constant to its argument."""
    source, target = tir.decl_buffer((extent,), dtype, "W"), tir.decl_buffer((extent,), dtype, "C")
    i, argument = tir.Var("i", "int32"), tir.Var("c", "handle")
    store = tir.BufferStore(target, tir.BufferLoad(source, [i]), [i])
    body = tir.AllocateConst(
        source.data, dtype, [extent], data, tir.For(i, 0, extent, tir.ForKind.SERIAL, store)
    )
    return tir.PrimFunc([argument], body, buffer_map={argument: target})


@pytest.mark.parametrize(
    "stored",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: a[::-1, ::-1][::-1, ::-1],
        lambda a: a.astype(">f4"),
        lambda a: np.asfortranarray(a.astype(">f4")),
        lambda a: pytest.importorskip("torch").tensor(a.T.copy(), requires_grad=True).T,
    ],
    ids=["rows", "columns", "reversed", "big-endian", "big-endian columns", "torch"],
)
def test_constants_are_the_same_however_they_are_stored(stored: Callable[[np.ndarray], Any]) -> None:
    program = copy_of(stored(NUMBERS))
    native, interpreted = np.zeros(6, "float32"), np.zeros(6, "float32")
    build(program)["main"](native)
    Interpreter(None).call(program, [interpreted])
    np.testing.assert_array_equal(native, NUMBERS.ravel())
    np.testing.assert_array_equal(interpreted, NUMBERS.ravel())


def test_constants_of_another_dtype_are_refused() -> None:
    """Their bytes would be read as numbers of this one."""
    with pytest.raises(IRTypeError, match="constant W is of dtype float32, its data of dtype float64"):
        copy_of(NUMBERS.astype("float64"))


@pytest.mark.parametrize("extent", [5, 7])
def test_constants_of_another_size_are_refused(extent: int) -> None:
    """What lies behind them would be read."""
    with pytest.raises(IRValueError, match=f"extents \\[{extent}\\] of float32, its data 6 elements"):
        copy_of(NUMBERS, extent=extent)


def test_data_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        copy_of(NUMBERS).body.data[0] = 1
