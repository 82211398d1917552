"""Python numbers beside tensors have the tensor's dtype, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRError, IRValueError, relax
from ir.relax import op
from ir.relax.frontend import nn
from ir.relax.op.number import number_beside
from ir.script import from_source

HELD = [
    ("int32", "x + 2"),
    ("int32", "x * 2.0"),
    ("int32", "2 - x"),
    ("uint8", "x > 255"),
    ("int64", "x + 3000000000"),
    ("uint64", "x + 18446744073709551615"),
    ("float32", "x * 0.1"),
    ("float32", "x + 16777217"),
    ("float16", "x * float('-inf')"),
]
NOT_HELD = [
    ("int32", "x * 0.5", "multiply", "0.5"),
    ("int32", "x + 1.5", "add", "1.5"),
    ("int32", "1.5 - x", "subtract", "1.5"),
    ("int32", "x > 1.5", "greater", "1.5"),
    ("int32", "x + 3000000000", "add", "3000000000"),
    ("int32", "x + float('inf')", "add", "inf"),
    ("int32", "x + float('nan')", "add", "nan"),
    ("uint8", "x > -1", "greater", "-1"),
    ("uint8", "x + 300", "add", "300"),
    ("int8", "x + 200", "add", "200"),
    ("bool", "x + 1", "add", "1"),
    ("float16", "x + 100000.0", "add", "100000.0"),
]


def _tensor(dtype: str) -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo((2,), dtype))


def _nn_function(dtype: str, formula: str) -> relax.Function:
    class Model(nn.Module):
        def main(self, x: nn.Tensor) -> nn.Tensor:
            return eval(formula, {"op": nn.op}, {"x": x})

    return Model().export_tvm(spec={"main": {"x": nn.spec.Tensor([2], dtype)}})[0]["main"]


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize(("dtype", "formula"), HELD)
def test_a_number_has_the_dtype_of_the_tensor_beside_it(dtype: str, formula: str) -> None:
    built = eval(formula, {}, {"x": _tensor(dtype)})
    assert [arg.struct_info.dtype for arg in built.args] == [dtype, dtype]
    assert _nn_function(dtype, formula).params[0].struct_info.dtype == dtype


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize(("dtype", "formula", "operator", "number"), NOT_HELD)
def test_a_number_that_the_dtype_beside_it_does_not_hold_is_refused(
    dtype: str, formula: str, operator: str, number: str
) -> None:
    message = rf"relax\.{operator}: {number} stands beside a tensor of {dtype}, which does not hold it.*R\.const\({number}, .*astype\("
    with pytest.raises(IRValueError, match=message):
        eval(formula, {}, {"x": _tensor(dtype)})
    with pytest.raises(IRValueError, match=message):
        _nn_function(dtype, formula)


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize(
    "formula", ["x * 0.5", "R.multiply(x, 0.5)", "R.where(x > 1, x, 0.5)", "R.full_like(x, 0.5)"]
)
def test_script_refuses_a_number_that_is_not_held(formula: str) -> None:
    with pytest.raises(IRError, match=r"0\.5 stands beside a tensor of int32"):
        from_source(f'@R.function\ndef main(x: R.Tensor((2,), "int32")):\n    z = {formula}\n    return z\n')


def test_the_named_operators_take_numbers_too() -> None:
    x = _tensor("float32")
    assert op.add(x, 2).args[1].struct_info.dtype == "float32"
    assert op.where(op.less(x, 2), 1, x).args[1].struct_info.dtype == "float32"
    with pytest.raises(IRValueError, match=r"relax\.full_like: 0\.5 stands beside a tensor of int32"):
        op.masked_fill(_tensor("int32"), _tensor("bool"), 0.5)


@pytest.mark.parametrize("formula", ["op.add(x, 2)", "op.maximum(2, x)", "op.where(op.less(x, 1), x, 0)"])
def test_functions_of_nn_take_numbers_too(formula: str) -> None:
    assert _nn_function("int32", formula).ret_struct_info.dtype == "int32"
    with pytest.raises(IRValueError, match=r"relax\.\w+: 0\.5 stands beside a tensor of int32"):
        _nn_function("int32", formula.replace("2", "0.5").replace("1", "0.5"))


def test_arrays_are_held_element_by_element() -> None:
    assert number_beside("relax.add", np.array([1, 2]), "int8").data.dtype == np.int8
    with pytest.raises(IRValueError, match=r"relax\.add: 200 stands beside a tensor of int8"):
        number_beside("relax.add", np.array([1, 200]), "int8")


def test_the_fix_names_a_dtype_that_holds_the_number() -> None:
    for number, dtype, wide in (
        (1e39, "float32", "float64"),
        (2**40, "int32", "int64"),
        (2**63, "int64", "uint64"),
    ):
        with pytest.raises(IRValueError, match=rf'R\.const\({number!r}, "{wide}"\)'.replace("+", r"\+")):
            number_beside("relax.add", number, dtype)
