"""What operators are when the program is built: by their reference, by ``fold``, or not at all where they have no value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import runners
from ir import IRModule, relax, tir
from ir.error import IRTypeError
from ir.op import Op
from ir.relax.op.declaration import OPERATORS, operator
from ir.relax.op.folding import NotComputable
from ir.relax.op.inference import same_as, tensor_args
from ir.relax.testing import evaluate
from ir.relax.transform import BindParams, FoldConstant, LegalizeOps

from .calls import build, params_of
from .cases import CASES, Case


def folded(item: Case) -> relax.Expr:
    """What becomes of a case's call when its operands are constants."""
    params, _ = params_of(item, False)
    mod = build(item, params, False)
    names = [param.name_hint for param in params]
    bound = BindParams("main", dict(zip(names, item.inputs, strict=True)))(mod)
    return FoldConstant()(bound)["main"].body.blocks[-1].bindings[-1].value


def with_indices(item: Case, index: int) -> Case:
    """The case with every integer operand filled with one number."""
    inputs = [
        np.full_like(array, index) if np.issubdtype(array.dtype, np.integer) else array
        for array in map(np.asarray, item.inputs)
    ]
    return dataclasses.replace(item, inputs=tuple(inputs))


INDEXING = [item for item in CASES if OPERATORS[item.op].undefined == (IndexError,)]
INDEX_IS_NO_OPERAND = {"take-scalar"}


def test_operators_that_index_are_those_that_are_undefined() -> None:
    assert {item.op.removeprefix("relax.") for item in INDEXING} == {
        *("take", "gather_elements", "gather_nd", "index_tensor", "index_put", "scatter_elements"),
        *("scatter_nd", "nn.nll_loss", "grad.nll_loss_backward", "grad.take_backward"),
        "multinomial_from_uniform",
    }


@pytest.mark.parametrize("item", INDEXING, ids=str)
def test_an_index_beyond_the_end_is_left_to_the_program(item: Case) -> None:
    assert not isinstance(folded(item), relax.Call)
    beyond = folded(with_indices(item, 100))
    assert isinstance(beyond, relax.Call) == (str(item) not in INDEX_IS_NO_OPERAND)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("negative", np.ones(2, bool)),
        ("sign", np.ones(2, bool)),
        ("bitwise_not", np.ones(2, "float32")),
        ("subtract", np.ones(2, bool)),
    ],
)
def test_what_means_nothing_for_a_dtype_is_refused_and_not_folded(name: str, value: np.ndarray) -> None:
    operands = [relax.const(value)] * (2 if name == "subtract" else 1)
    with pytest.raises(IRTypeError, match=f"relax.{name}: "):
        fold(getattr(relax.op, name)(*operands))


def fold(call: relax.Expr) -> relax.Expr:
    """What FoldConstant makes of a call that a function returns."""
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(call))
    return FoldConstant()(bb.finalize())["main"].body.blocks[0].bindings[0].value


@pytest.fixture
def declared() -> Iterator[Any]:
    """``declare(**facets)``: a function that calls a new operator of one tensor."""
    name = "relax.test.folding"

    def declare(**facets: Any) -> Any:
        infer = lambda node, builder: same_as(*tensor_args(node, 1))
        operator(name, infer=infer, **facets)(lambda x: None)
        return lambda x: relax.Call(Op.get(name), [x])

    yield declare
    del OPERATORS[name], Op.registry[name]
    for values in Op._attributes.values():
        values.pop(name, None)


def test_a_mistake_in_a_reference_is_no_secret(declared: Any) -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        raise KeyError("misspelt")

    with pytest.raises(KeyError, match="misspelt"):
        fold(declared(reference=reference)(relax.const([1.0])))


def test_what_a_declaration_calls_undefined_is_not_folded(declared: Any) -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        if x[0] > 1:
            raise ZeroDivisionError
        return 2 * x

    call = declared(reference=reference, undefined=(ZeroDivisionError,))
    assert isinstance(fold(call(relax.const([2.0]))), relax.Call)
    np.testing.assert_array_equal(fold(call(relax.const([1.0]))).data, [2.0])


