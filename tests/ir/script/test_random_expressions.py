"""Random expressions over all operators and dtypes: the text reads back as the same tree."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ir import tir
from ir.tir import Evaluate, PrimFunc, Var, const
from tests.ir.script.roundtrip import check

VARIABLES = {
    dtype: [Var(f"{dtype[0]}{i}", dtype) for i in range(2)] for dtype in ("int32", "int64", "float32", "bool")
}
ARITHMETIC = [tir.Add, tir.Sub, tir.Mul, tir.Min, tir.Max]
INTEGRAL = [*ARITHMETIC, tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod]
COMPARISONS = [tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE]


@st.composite
def expressions(draw: Any, dtype: str, depth: int) -> tir.PrimExpr:
    """An expression of a dtype, at most ``depth`` levels deep; constants may stand anywhere."""
    leaf = depth == 0 or draw(st.integers(0, 4)) == 0
    if leaf:
        if draw(st.booleans()):
            return draw(st.sampled_from(VARIABLES[dtype]))
        if dtype == "bool":
            return const(draw(st.booleans()), "bool")
        if dtype == "float32":
            return const(draw(st.floats(allow_nan=False, width=32)), dtype)
        return const(draw(st.integers(-5, 5)), dtype)

    def sub(of: str) -> Any:
        return draw(expressions(of, depth - 1))

    if dtype == "bool":
        kind = draw(st.integers(0, 3))
        if kind == 0:
            return tir.Not(sub("bool"))
        if kind == 1:
            return draw(st.sampled_from([tir.And, tir.Or]))(sub("bool"), sub("bool"))
        of = draw(st.sampled_from(["int32", "int64", "float32"]))
        return draw(st.sampled_from(COMPARISONS))(sub(of), sub(of))
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return tir.Select(sub("bool"), sub(dtype), sub(dtype))
    if kind == 1:
        other = draw(st.sampled_from([name for name in VARIABLES if name != dtype]))
        return tir.Cast(dtype, sub(other))
    if kind == 2 and dtype != "float32":
        name = draw(st.sampled_from(["shift_left", "bitwise_and", "bitwise_or", "bitwise_xor"]))
        return tir.Call(dtype, f"tir.{name}", [sub(dtype), sub(dtype)])
    if kind == 2:
        return tir.Call(
            dtype, f"tir.{draw(st.sampled_from(['exp', 'tanh', 'sqrt', 'floor', 'fabs']))}", [sub(dtype)]
        )
    if kind == 3:
        return tir.Call(dtype, "tir.if_then_else", [sub("bool"), sub(dtype), sub(dtype)])
    operators = [*ARITHMETIC, tir.Div] if dtype == "float32" else INTEGRAL
    return draw(st.sampled_from(operators))(sub(dtype), sub(dtype))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(VARIABLES)).flatmap(lambda dtype: expressions(dtype, 4)))
def test_expression_reads_back(expr: tir.PrimExpr) -> None:
    params = [var for variables in VARIABLES.values() for var in variables]
    check(PrimFunc(params, Evaluate(expr), attrs={"global_symbol": "main"}))
