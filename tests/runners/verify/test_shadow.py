"""The bounds hold for every order of summation, and are sharp enough that one wrong term is outside of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import te, topi
from ir.node import post_order_visit
from ir.script import from_source
from ir.tir.stmt import LetStmt
from runners.verify import Reference, compute_reference
from runners.verify.expressions import Unanalysable
from runners.verify.shadow import shadow_of
from tests.programs.nodes import matmul

from .conftest import native, te_program, verdict

BFLOAT16 = ml_dtypes.bfloat16


def half_product(k: int) -> Any:
    """A product of bfloat16 that is summed in float32 and rounded once."""
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16, {k}), "bfloat16"), B: T.Buffer((16, {k}), "bfloat16"), C: T.Buffer((16, 16), "bfloat16")):
        S = T.alloc_buffer((16, 16), "float32")
        for i, j, k in T.grid(16, 16, {k}):
            with T.block("S"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[vi, vj] = T.float32(0)
                S[vi, vj] = S[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vj, vk])
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("bfloat16", S[vi, vj])
""")


def product(change: Callable[[Any, Any], Any], order: slice = slice(None)) -> Callable[..., None]:
    """A kernel in numpy: float32 sums in a chosen order, changed before the one rounding to bfloat16."""

    def call(a: Any, b: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            one, other = (item.astype(np.float32)[:, order] for item in (a, b))
            c[...] = change(one, other).astype(BFLOAT16)

    return call


@pytest.fixture(scope="module")
def long_product() -> Reference:
    return compute_reference(half_product(4096), native)


@pytest.mark.meaning("tune-order")
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_sum_in_any_order_is_right(long_product: Reference, order: slice) -> None:
    assert verdict(long_product, product(lambda a, b: a @ b.T, order)) is None


def without(position: int) -> Callable[[Any, Any], Any]:
    return lambda a, b: np.delete(a, position, axis=1) @ np.delete(b, position, axis=1).T


def neighbour(a: Any, b: Any) -> Any:
    shifted = a.copy()
    shifted[:, 7] = a[:, 8]
    return shifted @ b.T


@pytest.mark.parametrize(
    "change",
    [lambda a, b: -(a @ b.T), lambda a, b: 0 * (a @ b.T), without(0), without(4095), neighbour],
    ids=["negated", "zeroed", "first term", "last term", "neighbour"],
)
def test_a_product_of_4096_terms_that_is_wrong_is_refused(
    long_product: Reference, change: Callable[[Any, Any], Any]
) -> None:
    assert verdict(long_product, product(change)) is not None


def test_sums_in_the_narrow_type_are_refused_where_the_program_sums_in_the_wide_one(
    long_product: Reference,
) -> None:
    def narrow(a: Any, b: Any) -> Any:
        total = np.zeros((16, 16), BFLOAT16)
        for k in range(4096):
            total = (total + np.outer(a[:, k], b[:, k]).astype(BFLOAT16)).astype(BFLOAT16)
        return total

    assert verdict(long_product, product(narrow)) is not None


def test_a_program_that_sums_in_a_narrow_type_is_held_to_sparse_integers() -> None:
    reference = compute_reference(matmul(8, 8, 4096, "bfloat16"), native)

    def call(sign: int) -> Callable[..., None]:
        def run(a: Any, b: Any, c: Any) -> None:
            with np.errstate(all="ignore"):
                c[...] = sign * (a.astype(np.float32) @ b.astype(np.float32)).astype(BFLOAT16)

        return run

    assert verdict(reference, call(1)) is None
    assert (verdict(reference, call(-1)) or "").startswith("small integers")


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = topi.nn.batch_matmul(q, k)
    return topi.nn.batch_matmul(topi.nn.softmax(scores, axis=-1), v, transpose_b=False)


def attended(change: str = "") -> Callable[..., None]:
    def call(q: Any, k: Any, v: Any, out: Any) -> None:
        with np.errstate(all="ignore"):
            scores = np.einsum("bid,bjd->bij", q, k)
            start = 0 if change == "maximum from zero" else -np.inf
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=start))
            weights = powers / powers.sum(axis=-1, keepdims=True)
            if change == "one key left out":
                weights[..., 3] = 0
            if change == "no normalization":
                weights = powers
            out[...] = np.einsum("bij,bjd->bid", weights, v)

    return call


