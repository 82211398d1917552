"""Accesses by vectors: backwards, with strides, to one place, masked."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import interpreter


@pytest.mark.parametrize(
    "statement",
    [
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(15 - i * 4, -1, 4)]",
        "B[T.Ramp(15 - i * 4, -1, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B[T.Ramp(i, 4, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i, 4, 4)]",
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Broadcast(i, 4)]",
        "B[T.Broadcast(i, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B.vstore([T.Broadcast(i, 4)], A[T.Ramp(i * 4, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(14, 4))",
        "B.vstore([T.Ramp(i * 4, 1, 4)], A[T.Ramp(0, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(6, 4))",
        "B.vstore([T.Ramp(i, 4, 4)], A[T.Ramp(0, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(6, 4))",
    ],
    ids=[
        "back",
        "to_back",
        "to_stride",
        "stride",
        "one",
        "to_one",
        "to_one_masked",
        "masked",
        "to_stride_masked",
    ],
)
def test_places_of_lanes(statement: str) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(4):
        {statement}
""")
    a, expected, native = np.arange(16, dtype="int32"), np.zeros(16, "int32"), np.zeros(16, "int32")
    interpreter.run(func, a, expected)
    build(func)["main"](a, native)
    np.testing.assert_array_equal(native, expected)
    assert expected.any()
