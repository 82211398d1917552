"""Straight-line code computes what the matrices say, with fewer operations than they have entries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, tir
from ir.tir.interpreter import Interpreter
from schedules.cook_toom import Matrix, cook_toom
from schedules.linear_map import StraightLine
from schedules.population import flops_of


def program(matrix: Matrix) -> tir.PrimFunc:
    """``B = matrix * A * matrix^T`` for a square A, in one block."""
    n_rows, width = len(matrix), len(matrix[0])
    source = tir.decl_buffer((width, width), "float64", "A")
    target = tir.decl_buffer((n_rows, n_rows), "float64", "B")
    lines = StraightLine("float64")
    window = [[tir.BufferLoad(source, [i, j]) for j in range(width)] for i in range(width)]
    body = lines.stored(target, lines.on_both_sides(matrix, window), lambda i, j: [i, j])
    one = tir.Var("v", "int32")
    block = tir.Block(
        [tir.IterVar(tir.Range(0, 1), one, tir.IterVar.DataPar)],
        [tir.BufferRegion(source, [tir.Range(0, width)] * 2)],
        [tir.BufferRegion(target, [tir.Range(0, n_rows)] * 2)],
        "transform",
        body,
    )
    root = tir.Block([], [], [], "root", tir.BlockRealize([0], True, block))
    return tir.PrimFunc([source, target], tir.BlockRealize([], True, root), attrs={"global_symbol": "main"})


def run(func: tir.PrimFunc, values: np.ndarray, n_rows: int) -> np.ndarray:
    out = np.zeros((n_rows, n_rows))
    Interpreter(IRModule({"main": func})).call(func, [values, out])
    return out


entries = st.sampled_from(
    [Fraction(item) for item in (-4, -1, 0, 0, 1, 1, 2, 8)] + [Fraction(1, 4), Fraction(-1, 6)]
)


@given(st.data())
def test_what_a_matrix_says_is_computed(data: st.DataObject) -> None:
    n_rows, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    row = st.lists(entries, min_size=width, max_size=width).filter(any).map(tuple)
    matrix = tuple(data.draw(st.lists(row, min_size=n_rows, max_size=n_rows)))
    values = np.random.default_rng(0).standard_normal((width, width))
    numbers = np.array([[float(item) for item in row] for row in matrix])
    np.testing.assert_allclose(
        run(program(matrix), values, n_rows), numbers @ values @ numbers.T, rtol=1e-12, atol=1e-12
    )


def test_points_of_either_sign_share_their_sums() -> None:
    """Rows of the inputs' matrix, and columns of the outputs', come in pairs."""
    for matrix in (cook_toom(4, 3, (0, 1, -1, 2, -2)).inputs, cook_toom(4, 3, (0, 1, -1, 2, -2)).outputs):
        n_terms = sum(bool(item) for row in matrix for item in row)
        n_factors = sum(abs(item) not in (0, 1) for row in matrix for item in row)
        plain = n_terms - len(matrix) + n_factors  # of one column
        assert flops_of(program(matrix)) < 0.85 * plain * (len(matrix[0]) + len(matrix))
