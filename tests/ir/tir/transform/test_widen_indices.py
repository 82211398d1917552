"""WidenIndices: indices and comparisons of loop variables have 64 bits, data keeps its width."""

from __future__ import annotations

from ir import IRModule, tir
from ir.script import tir as T
from ir.tir.transform import WidenIndices


def test_indices_and_conditions(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), C: T.Buffer((4,), "int32"), O: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 8):
            if i * 8 + j < 30:
                O[i * 8 + j] = A[T.min(C[i] * C[i], 31 - j) + j]

    @T.prim_func
    def after(A: T.Buffer((32,), "float32"), C: T.Buffer((4,), "int32"), O: T.Buffer((64,), "float32")):
        for i, j in T.grid(T.int64(4), T.int64(8)):
            if i * T.int64(8) + j < T.int64(30):
                O[i * T.int64(8) + j] = A[T.Cast("int64", T.min(C[i] * C[i], 31 - T.Cast("int32", j))) + j]

    check(WidenIndices(), before, after)


def test_data_keeps_its_width(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def hashes(A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "bool")):
        for i in T.serial(T.int64(8)):
            O[i] = A[i] * 65537 * 65537 + 1 < A[i]

    assert apply(WidenIndices(), hashes) is hashes

    @T.prim_func
    def named(A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "bool")):
        for i in T.serial(T.int64(8)):
            with T.LetStmt(A[i] * 65537) as x:
                O[i] = x * 65537 < x

    assert apply(WidenIndices(), named) is named


def test_sums_of_data_are_indices_and_casts_of_data_are_not(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((8,), "int64"), O: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(8)):
            O[i] = A[T.Cast("int32", C[i]) * 8 + 3]

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), C: T.Buffer((8,), "int64"), O: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(8)):
            O[i] = A[T.Cast("int64", T.Cast("int32", C[i])) * T.int64(8) + T.int64(3)]

    check(WidenIndices(), before, after, same_results=False)


def test_first_indices_of_vectors(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((32,), "float32")):
        for i in range(4):
            A[T.Ramp(i * 8, 1, 4)] = A[T.Broadcast(i, 4)]

    @T.prim_func
    def after(A: T.Buffer((32,), "float32")):
        for i in T.serial(T.int64(4)):
            A[T.Ramp(i * T.int64(8), T.int64(1), 4)] = A[T.Broadcast(i, 4)]

    check(WidenIndices(), before, after)


def test_sizes_are_indices(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(8):
            if i + 1 < n:
                A[i * n % 4] = T.float32(0)

    text = apply(WidenIndices(), main, same_results=False).script()
    assert 'if i + T.int64(1) < T.Cast("int64", n):' in text


def test_loops_count_in_64_bits_and_their_variables_are_data_of_their_own_width(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), m: T.int32, n: T.int32):
        for i in range(m, n):
            for j in T.unroll(i, i + 2):
                A[j] = i * 65537 + T.bitwise_and(j, 1)

    @T.prim_func
    def after(A: T.Buffer((16,), "int32"), m: T.int32, n: T.int32):
        for i in range(T.Cast("int64", m), T.Cast("int64", m) + (T.Cast("int64", n) - T.Cast("int64", m))):
            for j in T.unroll(i, i + T.int64(2)):
                A[j] = T.Cast("int32", i) * 65537 + T.bitwise_and(T.Cast("int32", j), 1)

    check(WidenIndices(), before, after, same_results=False)


def test_copies_of_a_loop_that_stands_twice_count_with_one_variable():
    """A schedule may leave one loop object in two places."""
    i, buffer = tir.Var("i"), tir.decl_buffer((8,), "int32", "A")
    loop = tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.BufferStore(buffer, i + 1, [i]))
    func = tir.PrimFunc([buffer], tir.stmt.seq(loop, loop))
    found = WidenIndices()(IRModule({"main": func}))["main"].body
    first, second = found.seq
    assert first.loop_var is second.loop_var and first.loop_var.dtype == "int64"


def test_masks_are_conditions_of_the_wide_variable(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), O: T.Buffer((8,), "float32")):
        for i in range(8):
            O.vstore([i], A.vload([i], predicate=i < 5), predicate=i * 2 < 14)

    @T.prim_func
    def after(A: T.Buffer((8,), "float32"), O: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(8)):
            O.vstore([i], A.vload([i], predicate=i < T.int64(5)), predicate=i * T.int64(2) < T.int64(14))

    check(WidenIndices(), before, after)


def test_lanes_of_an_index_are_data(check):  # type: ignore[no-untyped-def]
    """An index that is neither a ramp nor a broadcast is a vector like any other."""

    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), O: T.Buffer((16,), "float32")):
        for i in range(4):
            O[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(0, 3, 4) * T.Broadcast(i, 4)]

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), O: T.Buffer((16,), "float32")):
        for i in T.serial(T.int64(4)):
            O[T.Ramp(i * T.int64(4), T.int64(1), 4)] = A[T.Ramp(0, 3, 4) * T.Broadcast(T.Cast("int32", i), 4)]

    check(WidenIndices(), before, after)


def test_attributes_of_a_loop_s_variable_name_what_the_loop_counts_with():
    i, buffer = tir.Var("i"), tir.decl_buffer((8,), "int32", "A")
    marked = tir.AttrStmt(i, "pragma_note", tir.const(1), tir.BufferStore(buffer, i, [i]))
    func = tir.PrimFunc([buffer], tir.For(i, 0, 8, tir.ForKind.SERIAL, marked))
    loop = WidenIndices()(IRModule({"main": func}))["main"].body
    assert loop.body.node is loop.loop_var


def test_numbers_of_narrower_types_wrap_before_they_are_indices(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((256,), "int32"), O: T.Buffer((8,), "int32")):
        for i in T.serial(T.uint8(8)):
            O[T.Cast("int32", i)] = A[T.Cast("int32", i * T.uint8(40))]

    apply(WidenIndices(), main)