def test_an_operator_may_fold_by_itself(declared: Any) -> None:
    def by_itself(node: relax.Call, known: Any) -> relax.Expr:
        if known.value(node.args[0])[0] > 1:
            raise NotComputable("too large")
        return relax.const([7.0])

    call = declared(fold=by_itself)
    assert isinstance(fold(call(relax.const([2.0]))), relax.Call)
    np.testing.assert_array_equal(fold(call(relax.const([1.0]))).data, [7.0])


def test_shapes_and_tensors_of_them() -> None:
    shape = fold(relax.op.tensor_to_shape(relax.const(np.array([2, 3], "int64"), "int64")))
    assert [extent.value for extent in shape.values] == [2, 3]
    tensor = fold(relax.op.shape_to_tensor(relax.ShapeExpr([4, 5])))
    np.testing.assert_array_equal(tensor.data, np.array([4, 5], "int64"))
    of = fold(relax.op.shape_of(relax.const(np.zeros((6, 7), "float32"))))
    assert [extent.value for extent in of.values] == [6, 7]


def test_shapes_that_are_known_when_the_program_runs_stay() -> None:
    x = relax.Var("x", relax.TensorStructInfo((tir.Var("n", "int64"),), "float32"))
    y = relax.Var("y", relax.TensorStructInfo((2,), "int64"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        of = bb.emit(relax.op.shape_of(x))
        parts = [of, bb.emit(relax.op.shape_to_tensor(of)), bb.emit(relax.op.tensor_to_shape(y))]
        bb.emit_func_output(relax.Tuple(parts))
    mod: IRModule = bb.finalize()
    assert FoldConstant()(mod) is mod


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_references_compute_types_that_numpy_does_not_have(dtype: str) -> None:
    kind = getattr(ml_dtypes, dtype)
    values = np.array([1.0, -2.0, 3.0, 0.5]).astype(kind)
    x = relax.Var("x", relax.TensorStructInfo((4,), dtype))

    def run(call: relax.Expr) -> Any:
        bb = relax.BlockBuilder()
        with bb.function("main", [x]):
            bb.emit_func_output(bb.emit(call))
        return evaluate(bb.finalize(), values)

    np.testing.assert_array_equal(run(relax.op.sort(x, descending=True)), [3.0, 1.0, 0.5, -2.0])
    np.testing.assert_array_equal(run(relax.op.argsort(x, descending=True)), [2, 0, 3, 1])
    product = run(relax.op.einsum([x, x], "i,i->i"))
    assert product.dtype == kind
    np.testing.assert_array_equal(product, [1.0, 4.0, 9.0, 0.25])


_NAN = np.float32([np.nan, 1, -np.inf, -0.0, 3, np.nan, 2, 0.5])
_INTS = np.int32([-7, 7, 2**31 - 1, -(2**31), 0, 5])


@pytest.mark.parametrize(
    "name, build",
    [
        ("maximum", lambda: relax.op.maximum(relax.const(_NAN), relax.const(np.roll(_NAN, 1)))),
        ("minimum", lambda: relax.op.minimum(relax.const(_NAN), relax.const(np.roll(_NAN, 3)))),
        ("max", lambda: relax.op.max(relax.const(_NAN))),
        ("argmax", lambda: relax.op.argmax(relax.const(_NAN), axis=0)),
        ("sign", lambda: relax.op.sign(relax.const(_NAN))),
        ("add_zero", lambda: relax.op.add(relax.const(_NAN), relax.const(np.float32(-0.0)))),
        (
            "to_int",
            lambda: relax.op.astype(relax.const(np.float32([np.nan, 1e20, -5.5, np.inf, -3e9])), "int32"),
        ),
        ("to_half", lambda: relax.op.astype(relax.const(np.float32([65520, 1e-8, 2049, -0.0])), "float16")),
        ("floor_divide", lambda: relax.op.floor_divide(relax.const(_INTS), relax.const(np.int32(-2)))),
        ("mod", lambda: relax.op.mod(relax.const(_INTS), relax.const(np.int32(3)))),
        ("wraps", lambda: relax.op.multiply(relax.const(_INTS), relax.const(np.int32(3)))),
        ("sum_half", lambda: relax.op.sum(relax.const(np.ones(5000, "float16")))),
        ("mean_half", lambda: relax.op.mean(relax.const(np.full(3000, 100, "float16")))),
        (
            "matmul_half",
            lambda: relax.op.matmul(
                relax.const(np.ones((1, 4096), "float16")), relax.const(np.ones((4096, 1), "float16"))
            ),
        ),
        ("take", lambda: relax.op.take(relax.const(_NAN), relax.const(np.int64([0, 7, 3])), axis=0)),
        (
            "take_clip",
            lambda: relax.op.take(relax.const(_NAN), relax.const(np.int64([-1, 9, 3])), axis=0, mode="clip"),
        ),
        (
            "take_wrap",
            lambda: relax.op.take(relax.const(_NAN), relax.const(np.int64([-1, 9, 3])), axis=0, mode="wrap"),
        ),
        ("exp", lambda: relax.op.exp(relax.const(_NAN))),
        ("tanh", lambda: relax.op.tanh(relax.const(_NAN))),
        ("sqrt", lambda: relax.op.sqrt(relax.const(_NAN))),
        ("softmax", lambda: relax.op.nn.softmax(relax.const(np.float32([[1, 2, 3]])))),
        ("split", lambda: relax.op.split(relax.const(_NAN), 2)),
        ("cumsum", lambda: relax.op.cumsum(relax.const(_NAN))),
        ("permute", lambda: relax.op.permute_dims(relax.const(np.arange(6, dtype="uint8").reshape(2, 3)))),
        (
            "empty",
            lambda: relax.op.concat(
                [relax.const(np.zeros((0, 2), "float32")), relax.const(np.ones((1, 2), "float32"))], 0
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.meaning("relax-fold")
def test_constants_are_what_kernels_compute(name: str, build: Any) -> None:
    """To the bit: NaN, signed zeros, saturation, wrapping, sums of half floats."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            out = builder.emit_output(build())
        builder.emit_func_output(out)
    before = builder.finalize()
    after = FoldConstant()(before)
    assert not isinstance(after["main"].body.blocks[0].bindings[0].value, relax.Call), "it is folded"

    def run(mod: IRModule) -> list[np.ndarray]:
        kernels = LegalizeOps()(mod)
        built = relax.build(
            kernels, "llvm", relax_pipeline=relax.get_pipeline("default_build"), tir_pipeline=None
        )
        result = runners.VirtualMachine(built, runners.cpu())["main"]()
        return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]

    for got, wanted in zip(run(after), run(before), strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        assert got.tobytes() == wanted.tobytes()


def test_an_operator_that_legalization_leaves_is_left(declared: Any) -> None:
    call = declared(legalize=lambda builder, node: node, reference=lambda x: x)
    assert isinstance(fold(call(relax.const([2.0]))), relax.Call)


MOVING = [item for item in CASES if OPERATORS[item.op].moves]


def test_operators_that_move_elements() -> None:
    assert {item.op.removeprefix("relax.") for item in MOVING} == {
        *(
            "reshape",
            "expand_dims",
            "squeeze",
            "flatten",
            "permute_dims",
            "flip",
            "broadcast_to",
            "concat",
            "split",
        ),
    }


@pytest.mark.parametrize("item", MOVING, ids=str)
def test_references_of_what_moves_elements_are_exact(item: Case) -> None:
    """What is folded by a reference is what the kernel gives, to the bit, whatever the elements are."""
    marked = [
        np.where(np.arange(array.size).reshape(array.shape) % 2, array, np.asarray(np.nan, array.dtype))
        if np.issubdtype(array.dtype, np.floating)
        else array
        for array in map(np.asarray, item.inputs)
    ]
    item = dataclasses.replace(item, inputs=tuple(marked))
    params, _ = params_of(item, False)
    mod = build(item, params, False)
    names = [param.name_hint for param in params]
    bound = BindParams("main", dict(zip(names, item.inputs, strict=True)))(mod)

    def run(program: IRModule) -> list[np.ndarray]:
        built = relax.build(LegalizeOps()(program), "llvm", pipeline=None)
        result = runners.VirtualMachine(built, runners.cpu())["main"]()
        return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]

    for got, wanted in zip(run(FoldConstant()(bound)), run(bound), strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape and got.tobytes() == wanted.tobytes()
