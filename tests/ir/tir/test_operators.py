"""Python's operators on expressions: conversion of operands, dtype matching, folding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ir
from ir import tir
from ir.error import IRTypeError, IRValueError


def same(got: tir.PrimExpr, expected: tir.PrimExpr) -> None:
    ir.assert_structural_equal(got, expected)


@pytest.mark.parametrize(
    ("dtype_a", "dtype_b", "expected"),
    [
        ("int32", "int64", "int64"),
        ("bool", "int8", "int8"),
        ("int32", "float16", "float16"),
        ("uint8", "int8", "uint8"),
        ("uint16", "int8", "uint16"),
        ("float16", "bfloat16", "float32"),
        ("float32", "float32x4", "float32x4"),
    ],
)
def test_operands_meet_in_one_dtype(dtype_a: str, dtype_b: str, expected: str) -> None:
    a, b = tir.Var("a", dtype_a), tir.Var("b", dtype_b)
    assert (a + b).dtype == (b + a).dtype == expected


def test_python_numbers_take_the_dtype_beside_them() -> None:
    x, half = tir.Var("x", "int64"), tir.Var("h", "float16")
    assert (x + 1).b.dtype == "int64"
    assert (half * 2).b.dtype == "float16"
    assert (x * 0.5).dtype == "float32"


def test_constants_fold_as_the_machine_computes() -> None:
    same(tir.const(127, "int8") + tir.const(1, "int8"), tir.IntImm("int8", -128))
    same(tir.const(-7) // tir.const(2), tir.IntImm("int32", -4))
    same(tir.truncdiv(tir.const(-7), tir.const(2)), tir.IntImm("int32", -3))
    same(tir.const(-7) % tir.const(2), tir.IntImm("int32", 1))
    same(tir.truncmod(tir.const(-7), tir.const(2)), tir.IntImm("int32", -1))
    assert (tir.const(1.0, "float32") / tir.const(3.0, "float32")).value == pytest.approx(1 / 3, abs=1e-8)
    assert (tir.const(1.0, "float32") / tir.const(3.0, "float32")).value != 1 / 3


def test_neutral_elements_disappear() -> None:
    x = tir.Var("x")
    for kept in (x + 0, 0 + x, x - 0, x * 1, 1 * x, x // 1, tir.min(x, x)):
        assert kept is x
    for zero in (x * 0, x % 1):
        same(zero, tir.const(0))


def test_dividing_by_zero() -> None:
    x = tir.Var("x")
    for divide in (lambda: x // 0, lambda: x % 0, lambda: tir.truncdiv(x, 0), lambda: tir.truncmod(x, 0)):
        with pytest.raises(IRValueError, match="by zero"):
            divide()


@pytest.mark.parametrize("divide", [tir.div, tir.floordiv, tir.floormod])
def test_dividing_a_float_by_zero_is_left_to_the_machine(divide) -> None:
    quotient = divide(tir.const(1.0), tir.const(0.0))
    assert not isinstance(quotient, tir.FloatImm)
    assert quotient.b.value == 0.0


def test_casts_of_constants_wrap_saturate_and_round_once() -> None:
    same(tir.cast("uint8", tir.const(300)), tir.IntImm("uint8", 44))
    same(tir.cast("int32", tir.const(1 << 32, "int64")), tir.IntImm("int32", 0))
    same(tir.cast("int32", tir.const(math.nan)), tir.IntImm("int32", 0))
    same(tir.cast("uint8", tir.const(-3.7)), tir.IntImm("uint8", 0))
    same(tir.cast("int8", tir.const(math.inf)), tir.IntImm("int8", 127))
    same(tir.cast("bool", tir.const(math.nan)), tir.const(True))
    # just above the middle of two bfloat16: by way of float32 it would be the middle, and go to the even one
    assert tir.cast("bfloat16", tir.const(1 + 2**-8 + 2**-40, "float64")).value == 1 + 2**-7
    # likewise an integer above the middle of two float32, by way of float64
    assert tir.cast("float32", tir.const((1 << 60) + (1 << 36) + 1, "int64")).value == (1 << 60) + (1 << 37)


def test_constants_are_numbers_of_their_type() -> None:
    same(tir.const(-1, "uint8"), tir.IntImm("uint8", 255))
    same(tir.const(200, "int8"), tir.IntImm("int8", -56))
    u = tir.Var("u", "uint8")
    same(u > tir.const(-1, "uint8"), tir.GT(u, tir.IntImm("uint8", 255)))
    single = [tir.const(number, "float32") for number in (0.1, 0.2)]
    assert (single[0] + single[1]).value == float(np.float32(0.1) + np.float32(0.2))
    assert bool(single[0] < tir.const(float(np.float32(0.1)), "float32")) is False


def test_floats_keep_zeros_and_nan() -> None:
    x = tir.Var("x", "float32")
    for kept in (
        x + 0.0,
        x * 0.0,
        0.0 - x,
        tir.const(0.0) * x,
        x - (-0.0),
        x / 3.0,
        tir.div(tir.const(0.0), x),
    ):
        assert isinstance(kept, tir.Add | tir.Sub | tir.Mul | tir.Div), kept
    for gone in (x + (-0.0), x - 0.0, x * 1.0, x / 1.0):
        assert gone is x
    nan = tir.const(math.nan)
    for pick in (tir.min, tir.max):
        assert math.isnan(pick(nan, tir.const(1.0)).value) and math.isnan(pick(tir.const(1.0), nan).value)


def test_folding_keeps_calls_with_effects() -> None:
    call = tir.Call("int32", "tir.call_extern", ("next_number",))
    condition = call > 0
    kept = (call * 0, 0 * call, call % 1, tir.truncmod(call, 1), tir.const(0) // call, tir.truncdiv(0, call))
    for made in (*kept, tir.logical_and(condition, False), tir.logical_or(condition, True)):
        assert not isinstance(made, tir.IntImm), made


def test_comparisons_fold_and_unlike_operands_are_unequal() -> None:
    same(tir.const(1) < tir.const(2), tir.const(True, "bool"))
    x = tir.Var("x")
    assert (x == "x") is False
    assert (x != None) is True  # noqa: E711  the operator is under test
    assert (x == tir.Var("p", "handle")) is False
    assert isinstance(x == 1, tir.EQ)
    assert isinstance(x != 1, tir.NE)


def test_refusals_name_the_way_out() -> None:
    x = tir.Var("x")
    with pytest.raises(IRTypeError, match="floordiv"):
        x / 2
    with pytest.raises(IRTypeError, match="no common dtype"):
        x + tir.Var("p", "handle")
    with pytest.raises(IRTypeError, match="needs integers"):
        tir.Var("f", "float32") & 1
    with pytest.raises(IRValueError, match="tir.all"):
        bool(x < 1)


def test_and_of_bools_is_logical() -> None:
    a, b = tir.Var("a", "bool"), tir.Var("b", "bool")
    assert isinstance(a & b, tir.And)
    assert isinstance(a | b, tir.Or)
    assert isinstance(~a, tir.Not)
    same(tir.const(6) & tir.const(3), tir.const(2))


def test_numbers_that_do_not_fit_widen() -> None:
    narrow = tir.Var("a", "int8")
    assert (narrow + 1).dtype == "int8"
    assert (narrow + 1000).dtype == "int32"
    assert (narrow < 300).a.dtype == "int32"
    assert (tir.Var("x", "int32") + np.int64(3)).dtype == "int32"


@pytest.mark.parametrize(
    ("name", "expected"), [("floor", 2.0), ("ceil", 3.0), ("trunc", 2.0), ("round", 3.0), ("nearbyint", 2.0)]
)
def test_rounding_folds_constants(name: str, expected: float) -> None:
    assert getattr(tir, name)(tir.FloatImm("float32", 2.5)).value == expected
    assert isinstance(getattr(tir, name)(tir.Var("f", "float32")), tir.Call)


def test_extremes_reduce_over_axes_and_combine_values() -> None:
    x, k = tir.Var("x", "int32"), tir.reduce_axis((0, 8), "k")
    same(tir.max(x, 3), tir.Max(x, tir.const(3)))
    same(tir.min(x, 3, 4), tir.Min(tir.Min(x, tir.const(3)), tir.const(4)))
    found = tir.max(k.var * 2, axis=k)
    assert isinstance(found, tir.Reduce) and found.axis[0] is k
    outer = tir.IterVar(tir.Range(0, 8), x, tir.IterVar.DataPar)
    with pytest.raises(ir.error.IRTypeError, match="no reduction axis"):
        tir.sum(x, axis=outer)


def test_constants_decide_connectives() -> None:
    p, yes, no = tir.Var("p", "bool"), tir.const(True), tir.const(False)
    for either in (tir.any(p, no), tir.any(no, p), tir.all(p, yes), tir.all(yes, p)):
        assert either is p
    assert all(bool(item) for item in (tir.any(p, yes), tir.any(yes, p)))
    assert not any(bool(item) for item in (tir.all(p, no), tir.all(no, p)))


def test_vectors_of_a_buffer_are_its_last_indices() -> None:
    i, buffer = tir.Var("i"), tir.decl_buffer((4, 16), "float32", "A")
    load = buffer.vload([i, 8], "float32x4")
    first, last = load.indices
    assert first is i and isinstance(last, tir.Ramp) and last.lanes == 4 and int(last.stride) == 1
    store = buffer.vstore([i, 8], tir.Broadcast(tir.const(1.0), 4))
    assert ir.structural_equal(store.indices, load.indices)


def test_integers_are_conditions_where_they_are_not_zero() -> None:
    x, y = tir.Var("x", "int32"), tir.Var("y", "uint8")
    body = tir.Evaluate(tir.const(0))
    holds = tir.Cast("bool", x)
    for made, condition in [
        (tir.Select(x, 1, 0), lambda node: node.condition),
        (tir.if_then_else(x, 1, 0), lambda node: node.args[0]),
        (tir.And(x, y), lambda node: node.a),
        (tir.Or(x, y), lambda node: node.a),
        (tir.Not(x), lambda node: node.a),
        (tir.logical_and(x, y), lambda node: node.a),
        (tir.logical_not(x), lambda node: node.a),
        (tir.IfThenElse(x, body), lambda node: node.condition),
        (tir.While(x, body), lambda node: node.condition),
        (tir.AssertStmt(x, "x", body), lambda node: node.condition),
    ]:
        ir.assert_structural_equal(condition(made), holds)
    assert tir.Not(tir.Broadcast(x, 4)).dtype == "boolx4"
    assert tir.Select(3, 1, 0).condition.same_as(tir.const(True))
    assert tir.logical_or(0, y).dtype == "bool"


@pytest.mark.parametrize(
    "make",
    [tir.Not, lambda x: tir.And(x, x), lambda x: tir.Select(x, 1, 0), lambda x: tir.if_then_else(x, 1, 0)],
)
@pytest.mark.parametrize("dtype", ["float32", "handle"])
def test_what_is_no_condition_is_refused(make: Any, dtype: str) -> None:
    with pytest.raises(IRTypeError, match=f"must be bool, got {dtype}; compare it, as in x != 0"):
        make(tir.Var("x", dtype))


def test_functions_of_numbers_do_not_take_expressions() -> None:
    x = tir.Var("x", "float32")
    for compute in (math.exp, float, math.sqrt):
        with pytest.raises(
            IRTypeError, match=r"no Python number; call a function of T on it, such as T\.exp\(x\)"
        ):
            compute(x)
    with pytest.raises(
        IRTypeError,
        match=r"numpy\.exp does not take TIR expressions; call a function of T, such as T\.exp\(x\)",
    ):
        np.exp(x)


def test_scalars_of_numpy_are_operands() -> None:
    x, i = tir.Var("x", "float32"), tir.Var("i", "int32")
    for found, expected in [
        (np.float32(2) * x, 2.0 * x), (x * np.float32(2), x * 2.0), (np.int64(2) + i, 2 + i), (np.int64(7) // i, 7 // i),
        (np.float32(1) < x, x > 1.0), (np.int64(1) == i, i.equal(1)), (np.int64(1) >= i, i <= 1), (np.sum([i, i]), i + i),
    ]:  # fmt: skip
        same(found, expected)
