"""Legal programs that are no tensor expressions: what design spaces must leave alone where they cannot schedule it.

Each is the text of a function and its inputs: small integers, and for the parameters named in the table the numbers given there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.script import from_source
from ir.tir import IntImm, PrimFunc


@dataclass(frozen=True)
class Irregular:
    """A program with its inputs."""

    signature: str
    body: str
    given: Mapping[str, Any] = field(default_factory=dict)

    def func(self) -> PrimFunc:
        """The function, named ``main``."""
        func = from_source(f"@T.prim_func\ndef main({self.signature}):\n{self.body}")
        assert isinstance(func, PrimFunc)
        return func.with_attr("global_symbol", "main")

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """One array per parameter."""
        func, generator = self.func(), np.random.default_rng(seed)
        return [self._array(func.buffer_map[param], generator) for param in func.params]

    def _array(self, buffer: Any, generator: np.random.Generator) -> np.ndarray:
        numpy_dtype = dt.to_numpy(buffer.dtype)
        if buffer.name in self.given:
            return np.array(self.given[buffer.name], dtype=numpy_dtype)
        shape = [
            extent.value if isinstance(extent, IntImm) else self.given["extent"] for extent in buffer.shape
        ]
        low = 0 if buffer.dtype.startswith("uint") else -4
        values = generator.integers(low, 5, size=shape)
        return values > 0 if buffer.dtype == "bool" else values.astype(numpy_dtype)


def _vector(name: str, size: int = 8, dtype: str = "float32") -> str:
    return f'{name}: T.Buffer(({size},), "{dtype}")'


def _matrix(name: str, rows: int = 8, columns: int = 8, dtype: str = "float32") -> str:
    return f'{name}: T.Buffer(({rows}, {columns}), "{dtype}")'


A, C, I = _vector("A"), _vector("C"), _vector("I", 8, "int32")
AA, CC = _matrix("A"), _matrix("C")
_ORDER = [3, 1, 4, 0, 5, 2, 7, 6]
_COUNTS = [3, 1, 4, 0, 5, 2, 8, 6]
_BYTES = [255, 0, 254, 1, 128, 127, 7, 3]
_ROWS = [0, 2, 2, 3, 5, 5, 8, 8]

IRREGULAR: dict[str, Irregular] = {
    # ---- extents that are data, or depend on other loops -----------------------------------------------------------
    "data extent of a reduction": Irregular(
        f"{A}, {I}, {C}",
        """
    for i in range(8):
        for k in range(I[i]):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vk]
""",
        {"I": _COUNTS},
    ),
    "data extent of an update": Irregular(
        f"{A}, {I}, {C}",
        """
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
    for i in range(8):
        for k in range(T.min(T.max(I[i], 0), 8)):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.opaque(8, k)
                T.reads(C[vi], A[vk])
                T.writes(C[vi])
                C[vi] = C[vi] + A[vk]
""",
        {"I": _COUNTS},
    ),
    "rows of a sparse matrix": Irregular(
        f"{A}, {I}, {_vector('J', 8, 'int32')}, {_vector('X')}, {_vector('C', 7)}",
        """
    for i in range(7):
        for k in range(I[i + 1] - I[i]):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                vk = T.axis.reduce(8, k)
                T.reads(A[0:8], I[0:8], J[0:8], X[0:8])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[I[vi] + vk] * X[J[I[vi] + vk]]
""",
        {"I": _ROWS, "J": _ORDER},
    ),
    "data extent of a copy": Irregular(
        f"{A}, {_vector('I', 1, 'int32')}, {C}",
        """
    for i in range(I[0]):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * 2.0
""",
        {"I": [5]},
    ),
    "data begin of a loop": Irregular(
        f"{A}, {_vector('I', 1, 'int32')}, {C}",
        """
    for i in range(I[0], 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * 2.0
""",
        {"I": [5]},
    ),
    "triangle": Irregular(
        f"{AA}, {CC}",
        """
    for i in range(8):
        for j in range(i + 1):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                C[vi, vj] = A[vi, vj] * 2.0
""",
    ),
    "triangular sums": Irregular(
        f"{AA}, {C}",
        """
    B = T.alloc_buffer((8, 8), "float32")
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj] * 2.0
    for i in range(8):
        for j in range(i + 1):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.reduce(8, j)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vj]
