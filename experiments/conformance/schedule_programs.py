"""The programs of the schedule comparison, in the script dialect: those that the tests share, and more for single primitives."""

# ruff: noqa: E501

from __future__ import annotations

from tests.programs import kernels

PROGRAMS = {
    "matmul": kernels.matmul(32, 64, 48).script(),
    "matmul_relu": kernels.matmul_relu(32, 64, 48).script(),
    # Three nests, of which the first is read by both others: inlining one of two uses, moving one past another.
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
    # Padding and a convolution of seven loops: regions with halos, predicates, long chains of loops.
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
    # Two reductions and two elementwise nests that depend on each other: orders that must not change.
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
    "rowsum": kernels.row_sum(16, 24).script(),
    # A maximum over two reduction loops: an identity other than zero, factors of one of two loops.
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
    "argmax": kernels.argmax(8, 12).script(),
    # Rows picked by an array of indices: regions that depend on data.
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
    # A call of an external function through pointers: what no primitive may look into.
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
    # A block inside of a block: scopes of loops, and regions of tiles.
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
    "odd": kernels.chain(13, 7).script(),
    # A block with a condition, as splits that do not divide leave it.
    "predicated": """
@T.prim_func
def main(A: T.Buffer((30,), "float32"), D: T.Buffer((30,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("D"):
            T.where(i * 8 + j < 30)
            v = T.axis.spatial(30, i * 8 + j)
            D[v] = A[v] + T.float32(1)
""",
    # Two nests whose outer extent is a variable: what can be proved without numbers.
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
    # A product with a variable extent of 64 bits: indices of mixed width.
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
    # Loops of one iteration: what is simplified away, and what is kept.
    "unit": """
@T.prim_func
def main(A: T.Buffer((1, 8, 1), "float32"), D: T.Buffer((1, 8, 1), "float32")):
    for a, i, b in T.grid(1, 8, 1):
        with T.block("D"):
            va, vi, vb = T.axis.remap("SSS", [a, i, b])
            D[va, vi, vb] = A[va, vi, vb] + T.float32(1)
""",
    # A transposed producer that is read twice: inlining with permuted indices.
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
    # Squares that are an output and summed: a producer that may not disappear.
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
    # A buffer that is read and written: dependences of a buffer on itself.
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
    # Two nests below one loop that do not depend on each other: merging and moving of neighbours.
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
    "stencil": kernels.stencil(32).script(),
    # Two maxima of windows of small integers: halos of halos, an identity of another type.
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
    # A batched product of half floats summed in floats: casts inside of a reduction.
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
    # A product with an epilogue that reads another input: reverse inlining, copies of the right operand.
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
    # Two consumers of one input, one of which reads it twice: copies for some of the reads.
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
    # A producer inside of a tile and a consumer outside of it: what is visible from where.
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
    "cube": kernels.cube().script(),
    # A loop that does not begin at zero.
    "starts": """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B_: T.Buffer((128, 128), "float32")):
    for i in T.serial(10, 74):
        for j in T.serial(0, 128):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_[vi, vj] = A[vi, vj] * T.float32(2)
""",
    "dependent": kernels.triangle().script(),
    # Consumers with reversed, flattened and reshaped indices: substitution into several places.
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
    # A product of sizes that no tile divides, with an epilogue: padding.
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
    # A reduction of two loops and an elementwise root behind it: decomposing below an outer loop.
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
    # A sum into a buffer without dimensions.
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
    # Clipping and a cast to another type: what may be inlined into a store of another type.
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
    # A consumer of every other column of a part: regions smaller than the buffer.
    "part_read": """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi + 8, vj * 2]
""",
}
