"""NarrowBlockIndices: kernels with blocks count in 32 bits where that is enough, and compute the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, relax, structural_equal, tir
from ir.script import tir as T
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.transform import NarrowBlockIndices


def test_loops_blocks_and_buffers_become_narrow(check):
    @T.prim_func
    def before(A: T.Buffer((T.int64(64),), "float32"), B: T.Buffer((T.int64(64),), "int64")):
        C = T.alloc_buffer((T.int64(64),), "float32")
        for i in range(T.int64(64)):
            with T.block("C"):
                vi = T.axis.spatial(T.int64(64), i)
                C[vi] = A[T.int64(63) - vi]
        for i in range(T.int64(64)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(64), i)
                B[vi] = T.if_then_else(vi < T.int64(3), vi, T.Cast("int64", C[vi]))

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int64")):
        C = T.alloc_buffer((64,), "float32")
        for i in range(64):
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = A[63 - vi]
        for i in range(64):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = T.if_then_else(vi < 3, T.Cast("int64", vi), T.Cast("int64", C[vi]))

    check(NarrowBlockIndices(), before, after)


@T.prim_func
def symbolic(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.block("A"):
            vi = T.axis.spatial(n, i)
            A[vi] = T.float32(0)


@T.prim_func
def large(A: T.Buffer((T.int64(65536), T.int64(32768)), "int8")):
    for i, j in T.grid(T.int64(65536), T.int64(32768)):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.int8(0)


@T.prim_func
def narrow_already(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)


@T.prim_func
def on_threads(A: T.Buffer((T.int64(8),), "float32")):
    for i in T.thread_binding(T.int64(8), thread="threadIdx.x"):
        with T.block("A"):
            vi = T.axis.spatial(T.int64(8), i)
            A[vi] = T.float32(0)


@T.prim_func
def beyond(A: T.Buffer((T.int64(64),), "float32")):
    """Few iterations, whose axis counts beyond 2 ** 31."""
    for i in range(T.int64(64)):
        with T.block("A"):
            vi = T.axis.spatial((T.int64(2147483620), T.int64(2147483684)), i + T.int64(2147483620))
            A[vi - T.int64(2147483620)] = T.float32(0)


@T.prim_func
def of_a_part(A: T.Buffer((T.int64(8), T.int64(4)), "float32")):
    """A buffer of a block that is a part of another one."""
    for i in range(T.int64(8)):
        with T.block("A"):
            vi = T.axis.spatial(T.int64(8), i)
            row = T.match_buffer(A[vi, T.int64(0) : T.int64(4)], (T.int64(1), T.int64(4)), "float32")
            row[T.int64(0), T.int64(2)] = T.float32(0)


@pytest.mark.parametrize("func", [symbolic, large, narrow_already, on_threads, beyond, of_a_part])
def test_others_stay_as_they_are(func: PrimFunc) -> None:
    mod = IRModule({"main": func})
    assert NarrowBlockIndices()(mod) is mod


def test_an_index_that_is_computed_too_large_stays_wide() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(70000),), "float32"), B: T.Buffer((T.int64(70000),), "float32")):
        for i in range(T.int64(70000)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(70000), i)
                B[vi] = A[vi * vi * vi % T.int64(69999)]

    (func,) = NarrowBlockIndices()(IRModule({"main": before})).functions.values()
    assert 'T.Cast("int64", vi) * T.Cast("int64", vi)' in func.script()
    values = np.random.default_rng(0).random(70000, dtype="float32")
    out = np.zeros_like(values)
    run(func, values, out)
    rows = np.arange(70000, dtype=object)
    np.testing.assert_array_equal(out, values[(rows**3 % 69999).astype(int)])


def _conv(x, w):
    return relax.op.nn.conv2d(x, w, padding=(1, 2, 1, 0), strides=(2, 1))


OPERATORS = {
    "conv2d": (_conv, [((1, 3, 8, 9), "float32"), ((4, 3, 3, 3), "float32")]),
    "max_pool2d": (lambda x: relax.op.nn.max_pool2d(x, (3, 3), padding=(1, 1, 1, 1)), [((1, 2, 7, 8), "float32")]),
    "softmax": (lambda x: relax.op.nn.softmax(x, -1), [((3, 11), "float32")]),
    "argmax": (lambda x: relax.op.argmax(x, 1), [((4, 9), "float32")]),
    "take": (lambda x, i: relax.op.take(x, i, 0), [((9, 3), "float32"), ((4,), "int64")]),
    "cumsum": (lambda x: relax.op.cumsum(x, 1), [((3, 8), "int64")]),
    "topk": (lambda x: relax.op.topk(x, 3, ret_type="indices", dtype="int64"), [((3, 8), "float32")]),
    "sort": (lambda x: relax.op.sort(x), [((3, 8), "float32")]),
    "strided_slice": (lambda x: relax.op.strided_slice(x, [0, 1], [7, 1], [0, 6], [-2, 2]), [((8, 9), "float32")]),
    "tril": (lambda x: relax.op.tril(x, 1), [((6, 7), "float32")]),
    "resize2d": (lambda x: relax.op.image.resize2d(x, (5, 7), layout="NCHW"), [((1, 2, 4, 4), "float32")]),
    "repeat": (lambda x: relax.op.repeat(x, 3, 1), [((2, 4), "int64")]),
    "scatter_elements": (
        lambda x, i, u: relax.op.scatter_elements(x, i, u, 0),
        [((5, 3), "float32"), ((2, 3), "int64"), ((2, 3), "float32")],
    ),
    "layer_norm": (
        lambda x, g, b: relax.op.nn.layer_norm(x, g, b, axes=[-1]),
        [((3, 16), "float32"), ((16,), "float32"), ((16,), "float32")],
    ),
}  # fmt: skip


def _kernels(name: str) -> dict[str, PrimFunc]:
    """What the legalized operator calls."""
    make, operands = OPERATORS[name]
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{place}", relax.TensorStructInfo(*what)) for place, what in enumerate(operands)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params)))
    mod = relax.transform.LegalizeOps()(builder.get())
    return {var.name_hint: func for var, func in mod.functions.items() if isinstance(func, PrimFunc)}


@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_compute_the_same(name: str) -> None:
    rng = np.random.default_rng(0)
    for func in _kernels(name).values():
        (narrow,) = NarrowBlockIndices()(IRModule({"main": func})).functions.values()
        loops: list[str] = []
        tir.stmt_functor.post_order_visit(
            narrow.body, lambda node: loops.append(node.loop_var.dtype) if isinstance(node, tir.For) else None
        )
        if structural_equal(func, narrow):  # operators written as loops keep what they are
            continue
        assert set(loops) <= {"int32"}
        arguments = []
        for param in func.params:
            buffer = func.buffer_map[param]
            shape = [int(extent) for extent in buffer.shape]
            values = rng.integers(0, 2, shape) if "int" in buffer.dtype else rng.standard_normal(shape)
            arguments.append(values.astype(buffer.dtype))
        wide = [value.copy() for value in arguments]
        run(func, *wide)
        run(narrow, *arguments)
        for found, expected in zip(arguments, wide, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_most_kernels_become_narrow() -> None:
    """Were none, the test above would say nothing."""
    changed = {
        name
        for name in OPERATORS
        for func in _kernels(name).values()
        if NarrowBlockIndices()(IRModule({"main": func}))["main"] is not func
    }
    # It has loops whose extents are no numbers.
    assert set(OPERATORS) - changed == {"scatter_elements"}