""",
    ),
    "triangular sums, the first empty": Irregular(
        f"{AA}, {C}",
        """
    for i in range(8):
        for j in range(i):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.reduce(8, j)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vj]
""",
    ),
    "triangular product": Irregular(
        f"{AA}, {_matrix('W')}, {CC}",
        """
    for i in range(8):
        for j in range(8):
            for k in range(i + 1):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "remainders by a loop": Irregular(
        f"{_vector('A', 16)}, {C}",
        """
    for i in range(1, 9):
        with T.block("C"):
            vi = T.axis.spatial((1, 9), i)
            C[vi - 1] = A[12 // vi] + A[13 % vi]
""",
    ),
    "extent divided by a loop": Irregular(
        f"{AA}, {C}",
        """
    for i in range(1, 9):
        for k in range(8 // i):
            with T.block("C"):
                vi = T.axis.spatial((1, 9), i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[vi - 1] = T.float32(0)
                C[vi - 1] = C[vi - 1] + A[vi - 1, vk]
""",
    ),
    # ---- loops that begin elsewhere, empty ones, repeated ones -----------------------------------------------------
    "loop from two": Irregular(
        f"{_vector('A', 10)}, {C}",
        """
    for i in range(2, 10):
        with T.block("C"):
            vi = T.axis.spatial((2, 10), i)
            C[vi - 2] = A[vi] + A[vi - 2]
""",
    ),
    "product from two": Irregular(
        f"{_matrix('A', 10, 10)}, {_matrix('W', 10, 10)}, {_matrix('C', 10, 10)}",
        """
    for i, j in T.grid(10, 10):
        for k in range(2, 10):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce((2, 10), k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "product of a part": Irregular(
        f"{_matrix('A', 10, 8)}, {_matrix('W', 8, 8)}, {_matrix('C', 10, 8)}",
        """
    for i in range(2, 10):
        for j, k in T.grid(8, 8):
            with T.block("C"):
                vi = T.axis.spatial((2, 10), i)
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "empty copy": Irregular(
        f"{_vector('A', 0)}, {_vector('C', 0)}",
        """
    for i in range(0):
        with T.block("C"):
            vi = T.axis.spatial(0, i)
            C[vi] = A[vi] * 2.0
""",
    ),
    "empty sums": Irregular(
        f"{_matrix('A', 8, 0)}, {C}",
        """
    for i, k in T.grid(8, 0):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
    ),
    "product over nothing, then more": Irregular(
        f"{_matrix('A', 8, 0)}, {_matrix('W', 0, 8)}, {CC}",
        """
    B = T.alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 0):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
""",
    ),
    "loop that repeats": Irregular(
        f"{A}, {C}",
        """
    for r, i in T.grid(3, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * 2.0
""",
    ),
    "later repetitions win": Irregular(
        f"{A}, {C}",
        """
    for r, i in T.grid(3, 8):
        with T.block("C"):
            vr, vi = T.axis.remap("SS", [r, i])
            C[vi] = A[vi] + T.Cast("float32", vr)
""",
    ),
    "sums of a part of the domain": Irregular(
        f"{AA}, {C}",
        """
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
    ),
    # ---- what stands around a block ---------------------------------------------------------------------------------
    "block under a condition": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        if i % 2 == 0:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] * 2.0