def test_attention_is_refused_when_it_is_wrong_and_only_then() -> None:
    shape = ((2, 24, 32), "float32")
    reference = compute_reference(te_program(attention, shape, shape, shape), native)
    reference.cases = [case for case in reference.cases if not case.kind.special]  # einsum is no judge of NaN
    assert verdict(reference, attended()) is None
    for change in ("maximum from zero", "one key left out", "no normalization"):
        assert verdict(reference, attended(change)) is not None, change


@pytest.mark.meaning("tune-contract", "tune-carry")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_product_and_a_sum_may_be_rounded_once_or_twice(dtype: str) -> None:
    shape = ((6, 300), dtype)
    reference = compute_reference(te_program(lambda a, b, c: a * b + c, shape, shape, shape), native)

    def call(carried: str, sign: int = 1) -> Callable[..., None]:
        def run(a: Any, b: Any, c: Any, out: Any) -> None:
            with np.errstate(all="ignore"):
                out[...] = (a.astype(carried) * b.astype(carried) + sign * c.astype(carried)).astype(dtype)

        return run

    for carried in (dtype, "float32", "float64"):
        assert verdict(reference, call(carried)) is None
    assert verdict(reference, call("float64", -1)) is not None


NORMS = {
    "softmax": (lambda a: topi.nn.softmax(a), [((6, 300), "float32")]),
    "layer_norm": (
        lambda a, g, b: topi.nn.layer_norm(a, g, b, [1]),
        [((6, 300), "float32"), ((300,), "float32"), ((300,), "float32")],
    ),
    "gelu": (lambda a: a * 0.5 * (1 + topi.erf(a * 0.70710678)), [((6, 300), "float32")]),
    "half gelu": (lambda a: topi.tanh(a) * a, [((6, 300), "float16")]),
    "log": (lambda a: topi.log(topi.abs(a) + 1.0), [((6, 300), "float32")]),
    "double": (lambda a: topi.exp(topi.sum(a, axis=1)), [((6, 30), "float64")]),
    "argmax": (lambda a: topi.argmax(a, axis=1), [((6, 300), "float32")]),
    "quantize": (lambda a: topi.cast(topi.round(a * 3.7), "int8"), [((6, 300), "float32")]),
    "cumsum": (lambda a: topi.cumsum(a, axis=1), [((6, 300), "float32")]),
    "sort": (lambda a: topi.sort(a), [((6, 30), "float32")]),
    "mean of relu": (lambda a: topi.sum(topi.nn.relu(a), axis=1) / 300.0, [((6, 300), "float32")]),
}


@pytest.mark.parametrize("name", NORMS)
def test_native_code_is_within_its_bounds_and_a_neighbour_is_not(name: str) -> None:
    function, inputs = NORMS[name]
    mod = te_program(function, *inputs)
    reference, run = compute_reference(mod, native), native(mod)
    assert verdict(reference, lambda *arguments: run(list(arguments))) is None

    def rolled(*arguments: Any) -> None:
        run(list(arguments))
        arguments[-1][...] = np.roll(arguments[-1], 1, axis=0)

    assert verdict(reference, rolled) is not None


def test_most_bounds_are_closed_and_small() -> None:
    for name, (function, inputs) in NORMS.items():
        reference = compute_reference(te_program(function, *inputs), native)
        for bounds in reference.cases[1].outputs:
            if bounds.high is not None and bounds.low.dtype.kind == "f":
                assert np.mean(bounds.low > bounds.high) < 0.01, name
                width = (bounds.high - bounds.low) / np.maximum(np.abs(bounds.midpoint()), 1e-2)
                assert np.median(width) < (0.05 if "half" in name else 1e-3), name


