"""Slices, splits and ranges whose bounds are arithmetic of symbolic extents have the extents that numpy gives them, none below 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import runners
from ir import relax, tir
from ir.relax import op

N = tir.Var("n", "int64")
REST = 2**31 - 1


def machine(build: Callable[[relax.Var], Any], *scalars: relax.Var) -> Any:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((N,), "float32"))
    with bb.function("main", [x, *scalars]):
        with bb.dataflow():
            out = bb.emit_output(build(x))
        bb.emit_func_output(out)
    return runners.VirtualMachine(relax.build(bb.finalize(), "llvm"), runners.cpu())["main"]


SLICES: dict[str, tuple[Any, Any, int, Callable[[int], slice]]] = {
    "n-1:n": (N - 1, N, 1, lambda n: slice(n - 1, n)),
    ":n-1": (0, N - 1, 1, lambda n: slice(0, n - 1)),
    "n//2:": (N // 2, N, 1, lambda n: slice(n // 2, n)),
    "n-3:n-1": (N - 3, N - 1, 1, lambda n: slice(n - 3, n - 1)),
    "1:n": (1, N, 1, lambda n: slice(1, n)),
    "2:5": (2, 5, 1, lambda n: slice(2, 5)),
    "-3:-1": (-3, -1, 1, lambda n: slice(-3, -1)),
    "3:-3": (3, -3, 1, lambda n: slice(3, -3)),
    "n-4::2": (N - 4, REST, 2, lambda n: slice(n - 4, None, 2)),
    "n-2:0:-1": (N - 2, 0, -1, lambda n: slice(n - 2, 0, -1)),
    "0:5:-1": (0, 5, -1, lambda n: slice(0, 5, -1)),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_with_bounds_of_symbols(name: str) -> None:
    begin, end, step, expected = SLICES[name]
    main = machine(lambda x: op.strided_slice(x, [0], [begin], [end], [step]))
    for n in range(7):
        x = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(main(x).numpy(), x[expected(n)], err_msg=f"n = {n}")


RANGES: dict[str, tuple[tuple[Any, ...], Callable[[int], np.ndarray]]] = {
    "n-5": ((0, N - 5, 1), lambda n: np.arange(0, n - 5)),
    "n-5 by 2": ((1, N - 5, 2), lambda n: np.arange(1, n - 5, 2)),
    "down from n": ((N, 3, -2), lambda n: np.arange(n, 3, -2)),
    "from n": ((N, 4, 1), lambda n: np.arange(n, 4)),
    "by n + 1": ((0, 7, N + 1), lambda n: np.arange(0, 7, n + 1)),
    "by n - 8": ((7, 0, N - 8), lambda n: np.arange(7, 0, n - 8)),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_between_symbols(name: str) -> None:
    bounds, expected = RANGES[name]
    main = machine(lambda x: op.arange(*bounds, "int64"))
    for n in range(8):
        found = main(np.zeros(n, "float32")).numpy()
        np.testing.assert_array_equal(found, expected(n), err_msg=f"n = {n}")


@pytest.mark.parametrize("where", [[4], [2, 5], [40], [5, 2], [-2], 2, 3])
def test_parts_of_a_symbolic_axis(where: Any) -> None:
    """They lie within the axis, as numpy's do; sections are even up to the last ones."""
    main = machine(lambda x: op.split(x, where))
    for n in range(8):
        x = np.arange(n, dtype="float32")
        step = -(-n // where) if isinstance(where, int) else 0
        marks = [step * i for i in range(1, where)] if isinstance(where, int) else where
        for found, expected in zip(main(x), np.split(x, marks), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected, err_msg=f"n = {n}")


def test_a_part_beyond_the_axis_is_no_memory_to_read() -> None:
    bb_parts = machine(lambda x: op.exp(relax.TupleGetItem(op.split(x, [40]), 0)))
    np.testing.assert_allclose(bb_parts(np.ones(2, "float32")).numpy(), np.exp(np.ones(2)), rtol=1e-6)


def test_extents_of_parameters_are_not_negative_and_scalars_may_be() -> None:
    """``x[n // 2:]`` needs no choice for an extent n; a scalar bound counts from the end where it is negative."""
    m = tir.Var("m", "int64")
    scalar = relax.Var("m", relax.PrimStructInfo(value=m))
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((N,), "float32"))
    with bb.function("main", [x, scalar]):
        with bb.dataflow():
            half = bb.emit(op.strided_slice(x, [0], [N // 2], [N]))
            out = bb.emit_output(op.strided_slice(x, [0], [m], [N]))
        bb.emit_func_output(out)
    assert "Select" not in str(half.struct_info) and "Select" in str(out.struct_info)
    main = runners.VirtualMachine(relax.build(bb.finalize(), "llvm"), runners.cpu())["main"]
    x_value = np.arange(5, dtype="float32")
    for bound in (-7, -2, 0, 3, 9):
        np.testing.assert_array_equal(main(x_value, bound).numpy(), x_value[bound:])
