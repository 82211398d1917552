"""KeepShapedLoops: loops around vectors and copies are marked; plain loops are the backend compiler's."""

from __future__ import annotations

from typing import Any

from ir.node import post_order_visit
from ir.script import tir as T
from ir.tir.function import PrimFunc
from ir.tir.stmt import SHAPED, For
from ir.tir.transform import KeepShapedLoops


def marked(func: PrimFunc) -> dict[str, bool]:
    found: dict[str, bool] = {}

    def look(node: Any) -> None:
        if isinstance(node, For):
            found[node.loop_var.name] = bool(node.annotations.get(SHAPED))

    post_order_visit(func.body, look)
    return found


def test_vectors_and_copies_mark_the_loops_around_them(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            for k in range(2):
                A[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)] * T.Broadcast(T.float32(2), 8)
        for k in range(8):
            for u in T.unroll(4):
                B[k * 8 + u] = T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in T.serial(8, annotations={"tir.shaped": True}):
            for k in T.serial(2, annotations={"tir.shaped": True}):
                A[T.Ramp(i * 8, 1, 8)] = A[T.Ramp(i * 8, 1, 8)] * T.Broadcast(T.float32(2), 8)
        for k in T.serial(8, annotations={"tir.shaped": True}):
            for u in T.unroll(4, annotations={"tir.shaped": True}):
                B[k * 8 + u] = T.float32(1)

    check(KeepShapedLoops(), before, after)


def test_plain_loops_are_left(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((64,), "float32")):
        for i in range(8):
            for j in range(8):
                A[i * 8 + j] = T.float32(0)

    assert apply(KeepShapedLoops(), main) is main


def test_many_copies_of_a_scalar_loop_are_kept_as_they_are(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((512,), "float32")):
        for u in T.unroll(4):
            for i in range(8):
                A[u * 8 + i] = T.float32(0)
        for v in T.unroll(8):
            for j in range(8):
                A[v * 8 + j] = T.float32(0)

    assert marked(apply(KeepShapedLoops(), main)) == {"u": True, "i": False, "v": True, "j": True}
