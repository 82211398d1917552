"""RenormalizeSplitPattern: remainders of quotients become quotients of remainders."""

import numpy as np
import pytest

from ir import dtype as dt
from ir import tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run


def test_remainders_of_quotients(check):
    @T.prim_func
    def before(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i // 4 % 8] = i // 2 % 3 % 2

    @T.prim_func
    def after(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i % 32 // 4] = i % 6 % 4 // 2

    check(tir.transform.RenormalizeSplitPattern(), before, after)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("divisor", "modulus"), [(16, 16), (16, 9), (2, 100), (4, 8)])
def test_where_the_type_does_not_hold_the_product_it_stays(
    apply, dtype: str, divisor: int, modulus: int
) -> None:
    before = from_source(f"""@T.prim_func
def main(A: T.Buffer((256,), "{dtype}"), B: T.Buffer((256,), "{dtype}")):
    for i in range(256):
        B[i] = A[i] // T.{dtype}({divisor}) % T.{dtype}({modulus})
""")
    given = np.arange(256).astype(dt.to_numpy(dtype))
    found = np.zeros_like(given)
    run(apply(tir.transform.RenormalizeSplitPattern(), before), given, found)
    np.testing.assert_array_equal(found, given // divisor % modulus)
