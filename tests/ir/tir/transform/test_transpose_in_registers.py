"""TransposeInRegisters: squares of vectors instead of elements gathered one by one, and where they must not be made."""

import re

import numpy as np
import pytest

from ir import IRModule, tir
from ir import dtype as dt
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T

PASS = tir.transform.TransposeInRegisters


def turned(
    dtype="float32",
    lanes=4,
    loop="range(8)",
    inner="range(2)",
    value="A[{a}]",
    attr="T.func_attr({'tir.noalias': True})",
):
    """Copies of A[n, k] to B[k, n], ``lanes`` values of n at a time; A has eight rows of columns to spare."""
    a = f"n * {lanes * 24} + k:n * {lanes * 24} + k + {lanes * 24}:24"
    b = f"k * {4 * lanes} + n * {lanes}:k * {4 * lanes} + n * {lanes} + {lanes}"
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({96 * lanes},), "{dtype}"), B: T.Buffer(({96 * lanes},), "{dtype}")):
    {attr}
    for k in {loop}:
        for n in {inner}:
            B[{b}] = {value.format(a=a)}
""")


def squares(func):
    """How many vectors are shuffled in a function's text, and how many elements each of them has."""
    return re.findall(r": T\.\w+x(\d+) = T\.Shuffle", func.script())


