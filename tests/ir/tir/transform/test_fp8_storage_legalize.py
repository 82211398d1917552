"""FP8StorageLegalize: memory, variables, parameters, calls; where the target converts a format, it stays."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.dtype import to_numpy
from ir.error import IRTypeError
from ir.narrow_float import FLOAT8
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import BufferLoad, PrimFunc
from ir.tir.interpreter import run
from ir.tir.transform import FP8ComputeLegalize, FP8StorageLegalize


def _same(source: str, dtype: str) -> PrimFunc:
    return from_source("from ir.script import tir as T\n" + source.replace("DTYPE", dtype))


def test_copies_are_copies_of_bytes(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "float8_e5m2"), B: T.Buffer((16,), "float8_e5m2")):
        held = T.allocate([16], "float8_e5m2", "local")
        C = T.Buffer((16,), "float8_e5m2", data=held, scope="local")
        for i in range(16):
            C[i] = T.if_then_else(i < 4, A[i], T.float8_e5m2(-1.5))
        B[0:16] = C[0:16]

    @T.prim_func
    def after(A: T.Buffer((16,), "uint8"), B: T.Buffer((16,), "uint8")):
        held = T.allocate([16], "uint8", "local")
        C = T.Buffer((16,), "uint8", data=held, scope="local")
        for i in range(16):
            C[i] = T.if_then_else(i < 4, A[i], T.uint8(0xBE))
        B[0:16] = C[0:16]

    check(FP8StorageLegalize(), before, after, same_results=False)


MIXED = """
@T.prim_func
def main(
    A: T.Buffer((256,), "DTYPE"), x: T.DTYPE, B: T.Buffer((256,), "DTYPE"), C: T.Buffer((256,), "float16"), D: T.Buffer((256,), "int32")
):
    for i in range(256):
        y: T.DTYPE = A[i]
        B[i] = T.Select(i % 2 == 0, y, x) + T.Cast("DTYPE", i) * T.DTYPE(0.5)
        C[i] = T.Cast("float16", A[255 - i])
        D[i] = T.Cast("int32", T.reinterpret("uint8", T.max(y, x)))
"""


@pytest.mark.parametrize("dtype", sorted(FLOAT8))
def test_a_program_computes_the_same_on_codes(dtype: str) -> None:
    before = FP8ComputeLegalize()(IRModule({"main": _same(MIXED, dtype)}))
    after = FP8StorageLegalize()(before)
    loaded: set[str] = set()
    post_order_visit(after["main"].body, lambda node: isinstance(node, BufferLoad) and loaded.add(node.dtype))
    assert loaded == {"uint8"}
    kind = to_numpy(dtype)
    a = np.arange(256, dtype="uint8").view(kind)
    results = []
    for module, view in ((before, kind), (after, np.dtype("uint8"))):
        out = [np.zeros(256, view), np.zeros(256, "float16"), np.zeros(256, "int32")]
        run(module, a.view(view), 2.0, *out)
        results.append([out[0].view(kind).astype("float32"), *out[1:]])
    numbers = ~np.isnan(results[0][0])  # of NaN the bits are anything
    for (number, old), new in zip(enumerate(results[0]), results[1], strict=True):
        where = ~np.isnan(a.astype("float32")) if number == 2 else np.ones(256, bool)
        np.testing.assert_array_equal(old[where], new[where])
    assert numbers.any()


def test_numbers_are_passed_in_float32() -> None:
    after = FP8StorageLegalize()(FP8ComputeLegalize()(IRModule({"main": _same(MIXED, "float8_e4m3fn")})))[
        "main"
    ]
    assert [param.dtype for param in after.params] == ["handle", "float32", "handle", "handle", "handle"]


def test_functions_of_the_module_take_and_return_float32() -> None:
    module = from_source("""
from ir.script import ir as I, tir as T
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def half(x: T.float8_e5m2) -> T.float8_e5m2:
        return T.Cast("float8_e5m2", T.Cast("float32", x) * T.float32(0.5))

    @T.prim_func
    def main(A: T.Buffer((4,), "float8_e5m2"), B: T.Buffer((4,), "float8_e5m2")):
        for i in range(4):
            B[i] = Module.half(A[i])
""")
    after = FP8StorageLegalize()(module)
    a, b = np.array([1, 2, -3, 5], to_numpy("float8_e5m2")), np.zeros(4, "uint8")
    run(after, a.view("uint8"), b, name="main")
    assert b.view(a.dtype).astype("float32").tolist() == [0.5, 1, -1.5, 2.5]


def test_arithmetic_is_refused_and_the_pass_for_it_is_named() -> None:
    with pytest.raises(
        IRTypeError,
        match=r"A\[0\] \* A\[0\] computes with float8_e5m2.*run ir.tir.transform.FP8ComputeLegalize",
    ):
        FP8StorageLegalize()(
            IRModule(
                {
                    "main": _same(
                        '@T.prim_func\ndef main(A: T.Buffer((1,), "DTYPE")):\n    A[0] = A[0] * A[0]\n',
                        "float8_e5m2",
                    )
                }
            )
        )


@pytest.mark.parametrize(
    ("target", "dtype", "stays"),
    [
        ("nvidia/nvidia-a100", "float8_e4m3fn", False),
        ("nvidia/geforce-rtx-4090", "float8_e4m3fn", True),
        ("nvidia/h200", "float8_e5m2", True),
        ("nvidia/h200", "float8_e4m3", False),
        ("llvm", "float8_e4m3", True),
    ],
)
def test_formats_that_the_target_converts_stay(target: str, dtype: str, stays: bool) -> None:
    func = _same(
        '@T.prim_func\ndef main(A: T.Buffer((1,), "DTYPE"), B: T.Buffer((1,), "DTYPE")):\n    A[0] = B[0]\n',
        dtype,
    )
    func = func.with_attr("target", Target(target))
    assert (FP8StorageLegalize()(IRModule({"main": func}))["main"] is func) == stays