""",
    ),
    "block under a condition on data": Irregular(
        f"{A}, {I}, {C}",
        """
    for i in range(8):
        if I[i] > 2:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] * 2.0
        else:
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] - 1.0
""",
    ),
    "product under a condition": Irregular(
        f"{AA}, {_matrix('W')}, {_vector('I', 8, 'int32')}, {CC}",
        """
    for i in range(8):
        if I[i] > 2:
            for j, k in T.grid(8, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "producer under a condition": Irregular(
        f"{A}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            B[vi] = -1.0
    for i in range(8):
        if i > 3:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
""",
    ),
    "predicate on data": Irregular(
        f"{A}, {I}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(I[i] > 0)
            C[vi] = B[vi] + 1.0
""",
    ),
    "predicate on what a block computes": Irregular(
        f"{A}, {I}, {C}",
        """
    M = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("M"):
            vi = T.axis.spatial(8, i)
            M[vi] = I[vi] % 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(M[i] > 0)
            C[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("J"):
            vi = T.axis.spatial(8, i)
            I[vi] = M[vi] + 3
""",
    ),
    "causal sums": Irregular(
        f"{AA}, {C}, {_vector('D')}",
        """
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.where(j <= i)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + 1.0
""",
    ),
    "causal product": Irregular(
        f"{AA}, {_matrix('W')}, {CC}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.where(k <= i)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "product of which a part is taken on": Irregular(
        f"{AA}, {_matrix('W')}, {CC}",
        """
    B = T.alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(j <= i)
            C[vi, vj] = B[vi, vj] + 1.0
""",
    ),
    "let around a block": Irregular(
        f"{A}, {I}, {C}",
        """
    for i in range(8):
        with T.LetStmt(I[i]) as x:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi] * T.Cast("float32", x)
""",
    ),
    "lets and branches in a block": Irregular(
        f"{A}, {I}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            with T.LetStmt(I[vi]) as x:
                if x > 3:
                    B[vi] = A[x] * 2.0
                else:
                    B[vi] = A[x * 2 % 8]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            with T.LetStmt(B[vi]) as y:
                C[vi] = y * y + B[7 - vi]
""",
        {"I": _ORDER},
    ),
    "bindings that load": Irregular(
        f"{A}, {I}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, I[i])
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
""",
        {"I": _ORDER},
    ),
    "sums at bindings that load": Irregular(
        f"{AA}, {I}, {C}",
        """
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, I[i])
            vk = T.axis.reduce(4, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
        {"I": _ORDER},
    ),
    "product at bindings that load": Irregular(
        f"{AA}, {_matrix('W')}, {I}, {CC}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, I[i])
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
        {"I": _ORDER},
    ),
    "gather and scatter": Irregular(
        f"{A}, {I}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[I[vi]] = A[I[7 - vi]]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]
""",
        {"I": _ORDER},
    ),
    "histogram": Irregular(
        f"{I}, {_vector('C', 8, 'int32')}",
        """
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            C[vi] = 0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.opaque(8, i)
            T.reads(I[vi], C[0:8])
            T.writes(C[0:8])
            C[I[vi]] = C[I[vi]] + 1
""",
        {"I": [1, 1, 4, 0, 4, 4, 7, 1]},
    ),
    # ---- order ------------------------------------------------------------------------------------------------------
    "running sums": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.opaque(8, i)
            if vi == 0:
                C[vi] = A[vi]
            else:
                C[vi] = C[vi - 1] + A[vi]
""",
    ),
    "running sums in a cache": Irregular(
        f"{A}, {C}",
        """
    S = T.alloc_buffer((9,), "float32")
    with T.block("Z"):
        S[0] = T.float32(0)
    for i in range(8):
        with T.block("S"):
            vi = T.axis.opaque(8, i)
            T.reads(S[vi], A[vi])
            T.writes(S[vi + 1])
            S[vi + 1] = S[vi] + A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[vi + 1]
""",
    ),
    "sums in a scan": Irregular(
        f"{AA}, {C}",
        """
    S = T.alloc_buffer((8,), "float32")
    for i in range(8):
        for k in range(8):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.opaque(8, i)
            T.reads(S[vi], C[0:8])
            T.writes(C[vi])
            C[vi] = T.if_then_else(vi > 0, C[vi - 1], T.float32(0)) * T.float32(0.5) + S[vi]
""",
    ),
    "while": Irregular(
        f"{_vector('I', 1, 'int32')}, {_vector('C', 1, 'int32')}",
        """
    with T.block("C"):
        T.reads(I[0], C[0])
        T.writes(C[0])
        n = T.alloc_buffer((1,), "int32")
        n[0] = I[0]
        C[0] = 0
        while n[0] > 1:
            n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, n[0] * 3 + 1)
            C[0] = C[0] + 1
