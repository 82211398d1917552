"""Struct infos: constructors, equality, the lattice."""

from __future__ import annotations

import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.analysis import (
    BaseCheckResult,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    get_static_type,
    struct_info_base_check,
    struct_info_lca,
)
from ir.relax.ty import DynTensorType, ShapeType

T, S, P = rx.TensorStructInfo, rx.ShapeStructInfo, rx.PrimStructInfo
n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def test_tensor_fields() -> None:
    info = T((n, 4), "float16")
    assert info.ndim == 2 and info.dtype == "float16"
    assert all(dim.dtype == "int64" for dim in info.shape.values)
    assert T(dtype=None).dtype == "" and T().ndim == -1
    assert T(ndim=3).shape is None


def test_contradicting_ndim_is_rejected() -> None:
    with pytest.raises(ir.IRValueError, match="ndim=3"):
        T((1, 2), ndim=3)
    with pytest.raises(ir.IRValueError, match="ndim=1"):
        S((1, 2), ndim=1)


def test_extents_must_be_integers() -> None:
    with pytest.raises(ir.IRTypeError, match="int64"):
        T((tir.Var("k", "int32"),))
    with pytest.raises(ir.IRTypeError, match="integer"):
        T((1.5,))


def test_equality_is_structural_and_variables_are_themselves() -> None:
    assert T((n, 4)) == T((n, 4)) and hash(T((n, 4))) == hash(T((n, 4)))
    assert T((n, 4)) != T((m, 4))
    assert P("int64") != P(value=n) and P(value=3).dtype == "int64"
    assert rx.TupleStructInfo([T((1,)), S((n,))]) == rx.TupleStructInfo([T((1,)), S((n,))])


def test_function_signatures_are_equal_up_to_their_variables() -> None:
    assert rx.FuncStructInfo([T((n,))], T((n, 2))) == rx.FuncStructInfo([T((m,))], T((m, 2)))
    assert rx.FuncStructInfo([T((n,))], T((n, 2))) != rx.FuncStructInfo([T((m,))], T((m, 3)))


@pytest.mark.parametrize(
    ("base", "derived", "result"),
    [
        (rx.ObjectStructInfo(), T((1,)), BaseCheckResult.PASS),
        (T(ndim=2), T((n, 4)), BaseCheckResult.PASS),
        (T((n, 4)), T((n, 4)), BaseCheckResult.PASS),
        (T((n + 1, 4)), T((1 + n, 4)), BaseCheckResult.PASS),
        (T((n, 4)), T((m, 4)), BaseCheckResult.FAIL_L2),
        (T((n, 4)), T(ndim=2), BaseCheckResult.FAIL_L2),
        (T((3, 4)), T((2, 4)), BaseCheckResult.FAIL_L0),
        (T((3, 4)), T((3, 4), "int32"), BaseCheckResult.FAIL_L0),
        (T(ndim=2), T(), BaseCheckResult.FAIL_L1),
        (T(), rx.ObjectStructInfo(), BaseCheckResult.FAIL_L1),
        (T(), S(), BaseCheckResult.FAIL_L0),
        (S(ndim=2), S((n, 4)), BaseCheckResult.PASS),
        (S((n,)), S((n, 1)), BaseCheckResult.FAIL_L0),
        (P("int64"), P(value=n), BaseCheckResult.PASS),
        (P(value=3), P(value=4), BaseCheckResult.FAIL_L0),
        (rx.TupleStructInfo([T(ndim=1)]), rx.TupleStructInfo([T((3,))]), BaseCheckResult.PASS),
        (rx.TupleStructInfo([]), rx.TupleStructInfo([T()]), BaseCheckResult.FAIL_L0),
        (rx.FuncStructInfo.opaque_func(), rx.FuncStructInfo([T()], T()), BaseCheckResult.PASS),
        (rx.FuncStructInfo([T()], T()), rx.FuncStructInfo([T()], T(), purity=False), BaseCheckResult.FAIL_L0),
        (rx.FuncStructInfo([T((n,))], T((n,))), rx.FuncStructInfo([T((m,))], T((m,))), BaseCheckResult.PASS),
    ],
)
def test_base_check(base: rx.StructInfo, derived: rx.StructInfo, result: BaseCheckResult) -> None:
    assert struct_info_base_check(base, derived) == result
    assert base.is_base_of(derived) == (result == BaseCheckResult.PASS)


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (T((n, 4)), T((n, 4)), T((n, 4))),
        (T((n, 4)), T((m, 4)), T(ndim=2)),
        (T((2, 4)), T((2,)), T()),
        (T((2,)), T((2,), "int32"), T((2,), None)),
        (T((2,)), S((2,)), rx.ObjectStructInfo()),
        (S((n,)), S((m,)), S(ndim=1)),
        (P(value=n), P(value=m), P("int64")),
        (
            rx.TupleStructInfo([T((2,)), S()]),
            rx.TupleStructInfo([T((3,)), S()]),
            rx.TupleStructInfo([T(ndim=1), S()]),
        ),
    ],
)
def test_lca(a: rx.StructInfo, b: rx.StructInfo, joined: rx.StructInfo) -> None:
    assert struct_info_lca(a, b) == joined
    assert struct_info_lca(b, a) == joined
    assert struct_info_lca(a, b).is_base_of(a) and struct_info_lca(a, b).is_base_of(b)


def test_erase_to_well_defined() -> None:
    info = rx.TupleStructInfo([T((n, m)), S((n + 1,)), P(value=m)])
    assert erase_to_well_defined(info, {n: n}) == rx.TupleStructInfo([T(ndim=2), S((n + 1,)), P("int64")])
    assert erase_to_well_defined(T((n, m)), {n: tir.const(3, "int64"), m: m}) == T((3, m))


def test_derive_call_result() -> None:
    signature = rx.FuncStructInfo([T((n, m)), S((n,))], T((m, n + 1)))
    k = tir.Var("k", "int64")
    x = rx.Var("x", T((k, 4)))
    assert derive_call_ret_struct_info(
        signature, rx.Call(rx.Var("f", signature), [x, rx.ShapeExpr((k,))])
    ) == T((4, k + 1))
    with pytest.raises(ir.IRValueError, match="2 arguments"):
        derive_call_ret_struct_info(signature, rx.Call(rx.Var("f", signature), [x]))
    with pytest.raises(ir.IRTypeError, match="argument 0"):
        derive_call_ret_struct_info(
            signature, rx.Call(rx.Var("f", signature), [rx.Var("y", T((k,))), rx.ShapeExpr((k,))])
        )


def test_opaque_function_derives_by_its_own_rule() -> None:
    derived = rx.FuncStructInfo.opaque_func(derive_func=lambda call, ctx: call.args[0].struct_info)
    x = rx.Var("x", T((n,)))
    assert derive_call_ret_struct_info(derived, rx.Call(rx.Var("f", derived), [x])) == T((n,))


def test_static_types() -> None:
    assert ir.structural_equal(get_static_type(T((n, 4))), DynTensorType(2, "float32"))
    assert ir.structural_equal(get_static_type(S((n,))), ShapeType(1))
    assert ShapeType().ndim == -1
