"""The reordered program computes what the plain one computes, for all kinds of reductions, and leaves alone what it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, structural_equal, te, topi
from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.stmt import For, ForKind
from runners.native import build_native
from runners.reference_order import in_fast_order
from runners.verify import compute_reference
from tests.programs.nodes import matmul, scaled

HOST = "llvm"


def placeholders(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    return [te.placeholder(shape, dtype, f"p{number}") for number, shape in enumerate(shapes)]


def program(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> IRModule:
    inputs = placeholders(*shapes, dtype=dtype)
    return IRModule({"main": te.create_prim_func([*inputs, function(*inputs)])})


PROGRAMS = {
    "matmul": matmul(12, 96, 7),
    "matmul of prime extents": matmul(13, 127, 5),
    "matmul with a transposed weight": matmul(12, 96, 7, transposed=True),
    "matmul of integers": matmul(8, 130, 9, "int32"),
    "vector times matrix": matmul(1, 100, 50),
    "one element": matmul(1, 1, 64),
    "batch_matmul": program(topi.nn.batch_matmul, (3, 6, 10), (3, 70, 10)),
    "conv2d_nhwc": program(lambda a, b: topi.nn.conv2d_nhwc(a, b, 2, 1, 1), (1, 5, 5, 3), (3, 3, 3, 40)),
    "conv2d_nchw": program(lambda a, b: topi.nn.conv2d_nchw(a, b, 1, 1, 1), (1, 3, 6, 6), (6, 3, 3, 3)),
    "depthwise": program(
        lambda a, b: topi.nn.depthwise_conv2d_nchw(a, b, 1, 1, 1), (1, 6, 6, 6), (6, 1, 3, 3)
    ),
    "conv3d": program(lambda a, b: topi.nn.conv3d_ncdhw(a, b, 1, 0, 1, 1), (1, 2, 4, 5, 6), (3, 2, 2, 2, 2)),
    "max_pool": program(
        lambda a: topi.nn.pool2d(a, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max"), (1, 8, 9, 9)
    ),
    "row sums": program(lambda a: topi.sum(a, axis=1), (30, 200)),
    "column maxima": program(lambda a: topi.max(a, axis=0), (200, 30)),
    "argmax": program(lambda a: topi.argmax(a, axis=1), (20, 33)),
    "softmax": program(topi.nn.softmax, (6, 50)),
    "layer_norm": program(lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]), (6, 50), (50,), (50,)),
    "fused epilogue": program(
        lambda a, w, b: topi.nn.relu(topi.add(topi.nn.matmul(a, w), b)), (10, 20), (20, 48), (48,)
    ),
    "gather and sum": program(
        lambda a: topi.sum(topi.take(a, topi.cast(a, "int32"), mode="clip"), axis=0), (40,)
    ),
}


def on_list(call: Callable[..., object]) -> Callable[[list[Any]], object]:
    """A function of all arguments in a list."""
    return lambda arguments: call(*arguments)


@pytest.mark.parametrize("mod", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_fast_order_computes_the_same(mod: IRModule) -> None:
    fast = build_native(in_fast_order(mod, 1), HOST)
    reference = compute_reference(mod, lambda program: on_list(build_native(program, HOST)))
    assert reference.cases
    for case in reference.cases:  # integers to the last bit, random numbers within rounding
        given = reference.prepare(case)
        fast(*given.arrays)
        assert reference.wrong(case, given.arrays) is None
        assert reference.spoiled(given) is None


def test_every_element_is_summed_in_the_order_of_the_reduction() -> None:
    mod = in_fast_order(matmul(8, 64, 200), 1)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((8, 200), (200, 64)))
    got, expected = np.empty((8, 64), "float32"), np.zeros((8, 64), "float64")
    build_native(mod, HOST)(a, b, got)
    for k in range(
        200
    ):  # a fused multiply-add rounds once, which double precision followed by rounding imitates
        expected = (expected + a[:, k, None].astype("float64") * b[k]).astype("float32").astype("float64")
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)


def loops_of(mod: IRModule) -> list[For]:
    found: list[For] = []
    post_order_visit(mod["main"].body, lambda node: found.append(node) if isinstance(node, For) else None)
    return found[::-1]


def test_the_contiguous_axis_is_innermost_and_the_longest_tile_loop_parallel() -> None:
    loops = loops_of(in_fast_order(matmul(16, 640, 50), 1))
    assert [(loop.extent.value, loop.kind) for loop in loops] == [
        (10, ForKind.PARALLEL),
        (2, ForKind.SERIAL),
        (50, ForKind.SERIAL),
        (8, ForKind.SERIAL),
        (64, ForKind.SERIAL),
    ]


def test_sums_stay_innermost_where_they_read_contiguously() -> None:
    loops = loops_of(in_fast_order(matmul(16, 640, 50, transposed=True), 1))
    assert loops[-1].extent.value == 50


def prefix_sums() -> IRModule:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):  # type: ignore[no-untyped-def]
        for i, j, k in T.grid(4, 8, 8):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = A[vi, vj]
                B[vi, vj] = B[vi, (vj + 7) % 8] + A[vi, vk]

    return IRModule({"main": main})


@T.prim_func
def row_sums(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def parallel_loop(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i in T.parallel(4):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def annotated_loop(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i in T.serial(4, annotations={"pragma_auto_unroll_max_step": 4}):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def symbolic_loop(n: T.int32, A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i in range(n):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def loop_from_one(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i in range(1, 4):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def own_buffer(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            one = T.alloc_buffer((4,), "float32")
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def matched_buffer(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            row = T.match_buffer(A[vi, 0:8], (1, 8), "float32")
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + row[0, vk]


@T.prim_func
def guarded_block(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i * 8 + k < 30)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def computed_axis(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(4, 3 - i)
            vk = T.axis.reduce(8, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def one_loop_for_two_axes(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, i, k])
            with T.init():
                B[vi, vj] = 0.0
            B[vi, vj] = B[vi, vj] + A[vi, vk]


@T.prim_func
def loop_without_an_axis(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k, t in T.grid(4, 8, 2):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def scan_axis(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.scan(4, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def block_in_a_block(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            with T.block("inner"):
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func
def call_for_its_effect(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]
            T.evaluate(vk)


@T.prim_func
def same_element_in_every_row(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[0] = B[0] + A[vi, vk]


def test_sums_of_rows_are_put_into_another_order() -> None:
    loops = loops_of(in_fast_order(IRModule({"main": row_sums}), 1))
    assert [(loop.extent.value, loop.kind) for loop in loops] == [
        (1, ForKind.SERIAL),
        (4, ForKind.SERIAL),
        (8, ForKind.SERIAL),
    ]


@pytest.mark.parametrize(
    "function",
    [
        parallel_loop, annotated_loop, symbolic_loop, loop_from_one, own_buffer, matched_buffer, guarded_block, computed_axis,
        one_loop_for_two_axes, loop_without_an_axis, scan_axis, block_in_a_block, call_for_its_effect,
        same_element_in_every_row,
    ],
    ids=lambda function: function.attrs["global_symbol"],
)  # fmt: skip
def test_sums_of_rows_in_any_other_form_stay_as_they_are(function: Any) -> None:
    mod = IRModule({"main": function})
    assert structural_equal(in_fast_order(mod, 1), mod)


@pytest.mark.parametrize("mod", [scaled(64), prefix_sums()], ids=["elementwise", "reads what others write"])
def test_other_programs_stay_as_they_are(mod: IRModule) -> None:
    assert structural_equal(in_fast_order(mod, 1), mod)


def test_small_reductions_stay_as_they_are() -> None:
    assert structural_equal(in_fast_order(matmul(16, 16, 16)), matmul(16, 16, 16))