""",
        {"I": [6]},
    ),
    "while in rows": Irregular(
        f"{I}, {_vector('C', 8, 'int32')}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(I[vi], C[vi])
            T.writes(C[vi])
            n = T.alloc_buffer((1,), "int32")
            n[0] = I[vi]
            C[vi] = 0
            while n[0] > 0:
                n[0] = n[0] // 2
                C[vi] = C[vi] + 1
""",
        {"I": _COUNTS},
    ),
    "update in place": Irregular(
        f"{A}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[7 - vi] * 2.0
    for i in range(8):
        with T.block("U"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + 100.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]
""",
    ),
    "update in place, in one loop": Irregular(
        f"{A}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[7 - vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + 1.0
        with T.block("U"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + 100.0
""",
    ),
    "product with an epilogue in place": Irregular(
        f"{AA}, {_matrix('W')}",
        """
    B = T.alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.max(B[vi, vj], T.float32(0))
""",
    ),
    "transposition in place": Irregular(
        AA,
        """
    B = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = B[vi, vj] + 1.0
""",
    ),
    "written twice": Irregular(
        f"{A}, {C}, {_vector('D')}",
        """
    for i in range(8):
        with T.block("C0"):
            vi = T.axis.spatial(8, i)
            C[vi] = -1.0
    for i in range(4):
        with T.block("C1"):
            vi = T.axis.spatial(4, i)
            C[vi * 2] = A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[7 - vi]
""",
    ),
    "two parts of one tensor": Irregular(
        f"{A}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(5):
        with T.block("B1"):
            vi = T.axis.spatial(5, i)
            B[vi] = A[vi] * 2.0
    for i in range(3):
        with T.block("B2"):
            vi = T.axis.spatial(3, i)
            B[vi + 5] = A[vi + 5] * 3.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
""",
    ),
    "scratch of every row": Irregular(
        f"{AA}, {CC}",
        """
    S = T.alloc_buffer((1,), "float32")
    for i in range(8):
        for j in range(8):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[0] = T.float32(0)
                S[0] = S[0] + A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + S[0]
""",
    ),
    # ---- outputs ----------------------------------------------------------------------------------------------------
    "two sums at once": Irregular(
        f"{_matrix('A', 4, 8)}, {_matrix('C', 4, 8)}",
        """
    M = T.alloc_buffer((4,), "float32")
    S = T.alloc_buffer((4,), "float32")
    for i, k in T.grid(4, 8):
        with T.block("MS"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-1000)
                S[vi] = T.float32(0)
            M[vi] = T.max(M[vi], A[vi, vk])
            S[vi] = S[vi] + A[vi, vk]
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = A[vi, vk] - M[vi] + S[vi]
""",
    ),
    "two outputs at two places": Irregular(
        f"{A}, {C}",
        """
    M = T.alloc_buffer((8,), "float32")
    S = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("MS"):
            vi = T.axis.spatial(8, i)
            M[vi] = A[vi] + 1.0
            S[7 - vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = M[vi] + S[vi]
""",
    ),
    "two products at once": Irregular(
        f"{AA}, {_matrix('W')}, {CC}, {_matrix('D')}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("CD"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
                D[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
            D[vi, vj] = D[vi, vj] + A[vi, vk] * A[vk, vj]
""",
    ),
    "largest element and its place": Irregular(
        f"{_matrix('A', 4, 8)}, {_vector('J', 4, 'int32')}",
        """
    V = T.alloc_buffer((4,), "float32")
    for i, k in T.grid(4, 8):
        with T.block("X"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                J[vi] = 0
                V[vi] = T.float32("-inf")
            with T.LetStmt(T.Select(V[vi] >= A[vi, vk], J[vi], vk)) as a:
                with T.LetStmt(T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])) as b:
                    J[vi] = a
                    V[vi] = b
""",
        {"A": [np.random.default_rng(row).permutation(8) for row in range(4)]},
    ),
    "product added to what is there": Irregular(
        f"{AA}, {_matrix('W')}, {CC}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    "sums that begin with data": Irregular(
        f"{AA}, {C}",
        """
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = A[vi, 0] * 3.0
            C[vi] = C[vi] + A[vi, vk]
""",
    ),
    "reduction that is no known one": Irregular(
        f"{AA}, {C}",
        """
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(1)
            C[vi] = C[vi] * T.float32(0.5) + A[vi, vk]
""",
    ),
    "overlapping updates": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
    for i, k in T.grid(3, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi * 2 + vk], A[vi])
            T.writes(C[vi * 2 + vk])
            C[vi * 2 + vk] = C[vi * 2 + vk] + A[vi]