def test_a_square_of_four(check):
    @T.prim_func
    def before(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        T.func_attr({"tir.noalias": True})
        for k in range(8):
            for n in range(3):
                B[k * 12 + n * 4 : k * 12 + n * 4 + 4] = A[n * 32 + k : n * 32 + k + 32 : 8]

    @T.prim_func
    def after(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        T.func_attr({"tir.noalias": True})
        for k_square in range(2):
            for n in range(3):
                r0: T.float32x4 = A[n * 32 + k_square * 4 : n * 32 + k_square * 4 + 4]
                r1: T.float32x4 = A[n * 32 + k_square * 4 + 8 : n * 32 + k_square * 4 + 8 + 4]
                r2: T.float32x4 = A[n * 32 + k_square * 4 + 16 : n * 32 + k_square * 4 + 16 + 4]
                r3: T.float32x4 = A[n * 32 + k_square * 4 + 24 : n * 32 + k_square * 4 + 24 + 4]
                p0: T.float32x4 = T.Shuffle([r0, r1], [0, 4, 1, 5])
                p1: T.float32x4 = T.Shuffle([r2, r3], [0, 4, 1, 5])
                c0: T.float32x4 = T.Shuffle([p0, p1], [0, 1, 4, 5])
                c1: T.float32x4 = T.Shuffle([p0, p1], [2, 3, 6, 7])
                q0: T.float32x4 = T.Shuffle([r0, r1], [2, 6, 3, 7])
                q1: T.float32x4 = T.Shuffle([r2, r3], [2, 6, 3, 7])
                c2: T.float32x4 = T.Shuffle([q0, q1], [0, 1, 4, 5])
                c3: T.float32x4 = T.Shuffle([q0, q1], [2, 3, 6, 7])
                B[k_square * 4 * 12 + n * 4 : k_square * 4 * 12 + n * 4 + 4] = c0
                B[k_square * 4 * 12 + n * 4 + 12 : k_square * 4 * 12 + n * 4 + 12 + 4] = c1
                B[k_square * 4 * 12 + n * 4 + 24 : k_square * 4 * 12 + n * 4 + 24 + 4] = c2
                B[k_square * 4 * 12 + n * 4 + 36 : k_square * 4 * 12 + n * 4 + 36 + 4] = c3

    check(PASS(128, 16), before, after)


@pytest.mark.parametrize(
    ("dtype", "vector_bits", "registers", "side"),
    [
        ("float32", 128, 32, 4),
        ("float32", 256, 16, 8),
        ("float32", 512, 32, 16),
        ("float64", 128, 16, 2),
        ("float64", 512, 32, 8),
        ("int64", 256, 16, 4),
        ("float16", 512, 32, 16),  # half of the registers
        ("bfloat16", 256, 32, 16),
        ("int8", 128, 32, 16),
        ("uint8", 512, 16, 8),
        ("int32", 128, 5, 2),
        ("float32", 192, 32, 4),  # a square's side is a power of two
        ("float32", 384, 32, 8),
    ],
)
def test_squares_of_each_size(apply, dtype, vector_bits, registers, side):
    func = turned(dtype, side, "range(20)", "range(4)")
    after = apply(PASS(vector_bits, registers), func)
    assert set(squares(after)) == {str(side)}
    assert len(squares(after)) == side * (side.bit_length() - 1)


def test_vectors_longer_than_a_square(apply):
    after = apply(PASS(512, 32), turned("bfloat16", 32, "range(16)", "range(4)"))
    assert squares(after) == ["16"] * 2 * 64


def test_pieces_of_a_longer_vector_keep_the_order_of_stores(apply):
    """Pieces are stored one after the other: not where the vectors of iterations overlap."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    T.func_attr({"tir.noalias": True})
    for k in range(64):
        B[T.Ramp(k * 4, 1, 8)] = A[T.Ramp(k, 64, 8)]
""")
    assert apply(PASS(128, 32), func) is func
    assert squares(apply(PASS(256, 32), func))  # one square stores in the order of the loop


def test_more_vectors_than_there_are_registers(apply):
    value = " + ".join(f"A[n * 96 + k + {place}:n * 96 + k + {place + 96}:24]" for place in range(3))
    func = turned(loop="range(4)", value=value.replace("{", "{{").replace("}", "}}"))
    assert squares(apply(PASS(128, 12), func))
    assert apply(PASS(128, 11), func) is func


def test_memory_that_a_pointer_shows_may_be_the_result(apply):
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.func_attr({"tir.noalias": True})
    q: T.handle("float32") = T.address_of(B[0])
    C = T.Buffer((256,), data=q)
    for k in range(8):
        for n in range(2):
            B[T.Ramp(k * 8 + n * 4, 1, 4)] = C[T.Ramp(n * 64 + k, 16, 4)]
""")
    assert apply(PASS(128, 32), func, same_results=False) is func


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("B[T.Ramp(T.bitwise_and(D[k // 4], 8) + k * 8 + n * 4, 1, 4)]", "A[T.Ramp(n * 32 + k, 8, 4)]"),
        ("B[T.Ramp(k * 8 + n * 4, 1, 4)]", "A[T.Ramp(T.bitwise_and(D[k // 4], 8) + n * 32 + k, 8, 4)]"),
        (
            "B[T.Ramp(k * 8 + n * 4, 1, 4)]",
            "A.vload([T.Ramp(n * 32 + k, 8, 4)], predicate=T.Broadcast(k < 3, 4))",
        ),
        (
            "B[T.Ramp(T.bitwise_and(T.Cast('int32', B[200]), 8) + k * 8 + n * 4, 1, 4)]",
            "A[T.Ramp(n * 32 + k, 8, 4)]",
        ),
        (
            "B[T.Ramp(k * 8 + n * 4, 1, 4)]",
            "A[T.Ramp(n * 32 + k, 8, 4)] + T.Select(T.Broadcast(k < 3, 4), B[T.Ramp(n, 1, 4)], A[T.Ramp(n, 1, 4)])",
        ),
    ],
)
def test_indices_and_values_that_depend_on_more(apply, target, value):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((256,), "float32"), D: T.Buffer((8,), "int32"), B: T.Buffer((256,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for k in range(8):
        for n in range(2):
            {target} = {value}
""")
    assert apply(PASS(128, 32), func) is func


def test_conditions_are_no_bytes(apply):
    func = turned("bool")
    assert apply(PASS(128, 32), func) is func


def test_what_is_left_of_the_loop_stays_as_it_was(apply):
    text = apply(PASS(128, 32), turned(loop="range(11)")).script()
    assert "for k_square, n in T.grid(2, 2):" in text
    assert "for k in range(8, 11):" in text


@pytest.mark.parametrize("loop", ["range(2, 13)", "T.unroll(8)", "T.unroll(3, 8)"])
def test_loops_of_other_kinds(apply, loop):
    assert squares(apply(PASS(128, 32), turned(loop=loop)))


