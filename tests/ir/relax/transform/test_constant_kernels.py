"""Which kernels are run natively on constants: those that cannot go wrong, however large they are."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax.op.folding import NotComputable
from ir.relax.transform.constant_kernels import ConstantKernels
from ir.script import tir as T
from ir.tir import PrimFunc

SIZE = 1 << 15


@T.prim_func
def names_for_floats(A: T.Buffer((32768,), "float32"), B: T.Buffer((32768,), "float32")):
    for i in range(32768):
        with T.block("B"):
            v = T.axis.spatial(32768, i)
            half: T.float32 = A[v] * T.float32(0.5)
            B[v] = half + half * half


@T.prim_func
def names_for_places(A: T.Buffer((32768,), "int32"), B: T.Buffer((32768,), "int32")):
    for i in range(32768):
        with T.block("B"):
            v = T.axis.spatial(32768, i)
            place: T.int32 = A[v]
            next_place: T.int32 = place + 1
            B[v] = A[next_place]


@T.prim_func
def lengths_of_loops(A: T.Buffer((32768,), "int32"), B: T.Buffer((32768,), "int32")):
    for i in range(32768):
        with T.block("B"):
            v = T.axis.spatial(32768, i)
            T.reads(A[0:32768])
            T.writes(B[v])
            length: T.int32 = A[v]
            B[v] = 0
            for j in range(length):
                B[v] = B[v] + A[j]


def test_floats_may_have_names() -> None:
    """A transform of weights names what it uses twice; what cannot be an index cannot be a wrong one."""
    a = np.random.default_rng(0).standard_normal(SIZE).astype("float32")
    b = np.empty_like(a)
    ConstantKernels().run(names_for_floats, [a], [b])
    half = a * np.float32(0.5)
    np.testing.assert_allclose(b, half + half * half, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [names_for_places, lengths_of_loops], ids=["places", "lengths"])
def test_names_that_become_indices_are_left_to_the_program(kernel: PrimFunc) -> None:
    """Directly, by way of another name, and as the bound of a loop whose variable is an index."""
    a = np.zeros(SIZE, dtype="int32")
    with pytest.raises(NotComputable):
        ConstantKernels().run(kernel, [a], [np.empty_like(a)])