""",
    ),
    # ---- blocks -----------------------------------------------------------------------------------------------------
    "block without variables": Irregular(
        f"{A}, {C}",
        """
    with T.block("C"):
        T.reads(A[0:8])
        T.writes(C[0:8])
        for i in range(8):
            C[i] = A[i] * 2.0
""",
    ),
    "block without variables in a loop": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        with T.block("C"):
            T.reads(A[i])
            T.writes(C[i])
            C[i] = A[i] * 2.0
""",
    ),
    "no block": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        C[i] = A[i] * 2.0
""",
    ),
    "block that writes nothing": Irregular(
        f"{A}, {C}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("N"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes()
            T.evaluate(0)
""",
    ),
    "blocks in a block": Irregular(
        f"{_matrix('A', 4, 8)}, {_vector('C', 4)}",
        """
    for i in range(4):
        with T.block("O"):
            vi = T.axis.spatial(4, i)
            B = T.alloc_buffer((8,), "float32")
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vj] = A[vi, vj] * 2.0
            for j in range(8):
                with T.block("R"):
                    vj = T.axis.reduce(8, j)
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + B[7 - vj] * A[vi, vj]
""",
    ),
    "sums of blocks": Irregular(
        f"{_matrix('A', 4, 8)}, {_vector('C', 4)}",
        """
    for i, ko in T.grid(4, 2):
        with T.block("O"):
            vi, vko = T.axis.remap("SR", [i, ko])
            T.reads(A[vi, vko * 4:vko * 4 + 4])
            T.writes(C[vi])
            with T.init():
                with T.block("Z"):
                    C[vi] = T.float32(0)
            for k in range(4):
                with T.block("R"):
                    vk = T.axis.reduce(4, k)
                    T.reads(C[vi], A[vi, vko * 4 + vk])
                    T.writes(C[vi])
                    C[vi] = C[vi] + A[vi, vko * 4 + vk]
""",
    ),
    "loops in a block": Irregular(
        f"{AA}, {C}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
            for k in range(vi, 8):
                C[vi] = C[vi] + A[vi, k]
""",
    ),
    "views": Irregular(
        f"{AA}, {CC}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8])
            T.writes(C[vi, 0:8])
            row = T.match_buffer(A[vi, 0:8], (1, 8), "float32")
            result = T.match_buffer(C[vi, 0:8], (1, 8), "float32")
            for j in range(8):
                result[0, j] = row[0, 7 - j]
""",
    ),
    "update through a view": Irregular(
        f"{AA}, {CC}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8], C[vi, 0:8])
            T.writes(C[vi, 0:8])
            result = T.match_buffer(C[vi, 0:8], (1, 8), "float32")
            for j in range(8):
                result[0, j] = result[0, j] + A[vi, j]
""",
    ),
    "tensors of rank zero": Irregular(
        f"{A}, {C}",
        """
    S = T.alloc_buffer((), "float32")
    M = T.alloc_buffer((), "float32")
    for i in range(8):
        with T.block("S"):
            vi = T.axis.reduce(8, i)
            with T.init():
                S[()] = T.float32(0)
            S[()] = S[()] + A[vi]
    with T.block("M"):
        vo = T.axis.spatial(1, 0)
        M[()] = S[()] * 0.5
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] - M[()]
""",
    ),
    "digits of one loop": Irregular(
        f"{_matrix('A', 4, 8)}, {_matrix('C', 4, 8)}",
        """
    for f in range(40):
        with T.block("C"):
            vi = T.axis.spatial(4, f // 10)
            vj = T.axis.spatial(8, f % 10)
            T.where(f % 10 < 8)
            C[vi, vj] = A[vi, 7 - vj] * 2.0
""",
    ),
    "sums over digits": Irregular(
        f"{_matrix('A', 4, 8)}, {_vector('C', 4)}",
        """
    for f in range(32):
        with T.block("C"):
            vi = T.axis.spatial(4, f % 4)
            vk = T.axis.reduce(8, f // 4)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
    ),
    "many sums over digits": Irregular(
        f"{_matrix('A', 2, 4096)}, {_vector('C', 2)}",
        """
    for f in range(8192):
        with T.block("C"):
            vi = T.axis.spatial(2, f // 4096)
            vk = T.axis.reduce(4096, f % 4096)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
    ),
    "a long sum to a data bound": Irregular(
        f"{_vector('A', 4096)}, {_vector('I', 1, 'int32')}, {_vector('C', 1)}",
        """
    for i in range(1):
        for k in range(I[0]):
            with T.block("C"):
                vi = T.axis.spatial(1, i)
                vk = T.axis.reduce(4096, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vk]
""",
        {"I": [100]},
    ),
    "backwards": Irregular(
        f"{A}, {C}",
        """
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, 7 - i)
            B[vi] = A[vi] * 2.0
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi * 2] = B[vi * 2] + B[6 - vi * 2]
            C[vi * 2 + 1] = B[vi * 2 + 1]
