"""Where extents of Relax programs are computed, and which Python numbers stand beside tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ir.error import IRError
from ir.script import from_source
from runners.ndarray import numpy_dtype

from .relax_running import executors, holds, plain

X = np.float32([1, 2, 3, 4])


def _divided(returned: str) -> str:
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Tensor(("k",), "float32")):
        n = T.int64()
        k = T.int64()
        z = R.zeros((n // k,), "float32")
        w = R.exp(z)
        y = R.negative(x)
        return {returned}
"""


@pytest.mark.meaning("relax-agree")
def test_an_extent_that_is_used_and_divides_by_zero_is_an_error() -> None:
    mod = from_source(_divided("(y, w)"))
    holds(mod, [X, X[:2]], (-X, np.ones(2, "float32")))
    for _, execute in executors(mod):
        with pytest.raises(Exception, match="divide"):
            execute(X, X[:0])


@pytest.mark.meaning("relax-agree")
def test_an_extent_that_nobody_uses_may_divide_by_zero() -> None:
    """Where the binding is removed there is no error: so in the evaluator, and in what is built with optimizations."""
    mod = from_source(_divided("y"))
    holds(mod, [X, X[:2]], -X)
    for name, execute in executors(mod):
        if name != "as it is":
            np.testing.assert_array_equal(plain(execute(X, X[:0])), -X, err_msg=name)


def _beside(dtype: str, number: str) -> str:
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "{dtype}")):
        return R.add(x, {number})
"""


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_float_dtype_holds_infinities_and_nan(dtype: str, number: str) -> None:
    x = X.astype(dtype)
    holds(from_source(_beside(dtype, f"float('{number}')")), [x], x + np.dtype(dtype).type(number))


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize(
    ("dtype", "number"), [("float16", "1e6"), ("float32", "1e39"), ("int32", "float('inf')")]
)
def test_a_number_that_is_rounded_to_infinity_is_refused(dtype: str, number: str) -> None:
    with pytest.raises(IRError, match=dtype):
        from_source(_beside(dtype, number))


@pytest.mark.meaning("empty")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("R.nn.batch_flatten(x)", np.zeros((0, 6), "float32")),
        (
            "R.grad.max_pool2d_backward(x, R.zeros((n, 1, 2, 3), 'float32'), pool_size=[1, 1])",
            np.zeros((0, 1, 2, 3), "float32"),
        ),
    ],
)
def test_a_batch_of_nothing(returned: str, expected: np.ndarray) -> None:
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 1, 2, 3), "float32")):
        n = T.int64()
        return {returned}
""")
    holds(mod, [np.zeros((0, 1, 2, 3), "float32")], expected)


@pytest.mark.meaning("op-reference")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_sign_of_a_negative_zero_is_zero(dtype: str) -> None:
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "{dtype}")):
        return R.divide(R.ones((4,), "{dtype}"), R.sign(x))
""")
    x = np.array([-0.0, 0.0, -2.0, 3.0]).astype(numpy_dtype(dtype))
    holds(mod, [x], np.array([np.inf, np.inf, -1.0, 1.0]).astype(numpy_dtype(dtype)))