@pytest.mark.meaning("tune-exact")
def test_integers_have_no_bounds_but_their_values() -> None:
    shape = ((5, 40), "int8")
    mod = te_program(
        lambda a, b: topi.sum(topi.cast(a, "int32") * topi.cast(b, "int32"), axis=1), shape, shape
    )
    reference = compute_reference(mod, native)
    assert [case.name for case in reference.cases] == ["small integers", "random numbers"]
    assert all(bounds.high is None for case in reference.cases for bounds in case.outputs)
    right = lambda a, b, c: np.copyto(c, (a.astype("int32") * b.astype("int32")).sum(axis=1))
    assert verdict(reference, right) is None
    for narrow in (
        lambda a, b, c: np.copyto(c, (a.astype("int16") * b.astype("int16")).sum(axis=1, dtype="int16")),
        lambda a, b, c: np.copyto(c, (a.clip(-127) * b.astype("int32")).sum(axis=1)),
        lambda a, b, c: np.copyto(c, (a.view("uint8").astype("int32") * b).sum(axis=1)),
    ):
        assert verdict(reference, narrow) is not None


def test_a_program_with_vectors_is_left_as_it_is() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        B[T.Ramp(0, 1, 16)] = A[T.Ramp(0, 1, 16)] * T.Broadcast(T.float32(3), 16)
""")
    with pytest.raises(Unanalysable, match="Ramp"):
        shadow_of(mod)
    reference = compute_reference(mod, native)
    assert verdict(reference, lambda a, b: np.copyto(b, a * 3)) is None
    assert verdict(reference, lambda a, b: np.copyto(b, a * 3.01)) is not None


def repeated(depth: int) -> Any:
    """A kernel of one expression that holds each of its parts twice."""

    def body(a: Any) -> Any:
        def value(i: Any) -> Any:
            x = a[i]
            for _ in range(depth):
                x = x * x - x
            return x

        return te.compute((8,), value, "O")

    return te_program(body, ((8,), "float32"))


def test_what_is_shared_is_looked_at_once() -> None:
    names = 0

    def count(node: Any) -> None:
        nonlocal names
        names += isinstance(node, LetStmt)

    post_order_visit(shadow_of(repeated(100)).mod["main"].body, count)
    assert 100 <= names < 2_000


def test_what_is_shared_has_the_bounds_of_what_is_written_twice() -> None:
    reference = compute_reference(repeated(3), native)

    def call(a: Any, o: Any, wrong: Any = 0) -> None:
        with np.errstate(all="ignore"):
            x = a.copy()
            for step in range(3):
                x = x * x - (x if step < 2 else x * (1 + wrong))
            o[...] = x

    assert verdict(reference, call) is None
    assert verdict(reference, lambda a, o: call(a, o, np.float32(1e-4))) is not None


@pytest.mark.parametrize(
    "value",
    [
        "T.Select(A[k] > 0.0, O[0] - A[k], O[0])",
        "T.if_then_else(A[k] > 0.0, O[0] - A[k], O[0])",
        "T.Select(A[k] > 0.0, A[k] + O[0], O[0])",
    ],
)
def test_sums_of_what_is_chosen(value: str) -> None:
    reference = compute_reference(
        from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((40,), "float32"), O: T.Buffer((1,), "float32")):
        O[0] = T.float32(0)
        for k in range(40):
            O[0] = {value}
"""),
        native,
    )
    sign = -1 if " - " in value else 1

    def call(a: Any, o: Any) -> None:
        with np.errstate(all="ignore"):
            o[...] = sign * a[a > 0].sum(dtype=np.float32)

    assert verdict(reference, call) is None
    assert verdict(reference, lambda a, o: call(a[:-1], o)) is not None


@pytest.mark.meaning("view")
def test_errors_of_what_is_computed_through_views_are_those_of_its_memory() -> None:
    """Half floats, too, which otherwise may be off by an eighth."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((64,), "bfloat16"), B: T.Buffer((64,), "bfloat16")):
        for i in range(64):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                A1 = T.match_buffer(A[vi], (1,), "bfloat16", offset_factor=1)
                B1 = T.match_buffer(B[vi], (1,), "bfloat16", offset_factor=1)
                B1[0] = A1[0] * T.bfloat16(1.5)
""")
    reference = compute_reference(mod, native)

    def scaled_by(factor: float) -> Any:
        return lambda a, b: np.copyto(b, (a.astype("float32") * factor).astype(b.dtype))

    with np.errstate(all="ignore"):
        assert verdict(reference, scaled_by(1.5)) is None
        assert verdict(reference, scaled_by(1.45)) is not None
