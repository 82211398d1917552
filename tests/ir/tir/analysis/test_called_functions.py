"""Which functions of its module a kernel calls."""

from __future__ import annotations

from ir import GlobalVar, tir
from ir.tir.analysis.called_functions import called_functions


def test_each_callee_is_told_once_in_order() -> None:
    f, g = GlobalVar("f"), GlobalVar("g")
    x = tir.Var("x", "int32")
    inner = tir.Call("int32", g, [tir.Call("int32", f, [x])])
    body = tir.SeqStmt([tir.Evaluate(tir.Call("int32", f, [x])), tir.Evaluate(inner)])
    assert called_functions(tir.PrimFunc([x], body)) == (f, g)
