"""FlattenBuffer: one index per access."""

import numpy as np

from ir import IRModule, tir
from ir.codegen.build import build
from ir.node import post_order_visit
from ir.script import tir as T


def indices(func):
    found = []
    post_order_visit(
        func.body,
        lambda n: found.append(n.indices) if isinstance(n, tir.BufferLoad | tir.BufferStore) else None,
    )
    return found


def test_row_major(check):
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, (i * 8 + j) % 8] + T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        flat_b = T.Buffer((32,), data=B.data)
        flat_a = T.Buffer((32,), data=A.data)
        for i, j in T.grid(4, 8):
            flat_b[i * 8 + j] = flat_a[i * 8 + j] + T.float32(1)

    check(tir.transform.FlattenBuffer(), before, after)


def test_strides_and_offset(check):
    @T.prim_func
    def strided(a: T.handle, B: T.Buffer((4, 8), "float32")):
        A = T.match_buffer(a, (4, 8), "float32", strides=[8, 1])
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j]

    @T.prim_func
    def after(a: T.handle, B: T.Buffer((4, 8), "float32")):
        A = T.match_buffer(a, (4, 8), "float32", strides=[8, 1])
        flat_b = T.Buffer((32,), data=B.data)
        flat_a = T.Buffer((32,), data=A.data)
        for i, j in T.grid(4, 8):
            flat_b[i * 8 + j] = flat_a[i * 8 + j]

    check(tir.transform.FlattenBuffer(), strided, after)


def test_scalars_get_index_zero(check):
    @T.prim_func
    def scalar(A: T.Buffer((), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[()]

    @T.prim_func
    def after(A: T.Buffer((), "float32"), B: T.Buffer((4,), "float32")):
        flat_a = T.Buffer((1,), data=A.data)
        for i in range(4):
            B[i] = flat_a[0]

    check(tir.transform.FlattenBuffer(), scalar, after)


def test_vector_accesses(check):
    @T.prim_func
    def vectors(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i in range(4):
            B[i, 0:8] = A[i, 0:8] + T.Broadcast(T.float32(1), 8)

    @T.prim_func
    def after(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        flat_b = T.Buffer((32,), data=B.data)
        flat_a = T.Buffer((32,), data=A.data)
        for i in range(4):
            flat_b[i * 8 : i * 8 + 8] = flat_a[i * 8 : i * 8 + 8] + T.Broadcast(T.float32(1), 8)

    check(tir.transform.FlattenBuffer(), vectors, after)


def test_products_with_strides_may_leave_the_width_of_the_index():
    """An index of a few rows made of large numbers: they are larger still when they are counted in elements."""

    @T.prim_func
    def main(A: T.Buffer((8, 5), "int32"), B: T.Buffer((8, 5), "int32")):
        for i in range(8):
            B[i, 0] = A[A[i, 1] - 1000000000, 0]

    after = tir.transform.FlattenBuffer()(IRModule({"main": main}))["main"]
    far = [index for (index,) in indices(after) if isinstance(index, tir.Sub)]
    assert [(index.dtype, index.b.value) for index in far] == [("int64", 5000000000)]
    array = np.arange(40, dtype="int32").reshape(8, 5)
    array[:, 1] = 1000000000 + np.array([3, 1, 4, 1, 5, 2, 6, 5])
    native = np.zeros((8, 5), "int32")
    build(main)["main"](array, native)
    np.testing.assert_array_equal(native[:, 0], array[array[:, 1] - 1000000000, 0])
