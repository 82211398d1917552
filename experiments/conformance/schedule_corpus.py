"""The corpus of the schedule comparison: programs in the script dialect, and one case per line for each of them.

A case is Python with ``sch``, ``B(name)`` (a block), ``L(name)`` (its loops); what it leaves in ``out`` is compared too.
"""

# A case is one line, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

PROGRAMS = {
    "matmul": """
@T.prim_func
def main(A: T.Buffer((32, 48), "float32"), W: T.Buffer((48, 64), "float32"), C: T.Buffer((32, 64), "float32")):
    for i, j, k in T.grid(32, 64, 48):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
""",
    "matmul_relu": """
@T.prim_func
def main(A: T.Buffer((32, 48), "float32"), W: T.Buffer((48, 64), "float32"), D: T.Buffer((32, 64), "float32")):
    C = T.alloc_buffer((32, 64))
    for i, j, k in T.grid(32, 64, 48):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(32, 64):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
""",
    "chain": """
@T.prim_func
def main(A: T.Buffer((16, 32), "float32"), D: T.Buffer((16, 32), "float32")):
    B_ = T.alloc_buffer((16, 32))
    C = T.alloc_buffer((16, 32))
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B_[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B_[vi, vj]
""",
    "conv": """
@T.prim_func
def main(X: T.Buffer((1, 8, 8, 4), "float32"), W: T.Buffer((3, 3, 4, 8), "float32"), Y: T.Buffer((1, 8, 8, 8), "float32")):
    P = T.alloc_buffer((1, 10, 10, 4))
    for n, h, w, c in T.grid(1, 10, 10, 4):
        with T.block("P"):
            vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
            P[vn, vh, vw, vc] = T.if_then_else(1 <= vh and vh < 9 and 1 <= vw and vw < 9, X[vn, vh - 1, vw - 1, vc], T.float32(0))
    for n, h, w, o, rh, rw, rc in T.grid(1, 8, 8, 8, 3, 3, 4):
        with T.block("Y"):
            vn, vh, vw, vo, vrh, vrw, vrc = T.axis.remap("SSSSRRR", [n, h, w, o, rh, rw, rc])
            with T.init():
                Y[vn, vh, vw, vo] = T.float32(0)
            Y[vn, vh, vw, vo] = Y[vn, vh, vw, vo] + P[vn, vh + vrh, vw + vrw, vrc] * W[vrh, vrw, vrc, vo]
""",
    "softmax": """
@T.prim_func
def main(A: T.Buffer((8, 20), "float32"), N: T.Buffer((8, 20), "float32")):
    M = T.alloc_buffer((8,))
    E = T.alloc_buffer((8, 20))
    S = T.alloc_buffer((8,))
    for i, k in T.grid(8, 20):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(8, 20):
        with T.block("E"):
            vi, vk = T.axis.remap("SS", [i, k])
            E[vi, vk] = T.exp(A[vi, vk] - M[vi])
    for i, k in T.grid(8, 20):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + E[vi, vk]
    for i, k in T.grid(8, 20):
        with T.block("N"):
            vi, vk = T.axis.remap("SS", [i, k])
            N[vi, vk] = E[vi, vk] / S[vi]
""",
    "rowsum": """
@T.prim_func
def main(A: T.Buffer((16, 24), "float32"), S: T.Buffer((16,), "float32")):
    for i, k in T.grid(16, 24):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
""",
    "rowmax2": """
@T.prim_func
def main(A: T.Buffer((4, 6, 10), "float32"), S: T.Buffer((4,), "float32")):
    for i, j, k in T.grid(4, 6, 10):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                S[vi] = T.min_value("float32")
            S[vi] = T.max(S[vi], A[vi, vj, vk])
""",
    "argmax": """
@T.prim_func
def main(I: T.Buffer((8, 12), "int32"), V: T.Buffer((8, 12), "float32"), AI: T.Buffer((8,), "int32"), AV: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("arg"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                AI[vi] = -1
                AV[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(AV[vi] >= V[vi, vk], AI[vi], I[vi, vk])
            v_v: T.float32 = T.Select(AV[vi] >= V[vi, vk], AV[vi], V[vi, vk])
            AI[vi] = v_i
            AV[vi] = v_v
""",
    "gather": """
@T.prim_func
def main(A: T.Buffer((64, 8), "float32"), I: T.Buffer((16,), "int32"), D: T.Buffer((16, 8), "float32")):
    C = T.alloc_buffer((16, 8))
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[I[vi], vj]
    for i, j in T.grid(16, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + T.float32(1)
""",
    "opaque": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:16, 0:16])
            T.writes(D[vi, vj])
            T.evaluate(T.call_extern("int32", "f", D.access_ptr("w"), A.access_ptr("r"), vi, vj))
""",
    "nested": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            T.writes(D[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            for x, y in T.grid(4, 4):
                with T.block("inner"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    D[vi * 4 + vx, vj * 4 + vy] = A[vi * 4 + vx, vj * 4 + vy] * T.float32(2)
""",
    "odd": """
@T.prim_func
def main(A: T.Buffer((13, 7), "float32"), D: T.Buffer((13, 7), "float32")):
    C = T.alloc_buffer((13, 7))
    for i, j in T.grid(13, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(13, 7):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * T.float32(2)
""",
    "predicated": """
@T.prim_func
def main(A: T.Buffer((30,), "float32"), D: T.Buffer((30,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("D"):
            T.where(i * 8 + j < 30)
            v = T.axis.spatial(30, i * 8 + j)
            D[v] = A[v] + T.float32(1)
""",
    "symbolic": """
@T.prim_func
def main(a: T.handle, d: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16))
    D = T.match_buffer(d, (n, 16))
    C = T.alloc_buffer((n, 16))
    for i, j in T.grid(n, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(n, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * T.float32(2)
""",
    "symbolic64": """
@T.prim_func
def main(a: T.handle, w: T.Buffer((32, 64), "float32"), d: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(32)))
    D = T.match_buffer(d, (n, T.int64(64)))
    for i, j, k in T.grid(n, T.int64(64), T.int64(32)):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * w[vk, vj]
""",
    "unit": """
@T.prim_func
def main(A: T.Buffer((1, 8, 1), "float32"), D: T.Buffer((1, 8, 1), "float32")):
    for a, i, b in T.grid(1, 8, 1):
        with T.block("D"):
            va, vi, vb = T.axis.remap("SSS", [a, i, b])
            D[va, vi, vb] = A[va, vi, vb] + T.float32(1)
""",
    "transposes": """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((16, 8), "float32")):
    B_ = T.alloc_buffer((16, 8))
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_[vi, vj] = A[vj, vi]
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B_[vi, vj] + T.exp(B_[vi, vj])
""",
    "two_sums": """
@T.prim_func
def main(A: T.Buffer((16, 24), "float32"), P: T.Buffer((16, 24), "float32"), Q: T.Buffer((16,), "float32")):
    for i, k in T.grid(16, 24):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = A[vi, vk] * A[vi, vk]
    for i, k in T.grid(16, 24):
        with T.block("Q"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Q[vi] = T.float32(0)
            Q[vi] = Q[vi] + P[vi, vk]
""",
    "inplace": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("U"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
""",
    "beside": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B_: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i in T.serial(0, 16):
        for j in T.serial(0, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_[vi, vj] = A[vi, vj] * T.float32(2)
        for j in T.serial(0, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + T.float32(1)
""",
    "stencil": """
@T.prim_func
def main(A: T.Buffer((34,), "float32"), C: T.Buffer((32,), "float32")):
    B_ = T.alloc_buffer((34,))
    for i in range(34):
        with T.block("B"):
            vi = T.axis.spatial(34, i)
            B_[vi] = A[vi] * T.float32(2)
    for i in range(32):
        with T.block("C"):
            vi = T.axis.spatial(32, i)
            C[vi] = B_[vi] + B_[vi + 1] + B_[vi + 2]
""",
    "pool": """
@T.prim_func
def main(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B_ = T.alloc_buffer((10, 10), dtype="int8")
    for i, j, a, b in T.grid(10, 10, 3, 3):
        with T.block("B"):
            vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
            with T.init():
                B_[vi, vj] = T.int8(-128)
            B_[vi, vj] = T.max(B_[vi, vj], A[vi + va, vj + vb])
    for i, j, a, b in T.grid(8, 8, 3, 3):
        with T.block("C"):
            vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
            with T.init():
                C[vi, vj] = T.int8(-128)
            C[vi, vj] = T.max(C[vi, vj], B_[vi + va, vj + vb])
""",
    "batch": """
@T.prim_func
def main(A: T.Buffer((2, 16, 16), "float16"), W: T.Buffer((2, 16, 16), "float16"), C: T.Buffer((2, 16, 16), "float32")):
    for b, i, j, k in T.grid(2, 16, 16, 16):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = T.float32(0)
            C[vb, vi, vj] = C[vb, vi, vj] + T.cast(A[vb, vi, vk], "float32") * T.cast(W[vb, vk, vj], "float32")
""",
    "bias": """
@T.prim_func
def main(A: T.Buffer((32, 48), "float32"), W: T.Buffer((48, 64), "float32"), Z: T.Buffer((32, 64), "float32"), D: T.Buffer((32, 64), "float32")):
    C = T.alloc_buffer((32, 64))
    for i, j, k in T.grid(32, 64, 48):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(32, 64):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + Z[vi, vj]
""",
    "two_reads": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] + A[vj, vi]
""",
    "under_scope": """
@T.prim_func
def main(b: T.handle, c: T.handle):
    A = T.alloc_buffer((128, 128))
    B_ = T.match_buffer(b, (128, 128))
    C = T.match_buffer(c, (128, 128))
    for i0, j0 in T.grid(8, 8):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(16, 16):
                with T.block("A"):
                    vi = T.axis.spatial(128, i * 16 + x)
                    vj = T.axis.spatial(128, j * 16 + y)
                    A[vi, vj] = T.float32(1)
            for x, y in T.grid(16, 16):
                with T.block("B"):
                    vi = T.axis.spatial(128, i * 16 + x)
                    vj = T.axis.spatial(128, j * 16 + y)
                    B_[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(128, 128):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
""",
    "cube": """
@T.prim_func
def main(A: T.Buffer((128, 128, 128), "float32"), B_: T.Buffer((128, 128, 128), "float32")):
    for i, j, k in T.grid(128, 128, 128):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B_[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
""",
    "starts": """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B_: T.Buffer((128, 128), "float32")):
    for i in T.serial(10, 74):
        for j in T.serial(0, 128):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_[vi, vj] = A[vi, vj] * T.float32(2)
""",
    "dependent": """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B_: T.Buffer((16, 16), "float32")):
    for i in T.serial(0, 16):
        for j in T.serial(0, i + 1):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.spatial(16, j)
                B_[vi, vj] = A[vi, vj] * T.float32(2)
""",
    "inlined": """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((16, 8), "float32"), D: T.Buffer((8, 16), "float32")):
    B_ = T.alloc_buffer((8, 16))
    E = T.alloc_buffer((128,))
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B_[vj, vi] * B_[7 - vj, vi]
    for i in T.serial(128):
        with T.block("E"):
            v = T.axis.spatial(128, i)
            E[v] = B_[v // 16, v % 16] - T.float32(3)
    for i, j in T.grid(8, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = E[vi * 16 + vj] * T.float32(4)
""",
    "pad_mm": """
@T.prim_func
def main(A: T.Buffer((127, 30), "float32"), W: T.Buffer((30, 65), "float32"), D: T.Buffer((127, 65), "float32")):
    C = T.alloc_buffer((127, 65))
    for i, j, k in T.grid(127, 65, 30):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(127, 65):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.exp(C[vi, vj])
""",
    "frobenius": """
@T.prim_func
def main(A: T.Buffer((4, 8, 16), "float32"), D: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for b, i, j in T.grid(4, 8, 16):
        with T.block("C"):
            vb, vi, vj = T.axis.remap("SRR", [b, i, j])
            with T.init():
                C[vb] = T.float32(0)
            C[vb] = C[vb] + A[vb, vi, vj] * A[vb, vi, vj]
    for b in T.serial(0, 4):
        with T.block("D"):
            vb = T.axis.spatial(4, b)
            D[vb] = T.sqrt(C[vb])
""",
    "scalar_sum": """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), S: T.Buffer((), "float32")):
    for i in T.serial(128):
        with T.block("S"):
            vi = T.axis.reduce(128, i)
            with T.init():
                S[()] = T.float32(0)
            S[()] = S[()] + A[vi]
""",
    "cast_clip": """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), D: T.Buffer((4, 8), "int8")):
    C = T.alloc_buffer((4, 8), "int32")
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(T.min(A[vi, vj] + 3, 127), -128)
    for i, j in T.grid(4, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.cast(C[vi, vj], "int8")
""",
    "part_read": """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi + 8, vj * 2]
