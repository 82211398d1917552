"""The kernels that a calibration times, as TIR functions that go through the compiler's own code generation.

What the analytical model wants to know is what *our* kernels get of a machine, so each probe is a program as a candidate would be:
explicit vectors, unrolled register tiles, parallel loops on the runtime's thread pool. Every one takes its number of steps as an
argument, so that one compilation serves all sizes and nothing can be computed at compile time.
"""

from __future__ import annotations

from ir import IRModule
from ir.script import from_source

STRETCH_LINES = 4
"""Cache lines of a short stretch: what a tile of a wide matrix touches of each row."""


def probe_module(lanes: int, registers: int, line_elements: int) -> IRModule:
    """All probes for vectors of so many 32-bit lanes, so many vector registers and cache lines of so many 32-bit elements."""
    names = {
        "lanes": lanes,
        "tile": tile_vectors(registers),
        "stretch": stretch_vectors(lanes, line_elements),
    }
    module: IRModule = from_source(_PROBES, names)
    return module


def tile_vectors(registers: int) -> int:
    """Accumulators of the tile: as many as leave registers for operands."""
    return max(4, registers * 3 // 4)


def stretch_vectors(lanes: int, line_elements: int) -> int:
    """Vectors of a short stretch."""
    return max(1, STRETCH_LINES * line_elements // lanes)


_PROBES = """
@I.ir_module
class Probes:
    # x ^ a and then + b: nothing that a compiler folds, and a cycle each on every processor that we know of. Threads that share
    # a core do not slow each other here: a chain leaves most of the core free.
    @T.prim_func
    def integer_chains(a: T.handle, steps: T.int32):
        jobs = T.int32()
        x = T.match_buffer(a, (jobs, 16), "int32")
        for job in T.parallel(jobs):
            state = T.alloc_buffer((1,), "int32", scope="local")
            state[0] = x[job, 0]
            for _ in T.serial(steps):
                state[0] = T.bitwise_xor(state[0], x[job, 1]) + x[job, 2]
            x[job, 3] = state[0]

    @T.prim_func
    def fma_chain(x: T.Buffer((4, lanes), "float32"), steps: T.int32):
        state = T.alloc_buffer((lanes,), "float32", scope="local")
        for lane in T.vectorized(lanes):
            state[lane] = x[0, lane]
        for _ in T.serial(steps):
            for lane in T.vectorized(lanes):
                state[lane] = state[lane] * x[1, lane] + x[2, lane]
        for lane in T.vectorized(lanes):
            x[3, lane] = state[lane]

    @T.prim_func
    def fma_tile(x: T.Buffer((3, lanes), "float32"), out: T.Buffer((tile, lanes), "float32"), steps: T.int32):
        state = T.alloc_buffer((tile, lanes), "float32", scope="local")
        for row in T.unroll(tile):
            for lane in T.vectorized(lanes):
                state[row, lane] = x[0, lane]
        for _ in T.serial(steps):
            for row in T.unroll(tile):
                for lane in T.vectorized(lanes):
                    state[row, lane] = state[row, lane] * x[1, lane] + x[2, lane]
        for row in T.unroll(tile):
            for lane in T.vectorized(lanes):
                out[row, lane] = state[row, lane]

    @T.prim_func
    def divide(a: T.handle, b: T.handle, vectors: T.int32, passes: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, lanes), "float32")
        B = T.match_buffer(b, (n, lanes), "float32")
        for _ in T.serial(passes):
            for i in T.serial(vectors):
                for lane in T.vectorized(lanes):
                    B[i, lane] = T.float32(1) / A[i, lane]

    @T.prim_func
    def exponential(a: T.handle, b: T.handle, vectors: T.int32, passes: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, lanes), "float32")
        B = T.match_buffer(b, (n, lanes), "float32")
        for _ in T.serial(passes):
            for i in T.serial(vectors):
                for lane in T.vectorized(lanes):
                    B[i, lane] = T.exp(A[i, lane])

    @T.prim_func
    def store(a: T.handle, blocks: T.int32, passes: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 8, lanes), "int32")
        for p in T.serial(passes):
            for i in T.serial(blocks):
                for row in T.unroll(8):
                    for lane in T.vectorized(lanes):
                        A[i, row, lane] = p

    # Neighbouring lanes are 17 elements apart: too far for whole vectors to be loaded and shuffled.
    @T.prim_func
    def gather(a: T.handle, b: T.handle, vectors: T.int32, passes: T.int32):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (m, lanes), "int32")
        for _ in T.serial(passes):
            for i in T.serial(vectors):
                for lane in T.vectorized(lanes):
                    B[i, lane] = A[i + lane * 17]

    # Exclusive or of what is read: integer units are more than load ports everywhere.
    @T.prim_func
    def read(a: T.handle, o: T.handle, blocks: T.int32, passes: T.int32):
        jobs, n, m = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (jobs, n, 8, lanes), "int32")
        out = T.match_buffer(o, (m, 8, lanes), "int32")
        for job in T.parallel(jobs):
            state = T.alloc_buffer((8, lanes), "int32", scope="local")
            for row in T.unroll(8):
                for lane in T.vectorized(lanes):
                    state[row, lane] = 0
            for _ in T.serial(passes):
                for i in T.serial(blocks):
                    for row in T.unroll(8):
                        for lane in T.vectorized(lanes):
                            state[row, lane] = T.bitwise_xor(state[row, lane], A[job, i, row, lane])
            for row in T.unroll(8):
                for lane in T.vectorized(lanes):
                    out[job, row, lane] = state[row, lane]

    @T.prim_func
    def read_stretches(a: T.handle, o: T.handle, rows: T.int32, passes: T.int32):
        n, pitch, m = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, pitch, lanes), "int32")
        out = T.match_buffer(o, (m, stretch, lanes), "int32")
        state = T.alloc_buffer((stretch, lanes), "int32", scope="local")
        for row in T.unroll(stretch):
            for lane in T.vectorized(lanes):
                state[row, lane] = 0
        for _ in T.serial(passes):
            for i in T.serial(rows):
                for row in T.unroll(stretch):
                    for lane in T.vectorized(lanes):
                        state[row, lane] = T.bitwise_xor(state[row, lane], A[i, row, lane])
        for row in T.unroll(stretch):
            for lane in T.vectorized(lanes):
                out[0, row, lane] = state[row, lane]
"""