""",
    ),
    "transposition from two": Irregular(
        f"{_matrix('A', 40, 40)}, {_matrix('C', 40, 40)}",
        """
    for i in range(2, 40):
        for j in range(40):
            with T.block("C"):
                vi = T.axis.spatial((2, 40), i)
                vj = T.axis.spatial(40, j)
                C[vi, vj] = A[vj, vi] * 2.0
""",
    ),
    # ---- dtypes -----------------------------------------------------------------------------------------------------
    "int4": Irregular(
        f"{_vector('A', 8, 'int4')}, {_vector('C', 8, 'int32')}",
        """
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.Cast("int32", A[vi]) * 3
""",
    ),
    "product of int8": Irregular(
        f"{_matrix('A', 8, 8, 'int8')}, {_matrix('W', 8, 8, 'uint8')}, {_matrix('C', 8, 8, 'int32')}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk, vj])
""",
    ),
    "product of int4": Irregular(
        f"{_matrix('A', 8, 8, 'int4')}, {_matrix('W', 8, 8, 'int4')}, {_matrix('C', 8, 8, 'int32')}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", W[vk, vj])
""",
    ),
    "bool": Irregular(
        f"{_matrix('A', 8, 8, 'bool')}, {_vector('C', 8, 'bool')}",
        """
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.bool(False)
            C[vi] = C[vi] or A[vi, vk]
