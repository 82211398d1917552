"""FlattenBuffer: one index per access."""

from ir import tir
from ir.node import post_order_visit
from ir.script import tir as T


def indices(func):
    found = []
    post_order_visit(
        func.body,
        lambda n: found.append(n.indices) if isinstance(n, tir.BufferLoad | tir.BufferStore) else None,
    )
    return found


def test_row_major(apply):
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, (i * 8 + j) % 8] + T.float32(1)

    after = apply(tir.transform.FlattenBuffer(), before)
    assert all(len(item) == 1 for item in indices(after))
    assert "%" not in after.script()


def test_strides_and_offset(apply):
    @T.prim_func
    def strided(a: T.handle, B: T.Buffer((4, 8), "float32")):
        A = T.match_buffer(a, (4, 8), "float32", strides=[8, 1])
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j]

    apply(tir.transform.FlattenBuffer(), strided)


def test_scalars_get_index_zero(apply):
    @T.prim_func
    def scalar(A: T.Buffer((), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[()]

    after = apply(tir.transform.FlattenBuffer(), scalar)
    assert all(len(item) == 1 for item in indices(after))


def test_vector_accesses(apply):
    @T.prim_func
    def vectors(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i in range(4):
            B[i, 0:8] = A[i, 0:8] + T.Broadcast(T.float32(1), 8)

    apply(tir.transform.FlattenBuffer(), vectors)
