"""ConvertSSA: definitions become distinct, results stay."""

from ir import tir
from ir.tir import BufferStore, For, ForKind, SeqStmt, Var


def test_loops_that_share_a_variable(check):
    buffer = tir.decl_buffer((4,), "float32", "A")
    i = Var("i")

    def loop(value, var=i):
        return For(var, 0, 4, ForKind.SERIAL, BufferStore(buffer, tir.const(value), [var]))

    nested = For(i, 0, 2, ForKind.SERIAL, loop(2.0))
    func = tir.PrimFunc([buffer], SeqStmt([loop(1.0), nested]))
    first, outer, inner = Var("i"), Var("i"), Var("i")
    expected = tir.PrimFunc(
        [buffer], SeqStmt([loop(1.0, first), For(outer, 0, 2, ForKind.SERIAL, loop(2.0, inner))])
    )
    check(tir.transform.ConvertSSA(), func, expected)
