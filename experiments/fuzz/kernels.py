"""Kernels of random sizes, as script text: what schedules are tried on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from .kernels_irregular import IRREGULAR

_EXTENTS = [1, 2, 3, 5, 6, 7, 8, 12, 13, 16, 17]
_DTYPES = ["float32", "float32", "int32", "int8", "float64", "bfloat16"]
_MOST_STEPS = 600
"""Iterations of a kernel's deepest nest: the interpreter takes its time."""


@dataclass(frozen=True)
class Sizes:
    """What kernels have in common: three extents and a dtype."""

    n: int
    m: int
    k: int
    dtype: str

    def constant(self, value: int) -> str:
        """The text of a number."""
        return f'T.const({value}, "{self.dtype}")'


def kernel(generator: random.Random) -> str:
    """The text of a kernel."""
    n, m, k = (generator.choice(_EXTENTS) for _ in range(3))
    while n * m * k > _MOST_STEPS:
        n, m, k = n - n // 3, m - m // 3, k - k // 3
    dtype = generator.choice(_DTYPES)
    if generator.random() < 0.5:
        if generator.random() < 0.05:
            n, m, k = generator.choice([(0, m, k), (n, 0, k), (n, m, 0)])
        return generator.choice(IRREGULAR)(Sizes(n, m, k, dtype), generator)
    return generator.choice(_KERNELS)(Sizes(n, m, k, dtype), generator)


def matmul_relu(sizes: Sizes, generator: random.Random) -> str:
    """A product, and an elementwise block that reads it."""
    n, m, k = sizes.n, sizes.m, sizes.k
    return f'''@T.prim_func
def main(A: T.Buffer(({n}, {k}), "{sizes.dtype}"), B: T.Buffer(({k}, {m}), "{sizes.dtype}"), Y: T.Buffer(({n}, {m}), "{sizes.dtype}")):
    C = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, j, l in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[vi, vj] = {sizes.constant(0)}
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid({n}, {m}):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(C[vi, vj], {sizes.constant(0)}) + {sizes.constant(1)}
'''


def convolution(sizes: Sizes, generator: random.Random) -> str:
    """Padding, a convolution along one axis, and an elementwise block."""
    n, m, k = sizes.n, sizes.m, sizes.k
    return f'''@T.prim_func
def main(X: T.Buffer(({n}, {m}), "{sizes.dtype}"), W: T.Buffer((3, {m}, {k}), "{sizes.dtype}"), Y: T.Buffer(({n}, {k}), "{sizes.dtype}")):
    P = T.alloc_buffer(({n + 2}, {m}), "{sizes.dtype}")
    C = T.alloc_buffer(({n}, {k}), "{sizes.dtype}")
    for i, c in T.grid({n + 2}, {m}):
        with T.block("P"):
            vi, vc = T.axis.remap("SS", [i, c])
            P[vi, vc] = T.if_then_else(1 <= vi and vi < {n + 1}, X[vi - 1, vc], {sizes.constant(0)})
    for i, o, k, c in T.grid({n}, {k}, 3, {m}):
        with T.block("C"):
            vi, vo, vk, vc = T.axis.remap("SSRR", [i, o, k, c])
            with T.init():
                C[vi, vo] = {sizes.constant(0)}
            C[vi, vo] = C[vi, vo] + P[vi + vk, vc] * W[vk, vc, vo]
    for i, o in T.grid({n}, {k}):
        with T.block("Y"):
            vi, vo = T.axis.remap("SS", [i, o])
            Y[vi, vo] = T.max(C[vi, vo], {sizes.constant(0)})
'''


def normalization(sizes: Sizes, generator: random.Random) -> str:
    """Two reductions along rows, of which the second reads what the first left."""
    n, m = sizes.n, sizes.m
    return f'''@T.prim_func
def main(A: T.Buffer(({n}, {m}), "{sizes.dtype}"), B: T.Buffer(({n}, {m}), "{sizes.dtype}")):
    M = T.alloc_buffer(({n},), "{sizes.dtype}")
    S = T.alloc_buffer(({n},), "{sizes.dtype}")
    D = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, k in T.grid({n}, {m}):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = {sizes.constant(-100)}
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid({n}, {m}):
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            D[vi, vk] = A[vi, vk] - M[vi]
    for i, k in T.grid({n}, {m}):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = {sizes.constant(0)}
            S[vi] = S[vi] + D[vi, vk]
    for i, k in T.grid({n}, {m}):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = D[vi, vk] + S[vi]
'''


