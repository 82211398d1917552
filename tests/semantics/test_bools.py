"""Arithmetic of bools: ``+`` is or, ``*`` is and, and what numbers have beside these, bools have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ir
from ir import relax as rx
from ir import te, tir
from ir.error import IRTypeError

from . import relax_running
from .running import law

R = rx.op
A, B = [False, False, True, True], [False, True, False, True]
OR, AND = [False, True, True, True], [False, False, False, True]
BOTH = {"A": (A, "bool"), "B": (B, "bool")}


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize(
    ("value", "expected"), [("A[i] + B[i]", OR), ("A[i] * B[i]", AND), ("A[i] + T.bool(True)", [True] * 4)]
)
def test_plus_is_or_and_times_is_and(value: str, expected: list[bool]) -> None:
    law(value, BOTH, expected, "bool")


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize(
    ("value", "numpy"),
    [
        ("T.min(A[i], B[i])", np.minimum), ("T.max(A[i], B[i])", np.maximum), ("A[i] < B[i]", np.less),
        ("A[i] <= B[i]", np.less_equal), ("A[i] > B[i]", np.greater), ("A[i] >= B[i]", np.greater_equal),
        ("A[i] == B[i]", np.equal), ("A[i] != B[i]", np.not_equal), ("A[i] & B[i]", np.bitwise_and),
        ("A[i] | B[i]", np.bitwise_or), ("A[i] ^ B[i]", np.bitwise_xor), ("~A[i]", lambda a, b: ~a),
    ],
)  # fmt: skip
def test_false_is_smaller_than_true(value: str, numpy: Any) -> None:
    """In native code, in the interpreter, and where all of it is constants."""
    law(value, BOTH, numpy(np.array(A), np.array(B)), "bool")
    for a, b in zip(A, B):
        constants = value.replace("A[i]", f"T.bool({a})").replace("B[i]", f"T.bool({b})")
        law(constants, BOTH, [bool(numpy(np.bool_(a), np.bool_(b)))] * 4, "bool")


@pytest.mark.meaning("bool-arith")
def test_a_sum_of_bools_with_a_number_counts_them() -> None:
    law("A[i] + B[i] + 1", BOTH, [1, 2, 2, 2], "int32")
    law("A[i] + (B[i] + 1)", BOTH, [1, 2, 2, 3], "int32")


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize("op", [tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod])
@pytest.mark.parametrize("dtype", ["bool", "boolx4"])
def test_no_node_of_arithmetic_takes_bools(op: Any, dtype: str) -> None:
    x = tir.Var("x", dtype)
    with pytest.raises(IRTypeError, match=f"{op.__name__} is no operation of bools"):
        op(x, x)


X, TRUE = tir.Var("x", "bool"), tir.const(True, "bool")
REFUSED: list[Callable[[], Any]] = [
    lambda: X - X, lambda: X // X, lambda: X % X, lambda: tir.truncdiv(X, X), lambda: tir.truncmod(X, X), lambda: X**X,
    lambda: X << X, lambda: X >> X, lambda: -X, lambda: TRUE - TRUE, lambda: TRUE // TRUE, lambda: -TRUE, lambda: TRUE**TRUE,
    lambda: X / X, lambda: TRUE / TRUE,
    *(lambda name=name, x=x: getattr(tir, name)(x) for name in ("abs", "floor", "ceil", "trunc", "round", "nearbyint") for x in (X, TRUE)),
]  # fmt: skip


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_python_operators_refuse_the_rest(number: int) -> None:
    with pytest.raises(IRTypeError, match="bool"):
        REFUSED[number]()


@pytest.mark.meaning("bool-arith")
def test_constants_fold_as_programs_compute() -> None:
    for a in (False, True):
        for b in (False, True):
            x, y = tir.const(a, "bool"), tir.const(b, "bool")
            assert ir.structural_equal(x + y, tir.const(a or b, "bool"))
            assert ir.structural_equal(x * y, tir.const(a and b, "bool"))


@pytest.mark.meaning("bool-arith")
def test_te_sums_and_products_are_any_and_all() -> None:
    x = te.placeholder((5, 7), "bool", "x")
    k = te.reduce_axis((0, 7), "k")
    for reducer, numpy in ((te.sum, np.any), (te.prod, np.all)):
        func = te.create_prim_func([x, te.compute((5,), lambda i, r=reducer: r(x[i, k], axis=k), "y")])
        data = np.random.default_rng(0).random((5, 7)) < [[0.2], [0.5], [0.9], [1.1], [-1]]
        found = np.zeros(5, bool)
        ir.build(func, "llvm")["main"](data, found)
        np.testing.assert_array_equal(found, numpy(data, 1))


def module(build: Callable[..., Any], *arrays: np.ndarray) -> ir.IRModule:
    params = [
        rx.Var(f"x{n}", rx.TensorStructInfo(item.shape, str(item.dtype))) for n, item in enumerate(arrays)
    ]
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(*params))
        bb.emit_func_output(out)
    return bb.get()


M = np.random.default_rng(1).random((6, 6)) < 0.5
N = np.random.default_rng(2).random((6, 6)) < 0.5


def _any_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a[:, :, None] & b[None]).any(1)


DEFINED: list[tuple[Callable[..., Any], list[np.ndarray], Any]] = [
    (R.add, [M, N], M | N),
    (R.multiply, [M, N], M & N),
    (R.ewise_fma, [M, N, N], M & N | N),
    (R.maximum, [M, N], M | N),
    (R.minimum, [M, N], M & N),
    (lambda x: R.sum(x, 1), [M], M.any(1)),
    (lambda x: R.prod(x, 1), [M | N], (M | N).all(1)),
    (lambda x: R.cumsum(x, 1), [M], np.logical_or.accumulate(M, 1)),
    (lambda x: R.cumprod(x, 1), [M], np.logical_and.accumulate(M, 1)),
    (lambda x: R.cumsum(x, 1, "int32"), [M], np.cumsum(M, 1, "int32")),
    (R.matmul, [M, N], _any_product(M, N)),
    (lambda x, y: R.einsum([x, y], "ij,jk->ik"), [M, N], _any_product(M, N)),
    (lambda x: R.collapse_sum_to(x, [1, 6]), [M], M.any(0, keepdims=True)),
    (lambda x, y: R.scatter_elements(x, rx.const(np.zeros((6, 6), "int64")), y, 0, "add"), [M, N],
     np.vstack([M[:1] | N.any(0), M[1:]])),
]  # fmt: skip


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize("number", range(len(DEFINED)))
def test_operators_on_bools(number: int) -> None:
    build, arrays, expected = DEFINED[number]
    relax_running.holds(module(build, *arrays), arrays, expected)


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize(
    ("name", "theirs"),
    [("add", torch.add), ("multiply", torch.mul), ("maximum", torch.maximum), ("minimum", torch.minimum)],
)
def test_pytorch_agrees(name: str, theirs: Callable[..., Any]) -> None:
    expected = theirs(torch.from_numpy(M), torch.from_numpy(N)).numpy()
    relax_running.holds(module(getattr(R, name), M, N), [M, N], expected)


NUMBERS_ONLY = {
    1: "abs ceil floor round negative sign square mean std variance nn.relu nn.relu6",
    2: "subtract divide floor_divide floor_mod mod power log_add_exp atan2 left_shift right_shift",
}


@pytest.mark.meaning("bool-arith")
@pytest.mark.parametrize(
    ("operands", "name"), [(count, name) for count, names in NUMBERS_ONLY.items() for name in names.split()]
)
def test_operators_of_numbers_refuse_bools(operands: int, name: str) -> None:
    build: Any = R
    for part in name.split("."):
        build = getattr(build, part)
    with pytest.raises(IRTypeError, match=f"relax.{name}: .*got bool"):
        module(build, *[M] * operands)


@pytest.mark.meaning("bool-arith")
def test_bools_are_not_clipped_nor_pooled() -> None:
    with pytest.raises(IRTypeError, match="got bool"):
        module(lambda x: R.clip(x, 0, 1), M)
    for pool in (R.nn.max_pool2d, R.nn.avg_pool2d, R.nn.adaptive_avg_pool2d):
        with pytest.raises(IRTypeError, match="got bool"):
            module(lambda x, pool=pool: pool(x, 2), M[None, None])
