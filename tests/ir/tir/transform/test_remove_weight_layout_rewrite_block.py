"""RemoveWeightLayoutRewriteBlock: weights are taken in the layout that a kernel wants."""

from ir import tir
from ir.script import tir as T


def test_weights_are_taken_in_the_new_layout(check):
    @T.prim_func
    def before(
        A: T.Buffer((16,), "float32"), W: T.Buffer((16, 16), "float32"), C: T.Buffer((16,), "float32")
    ):
        with T.block("root"):
            T.reads()
            T.writes()
            W_1 = T.alloc_buffer((2, 16, 8))
            for i, j in T.grid(16, 16):
                with T.block("W_copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    W_1[vj // 8, vi, vj % 8] = W[vi, vj]
            for i, j in T.grid(16, 16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vj] * W_1[vj // 8, vi, vj % 8]

    @T.prim_func
    def after(
        A: T.Buffer((16,), "float32"), W: T.Buffer((2, 16, 8), "float32"), C: T.Buffer((16,), "float32")
    ):
        with T.block("root"):
            T.reads()
            T.writes()
            for i, j in T.grid(16, 16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vj] * W[vj // 8, vi, vj % 8]

    check(tir.transform.RemoveWeightLayoutRewriteBlock(), before, after, False)
