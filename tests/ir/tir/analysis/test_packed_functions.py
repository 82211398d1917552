"""Which registered Python functions a PrimFunc calls."""

from __future__ import annotations

from ir.script import tir as T
from ir.tir.analysis.packed_functions import packed_functions


def test_names_of_called_functions_once_and_sorted():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = T.call_packed("test.second", i) + T.call_packed("test.first", i)
            A[i] = A[i] + T.call_packed("test.second", A[i])

    assert packed_functions(kernel) == ("test.first", "test.second")


def test_intrinsics_are_no_functions_of_python():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.exp(A[i])

    assert packed_functions(kernel) == ()
