"""BF16ComputeLegalize: what is computed becomes float32, what is moved stays, what is passed on is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.dtype import to_numpy
from ir.node import post_order_visit
from ir.script import tir as T
from ir.target import Target
from ir.tir import Add, Mul
from ir.tir.interpreter import run
from ir.tir.transform import BF16ComputeLegalize


def test_arithmetic_is_of_float32_and_rounded_where_it_is_stored(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bool")):
        for i in range(16):
            B[i] = A[i] * A[i] + T.bfloat16(1)
            C[i] = A[i] < T.exp(A[i])

    @T.prim_func
    def after(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bool")):
        for i in range(16):
            B[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * T.Cast("float32", A[i]) + T.float32(1))
            C[i] = T.Cast("float32", A[i]) < T.exp(T.Cast("float32", A[i]))

    check(BF16ComputeLegalize(), before, after)


def test_what_is_moved_is_not_converted(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16"), n: T.int32):
        for i in range(16):
            x: T.bfloat16 = A[i]
            B[i] = T.if_then_else(i < n, x, T.Select(i < 3, A[15 - i], T.bfloat16(2)))

    assert apply(BF16ComputeLegalize(), main) is main


def test_of_a_choice_both_sides_are_computed_or_none(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            B[i] = T.if_then_else(i < 9, A[i], A[i] * A[i])

    @T.prim_func
    def after(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            B[i] = T.Cast(
                "bfloat16",
                T.if_then_else(
                    i < 9, T.Cast("float32", A[i]), T.Cast("float32", A[i]) * T.Cast("float32", A[i])
                ),
            )

    check(BF16ComputeLegalize(), before, after)


def test_variables_are_as_wide_as_their_values(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            x: T.bfloat16 = A[i] + T.bfloat16(1)
            B[i] = x * x

    @T.prim_func
    def after(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            x: T.float32 = T.Cast("float32", A[i]) + T.float32(1)
            B[i] = T.Cast("bfloat16", x * x)

    check(BF16ComputeLegalize(), before, after)


def test_vectors_and_constants(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        B[0:16] = T.max(A[0:16], T.Broadcast(T.bfloat16(3), 16))

    @T.prim_func
    def after(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        B[0:16] = T.Cast("bfloat16x16", T.max(T.Cast("float32x16", A[0:16]), T.Broadcast(T.float32(3), 16)))

    check(BF16ComputeLegalize(), before, after)


def test_constants_are_those_that_bfloat16_has() -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "bfloat16"), B: T.Buffer((1,), "float32")):
        B[0] = T.Cast("float32", A[0] * T.bfloat16(0.1))

    found = np.zeros(1, "float32")
    run(BF16ComputeLegalize()(IRModule({"main": main})), np.ones(1, to_numpy("bfloat16")), found)
    assert found[0] == np.float32(to_numpy("bfloat16").type(0.1))


def test_functions_of_bits_and_other_functions_have_their_dtypes(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "uint16"), C: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            B[i] = T.reinterpret("uint16", A[i] + A[i])
            C[i] = T.nextafter(A[i], A[i] + T.bfloat16(1))

    @T.prim_func
    def after(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "uint16"), C: T.Buffer((16,), "bfloat16")):
        for i in range(16):
            B[i] = T.reinterpret(
                "uint16", T.Cast("bfloat16", T.Cast("float32", A[i]) + T.Cast("float32", A[i]))
            )
            C[i] = T.nextafter(A[i], T.Cast("bfloat16", T.Cast("float32", A[i]) + T.float32(1)))

    check(BF16ComputeLegalize(), before, after)


def test_a_cast_of_the_program_rounds(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        B[0] = T.Cast("float32", T.Cast("bfloat16", A[0])) + T.float32(0)

    assert apply(BF16ComputeLegalize(), main) is main


@T.prim_func
def _sum(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
    for i in range(16):
        B[i] = A[i] + A[i]


@pytest.mark.parametrize(
    ("target", "stays"),
    [("nvidia/tesla-t4", False), ("nvidia/nvidia-a100", True), ("nvidia/h200", True), ("llvm", False)],
)
def test_targets_that_compute_with_it_keep_it(target: str, stays: bool) -> None:
    func = _sum.with_attr("target", Target(target))
    assert (BF16ComputeLegalize()(IRModule({"main": func}))["main"] is func) == stays


def test_random_values_differ_by_roundings_in_between_at_most() -> None:
    @T.prim_func
    def main(A: T.Buffer((256,), "bfloat16"), B: T.Buffer((256,), "bfloat16")):
        for i in range(256):
            B[i] = A[i] * A[i] + T.max(A[i], T.bfloat16(1)) / T.bfloat16(3)

    after = BF16ComputeLegalize()(IRModule({"main": main}))["main"]
    computed: list[str] = []
    post_order_visit(after.body, lambda node: isinstance(node, Add | Mul) and computed.append(node.dtype))
    assert "bfloat16" not in computed and "float32" in computed
    kind = to_numpy("bfloat16")
    a = np.random.default_rng(3).uniform(-3, 3, 256).astype(kind)
    once, each = np.zeros(256, kind), np.zeros(256, kind)
    run(after, a, once)
    run(main, a, each)
    x = a.astype("float64")
    exact = x * x + np.maximum(x, 1) / 3
    np.testing.assert_allclose(once.astype("float64"), exact, rtol=2.0**-8)
    np.testing.assert_allclose(each.astype("float64"), exact, rtol=3 * 2.0**-8)
