"""LowerMatchBuffer: views disappear, with their offsets and strides."""

import numpy as np

from ir import tir
from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.interpreter import run


@T.prim_func
def view(A: T.Buffer((16, 8), "float32")):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            s0 = T.int32()
            s1 = T.int32()
            V = T.match_buffer(A[vi * 4 : vi * 4 + 4, 2:6], (4, 4), strides=[s0, s1], offset_factor=1)
            for x, y in T.grid(4, 4):
                V[x, y] = V[x, y] * T.float32(2) + T.Cast("float32", s0)


def test_accesses_go_to_the_source(apply):
    after = apply(tir.transform.LowerMatchBuffer(), view)
    buffers = set()
    post_order_visit(
        after.body, lambda n: buffers.add(n.buffer.name) if isinstance(n, tir.BufferStore) else None
    )
    assert buffers == {"A"}


def test_function_without_views_is_the_same_object(apply):
    @T.prim_func
    def plain(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(0)

    assert apply(tir.transform.LowerMatchBuffer(), plain) is plain


def test_a_view_stays_where_it_was_at_the_start_of_its_block(apply):
    @T.prim_func
    def moving(A: T.Buffer((16,), "float32"), P: T.Buffer((1,), "int32")):
        with T.block("A"):
            T.reads(P[0], A[0:16])
            T.writes(A[0:16], P[0])
            V = T.match_buffer(A[P[0] : P[0] + 4], (4,), offset_factor=1)
            P[0] = 9
            V[0] = V[1] + T.float32(100)

    after = apply(tir.transform.LowerMatchBuffer(), moving)
    array, place = np.arange(16, dtype="float32"), np.array([2], "int32")
    run(after, array, place)
    assert array[2] == 103
