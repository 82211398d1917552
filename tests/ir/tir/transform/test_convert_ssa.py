"""ConvertSSA: definitions become distinct, results stay."""

from ir import tir
from ir.node import post_order_visit
from ir.tir import BufferStore, For, ForKind, SeqStmt, Var


def test_loops_that_share_a_variable(apply):
    buffer = tir.decl_buffer((4,), "float32", "A")
    i = Var("i")

    def loop(value):
        return For(i, 0, 4, ForKind.SERIAL, BufferStore(buffer, tir.const(value), [i]))

    nested = For(i, 0, 2, ForKind.SERIAL, loop(2.0))
    func = tir.PrimFunc([buffer], SeqStmt([loop(1.0), nested]))
    after = apply(tir.transform.ConvertSSA(), func)
    found = []
    post_order_visit(after.body, lambda node: found.append(node.loop_var) if isinstance(node, For) else None)
    assert len(found) == 3 and len(set(found)) == 3
    stores = []
    post_order_visit(
        after.body, lambda node: stores.append(node.indices[0]) if isinstance(node, BufferStore) else None
    )
    assert set(stores) < set(found)