@pytest.mark.parametrize(
    "value",
    [
        "T.Cast('float32x4', T.max(A[{a}], T.Broadcast(T.float32(0), 4)))",
        "A[{a}] * T.Broadcast(T.Cast('float32', k * n), 4) + A[{a}]",
    ],
)
def test_what_is_computed_of_the_vectors(apply, value):
    assert squares(apply(PASS(128, 32), turned(value=value)))


def test_the_loop_may_be_around_others(apply):
    """The first loop from outside along which the source is contiguous, and the others inside of its squares."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    T.func_attr({"tir.noalias": True})
    for p in T.parallel(2):
        for k in range(8):
            for i in range(4):
                for n in T.unroll(2):
                    B[T.Ramp(p * 256 + i * 64 + k * 8 + n * 4, 1, 4)] = A[T.Ramp(p * 256 + i * 64 + n * 32 + k, 8, 4)]
""")
    text = apply(PASS(128, 32), func).script()
    assert text.index("k_square") < text.index("T.unroll(2)") < text.index("row_0")


@pytest.mark.parametrize(
    "changed",
    [
        {"attr": "pass"},  # B may be A
        {"loop": "T.parallel(8)"},
        {"loop": "range(3)"},  # no square
        {"lanes": 8},  # not the machine's vectors, and no whole copy of them
        {"value": "T.if_then_else(k > 1, A[{a}], T.Broadcast(T.float32(0), 4))"},  # A may end before
        {"value": "T.Select(T.Broadcast(k > 1, 4), A[{a}], T.Broadcast(T.float32(0), 4))"},
        {"inner": "T.parallel(2)"},
        {"value": "B[{a}]"},
        {"value": "A[{a}] + B[n:n + 4]"},  # what is read may be stored by another iteration
    ],
)
def test_where_there_are_no_squares(apply, changed):
    if changed.get("lanes") == 8:
        changed = {**changed, "value": "A[{a}] + A[{a}]"}
    func = turned(**changed)
    assert apply(PASS(128, 32), func) is func


def test_calls_with_effects_stay_in_their_order():
    func = turned(value="A[{a}] + T.call_extern('float32x4', 'next_number')")
    assert PASS(128, 32)(IRModule({"main": func}))["main"] is func


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("n * 4:n * 4 + 4", "n * 32 + k:n * 32 + k + 32:8"),  # all k store to one place: the last one wins
        ("k * 4 + n * 2:k * 4 + n * 2 + 4", "n * 32 + k:n * 32 + k + 32:8"),  # vectors overlap
        ("k * 8 + n * 4:k * 8 + n * 4 + 4", "n * 32 + k * 2:n * 32 + k * 2 + 32:8"),  # every second element
        ("k * 8 + n * 4:k * 8 + n * 4 + 4", "n * 32 + k // 2:n * 32 + k // 2 + 32:8"),
        ("k * 8 + n * 4:k * 8 + n * 4 + 4", "n * 32 + k:n * 32 + k + 8:2"),  # picked out of whole vectors
        ("k * 8 + n * 4:k * 8 + n * 4 + 4", "n * 32 + k:n * 32 + k + 4"),  # no transposition
        ("(k * 8 + n * 4) % 64:(k * 8 + n * 4) % 64 + 4", "n * 32 + k:n * 32 + k + 32:8"),
    ],
)
def test_accesses_that_do_not_fit(apply, target, source):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for k in range(8):
        for n in range(2):
            B[{target}] = A[{source}]
""")
    assert not squares(apply(PASS(128, 32), func))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64"])
def test_native_code_shuffles(dtype):
    """A transposition of which the rest of a loop remains, as a kernel of the host."""
    rows, columns = 64, 83
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "{dtype}"), B: T.Buffer(({columns}, {rows}), "{dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for j, i0 in T.grid({columns}, {rows // 16}):
        for i1 in T.vectorized(16):
            with T.block("B"):
                vj = T.axis.spatial({columns}, j)
                vi = T.axis.spatial({rows}, i0 * 16 + i1)
                B[vj, vi] = A[vi, vj]
""")
    kernel = build(func)
    a = np.random.default_rng(0).integers(0, 99, (rows, columns)).astype(dt.to_numpy(dtype))
    b = np.zeros((columns, rows), a.dtype)
    kernel["main"](a, b)
    np.testing.assert_array_equal(b, a.T)
    assert "shufflevector" in kernel.llvm_ir
