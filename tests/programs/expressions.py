"""Kernels written as tensor expressions."""

from __future__ import annotations

from typing import Any

from ir import te


def matmul(n: int = 64) -> Any:
    """A product of square matrices with nothing behind it: one block ``C`` with a reduction over ``k``."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])
