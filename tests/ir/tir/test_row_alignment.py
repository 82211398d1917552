"""How far rows of a buffer lie apart where a schedule asks for it."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.tir.row_alignment import BUFFER_DIM_ALIGN, RowAlignment, row_alignments


@pytest.mark.parametrize(
    ("dense", "factor", "offset", "step"), [(20, 32, 1, 33), (33, 32, 1, 33), (34, 32, 1, 65), (5, 4, 0, 8)]
)
def test_the_least_step_that_is_aligned(dense: int, factor: int, offset: int, step: int) -> None:
    alignment = RowAlignment(0, 0, factor, offset)
    assert alignment.step(dense) == step
    np.testing.assert_array_equal(alignment.step(np.array([dense, dense + factor])), [step, step + factor])


def test_a_block_says_which_buffers_have_aligned_rows() -> None:
    """In numbers, or in constants of a program that was read."""
    annotations = {
        BUFFER_DIM_ALIGN: [(0, 1, 32, 1), [tir.const(1), tir.const(0), tir.const(8), tir.const(4)]]
    }
    assert row_alignments(annotations) == [(0, 1, 32, 1), (1, 0, 8, 4)]
    assert row_alignments({}) == []
