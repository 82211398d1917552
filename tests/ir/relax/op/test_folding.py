"""What operators are when the program is built: by their reference, by ``fold``, or not at all where they have no value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import IRModule, relax, tir
from ir.op import Op
from ir.relax.op.declaration import OPERATORS, operator
from ir.relax.op.folding import NotComputable
from ir.relax.op.inference import same_as, tensor_args
from ir.relax.testing import evaluate
from ir.relax.transform import BindParams, FoldConstant

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
def test_what_numpy_does_not_compute_is_left_to_the_program(name: str, value: np.ndarray) -> None:
    operands = [relax.const(value)] * (2 if name == "subtract" else 1)
    assert isinstance(fold(getattr(relax.op, name)(*operands)), relax.Call)


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
