"""BF16StorageLegalize: bits in uint16, but where ``atomic_add`` needs the type."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.dtype import to_numpy
from ir.error import IRTypeError
from ir.script import tir as T
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.transform import BF16StorageLegalize


def test_moves_are_of_bits_and_conversions_are_shifts(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = A[i]
            C[i] = T.Cast("float32", A[i])

    @T.prim_func
    def after(A: T.Buffer((16,), "uint16"), B: T.Buffer((16,), "uint16"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = A[i]
            C[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", A[i]), T.uint32(16)))

    check(BF16StorageLegalize(), before, after, same_results=False)


def test_rounding_is_that_of_a_cast() -> None:
    @T.prim_func
    def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "bfloat16")):
        for i in range(512):
            B[i] = T.Cast("bfloat16", A[i])

    rng = np.random.default_rng(5)
    a = rng.integers(0, 1 << 32, 512, dtype="uint32")
    a[:256] = a[:256] & 0xFFFF0000 | rng.choice([0, 1, 0x7FFF, 0x8000, 0x8001], 256).astype("uint32")
    expected, found = np.zeros(512, to_numpy("bfloat16")), np.zeros(512, "uint16")
    run(main, a.view("float32"), expected)
    run(BF16StorageLegalize()(IRModule({"main": main}))["main"], a.view("float32"), found)
    x, y = expected.astype("float32"), found.view(expected.dtype).astype("float32")
    np.testing.assert_array_equal(x, y)


def test_memory_that_is_added_to_atomically_keeps_its_type() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((1,), "bfloat16"), D: T.Buffer((1,), "float32")):
        for i in range(16):
            T.evaluate(T.atomic_add("bfloat16", T.address_of(C[0]), A[i]))
        D[0] = T.Cast("float32", C[0])

    after = BF16StorageLegalize()(IRModule({"main": main}))["main"]
    assert [buffer.dtype for buffer in after.buffer_map.values()] == ["uint16", "bfloat16", "float32"]
    c, d = np.zeros(1, to_numpy("bfloat16")), np.zeros(1, "float32")
    run(after, np.arange(16).astype(c.dtype).view("uint16"), c, d)
    assert d[0] == float(c[0]) == 120


def test_arithmetic_is_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "bfloat16"), B: T.Buffer((1,), "bool")):
        B[0] = A[0] < T.bfloat16(1)

    with pytest.raises(IRTypeError, match="run ir.tir.transform.BF16ComputeLegalize first"):
        BF16StorageLegalize()(IRModule({"main": main}))


@pytest.mark.parametrize(
    ("target", "stays"), [("nvidia/tesla-t4", False), ("nvidia/nvidia-a100", True), ("llvm", True)]
)
def test_targets_that_convert_it_keep_it(target: str, stays: bool) -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "bfloat16"), B: T.Buffer((1,), "bfloat16")):
        B[0] = A[0]

    func = main.with_attr("target", Target(target))
    assert (BF16StorageLegalize()(IRModule({"main": func}))["main"] is func) == stays
