"""Kernels of TIR in the script dialect."""

from __future__ import annotations

from ir import IRModule
from ir.script import tir as T


def public_and_private() -> IRModule:
    """A function that callers know, ``f``, and one of the module's own, ``g``: for passes that look at attributes alone."""

    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
        A[0] = T.float32(0)

    @T.prim_func(private=True)
    def g(A: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
        A[1] = T.float32(1)

    return IRModule({"f": f, "g": g})