def pooling(sizes: Sizes, generator: random.Random) -> str:
    """Windows that may overlap, and a block that reads the result forwards and backwards."""
    n, m = sizes.n, sizes.m
    stride = generator.choice([1, 2, 3])
    window = generator.choice([1, 2, 3])
    return f'''@T.prim_func
def main(A: T.Buffer(({n * stride + window}, {m}), "{sizes.dtype}"), B: T.Buffer(({n}, {m}), "{sizes.dtype}")):
    P = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, j, k in T.grid({n}, {m}, {window}):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                P[vi, vj] = {sizes.constant(-100)}
            P[vi, vj] = T.max(P[vi, vj], A[vi * {stride} + vk, vj])
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = P[vi, vj] + P[vi, {m - 1} - vj]
'''


def gather(sizes: Sizes, generator: random.Random) -> str:
    """Rows chosen by data, under a guard, and read backwards."""
    n, m, k = sizes.n, sizes.m, sizes.k
    return f'''@T.prim_func
def main(I: T.Buffer(({n},), "int32"), A: T.Buffer(({k}, {m}), "{sizes.dtype}"), B: T.Buffer(({n}, {m}), "{sizes.dtype}")):
    G = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, j in T.grid({n}, {m}):
        with T.block("G"):
            vi, vj = T.axis.remap("SS", [i, j])
            G[vi, vj] = T.if_then_else(I[vi] >= 0 and I[vi] < {k}, A[I[vi], vj], {sizes.constant(7)})
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = G[{n - 1} - vi, vj] + {sizes.constant(1)}
'''


def transposition(sizes: Sizes, generator: random.Random) -> str:
    """Indices that are divided and taken apart."""
    n, m, k = sizes.n, sizes.m, sizes.k
    return f'''@T.prim_func
def main(A: T.Buffer(({n}, {m}, {k}), "{sizes.dtype}"), B: T.Buffer(({m * k}, {n}), "{sizes.dtype}")):
    C = T.alloc_buffer(({m * k}, {n}), "{sizes.dtype}")
    for i, j in T.grid({m * k}, {n}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vj, vi // {k}, vi % {k}]
    for i, j in T.grid({m * k}, {n}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] * {sizes.constant(2)}
'''


def prefix_sums(sizes: Sizes, generator: random.Random) -> str:
    """A reduction under a predicate of another axis."""
    n, m = sizes.n, sizes.m
    return f'''@T.prim_func
def main(A: T.Buffer(({n}, {m}), "{sizes.dtype}"), B: T.Buffer(({n}, {m}), "{sizes.dtype}")):
    C = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + {sizes.constant(1)}
    for i, j, l in T.grid({n}, {m}, {m}):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, l])
            T.where(l <= j)
            with T.init():
                B[vi, vj] = {sizes.constant(0)}
            B[vi, vj] = B[vi, vj] + C[vi, vk]
'''


def padded(sizes: Sizes, generator: random.Random) -> str:
    """A block that is read where it is not padding."""
    n, m = sizes.n, sizes.m
    return f'''@T.prim_func
def main(A: T.Buffer(({n}, {m}), "{sizes.dtype}"), C: T.Buffer(({n + 2}, {m + 3}), "{sizes.dtype}")):
    B = T.alloc_buffer(({n}, {m}), "{sizes.dtype}")
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * {sizes.constant(2)}
    for i, j in T.grid({n + 2}, {m + 3}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(vi > 0 and vi <= {n} and vj >= 2 and vj < {m + 2}, B[vi - 1, vj - 2], {sizes.constant(3)})
'''


Kernel = Callable[[Sizes, random.Random], str]
_KERNELS: list[Kernel] = [  # padded is drawn twice as often
    matmul_relu,
    convolution,
    normalization,
    pooling,
    gather,
    transposition,
    padded,
    prefix_sums,
    padded,
]
