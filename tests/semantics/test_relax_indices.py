"""What indices of operators may be, and what lies beyond the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import relax as rx
from ir.relax import op
from ir.relax.testing import EvaluationError, evaluate

from ..ir.relax.op.native import run_natively

X = np.float32([[1, 2, 3], [4, 5, 6]])
COLUMNS = np.array([[-1, 0], [1, -3]], "int64")
PAIRS = np.array([[-1, 0], [0, -3], [-2, 2]], "int64")


def _evaluated(build: Callable[..., Any], *args: np.ndarray) -> np.ndarray:
    params = [rx.Var(f"x{i}", rx.TensorStructInfo(arg.shape, str(arg.dtype))) for i, arg in enumerate(args)]
    builder = rx.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(*params)))
    return np.asarray(evaluate(builder.finalize(), *args))


def _put(places: Any, values: Any) -> np.ndarray:
    found = X.copy()
    found[places] = values
    return found


_ROWS = np.arange(2)[:, None]
_PLACES = (PAIRS[:, 0], PAIRS[:, 1])
_NEW = np.float32([7, 8, 9])
_CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], np.ndarray]] = {
    "take": (lambda x, i: op.take(x, i, 1), (COLUMNS,), X[:, COLUMNS]),
    "gather_elements": (lambda x, i: op.gather_elements(x, i, 1), (COLUMNS,), X[_ROWS, COLUMNS]),
    "gather_nd": (op.gather_nd, (PAIRS,), X[_PLACES]),
    "index_tensor": (lambda x, i, j: op.index_tensor(x, [i, j]), _PLACES, X[_PLACES]),
    "index_put": (lambda x, i, j, v: op.index_put(x, [i, j], v), (*_PLACES, _NEW), _put(_PLACES, _NEW)),
    "scatter_elements": (
        lambda x, i, v: op.scatter_elements(x, i, v, 1),
        (COLUMNS, X[:, :2] * 10),
        _put((_ROWS, COLUMNS), X[:, :2] * 10),
    ),
    "scatter_nd": (op.scatter_nd, (PAIRS, _NEW), _put(_PLACES, _NEW)),
}


@pytest.mark.meaning("op-index")
@pytest.mark.parametrize("name", _CASES)
def test_a_negative_index_counts_from_the_end(name: str) -> None:
    build, args, expected = _CASES[name]
    np.testing.assert_array_equal(_evaluated(build, X, *args), expected)
    np.testing.assert_array_equal(run_natively(build, X, *args), expected)


@pytest.mark.meaning("op-index")
@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("beyond", [-4, 3])
def test_the_evaluator_refuses_what_lies_beyond(name: str, beyond: int) -> None:
    build, args, _ = _CASES[name]
    place = 1 if name.startswith("index") else 0
    args = tuple(
        np.where(arg == -3, beyond, arg) if number == place else arg for number, arg in enumerate(args)
    )
    with pytest.raises(EvaluationError, match=rf"relax\.{name}: .*\n  in the binding of gv in main"):
        _evaluated(build, X, *args)


@pytest.mark.meaning("op-index")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("clip", X[:, [0, 0, 0, 2, 2, 2]]),
        ("wrap", X[:, np.array([-4, -1, 0, 2, 3, 7]) % 3]),
        ("nan", np.where([False, False, True, True, False, False], X[:, [0, 0, 0, 2, 2, 2]], np.nan)),
    ],
)
def test_a_mode_of_take_says_what_lies_beyond(mode: str, expected: np.ndarray) -> None:
    indices = np.array([-4, -1, 0, 2, 3, 7])

    def build(x: Any, i: Any) -> Any:
        return op.take(x, i, 1, mode)

    np.testing.assert_array_equal(_evaluated(build, X, indices), expected)
    np.testing.assert_array_equal(run_natively(build, X, indices), expected)


@pytest.mark.meaning("op-index")
def test_an_index_beyond_the_depth_is_nowhere_hot() -> None:
    indices = np.array([-1, 0, 2, 3])
    expected = np.float32([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]])

    def build(i: Any) -> Any:
        return op.one_hot(i, rx.PrimValue(1.0), rx.PrimValue(0.0), 3)

    np.testing.assert_array_equal(_evaluated(build, indices), expected)
    np.testing.assert_array_equal(run_natively(build, indices), expected)
