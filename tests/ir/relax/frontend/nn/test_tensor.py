"""Tensors, parameters and what binds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ir import IRError, tir
from ir.relax.expr import Var
from ir.relax.frontend import nn
from ir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from ir.relax.testing.evaluate import evaluate


@pytest.fixture
def default_dtype() -> Iterator[None]:
    yield
    nn.set_default_dtype("float32")


def test_placeholder() -> None:
    n = tir.Var("n", "int64")
    tensor = nn.Tensor.placeholder((1, "m", n, "m"), "float16", name="x")
    one, first, second, third = tensor.shape
    assert one == 1 and second is n
    assert first is third and isinstance(first, tir.Var) and first.name == "m"
    assert (tensor.ndim, tensor.dtype) == (4, "float16")
    assert repr(tensor) == 'Tensor([1, m, n, m], "float16")'


@pytest.mark.parametrize("shape", [(1.5,), (True,), (None,)])
def test_placeholder_rejects_extents(shape: tuple) -> None:
    with pytest.raises(nn.NNError, match="an extent is an int, a name or a tir.PrimExpr"):
        nn.Tensor.placeholder(shape, "float32")
    with pytest.raises(ValueError, match="not negative"):
        nn.Tensor.placeholder((-1,), "float32")


def test_constants() -> None:
    tensor = nn.Tensor.from_const(np.array([[1, 2], [3, 4]]))
    assert (tensor.shape, tensor.dtype) == ([2, 2], "int64")
    assert nn.Tensor.from_const(np.float32([1.5])).dtype == "float32"
    scalar = nn.Tensor.from_scalar(2, "float16")
    assert (scalar.shape, scalar.dtype) == ([], "float16")


def test_from_struct_info() -> None:
    tensor = nn.Tensor.from_struct_info(TensorStructInfo((2, 3), "int8"), name="x")
    assert (tensor.shape, tensor.dtype) == ([2, 3], "int8")


def test_tensors_wrap_tensors_only() -> None:
    with pytest.raises(TypeError, match="wraps a tensor"):
        nn.Tensor(_expr=Var("s", ShapeStructInfo([1])))
    with pytest.raises(TypeError, match="known shape"):
        nn.Tensor(_expr=Var("x", TensorStructInfo(None, "float32")))


def test_functions_need_an_export() -> None:
    x = nn.Tensor.placeholder((2,), "float32")
    with pytest.raises(nn.NNError, match="export_tvm"):
        x + 1


# -------------------------------------------------------------------------------------------------------- parameters
def test_parameter_data() -> None:
    param = nn.Parameter((2, 3))
    assert param.dtype == "float32" and param.data is None
    param.data = np.ones((2, 3), np.float32)
    assert param.data is not None and param.data.sum() == 6
    with pytest.raises(ValueError, match=r"Shape mismatch: expected \(2, 3\), but got \(3, 2\)"):
        param.data = np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="Dtype mismatch: expected float32, but got float64"):
        param.data = np.ones((2, 3))
    param.data = None
    assert param.data is None


def test_parameters_take_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    param = nn.Parameter((2,))
    param.data = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    assert param.data is not None and param.data.tolist() == [1.0, 2.0]


def test_parameter_to() -> None:
    param = nn.Parameter((2,))
    param.to("float16")
    assert param.dtype == "float16"
    param.to(None)
    param.data = np.ones(2, np.float16)
    with pytest.raises(ValueError, match="bound to values"):
        param.to("float32")


@pytest.mark.usefixtures("default_dtype")
def test_default_dtype() -> None:
    assert nn.get_default_dtype() == "float32"
    nn.set_default_dtype("float16")
    assert nn.Parameter((1,)).dtype == "float16"
    with pytest.raises(IRError):
        nn.set_default_dtype("floaty")


# ----------------------------------------------------------------------------------------------------------- modules


_UNDECIDED: dict[str, tuple[Callable[..., Any], str]] = {
    "and": (lambda a, b: a and b, "op.multiply"),
    "or": (lambda a, b: a or b, "op.add"),
    "not": (lambda a, b: not a, "no truth value"),
    "chain": (lambda a, b: 0 < a < b, "op.multiply"),
    "equal": (lambda a, b: a == b, "op.equal"),
    "equal to itself": (lambda a, b: a == a, "op.equal"),
    "equal to a number": (lambda a, b: a == 1, "op.equal"),
    "not equal": (lambda a, b: a != b, "op.not_equal"),
    "in": (lambda a, b: a in (b, 1), "op.equal"),
    "conditional": (lambda a, b: a if a < b else b, "op.where"),
    "max": (lambda a, b: max(a, b), "op.maximum"),
    "min": (lambda a, b: min(a, 2), "op.minimum"),
    "any": (lambda a, b: any([a, b]), "op.where"),
    "&": (lambda a, b: a & b, "bitwise_and"),
    "~": (lambda a, b: ~a, "bitwise_not"),
    "@": (lambda a, b: a @ b, "op.matmul"),
    "//": (lambda a, b: a // b, "floor_divide"),
    "%": (lambda a, b: 2 % b, "floor_mod"),
    "**": (lambda a, b: a**2, "power"),
    "[]": (lambda a, b: a[0], "op.take"),
    "abs": (lambda a, b: abs(a), "topi.abs"),
}


@pytest.mark.meaning("relax-truth")
@pytest.mark.parametrize("name", _UNDECIDED)
def test_python_decides_nothing_of_tensors(name: str) -> None:
    decide, advice = _UNDECIDED[name]

    class Net(nn.Module):
        def main(self, a: nn.Tensor, b: nn.Tensor) -> Any:
            return decide(a, b)

    info = nn.spec.Tensor([2], "float32")
    with pytest.raises(nn.NNError, match=advice):
        Net().export_tvm(spec={"main": {"a": info, "b": info}})


def test_numbers_of_numpy_on_the_left_are_numbers() -> None:
    class Net(nn.Module):
        def main(self, a: nn.Tensor) -> nn.Tensor:
            return np.float32(3) - a * np.int64(2)

    mod, _ = Net().export_tvm(spec={"main": {"a": nn.spec.Tensor([2], "float32")}})
    given = np.array([1.5, -2], "float32")
    np.testing.assert_array_equal(evaluate(mod, given), np.float32(3) - given * 2)


@pytest.mark.parametrize(
    ("combine", "advice"),
    [
        (lambda a: np.ones(2, "float32") * a, "Tensor.from_const"),
        (lambda a: a + np.ones(2, "float32"), "Tensor.from_const"),
        (lambda a: np.exp(a), "numpy.exp does not take nn.Tensors; call a function of op"),
    ],
    ids=["array on the left", "array on the right", "function"],
)
def test_arrays_and_functions_of_numpy_are_refused(combine: Callable[..., Any], advice: str) -> None:
    class Net(nn.Module):
        def main(self, a: nn.Tensor) -> Any:
            return combine(a)

    with pytest.raises(nn.NNError, match=advice):
        Net().export_tvm(spec={"main": {"a": nn.spec.Tensor([2], "float32")}})


def test_tensors_are_keys_and_may_be_absent() -> None:
    a, b = nn.Tensor.from_scalar(1, "int32"), nn.Tensor.from_scalar(1, "int32")
    assert {a: 1, b: 2}[b] == 2
    assert a in [a, b]
    assert a != None and not a == None and a != "a"  # noqa: E711