""",
    ),
    "float8": Irregular(
        f"{_matrix('A', 8, 8, 'float8_e4m3fn')}, {_matrix('W', 8, 8, 'float8_e4m3fn')}, {CC}",
        """
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", W[vk, vj])
""",
    ),
    "int64 loops": Irregular(
        f"{AA}, {_matrix('W')}, {CC}",
        """
    for i, j, k in T.grid(T.int64(8), T.int64(8), T.int64(8)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    ),
    # ---- indices that are narrow, or data ------------------------------------------------------------------------------
    "gather by uint8": Irregular(
        f"{_vector('A', 256)}, {_vector('I', 8, 'uint8')}, {C}",
        """
    B = T.alloc_buffer((256,), "float32")
    for i in range(256):
        with T.block("B"):
            vi = T.axis.spatial(256, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[T.Cast("int32", I[vi])] + B[I[vi] * T.uint8(3)]
""",
        {"I": _BYTES},
    ),
    "scatter by uint8": Irregular(
        f"{A}, {_vector('I', 8, 'uint8')}, {_vector('C', 256)}",
        """
    B = T.alloc_buffer((256,), "float32")
    for i in range(256):
        with T.block("Z"):
            vi = T.axis.spatial(256, i)
            B[vi] = T.float32(0)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[I[vi] + T.uint8(250)] = A[vi]
    for i in range(256):
        with T.block("C"):
            vi = T.axis.spatial(256, i)
            C[vi] = B[255 - vi] + 1.0
""",
        {"I": _BYTES},
    ),
    "sums of rows by uint8": Irregular(
        f"{_matrix('I', 4, 8, 'uint8')}, {_matrix('A', 256, 4)}, {_matrix('C', 4, 4)}",
        """
    for i, j, k in T.grid(4, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[I[vi, vk], vj]
""",
        {"I": [_BYTES, _BYTES[::-1], _BYTES, _ORDER]},
    ),
    "gather by int8": Irregular(
        f"{_vector('A', 256)}, {_vector('I', 8, 'int8')}, {C}",
        """
    B = T.alloc_buffer((256,), "float32")
    for i in range(256):
        with T.block("B"):
            vi = T.axis.spatial(256, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[T.Cast("int32", I[vi]) + 128] + B[T.max(I[vi], T.int8(0))]
""",
        {"I": [-128, 127, 0, -1, 1, -5, 5, -128]},
    ),
    "gather by uint32": Irregular(
        f"{_vector('A', 300)}, {_vector('I', 8, 'uint32')}, {C}",
        """
    B = T.alloc_buffer((300,), "float32")
    for i in range(300):
        with T.block("B"):
            vi = T.axis.spatial(300, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[I[vi] % T.uint32(300)] + B[T.Cast("int32", I[vi] - T.uint32(4294967000))]
""",
        {"I": [4294967295, *range(4294967000, 4294967006), 4294967295]},
    ),
    "gather twice, of seven": Irregular(
        f"{_vector('A', 10)}, {_vector('I', 7, 'int32')}, {_vector('C', 7)}",
        """
    B = T.alloc_buffer((10,), "float32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi] * 2.0
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[I[vi]] + A[I[vi]]
""",
        {"I": [3, 1, 4, 0, 5, 2, 9]},
    ),
    "let around a gather": Irregular(
        f"{_vector('A', 16)}, {I}, {C}",
        """
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.LetStmt(i * 2) as x:
            with T.LetStmt(I[i]) as y:
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    vy = T.axis.spatial(16, y)
                    C[vi] = B[x] + B[vy]
""",
        {"I": _ORDER},
    ),
    "data extent of a loop in a loop": Irregular(
        f"{_vector('A', 64)}, {_vector('I', 4, 'int32')}, {_vector('C', 64)}",
        """
    for i in range(4):
        for j in range(I[i]):
            with T.block("C"):
                v = T.axis.spatial(64, i * 16 + j)
                C[v] = A[v] + 1.0
""",
        {"I": [5, 0, 16, 3]},
    ),
    "strided by a loop below zero": Irregular(
        f"{_vector('A', 64)}, {_vector('C', 48)}",
        """
    B = T.alloc_buffer((64,), "float32")
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * 2.0
    for j in range(-3, 3):
        for i in range(8):
            with T.block("C"):
                vj = T.axis.spatial((-3, 3), j)
                vi = T.axis.spatial(8, i)
                C[vj * 8 + vi + 24] = B[vi * vj + 32]
""",
    ),
    "loops of uint8": Irregular(
        f"{_vector('A', 64)}, {_vector('C', 64)}",
        """
    B = T.alloc_buffer((64,), "float32")
    for i in range(T.uint8(64)):
        with T.block("B"):
            vi = T.axis.spatial(64, T.Cast("int32", i))
            B[vi] = A[vi] * 2.0
    for i in range(T.uint8(64)):
        with T.block("C"):
            vi = T.axis.spatial(64, T.Cast("int32", i))
            C[vi] = B[63 - vi] + 1.0
""",
    ),
    # ---- symbolic extents -------------------------------------------------------------------------------------------
    "symbolic copies": Irregular(
        "a: T.handle, c: T.handle",
        """
    n = T.var("int32")
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    B = T.alloc_buffer((n,), "float32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * 2.0
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = B[n - 1 - vi] + B[vi]
""",
        {"extent": 7},
    ),
    "symbolic product": Irregular(
        'a: T.handle, W: T.Buffer((4, 8), "float32"), c: T.handle',
        """
    n = T.var("int32")
    A = T.match_buffer(a, (n, 8), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    B = T.alloc_buffer((n, 4), "float32")
    for i, j, k in T.grid(n, 4, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk] * W[vj, vk]
    for i, j in T.grid(n, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(B[vi, vj], T.float32(0))
""",
        {"extent": 5},
    ),
    "symbolic sums": Irregular(
        "a: T.handle, c: T.handle",
        """
    n = T.var("int32")
    A = T.match_buffer(a, (8, n), "float32")
    C = T.match_buffer(c, (8,), "float32")
    for i, k in T.grid(8, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
        {"extent": 5},
    ),
    "flattening of a symbolic matrix": Irregular(
        "a: T.handle, c: T.handle",
        """
    n = T.var("int32")
    A = T.match_buffer(a, (n, n), "float32")
    C = T.match_buffer(c, (n, n), "float32")
    B = T.alloc_buffer((n * n,), "float32")
    for i, j in T.grid(n, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * n + vj] = A[vi, vj] * 2.0
    for i, j in T.grid(n, n):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * n + vj] + 1.0
