"""FP8ComputeLegalize: in float32 or in float16, for every format."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.dtype import to_numpy
from ir.error import IRValueError
from ir.narrow_float import FLOAT8
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.transform import FP8ComputeLegalize


def test_in_float32(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "float8_e4m3fn"), B: T.Buffer((16,), "float8_e4m3fn")):
        for i in range(16):
            B[i] = A[i] * A[i] + T.float8_e4m3fn(1)

    @T.prim_func
    def after(A: T.Buffer((16,), "float8_e4m3fn"), B: T.Buffer((16,), "float8_e4m3fn")):
        for i in range(16):
            B[i] = T.Cast("float8_e4m3fn", T.Cast("float32", A[i]) * T.Cast("float32", A[i]) + T.float32(1))

    check(FP8ComputeLegalize(), before, after, same_results=False)


def test_in_float16(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "float8_e5m2"), B: T.Buffer((16,), "float8_e5m2")):
        B[0:16] = T.max(A[0:16] - T.Broadcast(T.float8_e5m2(2), 16), A[0:16])

    @T.prim_func
    def after(A: T.Buffer((16,), "float8_e5m2"), B: T.Buffer((16,), "float8_e5m2")):
        B[0:16] = T.Cast(
            "float8_e5m2x16",
            T.max(
                T.Cast("float16x16", A[0:16]) - T.Broadcast(T.float16(2), 16), T.Cast("float16x16", A[0:16])
            ),
        )

    check(FP8ComputeLegalize("float16"), before, after, same_results=False)


def test_float16_does_not_hold_powers_of_two() -> None:
    text = FP8ComputeLegalize("float16")(IRModule({"main": _square("float8_e8m0fnu")}))["main"].script()
    assert "float32" in text and "float16" not in text


def test_another_dtype_to_compute_in_is_refused() -> None:
    with pytest.raises(IRValueError, match="float32 or float16, got promote_dtype_str='bfloat16'"):
        FP8ComputeLegalize("bfloat16")


def test_no_architecture_computes_with_it() -> None:
    for target in ("nvidia/h200", "nvidia/tesla-t4", "llvm"):
        func = _square("float8_e5m2").with_attr("target", Target(target))
        assert FP8ComputeLegalize()(IRModule({"main": func}))["main"] is not func


def _square(dtype: str) -> PrimFunc:
    return from_source(f"""
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((256,), "{dtype}")):
    for i in range(256):
        B[i] = A[i] * A[i]
""")


@pytest.mark.parametrize("wide", ["float32", "float16"])
@pytest.mark.parametrize("dtype", sorted(FLOAT8))
def test_one_operation_on_every_number_is_rounded_once(dtype: str, wide: str) -> None:
    """Of two digits more than twice the format's, a product has no third rounding."""
    func = _square(dtype)
    kind = to_numpy(dtype)
    a = np.arange(256, dtype="uint8").view(kind)
    expected, found = np.zeros(256, kind), np.zeros(256, kind)
    run(func, a, expected)
    run(FP8ComputeLegalize(wide)(IRModule({"main": func}))["main"], a, found)
    x, y = expected.astype("float32"), found.astype("float32")
    if wide == "float16":  # what it does not hold
        small = np.abs(a.astype("float64")) ** 2 < 2.0**-14
        x[small], y[small] = 0, 0
    np.testing.assert_array_equal(y, x)
