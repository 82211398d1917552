"""What may be evaluated where the program does not: it neither loads nor divides by what may be zero, and has no effect."""

from __future__ import annotations

from ir import tir
from ir.script import from_source
from ir.tir import Var, decl_buffer
from ir.tir.analysis.reads_memory import reads_memory
from ir.tir.faults import may_fault

A = decl_buffer((8,), "int32", "A")
Y, Z = Var("y"), Var("z")


def called() -> tir.PrimExpr:
    """A call with effects."""
    func = from_source('@T.prim_func\ndef main():\n    T.evaluate(T.call_packed("f", dtype="int32"))')
    assert isinstance(func, tir.PrimFunc) and isinstance(func.body, tir.Evaluate)
    return func.body.value


def test_what_may_fault() -> None:
    vector, three = tir.Ramp(Y, tir.const(1), 4), tir.Broadcast(tir.const(3), 4)
    x = Y.astype("float32")
    for expr in (
        Y + Z * 2,
        Y // 3,
        Y % 3 < Z,
        tir.FloorDiv(vector, three),
        x / Z.astype("float32"),
        tir.exp(x),
    ):
        assert not may_fault(expr)
    divisions = (Y // Z, Y % Z, tir.truncdiv(Y, Z), tir.truncmod(Y, Z) < 3, Y // Z + 1)
    for expr in (*divisions, A[Y], Y + A[0], called(), tir.exp(tir.log(A[Y].astype("float32")))):
        assert may_fault(expr)
    assert may_fault(tir.FloorDiv(vector, tir.Broadcast(Z, 4)))
    assert may_fault(tir.FloorDiv(Y, tir.const(0)))
    assert not may_fault(A[Y], loads=False) and may_fault(A[Y // Z], loads=False)


def test_what_memory_decides() -> None:
    assert not reads_memory(tir.exp(Y.astype("float32")) > 2.0)
    field = tir.op.tvm_struct_get(Var("p", "handle"), 0, 1, "int32")
    for expr in (A[Y] + 1, called() + 1, tir.Select(A[0] > 0, Y, Z), field):
        assert reads_memory(expr)


def test_shared_expressions_are_looked_at_once() -> None:
    """Their unfolded size is two to the power of 200."""
    found: tir.PrimExpr = Y
    for _ in range(200):
        found = found + found
    assert not may_fault(found) and not reads_memory(found)
    assert may_fault(found // Z) and reads_memory(found + A[0])
