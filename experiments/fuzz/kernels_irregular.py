"""Kernels that a schedule must not take for ordinary ones: stores under conditions, iterations that depend on each other, memory that
is written in part, updates in place, data-dependent indices, extents of zero, views.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .kernels import Sizes

_HEAD = "@T.prim_func\ndef main({}):\n"


def _params(*buffers: tuple[str, str, str]) -> str:
    text = ", ".join(f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape, dtype in buffers)
    return _HEAD.format(text) + '    T.func_attr({"tir.noalias": True})\n'


def conditional_store(sizes: Sizes, generator: random.Random) -> str:
    """Some elements keep what they held."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t), ("C", f"({n}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            if A[vi, vj] > {sizes.constant(0)}:
                B[vi, vj] = A[vi, vj] + {sizes.constant(1)}
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * {sizes.constant(2)}
"""
    )


def strided_store(sizes: Sizes, generator: random.Random) -> str:
    """Every second or third element of an output is written, the others keep what they held."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    step = generator.choice([2, 3])
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n * step}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * {step}, vj] = A[vi, vj]
    for i, j in T.grid({n}, {m}):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * {step} + 1, vj] = A[vi, vj] - {sizes.constant(1)}
"""
    )


def in_place(sizes: Sizes, generator: random.Random) -> str:
    """A parameter that is read and written, and read again."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    row = generator.choice(["vi", f"{n - 1} - vi"])
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(A[vi, vj])
            A[vi, vj] = A[vi, vj] * {sizes.constant(2)}
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[{row}, vj]
"""
    )


def handed_over(sizes: Sizes, generator: random.Random) -> str:
    """Two blocks under one loop: the second reads what other iterations of the first write."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    row = generator.choice(["vi", f"{n - 1} - vi", "T.max(vi - 1, 0)", "0"])
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t), ("C", f"({n}, {m})", t))
    return (
        head
        + f"""    for i in range({n}):
        for j in range({m}):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + {sizes.constant(1)}
        for j in range({m}):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[{row}, vj]
"""
    )


def overlapping(sizes: Sizes, generator: random.Random) -> str:
    """Iterations that store to one place though their variables are called data-parallel: the last one counts."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    place = generator.choice(["vi // 2, vj", "0, vj", "vi, vj // 2", f"vi % {max(1, n // 2)}, vj"])
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[{place}] = A[vi, vj]
"""
    )


def recurrence(sizes: Sizes, generator: random.Random) -> str:
    """A scan along one axis, in order."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    kind = generator.choice(["scan", "opaque", "spatial"])
    head = _params(("A", f"({n}, {m})", t), ("B", f"({n + 1}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi = T.axis.{kind}({n}, i)
            vj = T.axis.spatial({m}, j)
            T.reads(B[vi, vj], A[vi, vj])
            T.writes(B[vi + 1, vj])
            B[vi + 1, vj] = B[vi, vj] + A[vi, vj]
"""
    )


def arg_maximum(sizes: Sizes, generator: random.Random) -> str:
    """A reduction of two values: the first greatest or least element of a row and where it is; the first NaN, where there is one."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    sign, bound = generator.choice([(">", "min_value"), ("<", "max_value")])
    better = f"V[vi] {sign} A[vi, vk]"
    tie = "V[vi] == A[vi, vk] and P[vi] < vk"
    odd = "V[vi] != V[vi] and (A[vi, vk] == A[vi, vk] or P[vi] < vk)"
    head = _params(("A", f"({n}, {m})", t), ("P", f"({n},)", "int32"), ("V", f"({n},)", t))
    return (
        head
        + f"""    for i, k in T.grid({n}, {m}):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(P[vi], V[vi])
            with T.init():
                P[vi] = 2147483647
                V[vi] = T.{bound}("{t}")
            p: T.int32 = T.Select({better} or {tie} or {odd}, P[vi], vk)
            v: T.{t} = T.Select({better} or V[vi] != V[vi], V[vi], A[vi, vk])
            P[vi] = p
            V[vi] = v
"""
    )


def extremes(sizes: Sizes, generator: random.Random) -> str:
    """A product, a least or a greatest element of every row, started from the identity or from something else."""
    n, m, k, t = sizes.n, sizes.m, sizes.k, sizes.dtype
    start, update = generator.choice(
        [
            (sizes.constant(1), "C[vi] * A[vi, vj, vk]"),
            (f'T.min_value("{t}")', "T.max(C[vi], A[vi, vj, vk])"),
            (f'T.max_value("{t}")', "T.min(A[vi, vj, vk], C[vi])"),
            (sizes.constant(2), "T.max(C[vi], A[vi, vj, vk])"),
            (sizes.constant(5), "C[vi] + A[vi, vj, vk]"),
            (sizes.constant(0), "C[vi] - A[vi, vj, vk]"),
        ]
    )
    return (
        _params(("A", f"({n}, {m}, {k})", t), ("C", f"({n},)", t))
        + f"""    for i, j, k in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = {start}
            C[vi] = {update}
"""
    )


def weighted(sizes: Sizes, generator: random.Random) -> str:
    """Sums of products of which one factor stands still along the reduction, or divides."""
    n, m, k, t = sizes.n, sizes.m, sizes.k, sizes.dtype
    term = generator.choice(
        [
            "A[vi, vk] * W[vj]",
            "A[vi, vk] * W[vj] * B[vk, vj]",
            "A[vi, vk] * (B[vk, vj] + W[vj])",
            "(A[vi, vk] + W[vj]) * B[vk, vj]",
        ]
    )
    head = _params(
        ("A", f"({n}, {k})", t), ("B", f"({k}, {m})", t), ("W", f"({m},)", t), ("C", f"({n}, {m})", t)
    )
    return (
        head
        + f"""    for i, j, k in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {sizes.constant(0)}
            C[vi, vj] = C[vi, vj] + {term}
