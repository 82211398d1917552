"""ConvertBlocksToOpaque: block axes are replaced by their values."""

from ir import tir
from ir.node import post_order_visit
from ir.script import tir as T


@T.prim_func
def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i0, i1 in T.grid(4, 4):
        with T.block("B"):
            T.where(i0 * 4 + i1 < 14)
            vi = T.axis.spatial(16, i0 * 4 + i1)
            B[vi] = A[vi] + T.float32(1)


def test_axes_disappear(apply):
    after = apply(tir.transform.ConvertBlocksToOpaque(), before)
    realizes, stores = [], []
    post_order_visit(after.body, lambda n: realizes.append(n) if isinstance(n, tir.BlockRealize) else None)
    post_order_visit(after.body, lambda n: stores.append(n) if isinstance(n, tir.BufferStore) else None)
    assert all(not r.iter_values and not r.block.iter_vars for r in realizes)
    assert isinstance(stores[0].indices[0], tir.Add)


def test_values_may_use_outer_axes(apply):
    @T.prim_func
    def nested(A: T.Buffer((16,), "float32")):
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(16, vi * 4 + j)
                        A[vj] = A[vj] * T.float32(2)

    apply(tir.transform.ConvertBlocksToOpaque(), nested)
