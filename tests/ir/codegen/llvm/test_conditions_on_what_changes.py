"""Conditions on memory that their branches write: each is evaluated once, before what it guards, whatever passes do to its loop."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import interpreter

KINDS = pytest.mark.parametrize("kind", ["serial", "vectorized", "unroll", "parallel"])
VALUES = np.array([3, -1, 0, 2, -3, 1, 0, 0, 5, -2, 4, -4, 1, 1, -1, 0, 7, -7, 2], "int32")
COUNT = len(VALUES)  # vectors and a rest


def agree(body: str, a: np.ndarray = VALUES) -> None:
    """The interpreter and native code leave the same in A and in B, which starts with zeros."""
    func = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer(({COUNT},), "int32"), B: T.Buffer(({COUNT},), "int32")):\n{body}'
    )
    expected, native = ([a.copy(), np.zeros(COUNT, "int32")] for _ in range(2))
    interpreter.run(func, *expected)
    build(func)["main"](*native)
    np.testing.assert_array_equal(native, expected)


@KINDS
@pytest.mark.parametrize(
    "branches",
    [
        """
            if A[i] > 0:
                A[i] = -1
            else:
                A[i] = 2""",
        """
            if A[i] > 0:
                A[i] = 0
                B[i] = 1""",
        """
            if A[i] > 0:
                if B[i] == 0:
                    B[i] = A[i]
                    A[i] = -7
                else:
                    A[i] = 5
                B[i] = B[i] + A[i]
            else:
                A[i] = 2
                if A[i] > 1:
                    B[i] = 9
                    A[i] = A[i] * 3""",
        """
            if A[i] > 0 or B[i] != 0:
                A[i] = -A[i]
                if A[i] < 0 and B[i] == 0:
                    B[i] = A[i] + 1
                    A[i] = 0
                elif A[i] == 0:
                    B[i] = 100
            if A[i] == 0:
                B[i] = B[i] + 1""",
        """
            A[i] = T.if_then_else(A[i] > 0, B[i] - A[i], T.if_then_else(A[i] < -1, 3, B[i]))
            B[i] = T.if_then_else(A[i] > 0, 1, 2)""",
        """
            if not (A[i] <= 0):
                A[i] = A[i] - 5
            elif A[i] < 0:
                A[i] = 1
            else:
                B[i] = 4
                A[i] = B[i]""",
    ],
    ids=["else", "two stores", "nested", "logic", "values", "elif"],
)
def test_each_lane_decides_once(branches: str, kind: str) -> None:
    agree(f"        for i in T.{kind}({COUNT}):{branches}")


@pytest.mark.parametrize("kind", ["serial", "unroll"])
@pytest.mark.parametrize(
    "body",
    [
        """
            if A[0] > 0:
                A[0] = A[0] - 1
                B[i] = 1
            else:
                B[i] = 2""",
        """
            if i < 12 and A[0] >= 0:
                A[0] = A[0] - 1
                B[i] = A[0]""",
        """
            if A[i] > 0:
                A[i] = 0
                if i < 18:
                    A[i + 1] = 5
                B[i] = 1
            else:
                B[i] = A[i]""",
        """
            for j in range(3):
                if A[j] < 4 + i:
                    A[j] = A[j] + 2
                    for k in range(2):
                        if B[k] <= A[j]:
                            B[k] = B[k] + A[j]
                            A[j] = A[j] + B[k] % 2""",
    ],
    ids=["invariant", "partitioned", "next", "nested"],
)
def test_what_an_iteration_writes_the_next_one_sees(body: str, kind: str) -> None:
    agree(f"        for i in T.{kind}({COUNT}):{body}")


def test_one_condition_of_two_loops() -> None:
    agree(
        f"""        if A[3] > 0:
            A[3] = 0
            for i in T.vectorized({COUNT}):
                B[i] = A[i]
            if A[3] > 0:
                B[3] = 77
        if A[3] == 0:
            B[4] = 5"""
    )
