"""Tensor intrinsics in plain TIR, for the rules that need some: what they do is what they are described by, so that candidates that use
them can be interpreted and compiled like all others.
"""

from __future__ import annotations

from functools import lru_cache

from ir.script import from_source
from ir.tir import TensorIntrin

_LOAD = """@T.prim_func
def load(a: T.handle, b: T.handle):
    A = T.match_buffer(a, ({rows}, {columns}), "float32", offset_factor=1, scope="{source}")
    B = T.match_buffer(b, ({rows}, {columns}), "float32", offset_factor=1, scope="{target}")
    with T.block("root"):
        T.reads(A[0:{rows}, 0:{columns}])
        T.writes(B[0:{rows}, 0:{columns}])
        for i, j in T.grid({rows}, {columns}):
            with T.block("load"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""
_FILL = """@T.prim_func
def fill(c: T.handle):
    C = T.match_buffer(c, ({rows}, {columns}), "float32", offset_factor=1, scope="{scope}")
    with T.block("root"):
        T.reads()
        T.writes(C[0:{rows}, 0:{columns}])
        for i, j in T.grid({rows}, {columns}):
            with T.block("init"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.float32(0)
"""
_MULTIPLY = """@T.prim_func
def multiply(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, ({n}, {k}), "float32", offset_factor=1, scope="{left}")
    B = T.match_buffer(b, ({k}, {m}), "float32", offset_factor=1, scope="{right}")
    C = T.match_buffer(c, ({n}, {m}), "float32", offset_factor=1, scope="{sums}")
    with T.block("root"):
        T.reads(C[0:{n}, 0:{m}], A[0:{n}, 0:{k}], B[0:{k}, 0:{m}])
        T.writes(C[0:{n}, 0:{m}])
        for i, j, k in T.grid({n}, {m}, {k}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
_LEFT, _RIGHT, _SUMS = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"


def _registered(name: str, text: str) -> str:
    func = from_source(text)
    TensorIntrin.register(name, func, func, override=True)
    return name


@lru_cache(maxsize=8)
def product(n: int, m: int, k: int) -> str:
    """The name of an intrinsic for the product of (n, k) and (k, m), in memory of the scope "global"."""
    text = _MULTIPLY.format(n=n, m=m, k=k, left="global", right="global", sums="global")
    return _registered(f"fuzz.product.{n}x{m}x{k}", text)


@lru_cache(maxsize=8)
def fragments(n: int, m: int, k: int) -> dict[str, str]:
    """The names of intrinsics that load, multiply and store fragments, as tensor cores do."""
    prefix = f"fuzz.fragment.{n}x{m}x{k}"
    texts = {
        "init": _FILL.format(rows=n, columns=m, scope=_SUMS),
        "load_a": _LOAD.format(rows=n, columns=k, source="shared", target=_LEFT),
        "load_b": _LOAD.format(rows=k, columns=m, source="shared", target=_RIGHT),
        "compute": _MULTIPLY.format(n=n, m=m, k=k, left=_LEFT, right=_RIGHT, sums=_SUMS),
        "store": _LOAD.format(rows=n, columns=m, source=_SUMS, target="global"),
    }
    return {role: _registered(f"{prefix}.{role}", text) for role, text in texts.items()}