"""
    )


def guarded_division(sizes: Sizes, generator: random.Random) -> str:
    """A division that is evaluated where its divisor is not zero only."""
    n, m = sizes.n, sizes.m
    divide = generator.choice(["A[vi, vj] // D[vj]", "A[vi, vj] % D[vj]", "T.truncdiv(A[vi, vj], D[vj])"])
    guarded = generator.choice([f"T.if_then_else(D[vj] != 0, {divide}, 0)", "A[vi, vj] // T.max(D[vj], 1)"])
    head = _params(("A", f"({n}, {m})", "int32"), ("D", f"({m},)", "int32"), ("C", f"({n}, {m})", "int32"))
    return (
        head
        + f"""    Q = T.alloc_buffer(({n}, {m}), "int32")
    for i, j in T.grid({n}, {m}):
        with T.block("Q"):
            vi, vj = T.axis.remap("SS", [i, j])
            Q[vi, vj] = {guarded}
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Q[vi, {m - 1} - vj] + 1
"""
    )


def triangle(sizes: Sizes, generator: random.Random) -> str:
    """An inner loop that runs as far as the outer one has come, or a block under a predicate."""
    n, t = sizes.n, sizes.dtype
    extent, where = generator.choice(
        [("i + 1", ""), (str(n), "            T.where(j <= i)\n"), (f"{n} - i", "")]
    )
    column = "j" if extent != f"{n} - i" else "i + j"
    return (
        _params(("A", f"({n}, {n})", t), ("B", f"({n}, {n})", t))
        + f"""    for i in range({n}):
        for j in range({extent}):
            with T.block("B"):
                vi = T.axis.spatial({n}, i)
                vj = T.axis.spatial({n}, {column})
{where and "    " + where}                B[vi, vj] = A[vj, vi] + {sizes.constant(1)}
"""
    )


def partly_written(sizes: Sizes, generator: random.Random) -> str:
    """An intermediate of which the inside is written and read only."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    return (
        _params(("A", f"({n}, {m})", t), ("C", f"({n}, {m})", t))
        + f"""    B = T.alloc_buffer(({n + 3}, {m + 2}), "{t}")
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj + 2] = A[vi, vj] - {sizes.constant(1)}
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi + 1, vj + 2] * {sizes.constant(2)}
"""
    )


def opaque(sizes: Sizes, generator: random.Random) -> str:
    """Blocks without variables, which use the loops around directly."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    place = generator.choice(["i, j", "i // 2, j", "i, 0"])
    return (
        _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t))
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            T.reads(A[i, j])
            T.writes(B[{place}])
            B[{place}] = A[i, j]
"""
    )


def histogram(sizes: Sizes, generator: random.Random) -> str:
    """Counts at places that data says."""
    n, k = sizes.n, sizes.k
    return (
        _params(("I", f"({n},)", "int32"), ("H", f"({k},)", "int32"))
        + f"""    for i in range({n}):
        with T.block("H"):
            vi = T.axis.{generator.choice(["opaque", "reduce"])}({n}, i)
            T.reads(I[vi], H[0:{k}])
            T.writes(H[0:{k}])
            if I[vi] >= 0 and I[vi] < {k}:
                H[I[vi]] = H[I[vi]] + 1
"""
    )


def scattered(sizes: Sizes, generator: random.Random) -> str:
    """Stores at places that data says; where two are the same the later one counts."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    head = _params(("I", f"({n},)", "int32"), ("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t))
    return (
        head
        + f"""    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(I[vi], A[vi, vj])
            T.writes(B[0:{n}, vj])
            if I[vi] >= 0 and I[vi] < {n}:
                B[I[vi], vj] = A[vi, vj]
"""
    )


def views(sizes: Sizes, generator: random.Random) -> str:
    """A block that sees a row of its buffers as a buffer of its own."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    return (
        _params(("A", f"({n}, {m})", t), ("C", f"({n}, {m})", t))
        + f"""    B = T.alloc_buffer(({n}, {m}), "{t}")
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + {sizes.constant(1)}
    for i in range({n}):
        with T.block("C"):
            vi = T.axis.spatial({n}, i)
            T.reads(B[vi, 0:{m}])
            T.writes(C[vi, 0:{m}])
            row = T.match_buffer(C[vi, 0:{m}], ({m},), "{t}", offset_factor=1)
            for j in range({m}):
                row[j] = B[vi, {m - 1} - j]
"""
    )


def rank_zero(sizes: Sizes, generator: random.Random) -> str:
    """A sum that is one number, and everything divided by it."""
    n, m, t = sizes.n, sizes.m, sizes.dtype
    return (
        _params(("A", f"({n}, {m})", t), ("B", f"({n}, {m})", t))
        + f"""    S = T.alloc_buffer((), "{t}")
    for i, j in T.grid({n}, {m}):
        with T.block("S"):
            vi, vj = T.axis.remap("RR", [i, j])
            with T.init():
                S[()] = {sizes.constant(0)}
            S[()] = S[()] + A[vi, vj]
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] - S[()]
"""
    )


IRREGULAR: list[Callable[[Sizes, random.Random], str]] = [
    *(
        conditional_store,
        strided_store,
        in_place,
        handed_over,
        overlapping,
        recurrence,
        arg_maximum,
        extremes,
    ),
    *(weighted, guarded_division, triangle, partly_written, opaque, histogram, scattered, views, rank_zero),
]
"""All of them; a size may be zero."""
