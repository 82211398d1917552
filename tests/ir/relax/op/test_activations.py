"""Activations at NaN, infinities, zeros, denormal and large numbers: the kernel and the reference give what PyTorch does.

PyTorch is asked in float64: in float32 its vectorized kernels and its scalar ones disagree with each other (gelu of infinity).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ir.dtype import to_numpy
from ir.relax import op as R
from ir.relax.testing import evaluate

from .calls import build, params_of
from .cases import Case
from .native import run_natively

NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1e-8, -1e-8, 3e38, -3e38, 1e20, -1e20, 88.5, -88.5, -103, 100, -100]
    + [20, 20.5, -20, 17, -17, -14, 10, -10, 5.5, -5.5, 4, -4, -3, 1, -1, 0.5, -0.5, 1e-3, -1e-3]
)  # fmt: skip

ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu": (R.nn.relu, F.relu),
    "relu6": (R.nn.relu6, F.relu6),
    "leakyrelu": (lambda x: R.nn.leakyrelu(x, 0.5), lambda x: F.leaky_relu(x, 0.5)),
    "gelu": (R.nn.gelu, F.gelu),
    "gelu_tanh": (R.nn.gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
    "silu": (R.nn.silu, F.silu),
    "selu": (R.nn.selu, F.selu),
    "softplus": (R.nn.softplus, F.softplus),
    "softplus with a large threshold": (
        lambda x: R.nn.softplus(x, 2.0, 1e3),
        lambda x: F.softplus(x, 2.0, 1e3),
    ),
    "sigmoid": (R.sigmoid, torch.sigmoid),
    "tanh": (R.tanh, torch.tanh),
    "softmax": (lambda x: R.nn.softmax(R.reshape(x, (-1, 1)), 1), lambda x: F.softmax(x[:, None], 1)),
    "log_softmax": (
        lambda x: R.nn.log_softmax(R.reshape(x, (-1, 1)), 1),
        lambda x: F.log_softmax(x[:, None], 1),
    ),
}
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
SMALLEST = {"float64": 5e-324, "float32": 1.5e-45, "float16": 6e-8, "bfloat16": 1e-40}


def agrees(found: np.ndarray, x: np.ndarray, expected: np.ndarray, dtype: str, signs: bool) -> None:
    """NaN, infinities, zeros and their signs are the same; numbers agree to some units in the last place.

    A difference that cancels, 1 + erf(x), has the error of its operands: in the precision that it is computed in.
    """
    got, wanted = found.astype("float64").ravel(), expected.astype(to_numpy(dtype)).astype("float64").ravel()
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite])
    carried = UNIT["float64" if dtype == "float64" else "float32"]
    wide = x.astype("float64")
    bound = (
        8 * UNIT[dtype] * np.abs(wanted) + 4 * SMALLEST[dtype] + 4 * carried * np.minimum(np.abs(wide), 1e3)
    )
    wrong = finite & ~(np.abs(got - wanted) <= bound)
    assert not wrong.any(), f"at {wide[wrong]}: {got[wrong]}, PyTorch {wanted[wrong]}"
    zeros = (wanted == 0) & (got == 0)
    if signs:
        np.testing.assert_array_equal(np.signbit(got)[zeros], np.signbit(wanted)[zeros])


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_activations_at_the_edges(name: str, dtype: str) -> None:
    ours, theirs = ACTIVATIONS[name]
    x = NUMBERS.astype(to_numpy(dtype))
    expected = theirs(torch.from_numpy(x.astype("float64"))).numpy()
    item = Case(name, ours, [x])
    signs = not name.startswith("relu")  # max(-0.0, 0.0) is any zero
    agrees(np.asarray(evaluate(build(item, params_of(item, False)[0], False), x)), x, expected, dtype, signs)
    agrees(run_natively(ours, x), x, expected, dtype, signs)


def test_log_softmax_of_unlikely_classes_is_no_infinity() -> None:
    x = np.array([[0.0, -200.0, 3.0], [1e4, 0.0, -1e4]], "float32")
    expected = F.log_softmax(torch.from_numpy(x), 1).numpy()
    item = Case("log_softmax", R.nn.log_softmax, [x])
    np.testing.assert_allclose(
        evaluate(build(item, params_of(item, False)[0], False), x), expected, rtol=1e-6
    )
    np.testing.assert_allclose(run_natively(R.nn.log_softmax, x), expected, rtol=1e-6)


@pytest.mark.parametrize("slopes", [1, 5])
def test_one_slope_of_prelu_serves_all_channels(slopes: int) -> None:
    """One slope for five channels was read five elements far."""
    x = np.linspace(-3, 2, 30, dtype="float32").reshape(2, 5, 3)
    alpha = np.linspace(0.25, 0.75, slopes, dtype="float32")
    expected = F.prelu(torch.from_numpy(x), torch.from_numpy(alpha)).numpy()
    np.testing.assert_array_equal(run_natively(R.nn.prelu, x, alpha), expected)


@pytest.mark.parametrize("slopes", [1, 5])
def test_a_symbolic_number_of_slopes(slopes: int) -> None:
    import runners
    from ir import relax as rx
    from ir.tir import Var

    x = np.linspace(-3, 2, 30, dtype="float32").reshape(2, 5, 3)
    alpha = np.linspace(0.25, 0.75, slopes, dtype="float32")
    params = [rx.Var("x", rx.TensorStructInfo([2, 5, 3], "float32"))]
    params.append(rx.Var("alpha", rx.TensorStructInfo([Var("n", "int64")], "float32")))
    builder = rx.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(R.nn.prelu(*params)))
    found = runners.VirtualMachine(rx.build(builder.get(), "llvm"), runners.cpu())["main"](x, alpha)
    expected = F.prelu(torch.from_numpy(x), torch.from_numpy(alpha)).numpy()
    np.testing.assert_array_equal(found.numpy(), expected)
