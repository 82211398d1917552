"""Kernels of TIR in the script dialect, by size: what schedules, passes and comparisons with another system are tried on.

Blocks are named after the buffer that they write. A kernel whose extents matter to a test takes them as parameters; one that is
about its loops has fixed ones.
"""

# The dialect's parameters have annotations that are no types.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ir import IRModule
from ir.script import tir as T
from ir.tir import PrimFunc


def copy(n: int = 8, dtype: str = "float32") -> PrimFunc:
    """``B = A`` in one loop: for what is said about a kernel without looking into it, and about its buffers."""

    @T.prim_func
    def main(A: T.Buffer((n,), dtype), B: T.Buffer((n,), dtype)):
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi]

    return main


def elementwise(n: int = 8, m: int = 8) -> PrimFunc:
    """``B = A * 2``: the least that has loops to split, fuse and reorder, and nothing that could be in the way."""

    @T.prim_func
    def main(A: T.Buffer((n, m), "float32"), B: T.Buffer((n, m), "float32")):
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    return main


def cube(n: int = 128) -> PrimFunc:
    """``B = A * 2`` in three dimensions: chains of loops long enough to be reordered in part."""

    @T.prim_func
    def main(A: T.Buffer((n, n, n), "float32"), B: T.Buffer((n, n, n), "float32")):
        for i, j, k in T.grid(n, n, n):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    return main


def triangle(n: int = 16) -> PrimFunc:
    """``B = A * 2`` below the diagonal: an inner loop whose extent depends on the outer one."""

    @T.prim_func
    def main(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32")):
        for i in range(n):
            for j in range(i + 1):
                with T.block("B"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(n, j)
                    B[vi, vj] = A[vi, vj] * T.float32(2)

    return main


def chain(n: int = 16, m: int = 16, rows: int | None = None, columns: int | None = None) -> PrimFunc:
    """``C = A * 2 + 1`` in two nests: a producer and a consumer, for inlining, moving, caching and layouts.

    Args:
        n, m: what the first nest computes.
        rows, columns: the part that the second one takes, all of it by default.
    """
    p, q = n if rows is None else rows, m if columns is None else columns

    @T.prim_func
    def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((p, q), "float32")):
        B = T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(p, q):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    return main


def chain_by_rows(n: int = 8) -> PrimFunc:
    """``C = A * 2 + 1``, row by row: two nests below one loop, so that a row is enough for what is between them."""

    @T.prim_func
    def main(A: T.Buffer((n, n), "float32"), C: T.Buffer((n, n), "float32")):
        B = T.alloc_buffer((n, n))
        for i in range(n):
            for j in range(n):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(n):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    return main


def stencil(n: int = 16) -> PrimFunc:
    """Sums of three neighbours of ``A * 2``: a consumer that reads more of its producer than it writes."""

    @T.prim_func
    def main(A: T.Buffer((n + 2,), "float32"), C: T.Buffer((n,), "float32")):
        B = T.alloc_buffer((n + 2,))
        for i in range(n + 2):
            with T.block("B"):
                vi = T.axis.spatial(n + 2, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(n):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                C[vi] = B[vi] + B[vi + 1] + B[vi + 2]

    return main


def row_sum(n: int, m: int, start: float = 0) -> PrimFunc:
    """``B = sum(A, axis=1)``: the least reduction, to be initialized apart, factored, or made parallel.

    Args:
        n, m: the extents of ``A``.
        start: what sums begin with; other than 0, it is no identity of addition, which reductions are to begin with.
    """

    @T.prim_func
    def main(A: T.Buffer((n, m), "float32"), B: T.Buffer((n,), "float32")):
        for i, k in T.grid(n, m):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(start)
                B[vi] = B[vi] + A[vi, vk]

    return main


def argmax(n: int, m: int) -> PrimFunc:
    """The largest element of each row and its index in ``P``: a reduction of two values at once."""

    @T.prim_func
    def main(
        P: T.Buffer((n, m), "int32"),
        V: T.Buffer((n, m), "float32"),
        AI: T.Buffer((n,), "int32"),
        AV: T.Buffer((n,), "float32"),
    ):
        for i, k in T.grid(n, m):
            with T.block("argmax"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(P[vi, vk], V[vi, vk])
                T.writes(AI[vi], AV[vi])
                with T.init():
                    AI[vi] = -1
                    AV[vi] = T.min_value("float32")
                v0: T.int32 = T.Select(AV[vi] >= V[vi, vk], AI[vi], P[vi, vk])
                v1: T.float32 = T.Select(AV[vi] >= V[vi, vk], AV[vi], V[vi, vk])
                AI[vi] = v0
                AV[vi] = v1

    return main


def matmul(n: int, m: int, depth: int) -> PrimFunc:
    """``C = A @ B``: the kernel that is tiled, packed, padded and tensorized."""

    @T.prim_func
    def main(
        A: T.Buffer((n, depth), "float32"), B: T.Buffer((depth, m), "float32"), C: T.Buffer((n, m), "float32")
    ):
        for i, j, k in T.grid(n, m, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def matmul_relu(n: int, m: int, depth: int) -> PrimFunc:
    """``D = max(A @ B, 0)``: a product with an epilogue, which may move into its tiles."""

    @T.prim_func
    def main(
        A: T.Buffer((n, depth), "float32"), B: T.Buffer((depth, m), "float32"), D: T.Buffer((n, m), "float32")
    ):
        C = T.alloc_buffer((n, m))
        for i, j, k in T.grid(n, m, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(n, m):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    return main


def public_and_private() -> IRModule:
    """A function that callers know, ``f``, and one of the module's own, ``g``: for passes that look at attributes alone."""

    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(0)

    @T.prim_func(private=True)
    def g(A: T.Buffer((4,), "float32")):
        A[1] = T.float32(1)

    return IRModule({"f": f, "g": g})


def padded(n: int = 5, m: int = 4) -> PrimFunc:
    """``B = A * 2`` with a border of threes around it: a consumer some of whose iterations read nothing of its producer."""

    @T.prim_func
    def main(A: T.Buffer((n, m), "float32"), C: T.Buffer((n + 2, m + 3), "float32")):
        B = T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(n + 2, m + 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.if_then_else(
                    vi > 0 and vi <= n and vj >= 2 and vj < m + 2, B[vi - 1, vj - 2], T.float32(3)
                )

    return main


def prefix_sums(n: int = 4, m: int = 5) -> PrimFunc:
    """Sums of the first elements of each row: a reduction with a predicate that is no guard of a range."""

    @T.prim_func
    def main(A: T.Buffer((n, m), "float32"), B: T.Buffer((n, m), "float32")):
        C = T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j, k in T.grid(n, m, m):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.where(k <= j)
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + C[vi, vk]

    return main