""",
}

CASES: dict[str, str] = {}
"""Lines of steps by program."""


def cases() -> list[dict[str, Any]]:
    """Every case as name, program and steps."""
    result = []
    for name, lines in CASES.items():
        for number, steps in enumerate(line for line in lines.splitlines() if line.strip()):
            result.append({"name": f"{name}.{number}", "program": PROGRAMS[name], "steps": steps.strip()})
    return result


CASES["matmul"] = """
pass
i, j, k = L("C"); out = sch.split(i, [None, 4])
i, j, k = L("C"); out = sch.split(i, [4, None])
i, j, k = L("C"); out = sch.split(i, [5, None])
i, j, k = L("C"); out = sch.split(i, [None, 5, 2])
i, j, k = L("C"); out = sch.split(i, [8, 8])
i, j, k = L("C"); out = sch.split(i, [2, 2])
i, j, k = L("C"); out = sch.split(i, [0, None])
i, j, k = L("C"); out = sch.split(i, [-1, None])
i, j, k = L("C"); out = sch.split(i, [None, None])
i, j, k = L("C"); out = sch.split(i, [32])
i, j, k = L("C"); out = sch.split(i, [None])
i, j, k = L("C"); out = sch.split(i, [16])
i, j, k = L("C"); out = sch.split(i, [])
i, j, k = L("C"); out = sch.split(i, [1, 32])
i, j, k = L("C"); out = sch.split(i, [32, 1])
i, j, k = L("C"); out = sch.split(i, [1, 32], preserve_unit_iters=False)
i, j, k = L("C"); out = sch.split(i, [5, None], disable_predication=True)
i, j, k = L("C"); out = sch.split(i, [64, None])
i, j, k = L("C"); out = sch.split(i, [64])
i, j, k = L("C"); out = sch.split(k, [None, 7])
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.split(b, [None, 2])
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.split(a, [None, 2])
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.fuse(a, b)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); sch.reorder(b, a)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); sch.reorder(a, c, b, d); out = sch.fuse(a, c)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); out = sch.fuse(a, b)
i, j, k = L("C"); out = sch.fuse(i, j)
i, j, k = L("C"); out = sch.fuse(i, j, k)
i, j, k = L("C"); out = sch.fuse(j, i)
i, j, k = L("C"); out = sch.fuse(i, k)
i, j, k = L("C"); out = sch.fuse(j, k)
i, j, k = L("C"); out = sch.fuse(i)
i, j, k = L("C"); out = sch.fuse()
i, j, k = L("C"); out = sch.fuse(i, i)
i, j, k = L("C"); f = sch.fuse(i, j); out = sch.split(f, [None, 64])
i, j, k = L("C"); f = sch.fuse(i, j); out = sch.split(f, [None, 32])
i, j, k = L("C"); f = sch.fuse(i, j); out = sch.split(f, [None, 100])
i, j, k = L("C"); sch.reorder(k, i, j); out = L("C")
i, j, k = L("C"); sch.reorder(k, i); out = L("C")
i, j, k = L("C"); sch.reorder(j); out = L("C")
i, j, k = L("C"); sch.reorder(); out = L("C")
i, j, k = L("C"); sch.reorder(i, i)
i, j, k = L("C"); sch.parallel(i)
i, j, k = L("C"); sch.parallel(k)
i, j, k = L("C"); sch.vectorize(j)
i, j, k = L("C"); sch.vectorize(k)
i, j, k = L("C"); sch.unroll(k)
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); sch.bind(j, "threadIdx.x")
i, j, k = L("C"); sch.bind(k, "threadIdx.x")
i, j, k = L("C"); sch.bind(k, "blockIdx.x")
i, j, k = L("C"); sch.bind(i, "vthread.x")
i, j, k = L("C"); sch.bind(i, "vthread")
i, j, k = L("C"); sch.bind(i, "foo")
i, j, k = L("C"); sch.bind(i, "threadIdx.x"); sch.bind(j, "threadIdx.x")
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); out = sch.split(i, [None, 2])
i, j, k = L("C"); sch.parallel(i); out = sch.split(i, [None, 2])
i, j, k = L("C"); sch.parallel(i); out = sch.fuse(i, j)
i, j, k = L("C"); sch.annotate(i, "pragma", 1); out = sch.split(i, [None, 2])
i, j, k = L("C"); sch.annotate(i, "pragma", 1); out = sch.fuse(i, j)
i, j, k = L("C"); sch.annotate(i, "pragma", 1); sch.parallel(i)
i, j, k = L("C"); sch.annotate(i, "pragma", 1); sch.reorder(j, i)
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); sch.reorder(j, i)
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); out = sch.fuse(i, j)
i, j, k = L("C"); sch.parallel(i); sch.vectorize(i)
i, j, k = L("C"); sch.parallel(i); sch.unroll(i)
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); sch.parallel(i)
i, j, k = L("C"); sch.bind(i, "blockIdx.x"); sch.unroll(i)
i, j, k = L("C"); a, b, c = sch.split(i, [2, 4, 4]); sch.parallel(b)
i, j, k = L("C"); a, b = sch.split(k, [4, 12]); sch.reorder(a, i, j, b); sch.parallel(i); sch.vectorize(j)
i, j, k = L("C"); out = sch.add_unit_loop(i)
i, j, k = L("C"); out = sch.add_unit_loop(k)
out = sch.add_unit_loop(B("C"))
out = sch.add_unit_loop(B("root"))
out = sch.add_unit_loop(sch.add_unit_loop(B("C")))
out = sch.cache_read(B("C"), 0, "shared")
out = sch.cache_read(B("C"), 1, "local")
out = sch.cache_read("C", "A", "shared")
out = sch.cache_read("C", sch.get(B("C")).reads[1].buffer, "shared")
out = sch.cache_read(B("C"), 2, "shared")
out = sch.cache_read(B("C"), -1, "shared")
out = sch.cache_read(B("C"), 0, "shared.dyn")
out = sch.cache_read(B("C"), 0, "global")
out = sch.cache_read(B("C"), 0, "wmma.matrix_a")
out = sch.cache_read(B("C"), 0, "nonsense")
out = [sch.cache_read(B("C"), 0, "shared"), sch.cache_read(B("C"), 0, "local")]
out = sch.cache_write(B("C"), 0, "local")
out = sch.cache_write(B("C"), 1, "local")
out = sch.cache_write(B("C"), "C", "local")
out = sch.cache_write(B("C"), 0, "global"); sch.reverse_compute_at(out, L("C")[1])
out = sch.cache_write(B("C"), 0, "local"); i, j, k = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 8]); sch.reorder(a, c, b, d, k); sch.reverse_compute_at(out, c)
out = sch.cache_write(B("C"), 0, "local"); i, j, k = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 8]); sch.reorder(a, c, b, d, k); sch.reverse_compute_at(out, c, preserve_unit_loops=True)
out = sch.cache_read(B("C"), 0, "shared"); i, j, k = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(k, [None, 8]); sch.reorder(a, c, b, j, d); sch.compute_at(out, c)
out = sch.cache_read(B("C"), 0, "shared"); i, j, k = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(k, [None, 8]); sch.reorder(a, c, b, j, d); sch.compute_at(out, c, preserve_unit_loops=True); out = L("A_shared")
out = sch.cache_read(B("C"), 0, "shared"); i, j, k = L("C"); sch.compute_at(out, k)
out = sch.cache_read(B("C"), 0, "shared"); i, j, k = L("C"); sch.compute_at(out, k, preserve_unit_loops=True)
out = sch.cache_read(B("C"), 0, "shared"); i, j, k = L("C"); a, b = sch.split(i, [None, 5]); sch.compute_at(out, a)
out = sch.cache_write(B("C"), 0, "local"); i, j, k = L("C"); a, b = sch.split(i, [None, 5]); sch.reverse_compute_at(out, a)
out = sch.cache_write(B("C"), 0, "local"); i, j, k = L("C"); sch.reverse_compute_at(out, k)
out = sch.cache_write(B("C"), 0, "local"); i, j, k = L("C"); a, b = sch.split(i, [None, 5]); c, d = sch.split(j, [None, 6]); sch.reorder(a, c, b, d); sch.reverse_compute_at(out, c)
out = sch.cache_read(B("C"), 1, "shared"); i, j, k = L("C"); a, b = sch.split(j, [None, 6]); sch.compute_at(out, a)
out = sch.cache_read(B("C"), 1, "shared"); i, j, k = L("C"); a, b = sch.split(j, [None, 6]); c, d = sch.split(k, [None, 7]); sch.reorder(a, c, i, b, d); sch.compute_at(out, c)
out = sch.reindex(B("C"), ("read", 0))
out = sch.reindex(B("C"), ("read", 1))
out = sch.reindex(B("C"), ("write", 0))
out = sch.reindex(B("C"), "A")
out = sch.reindex("C", "W")
out = sch.reindex(B("C"), "C")
out = sch.reindex(B("C"), ("read", 2))
out = sch.reindex(B("C"), "nope")
out = sch.reindex_cache_read(B("C"), 0, "shared", lambda i, j, k: (k, i))
out = sch.reindex_cache_read(B("C"), 0, "shared", lambda i, j, k: (i // 4, k, i % 4))
out = sch.reindex_cache_read(B("C"), 1, "shared", lambda i, j, k: (k + 1, j))
out = sch.reindex_cache_read(B("C"), 0, "shared", lambda i, j, k: (i, j))
out = sch.reindex_cache_read(B("C"), 0, "shared", lambda i, j: (i, j))
out = sch.reindex_cache_write(B("C"), 0, "local", lambda i, j, k: (j, i))
out = sch.reindex_cache_write(B("C"), 0, "local", lambda i, j, k: (i // 8, j // 8, i % 8, j % 8))
out = sch.reindex_cache_write(B("C"), 0, "local", lambda i, j, k: (i * 64 + j,))
out = sch.reindex_cache_write(B("C"), 0, "local", lambda i, j, k: (i,))
out = sch.cache_inplace(B("C"), 0, "local")
out = sch.cache_inplace(B("C"), "C", "local")
out = sch.cache_index(B("C"), "global")
out = sch.cache_index(B("C"), "global", 0)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(k, [6, 8]); sch.reorder(a, c, b, j, d); out = sch.read_at(c, B("C"), 0, "shared")
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(k, [6, 8]); sch.reorder(a, c, b, j, d); out = sch.read_at(c, B("C"), 1, "shared")
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); sch.reorder(a, c, b, d, k); out = sch.write_at(c, B("C"), 0, "local")
i, j, k = L("C"); out = sch.write_at(k, B("C"), 0, "local")
i, j, k = L("C"); out = sch.read_at(k, B("C"), 0, "local")
i, j, k = L("C"); out = sch.decompose_reduction(B("C"), i); out = [out, L(sch.get(out).name_hint)]
i, j, k = L("C"); out = sch.decompose_reduction(B("C"), j)
i, j, k = L("C"); out = sch.decompose_reduction(B("C"), k)
i, j, k = L("C"); sch.reorder(k, i, j); out = sch.decompose_reduction(B("C"), i)
i, j, k = L("C"); sch.reorder(k, i, j); out = sch.decompose_reduction(B("C"), k)
i, j, k = L("C"); a, b = sch.split(k, [None, 5]); sch.reorder(a, i, j, b); out = sch.decompose_reduction(B("C"), a)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.decompose_reduction(B("C"), b)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.decompose_reduction(B("C"), a)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.decompose_reduction(B("C"), j)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); sch.reorder(a, c, k, b, d); sch.vectorize(d); sch.parallel(a); out = sch.decompose_reduction(B("C"), k)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); sch.reorder(a, c, k, b, d); sch.unroll(b); sch.annotate(d, "pragma_x", 1); sch.bind(a, "blockIdx.x"); out = sch.decompose_reduction(B("C"), k)
f = sch.fuse(*L("C")[:2]); out = sch.decompose_reduction(B("C"), L("C")[1])
f = sch.fuse(*L("C")[:2]); out = sch.decompose_reduction(B("C"), f)
f = sch.fuse(*L("C")); out = sch.decompose_reduction(B("C"), f)
sch.annotate(B("C"), "x", 1); out = sch.decompose_reduction(B("C"), L("C")[0])
i, j, k = L("C"); out = sch.rfactor(k, 0); out = [out, L(sch.get(out).name_hint)]
i, j, k = L("C"); out = sch.rfactor(k, 1)
i, j, k = L("C"); out = sch.rfactor(k, 2)
i, j, k = L("C"); out = sch.rfactor(k, -1)
i, j, k = L("C"); out = sch.rfactor(k, 3)
i, j, k = L("C"); out = sch.rfactor(k, -3)
i, j, k = L("C"); out = sch.rfactor(k, -4)
i, j, k = L("C"); out = sch.rfactor(i, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); out = sch.rfactor(a, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); out = sch.rfactor(b, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); out = sch.rfactor(b, 2)
i, j, k = L("C"); a, b = sch.split(k, [None, 7]); out = sch.rfactor(a, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 7]); out = sch.rfactor(b, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); sch.reorder(a, i, j, b); out = sch.rfactor(a, 0)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(k, [4, 12]); out = sch.rfactor(c, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); sch.bind(b, "threadIdx.x"); out = sch.rfactor(a, 0)
i, j, k = L("C"); sch.annotate(B("C"), "x", 1); sch.annotate(k, "y", 1); out = sch.rfactor(k, 0)
i, j, k = L("C"); f = sch.fuse(i, j); out = sch.rfactor(k, 0)
i, j, k = L("C"); f = sch.fuse(j, k); out = sch.rfactor(f, 0)
out = sch.storage_align(B("C"), 0, -2, 32, 8)
out = sch.storage_align(B("C"), 0, 0, 32, 8)
out = sch.storage_align(B("C"), 0, 2, 32, 8)
out = sch.storage_align(B("C"), 1, 0, 32, 8)
out = sch.storage_align(B("C"), 0, -2, 0, 8)
out = sch.storage_align(B("C"), 0, -2, 32, -8)
out = sch.cache_write(B("C"), 0, "shared"); sch.storage_align(B("C"), 0, -2, 32, 8)
out = sch.cache_write(B("C"), 0, "shared"); sch.storage_align(B("C"), 0, -2, 32, 8); sch.storage_align(B("C"), 0, 0, 16, 4)
out = sch.cache_write(B("C"), 0, "shared"); sch.storage_align(B("C"), 0, 0, 32, 8); sch.storage_align(B("C"), 0, 1, 16, 4)
out = sch.set_scope(B("C"), 0, "shared")
out = sch.cache_write(B("C"), 0, "global"); sch.set_scope(B("C"), 0, "shared")
out = sch.cache_write(B("C"), 0, "global"); sch.set_scope("C", "C_global", "local")
out = sch.cache_write(B("C"), 0, "global"); sch.set_scope(B("C"), 1, "local")
out = sch.unsafe_set_dtype(B("C"), 0, "float16")
out = sch.cache_write(B("C"), 0, "global"); sch.unsafe_set_dtype("C", 0, "float16")
out = sch.cache_read(B("C"), 0, "global"); sch.unsafe_set_dtype("A_global", 0, "float16")
i, j, k = L("C"); out = sch.blockize(i)
i, j, k = L("C"); out = sch.blockize(j)
i, j, k = L("C"); out = sch.blockize(k)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); e, f = sch.split(k, [6, 8]); sch.reorder(a, c, e, b, d, f); out = sch.blockize(b); out = [out, L("C_o"), L("C")]
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); e, f = sch.split(k, [6, 8]); sch.reorder(a, c, e, b, d, f); out = sch.blockize(b); out = sch.decompose_reduction(out, e)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [8, 8]); sch.reorder(a, c, b, d, k); out = sch.blockize(b)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [64, 1]); sch.reorder(a, c, b, d, k); out = sch.blockize(b)
i, j, k = L("C"); a, b = sch.split(i, [4, 8]); c, d = sch.split(j, [64, 1]); sch.reorder(a, c, b, d, k); out = sch.blockize(b, preserve_unit_iters=False)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); c, d = sch.split(j, [None, 6]); sch.reorder(a, c, b, d, k); out = sch.blockize(b)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); out = sch.blockize(b)
i, j, k = L("C"); sch.reorder(k, i, j); out = sch.blockize(i)
i, j, k = L("C"); f = sch.fuse(i, j); out = sch.blockize(k)
out = sch.blockize([B("C")])
out = sch.blockize(B("C"))
sch.annotate(B("C"), "a", 1); out = sch.get(B("C")).annotations
sch.annotate(B("C"), "a", 1); sch.annotate(B("C"), "a", 2)
sch.annotate(B("C"), "a", 1); sch.annotate(B("C"), "a", 1)
sch.annotate(B("C"), "a", "x"); sch.annotate(L("C")[0], "b", [1, 2, "z"])
sch.annotate(B("C"), "a", {"k": 1, "l": [1, 2]})
sch.annotate(B("C"), "a", 1.5)
sch.annotate(B("C"), "a", [[1, 2], [3]])
sch.annotate(B("C"), "a", True)
sch.annotate(B("C"), "a", 1); sch.unannotate(B("C"), "a")
sch.unannotate(B("C"), "a")
sch.transform_layout(B("C"), ("read", 0), lambda i, j: (j, i))
sch.transform_layout(B("C"), ("write", 0), lambda i, j: (i // 8, j // 8, i % 8, j % 8))
sch.transform_layout(B("C"), "A", lambda i, j: (i // 8, j, i % 8))
sch.transform_layout("C", "C", lambda i, j: (i * 64 + j,))
sch.transform_layout("C", "C", lambda i, j: [i, j // 10, j % 10], pad_value=0.0)
sch.transform_layout("C", "C", lambda i, j: [i, j // 10, j % 10])
sch.transform_layout("C", "A", lambda i, j: [i, j // 10, j % 10])
sch.transform_layout("C", "A", lambda i, j: [i, j // 10, j % 10], pad_value=0.0)
sch.transform_layout("C", ("read", 5), lambda i, j: (j, i))
sch.transform_layout("C", "nope", lambda i, j: (j, i))
sch.transform_layout("C", "A", lambda i, j, k: (j, i))
sch.transform_layout("C", "A", lambda i, *rest: (*rest, i))
sch.transform_layout("C", "A", lambda i, j: (i,))
sch.transform_layout("C", sch.get(B("C")).reads[0].buffer, lambda i, j: (j, i))
sch.transform_block_layout(B("C"), lambda i, j, k: (i, j, k))
sch.transform_block_layout(B("C"), lambda i, j, k: (k, i, j))
sch.transform_block_layout(B("C"), lambda i, j, k: (i * 64 + j, k))
sch.transform_block_layout(B("C"), lambda i, j, k: (i // 8, j, i % 8, k // 4, k % 4))
sch.transform_block_layout(B("C"), lambda i, j, k: (i // 5, i % 5, j, k))
sch.transform_block_layout(B("C"), lambda i, j, k: (i + k, j))
sch.transform_block_layout(B("C"), lambda i, j, k: (i, j))
sch.transform_block_layout(B("C"), lambda i, j, k: (i, j, k, 0))
sch.transform_block_layout(B("C"), lambda i, j, k: (0, i, j, k))
sch.transform_block_layout(B("C"), lambda i, j: (i, j))
sch.split(L("C")[0], [4, 8]); sch.transform_block_layout(B("C"), lambda i, j, k: (j, i, k))
sch.pad_einsum(B("C"), [1, 1, 1])
sch.pad_einsum(B("C"), [5, 1, 1])
sch.pad_einsum(B("C"), [5, 6, 7])
sch.pad_einsum(B("C"), [5, 6])
sch.pad_einsum(B("C"), [0, 1, 1])
sch.pad_einsum(B("C"), [16, 16, 16])
out = sch.rolling_buffer(B("C"), 0)
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: ((i, i + 1), (k, k + 1)))
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: ((i, i + 2), (0, 48)))
sch.annotate_buffer_access(B("C"), 0, "write", lambda i, j, k: ((i, i + 2), (0, 64)))
sch.annotate_buffer_access(B("C"), 1, "read", lambda i, j, k: [(0, 48), (j, j + 1)])
sch.annotate_buffer_access(B("C"), 1, "read", lambda i, j, k: [(0, 48), (j, j + 1)]); sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: [(0, 32), (k, k + 1)])
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: [(0, 48)])
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: [0, (k, k+1)])
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j, k: [i, k])
sch.annotate_buffer_access(B("C"), 0, "foo", lambda i, j, k: [i, k])
sch.annotate_buffer_access(B("C"), 3, "read", lambda i, j, k: [i, k])
sch.unsafe_hide_buffer_access(B("C"), "read", [0])
sch.unsafe_hide_buffer_access(B("C"), "read", [0, 1])
sch.unsafe_hide_buffer_access(B("C"), "write", [0])
sch.unsafe_hide_buffer_access(B("C"), "write", [1])
sch.unsafe_hide_buffer_access(B("C"), "foo", [0])
sch.reorder_block_iter_var(B("C"), [2, 0, 1])
sch.reorder_block_iter_var(B("C"), [0, 1])
sch.reorder_block_iter_var(B("C"), [0, 1, 1])
sch.reorder_block_iter_var(B("C"), [0, 1, 5])
out = sch.get_block("nope")
out = sch.get_block("C", func_name="main")
out = sch.get_block("C", func_name="other")
out = sch.get_loops("C")
out = sch.get_loops(sch.get_block("root"))
out = sch.get_child_blocks(B("root"))
out = sch.get_child_blocks(L("C")[0])
out = sch.get_child_blocks(B("C"))
out = sch.get_producers(B("C"))
out = sch.get_consumers(B("C"))
out = sch.get_output_blocks(B("root"))
out = sch.get_output_blocks("root")
i, j, k = L("C"); out = sch.loop_partition(i, [8, None]); out = sch.get_child_blocks(B("root"))
i, j, k = L("C"); out = sch.loop_partition(i, [None, 8])
i, j, k = L("C"); out = sch.loop_partition(j, [8, 16, None])
i, j, k = L("C"); out = sch.loop_partition(i, [8, 8])
i, j, k = L("C"); out = sch.loop_partition(i, [32])
i, j, k = L("C"); out = sch.loop_partition(i, [32, None])
i, j, k = L("C"); out = sch.loop_partition(i, [40, None])
i, j, k = L("C"); out = sch.loop_partition(i, [0, None])
i, j, k = L("C"); out = sch.loop_partition(i, [None, None])
i, j, k = L("C"); out = sch.loop_partition(i, [])
i, j, k = L("C"); out = sch.loop_partition(k, [8, None])
i, j, k = L("C"); out = sch.sample_perfect_tile(i, 3); out = [sch.get(x) for x in out]; out = len(out)
i, j, k = L("C"); out = sch.sample_perfect_tile(i, 3, 16, decision=[2, 4, 4])
i, j, k = L("C"); out = sch.sample_perfect_tile(i, 3, 16, decision=[2, 4, 8])
i, j, k = L("C"); t = sch.sample_perfect_tile(i, 2, 16, decision=[2, 16]); out = sch.split(i, t)
out = sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5], decision=1)
out = sch.sample_categorical([1, 2, 3], [0.2, 0.3, 0.5], decision=5)
out = sch.sample_categorical([1, 2, 3], [0.2, 0.3], decision=0)
i, j, k = L("C"); out = sch.sample_partitioned_tile(i, 3, 1, 4, decision=[2, 2, 8])
i, j, k = L("C"); out = sch.sample_partitioned_tile(i, 3, 1, 4, decision=[2, 4, 4])
out = sch.sample_compute_location(B("C"))
sch.enter_postproc(); sch.parallel(L("C")[0])
out = sch.func_working_on
sch.work_on("main"); out = sch.func_working_on
sch.work_on("nope"); out = sch.func_working_on
other = sch.copy(); other.parallel(L("C")[0]) if 0 else None; out = len(other.trace.insts)
out = sch.get(sch.get_loops("C")[0]).extent
i, j, k = L("C"); sch.split(i, [4, 8]); out = sch.get(i)
i, j, k = L("C"); sch.split(i, [4, 8]); sch.split(i, [4, 8])
i, j, k = L("C"); sch.remove_rv(i); sch.parallel(i)
i, j, k = L("C"); sch.remove_rv(i); sch.remove_rv(i)
out = sch.merge(L("C")[0], L("C")[1])
out = sch.merge(L("C")[0])
out = sch.merge()
out = sch.compute_at(B("C"), L("C")[0])
out = sch.compute_inline(B("C"))
out = sch.reverse_compute_inline(B("C"))
"""
CASES["matmul_relu"] = """
i, j = L("D"); sch.compute_at(B("C"), i)
i, j = L("D"); sch.compute_at(B("C"), j)
i, j = L("D"); sch.compute_at(B("C"), j, preserve_unit_loops=True)
i, j = L("D"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 8]); sch.reorder(a, c, b, d); sch.compute_at(B("C"), c); out = L("C")
i, j = L("D"); a, b = sch.split(i, [None, 5]); c, d = sch.split(j, [None, 6]); sch.reorder(a, c, b, d); sch.compute_at(B("C"), c)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), i)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), k)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j, preserve_unit_loops=True)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j, index=0)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j, index=1)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j, index=-2)
i, j, k = L("C"); sch.reverse_compute_at(B("D"), j, index=5)
i, j, k = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 8]); sch.reorder(a, c, b, d, k); sch.reverse_compute_at(B("D"), c)
i, j, k = L("C"); a, b = sch.split(i, [None, 5]); c, d = sch.split(j, [None, 6]); sch.reorder(a, c, b, d, k); sch.reverse_compute_at(B("D"), c)
i, j, k = L("C"); f = sch.fuse(i, j); sch.reverse_compute_at(B("D"), f)
i, j, k = L("C"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 32]); sch.reverse_compute_at(B("D"), a)
i, j, k = L("C"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 128]); sch.reverse_compute_at(B("D"), a)
i, j, k = L("C"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 48]); sch.reverse_compute_at(B("D"), a)
i, j, k = L("C"); sch.reorder(k, i, j); sch.reverse_compute_at(B("D"), i)
sch.compute_inline(B("C"))
sch.compute_inline(B("D"))
sch.reverse_compute_inline(B("D"))
sch.reverse_compute_inline(B("C"))
out = sch.get_producers(B("D"))
out = sch.get_consumers("C")
out = sch.get_output_blocks("root")
out = sch.cache_read(B("D"), 0, "shared")
out = sch.cache_write(B("C"), 0, "local")
out = sch.cache_write(B("D"), 0, "local")
out = sch.cache_write(B("C"), 0, "local", consumer_blocks=[B("D")])
out = sch.cache_write(B("C"), 0, "local", consumer_blocks=["D"])
out = sch.cache_read(B("D"), 0, "local", consumer_blocks=[B("D")])
i, j, k = L("C"); out = sch.rfactor(k, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 8]); out = sch.rfactor(a, 0); sch.reverse_compute_at(B("C"), L("D")[0])
sch.set_scope("C", 0, "shared")
sch.unsafe_set_dtype("C", 0, "float16")
sch.storage_align("C", 0, -1, 32, 8)
sch.transform_layout("C", ("write", 0), lambda i, j: (i // 8, j // 8, i % 8, j % 8))
sch.transform_layout("D", ("read", 0), lambda i, j: (i // 8, j // 8, i % 8, j % 8))
sch.transform_layout("C", "C", lambda i, j: (i, j // 10, j % 10), pad_value=0.0)
sch.transform_layout("C", "C", lambda i, j: (i, j // 10, j % 10), pad_value=lambda i, jo, ji: jo + ji)
sch.transform_layout("C", "C", lambda i, j: (i, j // 10, j % 10))
sch.transform_layout("C", "C", lambda i, j: (i, j // 8, j % 8), assume_injective_transform=True)
sch.transform_layout("D", ("write", 0), lambda i, j: (i // 8, j // 8, i % 8, j % 8))
sch.pad_einsum("C", [5, 6, 7])
sch.pad_einsum("C", [1, 1, 5])
sch.pad_einsum("C", [1, 5, 1])
i, j, k = L("C"); x, y = L("D"); out = sch.merge(i, x)
i, j, k = L("C"); x, y = L("D"); out = sch.merge(j, y)
i, j, k = L("C"); x, y = L("D"); out = sch.fuse(i, x)
i, j, k = L("C"); x, y = L("D"); out = sch.reorder(i, x)
out = sch.blockize([B("C"), B("D")])
out = sch.reindex("D", ("read", 0))
out = sch.reindex("C", ("write", 0))
sch.cache_inplace("D", 0, "local")
sch.compute_at("D", L("C")[0])
sch.reverse_compute_at("C", L("D")[0])
i, j = L("D"); a, b = sch.split(i, [None, 4]); out = sch.read_at(a, B("D"), 0, "shared")
i, j, k = L("C"); a, b = sch.split(i, [None, 4]); out = sch.write_at(a, B("C"), 0, "shared")
i, j = L("D"); sch.bind(i, "blockIdx.x"); sch.bind(j, "threadIdx.x"); sch.set_scope("C", 0, "local"); sch.compute_at("C", j)
out = sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
out = sch.reindex_cache_read("D", 0, "local", lambda i, j: (j, i))
out = sch.sample_compute_location(B("C"), decision=-1); out = "none"
out = sch.sample_compute_location(B("C"), decision=-2); out = "none"
out = sch.sample_compute_location(B("C"), decision=0); out = sch.get(out).loop_var.name
out = sch.sample_compute_location(B("C"), decision=7)
l = sch.sample_compute_location(B("C"), decision=1); sch.compute_at("C", l)
out = sch.sample_compute_location(B("D"), decision=0); out = "none"
sch.decompose_reduction("C", L("C")[2]); sch.compute_inline("C_init")
sch.decompose_reduction("C", L("C")[1]); sch.compute_at("C_init", L("D")[0])
sch.decompose_reduction("C", L("C")[1]); i, j = L("D"); sch.compute_at("C_update", i)
"""
CASES["chain"] = """
sch.compute_inline("B")
sch.compute_inline("C")
sch.compute_inline("D")
sch.compute_inline("B"); sch.compute_inline("C")
sch.reverse_compute_inline("C")
sch.reverse_compute_inline("D")
sch.compute_inline("B"); sch.reverse_compute_inline("D")
i, j = L("D"); sch.compute_at("C", i)
i, j = L("D"); sch.compute_at("B", i)
i, j = L("D"); sch.compute_at("C", i); sch.compute_at("B", i)
i, j = L("D"); sch.compute_at("C", i); sch.compute_at("B", i, index=0)
i, j = L("D"); sch.compute_at("C", i); sch.compute_at("B", i, index=1)
i, j = L("D"); sch.compute_at("C", i); sch.compute_at("B", i, index=-2)
i, j = L("D"); sch.compute_at("C", j); sch.compute_at("B", j)
i, j = L("B"); sch.reverse_compute_at("C", i); sch.reverse_compute_at("D", i)
i, j = L("B"); sch.reverse_compute_at("D", i)
i, j = L("B"); sch.reverse_compute_at("C", j); sch.reverse_compute_at("D", j)
out = sch.cache_read("C", 0, "shared")
out = sch.cache_read("D", 1, "shared")
out = sch.cache_read("D", "B_", "shared")
out = sch.cache_read("C", 0, "shared", consumer_blocks=["D"])
out = sch.cache_read("C", 0, "shared", consumer_blocks=["C"])
out = sch.cache_read("C", 0, "shared", consumer_blocks=["C", "D"])
out = sch.cache_read("D", "B_", "shared", consumer_blocks=["D"])
out = sch.cache_write("B", 0, "shared")
out = sch.cache_write("B", 0, "shared", consumer_blocks=["D"])
out = sch.cache_write("B", 0, "shared", consumer_blocks=["C"])
out = sch.cache_write("B", 0, "shared", consumer_blocks=["C", "D"])
out = sch.cache_write("B", 0, "shared", consumer_blocks=[])
out = sch.get_producers("D")
out = sch.get_consumers("B")
out = sch.get_output_blocks("root")
out = sch.get_child_blocks(B("root"))
out = sch.reindex("D", ("read", 0))
out = sch.reindex("D", ("read", 1))
out = sch.reindex("B", ("write", 0))
sch.transform_layout("B", "B_", lambda i, j: (j, i))
sch.transform_layout("C", ("read", 0), lambda i, j: (j // 4, i, j % 4))
sch.transform_layout("B", "B_", lambda i, j: (i, j // 5, j % 5), pad_value=0.0)
sch.transform_layout("B", "B_", lambda i, j: (i, j // 5, j % 5))
sch.transform_block_layout("B", lambda i, j: (i * 32 + j,))
sch.transform_block_layout("C", lambda i, j: (j, i))
out = sch.blockize([B("B"), B("C")])
out = sch.blockize([B("B"), B("C"), B("D")])
out = sch.blockize([B("C"), B("B")])
out = sch.blockize([B("B"), B("D")])
i, j = L("D"); sch.compute_at("C", i); out = sch.blockize([B("C"), B("D")])
i, j = L("D"); sch.compute_at("C", i); out = sch.blockize(j)
i, j = L("D"); sch.compute_at("C", i); out = sch.blockize(i)
i, j = L("D"); sch.compute_at("C", j); out = sch.blockize([B("C"), B("D")])
i, j = L("D"); sch.compute_at("C", i); out = sch.split(i, [None, 3])
i, j = L("D"); sch.compute_at("C", i); out = sch.fuse(i, j)
i, j = L("D"); sch.compute_at("C", i); sch.reorder(j, i)
i, j = L("D"); sch.compute_at("C", i); x, y = L("C"); out = sch.merge(y, j)
x, y = L("B"); i, j = L("C"); out = sch.merge(x, i)
x, y = L("B"); i, j = L("C"); out = sch.merge(y, j)
x, y = L("B"); i, j = L("C"); u, v = L("D"); out = sch.merge(x, i, u)
sch.set_scope("B", 0, "shared")
sch.cache_inplace("B", 0, "local")
out = sch.cache_index("B", "global")
sch.storage_align("B", 0, 0, 32, 8)
sch.parallel(L("B")[0]); sch.vectorize(L("B")[1])
i, j = L("D"); sch.parallel(i); sch.compute_at("C", j); sch.vectorize(j)
i, j = L("D"); a, b = sch.split(j, [None, 4]); sch.vectorize(b); sch.compute_at("C", b)
i, j = L("D"); a, b = sch.split(i, [None, 3]); sch.compute_at("C", a)
i, j = L("D"); f = sch.fuse(i, j); sch.compute_at("C", f)
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 100]); sch.compute_at("C", a)
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 64]); sch.compute_at("C", a)
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 16]); sch.compute_at("C", a)
i, j = L("B"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 16]); sch.reverse_compute_at("C", a)
i, j = L("B"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 100]); sch.reverse_compute_at("C", a)
i, j = L("B"); a, b = sch.split(i, [None, 3]); sch.reverse_compute_at("C", a)
i, j = L("B"); a, b = sch.split(i, [None, 3]); sch.reverse_compute_at("C", b)
i, j = L("D"); sch.compute_at("C", i, index=3)
i, j = L("D"); sch.compute_at("C", i, index=-3)
sch.annotate(L("C")[0], "p", 1); i, j = L("D"); sch.compute_at("C", i)
sch.annotate(B("C"), "p", 1); sch.compute_inline("C")
sch.add_unit_loop(B("C")); sch.compute_inline("C")
sch.split(L("C")[0], [None, 3]); sch.compute_inline("C")
sch.split(L("C")[0], [None, 4]); sch.compute_inline("C")
sch.split(L("D")[0], [None, 3]); sch.compute_inline("C")
out = sch.read_at(L("D")[0], B("D"), 0, "shared")
out = sch.write_at(L("B")[0], B("B"), 0, "shared")
sch.rolling_buffer("B", 0)
i, j = L("D"); sch.compute_at("C", i); sch.rolling_buffer("C", 0)
"""
CASES["conv"] = """
sch.compute_inline("P")
out = L("Y")
n, h, w, o, *r = L("Y"); sch.compute_at("P", h)
n, h, w, o, *r = L("Y"); sch.compute_at("P", w)
n, h, w, o, *r = L("Y"); sch.compute_at("P", o)
n, h, w, o, *r = L("Y"); sch.compute_at("P", r[0])
n, h, w, o, *r = L("Y"); sch.compute_at("P", r[1], preserve_unit_loops=True)
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [None, 3]); sch.compute_at("P", a)
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [None, 4]); c, d = sch.split(w, [None, 4]); sch.reorder(a, c, b, d); sch.compute_at("P", c)
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [None, 4]); c, d = sch.split(w, [None, 4]); sch.reorder(a, c, *r, b, d, o); sch.compute_at("P", r[0])
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [None, 4]); c, d = sch.split(w, [None, 4]); sch.reorder(a, c, *r, b, d, o); sch.compute_at("P", r[1])
n, h, w, c = L("P"); out = sch.decompose_padding("P", n)
n, h, w, c = L("P"); out = sch.decompose_padding("P", h)
n, h, w, c = L("P"); out = sch.decompose_padding("P", w)
n, h, w, c = L("P"); out = sch.decompose_padding("P", c)
n, h, w, o, *r = L("Y"); sch.compute_at("P", h); x = L("P"); out = sch.decompose_padding("P", x[2])
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [None, 4]); sch.compute_at("P", a); x = L("P"); out = sch.decompose_padding("P", x[-2])
out = sch.decompose_padding("Y", L("Y")[0])
out = sch.reindex("Y", ("read", 0))
out = sch.reindex("Y", ("read", 1))
out = sch.reindex("Y", ("write", 0))
out = sch.reindex("Y", ("read", 0)); sch.transform_layout("Y", ("read", 0), lambda n, h, w, rh, rw, rc: (n * 64 + h * 8 + w, rh * 12 + rw * 4 + rc))
for x in (("read", 0), ("read", 1), ("write", 0)): sch.reindex("Y", x)
for x in (("read", 0), ("read", 1), ("write", 0)): sch.reindex("Y", x)\nsch.transform_layout("Y", ("read", 0), lambda n, h, w, rh, rw, rc: (n * 64 + h * 8 + w, rh * 12 + rw * 4 + rc)); sch.transform_layout("Y", ("read", 1), lambda o, rh, rw, rc: (rh * 12 + rw * 4 + rc, o)); sch.transform_layout("Y", ("write", 0), lambda n, h, w, o: (n * 64 + h * 8 + w, o)); sch.transform_block_layout("Y", lambda n, h, w, o, rh, rw, rc: (n * 64 + h * 8 + w, o, rh * 12 + rw * 4 + rc))
out = sch.cache_read("Y", 0, "shared")
out = sch.cache_read("P", 0, "shared")
out = sch.cache_read("P", 0, "shared"); sch.compute_at("X_shared", L("P")[1])
out = sch.cache_read("Y", 0, "shared"); n, h, w, o, *r = L("Y"); sch.compute_at("P_shared", h); sch.compute_at("P", h)
out = sch.cache_read("Y", 0, "shared"); n, h, w, o, *r = L("Y"); sch.compute_at("P_shared", w); sch.compute_inline("P")
out = sch.reindex_cache_read("Y", 0, "shared", lambda n, h, w, o, rh, rw, rc: (n, h + rh, w + rw, rc))
out = sch.reindex_cache_read("Y", 0, "shared", lambda n, h, w, o, rh, rw, rc: (n, h, w, rh, rw, rc))
out = sch.decompose_reduction("Y", L("Y")[4])
out = sch.decompose_reduction("Y", L("Y")[3])
out = sch.rfactor(L("Y")[4], 0)
out = sch.rfactor(L("Y")[6], 4)
out = sch.rfactor(L("Y")[5], 0)
out = sch.fuse(*L("Y")[4:]); out = sch.rfactor(out, 0)
out = sch.fuse(*L("Y")[:3])
out = sch.blockize(L("Y")[3])
out = sch.blockize(L("Y")[4])
n, h, w, o, *r = L("Y"); a, b = sch.split(w, [2, 4]); c, d = sch.split(r[2], [2, 2]); sch.reorder(n, h, a, r[0], r[1], c, b, o, d); out = sch.blockize(b)
n, h, w, o, *r = L("Y"); a, b = sch.split(h, [2, 4]); sch.compute_at("P", a); sch.rolling_buffer("P", 0)
n, h, w, o, *r = L("Y"); sch.compute_at("P", h); sch.rolling_buffer("P", 0)
out = sch.cache_index("Y", "global")
out = sch.cache_index("P", "global")
out = sch.cache_index("Y", "global", 1)
out = sch.read_at(L("Y")[1], B("Y"), 0, "shared")
sch.transform_layout("Y", ("read", 0), lambda n, h, w, c: (n, c // 2, h, w, c % 2))
sch.transform_layout("P", ("write", 0), lambda n, h, w, c: (n, c // 2, h, w, c % 2))
sch.transform_layout("P", ("write", 0), lambda n, h, w, c: (n, h // 4, w // 4, c, h % 4, w % 4), pad_value=0.0)
sch.pad_einsum("Y", [1, 1, 1, 16, 1, 1, 8])
out = sch.sample_compute_location(B("P"), decision=3); out = sch.get(out).loop_var.name
for l in L("Y"): sch.annotate(l, "x", 1)
sch.unsafe_hide_buffer_access(B("Y"), "read", [0]); out = sch.get_producers("Y")
"""
CASES["softmax"] = """
sch.compute_inline("E")
sch.compute_at("M", L("E")[0])
sch.compute_at("M", L("E")[1])
sch.compute_at("E", L("N")[0])
sch.compute_at("E", L("S")[0])
sch.compute_at("S", L("N")[0]); sch.compute_at("E", L("N")[0]); sch.compute_at("M", L("N")[0])
sch.compute_at("S", L("N")[0]); sch.compute_at("E", L("N")[0], index=0); sch.compute_at("M", L("N")[0], index=0)
sch.compute_at("S", L("N")[0]); sch.compute_at("M", L("N")[0])
sch.reverse_compute_at("E", L("M")[0]); sch.reverse_compute_at("S", L("M")[0]); sch.reverse_compute_at("N", L("M")[0])
sch.reverse_compute_at("E", L("M")[1])
sch.reverse_compute_at("S", L("E")[1])
sch.reverse_compute_at("S", L("E")[0])
sch.reverse_compute_at("N", L("S")[0])
sch.rfactor(L("M")[1], 0)
sch.rfactor(L("S")[1], 1)
i, k = L("S"); a, b = sch.split(k, [None, 8]); sch.rfactor(b, 1)
i, k = L("S"); a, b = sch.split(k, [None, 8]); sch.reorder(b, a); sch.rfactor(b, 0)
out = sch.get_producers("N")
out = sch.get_producers("E")
out = sch.get_consumers("E")
out = sch.get_consumers("M")
i, k = L("M"); a, b = sch.split(k, [None, 32]); sch.bind(b, "threadIdx.x")
i, k = L("N"); a, b = sch.split(k, [None, 32]); sch.bind(b, "threadIdx.x"); sch.bind(i, "blockIdx.x"); sch.compute_at("S", i); sch.set_scope("S", 0, "shared"); i, k = L("S")[-2:]; a, b = sch.split(L("S")[-1], [None, 32]); sch.bind(b, "threadIdx.x")
i, k = L("N"); sch.bind(i, "blockIdx.x"); sch.compute_at("S", i); sch.set_scope("S", 0, "shared"); sch.compute_at("M", i); sch.set_scope("M", 0, "shared"); out = L("S") + L("M")
sch.decompose_reduction("M", L("M")[1])
sch.decompose_reduction("M", L("M")[0])
sch.cache_read("E", 1, "local")
sch.cache_read("E", 0, "local")
sch.cache_read("M", 0, "shared", consumer_blocks=["M", "E"])
sch.cache_read("M", 0, "shared", consumer_blocks=["E"])
sch.cache_write("S", 0, "local")
out = sch.sample_compute_location(B("S"), decision=0); out = sch.get(out).loop_var.name
i, k = L("M"); out = sch.merge(i, L("E")[0])
i, k = L("M"); out = sch.merge(k, L("E")[1])
out = sch.blockize([B("E"), B("S")])
out = sch.blockize(L("M")[1])
"""
CASES["rowsum"] = """
out = sch.rfactor(L("S")[1], 0)
out = sch.rfactor(L("S")[1], 1)
i, k = L("S"); a, b = sch.split(k, [None, 6]); out = sch.rfactor(b, 0)
i, k = L("S"); a, b = sch.split(k, [None, 6]); out = sch.rfactor(a, 1); out = [L("S"), L("S_rf")]
i, k = L("S"); a, b = sch.split(k, [None, 6]); out = sch.rfactor(b, 0); out = sch.rfactor(L("S")[1], 0)
i, k = L("S"); a, b, c = sch.split(k, [2, 3, 4]); out = sch.rfactor(b, 0)
i, k = L("S"); a, b = sch.split(k, [None, 6]); c = sch.fuse(i, a); out = sch.rfactor(b, 0)
i, k = L("S"); sch.reorder(k, i); out = sch.rfactor(k, 0)
i, k = L("S"); a, b = sch.split(k, [None, 7]); out = sch.rfactor(b, 0)
i, k = L("S"); sch.parallel(i); a, b = sch.split(k, [None, 6]); sch.unroll(b); out = sch.rfactor(a, 0)
i, k = L("S"); a, b = sch.split(k, [None, 6]); sch.bind(b, "threadIdx.x"); sch.bind(i, "blockIdx.x"); out = sch.decompose_reduction("S", a)
i, k = L("S"); a, b = sch.split(k, [None, 6]); sch.bind(b, "threadIdx.x"); sch.parallel(i); sch.vectorize(a)
i, k = L("S"); out = sch.decompose_reduction("S", k)
i, k = L("S"); out = sch.cache_write("S", 0, "local"); sch.reverse_compute_at(out, i)
i, k = L("S"); out = sch.cache_write("S", 0, "local"); sch.reverse_compute_at(out, i, preserve_unit_loops=True)
i, k = L("S"); out = sch.cache_write("S", 0, "local"); a, b = sch.split(i, [None, 5]); sch.reverse_compute_at(out, b)
i, k = L("S"); out = sch.loop_partition(i, [4, None])
i, k = L("S"); out = sch.loop_partition(k, [4, None])
sch.decompose_reduction("S", L("S")[1]); out = sch.loop_partition(L("S_update")[1], [4, None])
sch.decompose_reduction("S", L("S")[0]); out = sch.merge(L("S_init")[0], L("S_update")[0])
out = sch.reindex("S", ("read", 0))
out = sch.reindex("S", ("write", 0))
sch.cache_read("S", 0, "local"); sch.compute_at("A_local", L("S")[0])
sch.cache_read("S", 0, "local"); sch.compute_at("A_local", L("S")[1])
sch.tensorize(L("S")[0], "nope")
sch.transform_block_layout("S", lambda i, k: (i, k // 4, k % 4))
sch.transform_block_layout("S", lambda i, k: (i // 4, i % 4, k))
sch.transform_layout("S", "S", lambda i: (i // 4, i % 4))
sch.transform_layout("S", "S", lambda i: (i // 5, i % 5), pad_value=0.0)
sch.transform_layout("S", "A", lambda i, j: (i * 24 + j))
sch.transform_layout("S", "A", lambda i, j: i * 24 + j)
sch.reorder_block_iter_var("S", [1, 0])
"""
CASES["rowmax2"] = """
i, j, k = L("S"); out = sch.rfactor(j, 0)
i, j, k = L("S"); out = sch.rfactor(k, 1)
i, j, k = L("S"); f = sch.fuse(j, k); out = sch.rfactor(f, 0)
i, j, k = L("S"); f = sch.fuse(j, k); a, b = sch.split(f, [None, 8]); out = sch.rfactor(b, 1)
i, j, k = L("S"); f = sch.fuse(j, k); a, b = sch.split(f, [None, 10]); out = sch.rfactor(b, 1)
i, j, k = L("S"); sch.reorder(k, j); out = sch.rfactor(k, 1)
i, j, k = L("S"); out = sch.decompose_reduction("S", k)
i, j, k = L("S"); out = sch.decompose_reduction("S", j)
i, j, k = L("S"); out = sch.blockize(k)
i, j, k = L("S"); out = sch.blockize(j)
i, j, k = L("S"); sch.parallel(j)
"""
CASES["argmax"] = """
i, k = L("arg"); out = sch.rfactor(k, 0)
i, k = L("arg"); out = sch.rfactor(k, 1)
i, k = L("arg"); a, b = sch.split(k, [None, 4]); out = sch.rfactor(a, 1)
i, k = L("arg"); a, b = sch.split(k, [None, 4]); out = sch.rfactor(b, 0)
i, k = L("arg"); a, b = sch.split(k, [None, 5]); out = sch.rfactor(b, 0)
i, k = L("arg"); out = sch.decompose_reduction("arg", k)
i, k = L("arg"); out = sch.decompose_reduction("arg", i)
i, k = L("arg"); out = sch.blockize(k)
i, k = L("arg"); sch.parallel(i)
i, k = L("arg"); sch.parallel(k)
i, k = L("arg"); sch.bind(k, "threadIdx.x")
out = sch.cache_write("arg", 0, "local")
out = sch.cache_write("arg", 1, "local")
out = sch.cache_read("arg", 0, "local")
out = sch.cache_read("arg", 1, "local")
out = [sch.cache_write("arg", 0, "local"), sch.cache_write("arg", 1, "local")]; i, k = L("arg"); sch.reverse_compute_at(out[0], i); sch.reverse_compute_at(out[1], i)
out = sch.reindex("arg", ("write", 0))
out = sch.reindex("arg", ("read", 0))
"""
CASES["gather"] = """
sch.compute_inline("C")
sch.reverse_compute_inline("D")
sch.compute_at("C", L("D")[0])
sch.reverse_compute_at("D", L("C")[0])
out = sch.cache_read("C", 0, "shared")
out = sch.cache_read("C", 1, "shared")
out = sch.cache_read("C", 0, "shared"); sch.compute_at(out, L("C")[0])
out = sch.cache_read("C", 1, "shared"); sch.compute_at(out, L("C")[0])
out = sch.reindex("C", ("read", 0))
out = sch.reindex("C", ("read", 1))
out = sch.cache_index("C", "global")
out = sch.get(B("C")).reads
sch.parallel(L("C")[0]); sch.vectorize(L("C")[1])
sch.transform_layout("C", "A", lambda i, j: (j, i))
sch.transform_layout("C", "I", lambda i: (i // 4, i % 4))
"""
CASES["opaque"] = """
i, j = L("outer"); out = sch.split(i, [None, 4])
i, j = L("outer"); out = sch.fuse(i, j)
i, j = L("outer"); sch.parallel(i)
out = sch.cache_read("outer", 0, "shared")
out = sch.cache_write("outer", 0, "shared")
sch.compute_inline("outer")
sch.blockize(L("outer")[1])
sch.reorder(*reversed(L("outer")))
out = sch.reindex("outer", ("read", 0))
sch.transform_layout("outer", "A", lambda i, j: (j, i))
sch.unsafe_set_dtype("outer", 0, "float16")
"""
CASES["nested"] = """
out = L("inner") + L("outer")
i, j = L("outer"); out = sch.split(i, [None, 2])
x, y = L("inner"); out = sch.split(x, [None, 3])
x, y = L("inner"); out = sch.fuse(x, y)
i, j = L("outer"); x, y = L("inner"); out = sch.fuse(j, x)
i, j = L("outer"); x, y = L("inner"); sch.reorder(x, i)
i, j = L("outer"); sch.parallel(i); x, y = L("inner"); sch.vectorize(y)
x, y = L("inner"); sch.parallel(x)
out = sch.cache_read("inner", 0, "shared")
out = sch.cache_write("inner", 0, "shared")
out = sch.cache_read("outer", 0, "shared")
out = sch.cache_write("outer", 0, "shared")
out = sch.cache_read("outer", 0, "shared"); sch.compute_at(out, L("outer")[0])
out = sch.cache_write("outer", 0, "shared"); sch.reverse_compute_at(out, L("outer")[1])
x, y = L("inner"); out = sch.blockize(y)
x, y = L("inner"); out = sch.blockize(x)
i, j = L("outer"); out = sch.blockize(j)
i, j = L("outer"); out = sch.blockize(i)
out = sch.get_child_blocks(B("outer"))
out = sch.get_child_blocks(L("outer")[0])
out = sch.get_child_blocks(L("inner")[0])
out = sch.get_output_blocks("outer")
out = sch.get_output_blocks("root")
out = sch.get_producers("inner")
sch.bind(L("outer")[0], "blockIdx.x"); sch.bind(L("inner")[0], "threadIdx.x")
sch.bind(L("outer")[0], "threadIdx.x"); sch.bind(L("inner")[0], "threadIdx.x")
sch.annotate(B("inner"), "a", 1); sch.annotate(B("outer"), "a", 1)
sch.transform_layout("inner", "D", lambda i, j: (j, i))
sch.transform_layout("outer", "D", lambda i, j: (j, i))
sch.transform_layout("inner", "A", lambda i, j: (i // 4, j // 4, i % 4, j % 4))
sch.transform_block_layout("inner", lambda i, j: (j, i))
sch.transform_block_layout("outer", lambda i, j: (j, i))
sch.transform_block_layout("outer", lambda i, j: (i * 4 + j,))
sch.add_unit_loop(B("inner"))
sch.add_unit_loop(L("inner")[0])
sch.reorder_block_iter_var("outer", [1, 0])
out = sch.loop_partition(L("inner")[0], [1, None])
out = sch.loop_partition(L("outer")[0], [1, None])
out = sch.reindex("inner", ("read", 0))
out = sch.decompose_padding("inner", L("inner")[0])
"""
CASES["odd"] = """
i, j = L("D"); out = sch.split(i, [None, 4])
i, j = L("D"); a, b = sch.split(i, [None, 4]); sch.compute_at("C", a)
i, j = L("D"); a, b = sch.split(i, [None, 4]); sch.compute_at("C", b)
i, j = L("D"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 4]); sch.reorder(a, c, b, d); sch.compute_at("C", c)
i, j = L("C"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 4]); sch.reorder(a, c, b, d); sch.reverse_compute_at("D", c)
i, j = L("C"); a, b = sch.split(i, [None, 4]); sch.reverse_compute_at("D", a)
i, j = L("C"); a, b = sch.split(i, [None, 4]); sch.compute_inline("C")
i, j = L("D"); a, b = sch.split(i, [None, 4]); sch.compute_inline("C")
i, j = L("D"); a, b = sch.split(i, [None, 4]); sch.reverse_compute_inline("D")
i, j = L("C"); a, b = sch.split(i, [None, 4]); sch.reverse_compute_inline("D")
i, j = L("D"); f = sch.fuse(i, j); out = sch.split(f, [None, 8])
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 8]); sch.compute_at("C", a)
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 8]); sch.vectorize(b); sch.parallel(a)
i, j = L("D"); f = sch.fuse(i, j); a, b, c = sch.split(f, [None, 4, 4])
i, j = L("D"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 4]); sch.reorder(a, c, b, d); out = sch.blockize(b)
i, j = L("D"); a, b = sch.split(i, [None, 4]); c, d = sch.split(j, [None, 4]); out = sch.fuse(a, b)
i, j = L("D"); a, b = sch.split(i, [None, 4]); c, d = sch.split(a, [None, 3]); e, f = sch.split(b, [None, 3])
i, j = L("D"); a, b = sch.split(i, [None, 4]); out = sch.cache_read("D", 0, "shared"); sch.compute_at(out, a)
i, j = L("D"); a, b = sch.split(i, [None, 4]); out = sch.cache_write("D", 0, "shared"); sch.reverse_compute_at(out, a)
i, j = L("D"); a, b = sch.split(i, [None, 4]); out = sch.cache_write("D", 0, "shared"); sch.reverse_compute_at(out, b)
out = sch.loop_partition(L("D")[0], [2, None, 3]); out = L("D_i1")
out = sch.loop_partition(L("D")[0], [2, 4])
out = sch.loop_partition(L("D")[1], [2, None])
a, b, c = sch.loop_partition(L("D")[0], [2, None, 3]); sch.parallel(b); sch.split(c, [1, 3])
out = sch.sample_perfect_tile(L("D")[0], 2, 16, decision=[1, 13])
sch.transform_layout("C", "C", lambda i, j: (i // 4, j // 4, i % 4, j % 4), pad_value=0.0)
sch.transform_layout("C", "C", lambda i, j: (i // 4, j // 4, i % 4, j % 4), pad_value=lambda i, j, a, b: i + j)
sch.transform_layout("C", "C", lambda i, j: (i // 4, j // 4, i % 4, j % 4))
sch.transform_layout("D", "D", lambda i, j: (i // 4, j // 4, i % 4, j % 4), pad_value=0.0)
sch.transform_layout("C", "A", lambda i, j: (i // 4, j // 4, i % 4, j % 4), pad_value=0.0)
sch.transform_layout("C", "A", lambda i, j: (i // 4, j // 4, i % 4, j % 4))
sch.transform_layout("C", "C", lambda i, j: (i // 4, j // 4, i % 4, j % 4), pad_value=1)
sch.transform_block_layout("D", lambda i, j: (i * 7 + j,))
sch.transform_block_layout("D", lambda i, j: (i // 4, i % 4, j))
out = sch.rolling_buffer("C", 0)
"""
CASES["predicated"] = """
i, j = L("D"); out = sch.split(j, [None, 2])
i, j = L("D"); out = sch.split(j, [None, 3])
i, j = L("D"); out = sch.fuse(i, j)
i, j = L("D"); sch.reorder(j, i)
i, j = L("D"); sch.parallel(i); sch.vectorize(j)
out = sch.cache_read("D", 0, "local")
out = sch.cache_read("D", 0, "local"); sch.compute_at(out, L("D")[0])
out = sch.cache_write("D", 0, "local"); sch.reverse_compute_at(out, L("D")[0])
out = sch.cache_write("D", 0, "local"); sch.reverse_compute_at(out, L("D")[1])
out = sch.blockize(L("D")[1])
sch.transform_block_layout("D", lambda i: (i // 5, i % 5))
sch.transform_block_layout("D", lambda i: (i + 1,))
sch.reindex("D", ("read", 0))
out = sch.loop_partition(L("D")[0], [1, None])
out = sch.loop_partition(L("D")[1], [1, None])
sch.transform_layout("D", "A", lambda i: (i // 5, i % 5))
"""
CASES["symbolic"] = """
i, j = L("D"); out = sch.split(i, [None, 4])
i, j = L("D"); out = sch.split(i, [4, None])
i, j = L("D"); out = sch.split(i, [4, 4])
i, j = L("D"); out = sch.fuse(i, j)
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 64])
i, j = L("D"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 64]); sch.compute_at("C", a)
i, j = L("D"); a, b = sch.split(i, [None, 4]); sch.compute_at("C", a)
i, j = L("D"); sch.compute_at("C", i)
i, j = L("D"); sch.compute_at("C", j)
i, j = L("C"); sch.reverse_compute_at("D", i)
i, j = L("C"); a, b = sch.split(i, [None, 4]); sch.reverse_compute_at("D", a)
sch.compute_inline("C")
sch.reverse_compute_inline("D")
out = sch.cache_read("C", 0, "shared")
out = sch.cache_write("D", 0, "shared")
out = sch.cache_read("C", 0, "shared"); sch.compute_at(out, L("C")[0])
sch.reorder(*reversed(L("D")))
sch.parallel(L("D")[0])
out = sch.blockize(L("D")[1])
out = sch.blockize(L("D")[0])
i, j = L("D"); a, b = sch.split(i, [None, 4]); out = sch.blockize(b)
out = sch.sample_perfect_tile(L("D")[0], 2)
out = sch.loop_partition(L("D")[0], [2, None])
sch.transform_layout("C", "C", lambda i, j: (i, j // 4, j % 4))
sch.transform_layout("C", "C", lambda i, j: (j, i))
sch.transform_layout("C", "C", lambda i, j: (i // 4, j, i % 4))
sch.transform_layout("C", "C", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
sch.transform_block_layout("C", lambda i, j: (i * 16 + j,))
sch.transform_block_layout("C", lambda i, j: (j, i))
i, j = L("D"); a, b = sch.split(j, [None, 5]); out = sch.fuse(i, a)
"""
CASES["symbolic64"] = """
i, j, k = L("D"); out = sch.split(i, [None, 32]); sch.bind(out[0], "blockIdx.x")
i, j, k = L("D"); out = sch.split(j, [None, 8])
i, j, k = L("D"); out = sch.split(j, [None, 7])
i, j, k = L("D"); out = sch.fuse(i, j)
i, j, k = L("D"); sch.pad_einsum("D", [32, 1, 1])
i, j, k = L("D"); sch.pad_einsum("D", [32, 48, 5])
i, j, k = L("D"); out = sch.rfactor(k, 0)
i, j, k = L("D"); out = sch.decompose_reduction("D", k)
i, j, k = L("D"); a, b = sch.split(i, [None, 32]); out = sch.decompose_reduction("D", k)
i, j, k = L("D"); a, b = sch.split(i, [None, 32]); out = sch.decompose_reduction("D", b)
i, j, k = L("D"); a, b = sch.split(i, [None, 32]); c, d = sch.split(j, [None, 16]); e, f = sch.split(k, [None, 8]); sch.reorder(a, c, e, b, d, f); out = sch.blockize(b)
out = sch.reindex("D", ("read", 0))
out = sch.reindex("D", ("write", 0))
out = sch.cache_write("D", 0, "local"); sch.reverse_compute_at(out, L("D")[1])
out = sch.cache_write("D", 0, "local"); i, j, k = L("D"); a, b = sch.split(i, [None, 32]); sch.reorder(a, j, b); sch.reverse_compute_at(out, j)
out = sch.cache_read("D", 0, "local"); sch.compute_at(out, L("D")[2])
out = sch.add_unit_loop(L("D")[0])
out = sch.add_unit_loop(B("D"))
sch.bind(sch.add_unit_loop(B("D")), "threadIdx.x")
"""
CASES["unit"] = """
a, i, b = L("D"); out = sch.fuse(a, i)
a, i, b = L("D"); out = sch.fuse(a, i, b)
a, i, b = L("D"); out = sch.fuse(i, b)
a, i, b = L("D"); out = sch.fuse(a, i, b, preserve_unit_iters=False)
a, i, b = L("D"); out = sch.split(a, [1, 1])
a, i, b = L("D"); out = sch.split(a, [None, 1], preserve_unit_iters=False)
a, i, b = L("D"); out = sch.split(i, [None, 2], preserve_unit_iters=False)
a, i, b = L("D"); out = sch.split(i, [8, 1], preserve_unit_iters=False)
a, i, b = L("D"); out = sch.split(a, [None, 4])
a, i, b = L("D"); sch.reorder(b, i, a)
out = sch.blockize(L("D")[0])
out = sch.blockize(L("D")[0], preserve_unit_iters=False)
out = sch.blockize(L("D")[1])
out = sch.blockize(L("D")[1], preserve_unit_iters=False)
out = sch.blockize(L("D")[2])
out = sch.cache_read("D", 0, "local")
out = sch.cache_read("D", 0, "local"); sch.compute_at(out, L("D")[1])
out = sch.cache_read("D", 0, "local"); sch.compute_at(out, L("D")[1], preserve_unit_loops=True)
out = sch.cache_write("D", 0, "local"); sch.reverse_compute_at(out, L("D")[1])
out = sch.cache_write("D", 0, "local"); sch.reverse_compute_at(out, L("D")[1], preserve_unit_loops=True)
out = sch.reindex("D", ("read", 0))
out = sch.reindex("D", ("write", 0))
sch.transform_block_layout("D", lambda a, i, b: (i,))
sch.transform_block_layout("D", lambda a, i, b: (a, b, i))
sch.transform_layout("D", "A", lambda a, i, b: (i,))
sch.transform_layout("D", "A", lambda a, i, b: (a + i + b,))
sch.transform_layout("D", "A", lambda a, i, b: (i, b, a))
sch.parallel(L("D")[0])
sch.vectorize(L("D")[2])
out = sch.rolling_buffer("D", 0)
"""
CASES["transposes"] = """
sch.compute_inline("B")
sch.reverse_compute_inline("C")
sch.compute_at("B", L("C")[0])
sch.reverse_compute_at("C", L("B")[1])
out = sch.cache_read("C", 0, "shared")
out = sch.reindex("B", ("read", 0))
out = sch.reindex("C", ("read", 0))
sch.transform_layout("B", "B_", lambda i, j: (j, i))
out = sch.reindex_cache_read("B", 0, "shared", lambda i, j: (i, j))
i, j = L("B"); f = sch.fuse(i, j); sch.reverse_compute_inline("C")
"""
CASES["two_sums"] = """
sch.compute_inline("P")
sch.compute_at("P", L("Q")[0])
sch.compute_at("P", L("Q")[1])
sch.reverse_compute_at("Q", L("P")[0])
sch.reverse_compute_at("Q", L("P")[1])
sch.cache_read("Q", 0, "shared")
sch.cache_write("P", 0, "shared")
sch.cache_write("P", 0, "shared", consumer_blocks=["Q"])
out = sch.get_output_blocks("root")
sch.merge(L("P")[0], L("Q")[0])
sch.merge(L("P")[1], L("Q")[1])
sch.reverse_compute_inline("Q")
sch.blockize([B("P"), B("Q")])
"""
CASES["inplace"] = """
out = sch.cache_inplace("U", 0, "local")
out = sch.cache_inplace("U", "A", "local"); sch.compute_at(out[0], L("U")[0]); sch.reverse_compute_at(out[1], L("U")[0])
out = sch.cache_read("U", 0, "local")
out = sch.cache_write("U", 0, "local")
out = sch.cache_read("D", 0, "local")
sch.compute_inline("U")
sch.compute_at("U", L("D")[0])
sch.reverse_compute_at("D", L("U")[0])
sch.parallel(L("U")[0])
out = sch.reindex("U", ("read", 0))
out = sch.reindex("U", ("write", 0))
sch.transform_layout("U", "A", lambda i, j: (j, i))
out = sch.get_producers("U")
out = sch.get_consumers("U")
out = sch.get_output_blocks("root")
"""
CASES["beside"] = """
i, j = L("B"); i2, j2 = L("C"); out = sch.merge(j, j2)
i, j = L("B"); i2, j2 = L("C"); out = sch.merge(j2, j)
i, j = L("B"); i2, j2 = L("C"); out = sch.merge(i, j2)
i, j = L("B"); i2, j2 = L("C"); sch.split(j2, [4, 4]); out = sch.merge(j, L("C")[1])
i, j = L("B"); out = sch.fuse(i, j)
i, j = L("B"); sch.reorder(j, i)
i, j = L("B"); sch.parallel(i); out = sch.split(i, [2, 8])
i, j = L("B"); out = sch.split(i, [None, 3])
i, j = L("B"); out = sch.blockize(i)
i, j = L("B"); out = sch.blockize(j)
out = sch.blockize([B("B"), B("C")])
i, j = L("B"); i2, j2 = L("C"); out = sch.blockize([B("B"), B("C")])
out = sch.cache_read("B", 0, "shared")
out = sch.cache_read("B", 0, "shared", consumer_blocks=["B"])
out = sch.cache_read("B", 0, "shared", consumer_blocks=["B", "C"])
out = sch.cache_write("B", 0, "shared")
out = sch.cache_write("C", 0, "shared")
out = sch.get_child_blocks(L("B")[0])
out = sch.loop_partition(L("B")[0], [4, None])
out = sch.loop_partition(L("B")[1], [4, None])
out = sch.add_unit_loop(L("B")[1])
out = sch.read_at(L("B")[0], B("B"), 0, "shared")
"""
CASES["stencil"] = """
sch.compute_inline("B")
sch.compute_at("B", L("C")[0])
a, b = sch.split(L("C")[0], [None, 8]); sch.compute_at("B", a)
a, b = sch.split(L("C")[0], [None, 5]); sch.compute_at("B", a)
a, b = sch.split(L("C")[0], [None, 8]); sch.compute_at("B", a); sch.rolling_buffer("B", 0)
sch.compute_at("B", L("C")[0]); sch.rolling_buffer("B", 0)
a, b = sch.split(L("C")[0], [None, 8]); sch.compute_at("B", b); sch.rolling_buffer("B", 0)
out = sch.cache_read("C", 0, "shared")
out = sch.cache_read("C", 0, "shared"); a, b = sch.split(L("C")[0], [None, 8]); sch.compute_at(out, a)
sch.reverse_compute_inline("C")
sch.reverse_compute_at("C", L("B")[0])
out = sch.reindex("C", ("read", 0))
out = sch.get(B("C")).reads
out = sch.read_at(L("C")[0], B("C"), 0, "shared")
"""
CASES["pool"] = """
i, j, a, b = L("C"); sch.compute_at("B", i)
i, j, a, b = L("C"); sch.compute_at("B", i); sch.rolling_buffer("B", 0)
i, j, a, b = L("C"); sch.compute_at("B", j); sch.rolling_buffer("B", 0)
i, j, a, b = L("C"); x, y = sch.split(i, [None, 4]); sch.compute_at("B", x); sch.rolling_buffer("B", 0)
i, j, a, b = L("C"); x, y = sch.split(i, [None, 4]); u, v = sch.split(j, [None, 4]); sch.reorder(x, u, y, v); sch.compute_at("B", u); sch.rolling_buffer("B", 0)
i, j, a, b = L("C"); x, y = sch.split(i, [None, 3]); u, v = sch.split(j, [None, 4]); sch.reorder(x, u, y, v); sch.compute_at("B", u); sch.rolling_buffer("B", 0)
i, j, a, b = L("C"); x, y = sch.split(i, [None, 4]); u, v = sch.split(j, [None, 4]); sch.reorder(u, x, y, v); sch.compute_at("B", x); sch.rolling_buffer("B", 0)
out = sch.cache_read("C", 0, "shared"); i, j, a, b = L("C"); sch.compute_at(out, j)
out = sch.reindex("C", ("read", 0))
out = sch.rfactor(L("C")[2], 0)
out = sch.rfactor(L("C")[3], 2)
"""
CASES["batch"] = """
out = sch.reindex("C", ("read", 0)); sch.reindex("C", ("read", 1)); sch.reindex("C", ("write", 0))
b, i, j, k = L("C"); x, y = sch.split(i, [None, 8]); z, w = sch.split(j, [None, 8]); u, v = sch.split(k, [None, 4]); sch.reorder(b, x, z, u, y, w, v); out = sch.blockize(y); out = sch.decompose_reduction("C_o", u)
out = sch.rfactor(L("C")[3], 0)
sch.fuse(*L("C")[:3])
sch.transform_block_layout("C", lambda b, i, j, k: (b, i // 8, j // 8, k // 8, i % 8, j % 8, k % 8))
sch.pad_einsum("C", [1, 32, 32, 32])
sch.pad_einsum("C", [1, 5, 1, 1])
a = sch.cache_read("C", 0, "shared"); b, i, j, k = L("C"); sch.compute_at(a, b); f = sch.fuse(*L("A_shared")[1:]); sch.split(f, [None, 4, 8, 2])
a = sch.cache_read("C", 0, "shared"); b, i, j, k = L("C"); sch.compute_at(a, b); sch.storage_align("A_shared", 0, -2, 32, 8)
"""
CASES["bias"] = """
sch.reverse_compute_inline("D")
sch.decompose_reduction("C", L("C")[2]); sch.reverse_compute_inline("D")
sch.decompose_reduction("C", L("C")[0]); sch.compute_at("C_init", L("C_update")[1])
sch.compute_at("C", L("D")[1])
sch.reverse_compute_at("D", L("C")[1])
sch.pad_einsum("C", [5, 6, 7])
i, j, k = L("C"); sch.rfactor(k, 2); sch.reverse_compute_inline("D")
"""
CASES["two_reads"] = """
out = sch.cache_read("C", 0, "shared")
out = sch.cache_read("D", 0, "shared")
out = sch.cache_read("C", 0, "shared", consumer_blocks=["C"])
out = sch.cache_read("C", 0, "shared", consumer_blocks=["D"])
out = sch.cache_read("D", 0, "shared", consumer_blocks=["D"])
out = sch.get(B("D")).reads
out = sch.reindex("D", ("read", 0))
out = sch.reindex("C", ("read", 0))
out = sch.reindex_cache_read("D", 0, "shared", lambda i, j: (i, j))
out = sch.read_at(L("D")[0], B("D"), 0, "shared")
sch.merge(L("C")[0], L("D")[0])
sch.merge(L("C")[1], L("D")[1])
"""
CASES["under_scope"] = """
out = [sch.cache_read("B", 0, "local"), sch.cache_read("C", 0, "shared")]
out = [sch.cache_write("A", 0, "local"), sch.cache_write("B", 0, "shared")]
out = sch.cache_write("scope", 0, "global")
out = sch.cache_read("scope", 0, "global")
sch.compute_at("A", L("B")[0])
sch.compute_at("A", L("B")[1])
sch.compute_inline("A")
sch.reverse_compute_at("B", L("A")[0])
sch.compute_at("scope", L("C")[0])
a, b = sch.split(L("C")[0], [None, 16]); sch.compute_at("scope", a)
a, b = sch.split(L("C")[0], [None, 16]); c, d = sch.split(L("C")[2], [None, 16]); sch.reorder(a, c, b, d); sch.compute_at("scope", c)
sch.reverse_compute_at("C", L("scope")[1])
sch.reverse_compute_at("C", L("scope")[0])
sch.merge(L("A")[0], L("B")[0])
out = sch.get_producers("B")
out = sch.get_consumers("A")
out = sch.get_output_blocks("scope")
out = sch.get_child_blocks(B("scope"))
sch.set_scope("A", 0, "shared")
sch.transform_layout("B", "A", lambda i, j: (i // 16, j // 16, i % 16, j % 16))
sch.transform_block_layout("scope", lambda i, j: (j, i))
sch.blockize(L("A")[1])
sch.reindex("B", ("read", 0))
sch.reindex("A", ("write", 0))
"""
CASES["cube"] = """
i, j, k = L("B"); sch.split(i, [2, 1, 64]); sch.split(j, [4, 32]); sch.split(k, [16, 8])
i, j, k = L("B"); sch.split(i, [None, 1, 64]); sch.split(j, [2, None, 64]); sch.split(k, [2, 1, None])
i, j, k = L("B"); sch.split(i, [1000, 2, 3]); sch.split(j, [None, 129]); sch.split(k, [3, None])
i, j, k = L("B"); sch.split(i, [1000, 2, 3]); a = L("B"); sch.fuse(a[0], a[1]); sch.fuse(*L("B")[-2:])
i, j, k = L("B"); f = sch.fuse(i, j, k); out = sch.split(f, [10, 1001])
i, j, k = L("B"); f = sch.fuse(i, j, k); a, b, c = sch.split(f, [None, 128, 256]); sch.bind(b, "blockIdx.x"); sch.bind(c, "threadIdx.x")
i, j, k = L("B"); a, b = sch.split(i, [None, 10]); c, d = sch.split(j, [None, 10]); sch.reorder(c, a, d, b); sch.fuse(c, a)
i, j, k = L("B"); a, b = sch.split(k, [None, 8]); sch.vectorize(b); sch.parallel(i); sch.unroll(a)
i, j, k = L("B"); sch.transform_block_layout("B", lambda a, b, c: (a * 16384 + b * 128 + c,))
i, j, k = L("B"); sch.transform_layout("B", "A", lambda a, b, c: (a // 16, b, c, a % 16))
i, j, k = L("B"); sch.transform_layout("B", ("write", 0), lambda a, b, c: (a * 16384 + b * 128 + c,))
i, j, k = L("B"); out = sch.loop_partition(i, [2, 1, 64]); out = L("B_i0")
i, j, k = L("B"); out = sch.loop_partition(i, [2, 1, None])
i, j, k = L("B"); out = sch.loop_partition(k, [10, None]); out = L("B_k0")
i, j, k = L("B"); a, b = sch.loop_partition(i, [100, None]); sch.split(a, [10, 10]); sch.fuse(*L("B_i0")[:2])
out = sch.cache_read("B", 0, "local"); i, j, k = L("B"); f = sch.fuse(i, j); a, b = sch.split(f, [None, 100]); sch.compute_at(out, a)
out = sch.cache_read("B", 0, "local"); i, j, k = L("B"); f = sch.fuse(j, k); a, b = sch.split(f, [None, 256]); sch.compute_at(out, a)
out = sch.cache_read("B", 0, "local"); i, j, k = L("B"); f = sch.fuse(j, k); a, b = sch.split(f, [None, 32]); sch.compute_at(out, a)
out = sch.cache_write("B", 0, "local"); i, j, k = L("B"); f = sch.fuse(j, k); a, b = sch.split(f, [None, 96]); sch.reverse_compute_at(out, a)
out = sch.cache_read("B", 0, "shared"); i, j, k = L("B"); a, b = sch.split(i, [None, 16]); sch.bind(a, "blockIdx.x"); sch.bind(b, "threadIdx.x"); sch.compute_at(out, b)
out = sch.cache_read("B", 0, "local"); i, j, k = L("B"); a, b = sch.split(i, [None, 16]); sch.bind(a, "blockIdx.x"); sch.bind(b, "threadIdx.x"); sch.compute_at(out, b)
out = sch.cache_write("B", 0, "shared"); i, j, k = L("B"); a, b = sch.split(i, [None, 16]); sch.bind(a, "blockIdx.x"); sch.bind(b, "threadIdx.x"); sch.reverse_compute_at(out, b)
i, j, k = L("B"); out = sch.blockize(j); sch.annotate(out, "x", 1)
i, j, k = L("B"); a, b = sch.split(i, [None, 16]); out = sch.blockize(b); out = sch.blockize(a)
"""
CASES["starts"] = """
i, j = L("B"); out = sch.split(i, [None, 2])
i, j = L("B"); out = sch.fuse(i, j)
i, j = L("B"); sch.reorder(j, i)
i, j = L("B"); sch.parallel(i)
i, j = L("B"); out = sch.loop_partition(i, [4, None])
i, j = L("B"); out = sch.cache_read("B", 0, "local"); sch.compute_at(out, i)
i, j = L("B"); out = sch.cache_read("B", 0, "local")
i, j = L("B"); out = sch.cache_write("B", 0, "local")
i, j = L("B"); out = sch.reindex("B", ("read", 0))
i, j = L("B"); out = sch.blockize(j)
i, j = L("B"); out = sch.blockize(i)
"""
CASES["dependent"] = """
i, j = L("B"); out = sch.split(i, [None, 2])
i, j = L("B"); out = sch.split(j, [None, 2])
i, j = L("B"); out = sch.fuse(i, j)
i, j = L("B"); sch.reorder(j, i)
i, j = L("B"); sch.parallel(i)
i, j = L("B"); sch.vectorize(j)
"""
CASES["inlined"] = """
sch.compute_inline("B")
sch.compute_inline("E")
sch.reverse_compute_inline("D")
sch.compute_inline("E"); sch.compute_inline("B")
sch.compute_at("E", L("D")[0])
sch.compute_at("E", L("D")[1])
sch.reverse_compute_at("D", L("E")[0])
a, b = sch.split(L("E")[0], [None, 32]); sch.reverse_compute_at("D", a)
a, b = sch.split(L("E")[0], [None, 8]); sch.reverse_compute_at("D", a)
a, b = sch.split(L("D")[1], [None, 4]); sch.compute_at("E", a)
sch.compute_at("B", L("C")[0])
sch.reindex("C", ("read", 0))
sch.reindex("E", ("read", 0))
sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
sch.transform_layout("E", ("write", 0), lambda i: (i // 16, i % 16))
sch.transform_block_layout("E", lambda i: (i // 16, i % 16))
sch.cache_read("E", 0, "local"); sch.compute_at("B__local", L("E")[0])
"""
CASES["pad_mm"] = """
sch.pad_einsum("C", [32, 32, 32])
sch.pad_einsum("C", [1, 32, 1])
i, j, k = L("C"); sch.reverse_compute_at("D", j)
i, j = L("D"); a, b = sch.split(i, [None, 16]); c, d = sch.split(j, [None, 16]); sch.reorder(a, c, b, d); sch.compute_at("C", c)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); c, d = sch.split(j, [None, 16]); sch.reorder(a, c, b, d, k); sch.reverse_compute_at("D", c)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); c, d = sch.split(k, [None, 16]); sch.reorder(a, c, b, j, d); x = sch.cache_read("C", 0, "shared"); sch.compute_at(x, c)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); c, d = sch.split(k, [None, 16]); sch.reorder(a, c, b, j, d); x = sch.cache_read("C", 0, "shared"); sch.compute_at(x, c); f = sch.fuse(*L("A_shared")[2:]); sch.split(f, [None, 32])
i, j, k = L("C"); a, b = sch.split(k, [None, 16]); sch.rfactor(a, 0)
i, j, k = L("C"); a, b = sch.split(k, [None, 16]); sch.rfactor(b, 2)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); c, d = sch.split(k, [None, 16]); sch.reorder(a, c, b, j, d); sch.decompose_reduction("C", c)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); c, d = sch.split(j, [None, 16]); e, f = sch.split(k, [None, 16]); sch.reorder(a, c, e, b, d, f); sch.blockize(b)
i, j, k = L("C"); a, b = sch.split(i, [None, 16]); sch.blockize(j)
sch.transform_layout("C", ("write", 0), lambda i, j: (i // 16, j // 16, i % 16, j % 16), pad_value=0.0)
for x in (("read", 0), ("read", 1), ("write", 0)): sch.reindex("C", x)
sch.transform_layout("C", "A", lambda i, j: (i // 16, j // 16, i % 16, j % 16), pad_value=0.0)
"""
CASES["frobenius"] = """
b, i, j = L("C"); sch.rfactor(i, 0)
b, i, j = L("C"); sch.rfactor(j, 1)
b, i, j = L("C"); f = sch.fuse(i, j); a, c = sch.split(f, [None, 32]); x = sch.rfactor(c, 0); sch.reverse_compute_at("C", L("D")[0])
b, i, j = L("C"); x = sch.rfactor(i, 0); sch.compute_at(x, L("C")[0])
b, i, j = L("C"); x = sch.rfactor(i, 0); sch.reverse_compute_at("C", L("C_rf")[0])
sch.reverse_compute_at("D", L("C")[0])
sch.compute_at("C", L("D")[0])
b, i, j = L("C"); f = sch.fuse(i, j); a, c = sch.split(f, [None, 32]); sch.bind(c, "threadIdx.x"); sch.bind(b, "blockIdx.x"); sch.reverse_compute_at("D", b)
sch.decompose_reduction("C", L("C")[0])
sch.decompose_reduction("C", L("C")[1]); sch.compute_inline("C_init")
b, i, j = L("C"); sch.reorder(j, i); sch.rfactor(j, 1); sch.rfactor(L("C_rf")[2], 0)
sch.cache_write("C", 0, "local"); sch.reverse_compute_at("C_local", L("C")[0])
sch.blockize(L("C")[1])
"""
CASES["scalar_sum"] = """
out = sch.rfactor(L("S")[0], 0)
a, b = sch.split(L("S")[0], [None, 32]); out = sch.rfactor(a, 0)
a, b = sch.split(L("S")[0], [None, 32]); out = sch.rfactor(b, -1)
out = sch.decompose_reduction("S", L("S")[0])
out = sch.cache_write("S", 0, "local")
sch.blockize(L("S")[0])
out = sch.reindex("S", ("write", 0))
"""
CASES["cast_clip"] = """
sch.compute_inline("C")
sch.reverse_compute_inline("D")
sch.compute_at("C", L("D")[1])
sch.unsafe_set_dtype("C", 0, "int16")
sch.cache_read("D", 0, "local", consumer_blocks=["D"])
sch.set_scope("C", 0, "local")
sch.annotate_buffer_access("C", 0, "write", lambda i, j: ((i, i + 1), (0, 8)))
sch.annotate_buffer_access("C", 0, "read", lambda i, j: (i, j)); sch.annotate_buffer_access(B("C"), 0, "write", lambda i, j: ((0, 4), j))
sch.annotate_buffer_access(B("C"), 0, "read", lambda i, j: (i, j)); sch.annotate_buffer_access(B("C"), 0, "write", lambda i, j: ((0, 4), j))
sch.annotate_buffer_access(B("C"), 0, "write", lambda i, j: ((0, 4), j)); sch.compute_at("C", L("D")[0])
sch.transform_layout("C", "C", lambda i, j: (i, j // 5, j % 5), pad_value=0)
sch.transform_layout("C", "C", lambda i, j: (i, j // 5, j % 5), pad_value=lambda i, j, k: i + k)
"""
CASES["part_read"] = """
out = sch.cache_read("C", 0, "shared")
out = sch.cache_read("C", 0, "shared"); sch.compute_at(out, L("C")[0])
out = sch.cache_read("C", 0, "shared"); sch.compute_at(out, L("C")[1])
out = sch.cache_read("C", 0, "shared"); a, b = sch.split(L("C")[1], [None, 4]); sch.compute_at(out, a)
out = sch.reindex("C", ("read", 0))
out = sch.reindex_cache_read("C", 0, "shared", lambda i, j: (j, i))
sch.transform_layout("C", "A", lambda i, j: (j, i))
sch.transform_layout("C", "A", lambda i, j: (i // 16, j // 16, i % 16, j % 16))
out = sch.get(B("C")).reads
"""
