"""StorageRewrite: a chain of large intermediates needs two buffers."""

from ir import tir
from ir.script import tir as T
from ir.tir.transform import storage_rewrite
from ir.transform import PassContext


@T.prim_func
def chain(A: T.Buffer((16384,), "float32"), E: T.Buffer((16384,), "float32")):
    b = T.allocate([16384], "float32", "global")
    c = T.allocate([16384], "float32", "global")
    d = T.allocate([16384], "float32", "global")
    B = T.Buffer((16384,), data=b)
    C = T.Buffer((16384,), data=c)
    D = T.Buffer((16384,), data=d)
    for i in range(16384):
        B[i] = A[i] + T.float32(1)
    for i in range(16384):
        C[i] = B[i] * T.float32(2)
    for i in range(16384):
        D[i] = C[i] + T.float32(3)
    for i in range(16384):
        E[i] = D[i] - T.float32(1)


def test_chain_shares(apply, check):
    @T.prim_func
    def shared(A: T.Buffer((16384,), "float32"), E: T.Buffer((16384,), "float32")):
        b = T.allocate([16384], "float32", "global")
        c = T.allocate([16384], "float32", "global")
        B = T.Buffer((16384,), data=b)
        for i in range(16384):
            B[i] = A[i] + T.float32(1)
        C = T.Buffer((16384,), data=c)
        for i in range(16384):
            C[i] = B[i] * T.float32(2)
        D = T.Buffer((16384,), data=b)
        for i in range(16384):
            D[i] = C[i] + T.float32(3)
        for i in range(16384):
            E[i] = D[i] - T.float32(1)

    check(tir.transform.StorageRewrite(), chain, shared, same_results=False)
    with PassContext(config={"tir.disable_storage_rewrite": True}):
        assert apply(tir.transform.StorageRewrite(), chain) is chain


def test_results_stay():
    import numpy as np

    from ir import IRModule
    from ir.codegen.build import build

    after = tir.transform.StorageRewrite()(IRModule({"main": chain}))["main"]
    x = np.arange(16384, dtype="float32")
    y = np.zeros_like(x)
    build(after)["chain"](x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2 + 2)


def test_a_deep_nest_is_visited_once():
    """Every loop used to double the work on what it holds."""
    visits = 0

    class Counting(storage_rewrite._Share):
        def visit_BufferStore(self, node):
            nonlocal visits
            visits += 1
            return self.generic_visit(node)

    body = chain.body
    nest, inner = [], body
    while not isinstance(inner, tir.SeqStmt):
        nest.append(inner)
        inner = inner.body
    stores = []
    for loop in inner.seq:
        for depth in range(8):
            loop = tir.For(tir.Var(f"x{depth}", "int32"), 0, 2, 0, loop)
        stores.append(loop)
    body = tir.SeqStmt(stores)
    for node in reversed(nest):
        body = node.replace(body=body)
    Counting().visit(body)
    assert visits == len(stores)