""",
        {"extent": 5},
    ),
    # ---- loops that start elsewhere, elements that are written several times ------------------------------------------
    "bands that begin where a loop says": Irregular(
        f"{_vector('A', 16)}, D: T.Buffer((2, 4, 8), 'float32')",
        """
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1.0
    for t, j, k in T.grid(2, 4, 8):
        with T.block("Z"):
            vt, vj, vk = T.axis.remap("SSS", [t, j, k])
            D[vt, vj, vk] = T.float32(0)
    for t in range(2):
        for j in range(1, 4):
            for k in range(j, j + 2):
                with T.block("D"):
                    vt = T.axis.spatial(2, t)
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.spatial(8, k)
                    D[vt, vj, vk] = B[vk + vj]
""",
    ),
    "squares of a triangle that begins at one": Irregular(
        f"{_vector('A', 16)}, {_matrix('D', 4, 4)}",
        """
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1.0
    for j, k in T.grid(4, 4):
        with T.block("Z"):
            vj, vk = T.axis.remap("SS", [j, k])
            D[vj, vk] = T.float32(0)
    for j in range(1, 4):
        for k in range(j + 1):
            with T.block("D"):
                vj = T.axis.spatial(4, j)
                vk = T.axis.spatial(4, k)
                D[vj, vk] = B[vk * vk]
""",
    ),
    "triangle of narrow loops": Irregular(
        f"{_vector('A', 5)}, {_matrix('D', 5, 5)}",
        """
    for i in range(T.uint8(5)):
        for j in range(i + T.uint8(1)):
            with T.block("D"):
                vi = T.axis.spatial(5, T.Cast("int32", i))
                vj = T.axis.spatial(5, T.Cast("int32", j))
                D[vi, vj] = A[vi]
""",
    ),
    "a producer that overwrites its elements": Irregular(
        f"{_matrix('A', 3, 4)}, {_matrix('D', 3, 4)}",
        """
    B = T.alloc_buffer((3, 4), "float32")
    C = T.alloc_buffer((4,), "float32")
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = A[vi, vj]
    for i, j in T.grid(3, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
""",
    ),
    "scan into memory of the root": Irregular(
        f"{_matrix('A', 4, 4)}, {_matrix('D', 4, 4)}",
        """
    C = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.if_then_else(vj > 0, C[vi, vj - 1], T.float32(1))
    for i, j in T.grid(4, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj]
""",
    ),
    "private windows of a parallel loop": Irregular(
        f"{_vector('A', 6)}, {_vector('D', 3)}",
        """
    G = T.alloc_buffer((3,), "float32")
    for i in T.parallel(3):
        for j in range(3):
            with T.block("G"):
                vi, vj = T.axis.remap("SS", [i, j])
                G[vj] = A[vi + vj]
        for j in range(3):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = T.float32(0)
                D[vi] = D[vi] * T.float32(2) + G[vj]
""",
    ),
    "sums below a block that states its part": Irregular(
        f"{_vector('A')}, {_vector('D', 2)}",
        """
    for o in range(2):
        with T.block("O"):
            vo = T.axis.spatial(2, o)
            T.reads(A[vo * 4 : vo * 4 + 3])
            T.writes(D[vo])
            for j in range(4):
                with T.block("S"):
                    vj = T.axis.reduce(3, j)
                    T.where(j < 3)
                    with T.init():
                        D[vo] = T.float32(0)
                    D[vo] = D[vo] + A[vo * 4 + vj]
""",
    ),
    "a table of the block around": Irregular(
        f"{_vector('A', 64)}, {I}, {C}",
        """
    for i in range(8):
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.float32(0)
    for i in range(8):
        with T.block("P"):
            vi = T.axis.opaque(8, i)
            for j in range(3):
                with T.block("Q"):
                    C[vi] = C[vi] + A[I[7] * 7 % 64]
""",
        {"I": _COUNTS},
    ),
}
