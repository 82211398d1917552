"""Programs that are one in exact arithmetic, and programs that are not."""

from __future__ import annotations

import pytest

from experiments.kernel_mutants.checking import reference_of
from experiments.kernel_mutants.exact import same_in_exact_arithmetic
from ir import IRModule
from ir.script import from_source

SOFTMAX = """@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "bfloat16"), B: T.Buffer((4, 6), "bfloat16")):
        E = T.alloc_buffer((4, 6), "float32")
        S = T.alloc_buffer((4,), "float32")
        for i in range(4):
            S[i] = T.float32(0)
            for j in range(6):
                E[i, j] = T.exp(T.Cast("float32", A[i, j] * T.bfloat16(0.125)) + SHIFT)
                S[i] = S[i] + E[i, j] * T.float32(SCALE)
            for j in range(6):
                B[i, j] = T.Cast("bfloat16", E[i, j] / S[i])
"""


def softmax(shift: str = "T.float32(0)", scale: str = "1") -> IRModule:
    found = from_source(SOFTMAX.replace("SHIFT", shift).replace("SCALE", scale))
    assert isinstance(found, IRModule)
    return found


@pytest.mark.parametrize(
    ("shift", "scale", "is_same"),
    [
        ("T.float32(0.25)", "1", True),
        ("T.float32(0)", "1.001", False),
        ("T.Cast('float32', j) * T.float32(0.001)", "1", False),
    ],
)
def test_a_softmax_that_is_shifted_is_the_same(shift: str, scale: str, is_same: bool) -> None:
    reference = reference_of(softmax())
    assert same_in_exact_arithmetic(softmax(), softmax(shift, scale), reference) == is_same
