"""Memory: bounds, what was written, aliases, layouts, extents of zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.codegen.entry import KernelError
from ir.error import IRError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run

from .running import executors, holds, refused, script


def each_refuses(program: Any, *args: Any, match: str | None = None) -> None:
    """The interpreter and native code raise an error before anything runs."""
    before = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    for _, execute in executors(program):
        with pytest.raises((InterpreterError, KernelError), match=match):
            execute(*args)
        for arg, old in zip(args, before):
            np.testing.assert_array_equal(arg, old)


# ---- bounds and initialization -----------------------------------------------------------------------------------


@pytest.mark.meaning("bounds")
@pytest.mark.parametrize("index", ["n", "n - 100", "n * 2"])
def test_an_index_outside_is_refused(index: str) -> None:
    for body in (f"A[{index}] = 1", f"A[0] = A[{index}]"):
        main = from_source(f'@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), n: T.int32):\n    {body}\n')
        refused(main, [np.zeros(4, "int32"), 4], "bounds")


@pytest.mark.meaning("bounds")
def test_each_dimension_has_its_bounds() -> None:
    main = script({"A": ((4, 4), "int32")}, "A[1, 4] = 1")
    refused(main, [np.zeros((4, 4), "int32")], "bounds")


@pytest.mark.meaning("unwritten")
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_reading_what_nobody_wrote_is_refused(loop: str) -> None:
    main = script(
        {"A": ((8,), "float32")},
        'with T.decl_buffer((8,), "float32") as B:',
        f"    for i in {loop}(7):",
        "        B[i] = T.float32(i)",
        f"    for i in {loop}(8):",
        "        A[i] = B[i]",
    )
    refused(main, [np.zeros(8, "float32")], "unwritten")


@pytest.mark.meaning("unwritten")
def test_an_undefined_value_is_as_unwritten() -> None:
    main = script(
        {"A": ((2,), "float32"), "B": ((2,), "float32")}, 'A[0] = T.Cast("float32", T.undef())', "B[0] = A[0]"
    )
    refused(main, [np.zeros(2, "float32"), np.zeros(2, "float32")], "unwritten")
    only_stored = script({"A": ((2,), "int32")}, "A[0] = T.undef()", "A[0] = 3")
    holds(only_stored, [np.zeros(2, "int32")], {0: [3, 0]})


@pytest.mark.meaning("alloc-fresh", "unwritten")
def test_an_allocation_is_new_each_time() -> None:
    main = script(
        {"A": ((4,), "int32")},
        "for i in range(4):",
        '    with T.decl_buffer((1,), "int32", scope="local") as L:',
        "        if i == 0:",
        "            L[0] = 5",
        "        A[i] = L[0]",
    )
    refused(main, [np.zeros(4, "int32")], "unwritten")


# ---- aliases -----------------------------------------------------------------------------------------------------


def shifted(attributes: str = "") -> Any:
    return from_source(
        '@T.prim_func\ndef main(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):\n'
        f"    T.func_attr({{{attributes}}})\n"
        "    for i in range(32):\n        B[i] = A[i] + 1\n"
    )


@pytest.mark.meaning("alias")
def test_parameters_may_overlap() -> None:
    """B is A moved by one: each element is made of the one before, and no loop may read ahead."""
    for name, execute in executors(shifted()):
        memory = np.zeros(33, "int32")
        execute(memory[:32], memory[1:])
        assert memory.tolist() == list(range(33)), name
        memory = np.arange(32, dtype="int32")
        execute(memory, memory)
        assert memory.tolist() == list(range(1, 33)), name


@pytest.mark.meaning("alias", "load-known")
def test_a_store_to_one_parameter_may_change_another() -> None:
    @T.prim_func
    def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
        C[0] = A[0]
        B[0] = 7
        C[1] = A[0]
        if A[0] == 7:
            B[1] = 8

    for name, execute in executors(main):
        same, out = np.array([1, 2], "int32"), np.zeros(2, "int32")
        execute(same, same, out)
        assert (same.tolist(), out.tolist()) == ([7, 8], [1, 7]), name


@pytest.mark.meaning("noalias")
def test_overlapping_arguments_are_refused_where_one_is_written() -> None:
    func = shifted('"tir.noalias": True')
    memory = np.zeros(33, "int32")
    refused(func, [memory[:32], memory[1:]], "noalias")
    refused(func, [memory[:32], memory[:32]], "noalias")
    assert not memory.any()
    run(func, memory[:32], np.zeros(32, "int32"))


@pytest.mark.meaning("noalias")
def test_arguments_that_overlap_are_named_as_the_program_names_them() -> None:
    memory = np.zeros(33, "int32")
    each_refuses(shifted('"tir.noalias": True'), memory[:32], memory[1:], match="arguments A and B overlap")


@pytest.mark.meaning("noalias")
def test_arguments_that_are_only_read_may_overlap() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            C[i] = A[i] * B[3 - i]

    for name, execute in executors(main):
        a, c = np.arange(4, dtype="int32"), np.zeros(4, "int32")
        execute(a, a, c)
        assert c.tolist() == [0, 2, 2, 0], name


@pytest.mark.meaning("noalias")
def test_a_store_through_a_view_is_a_store() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        with T.block("B"):
            V = T.match_buffer(B[0:2], (2,), "int32", offset_factor=1)
            V[0] = A[0]

    memory = np.zeros(4, "int32")
    refused(main, [memory, memory], "noalias")


# ---- entry -------------------------------------------------------------------------------------------------------

NUMBER = from_source('@T.prim_func\ndef main(A: T.Buffer((1,), "int32"), n: T.int32):\n    A[0] = n\n')


@pytest.mark.meaning("entry")
def test_extents_are_compared_at_entry() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n * 2,), "float32")
        for i in range(n):
            B[i * 2 + 1] = A[i, 3]

    a = np.arange(12, dtype="float32").reshape(3, 4)
    holds(main, [a, np.zeros(6, "float32"), 3], {1: [0, 3, 0, 7, 0, 11]})
    each_refuses(main, a, np.zeros(3, "float32"), 3)
    each_refuses(main, a, np.zeros(6, "float32"), 2)
    each_refuses(main, a[:, :3].copy(), np.zeros(6, "float32"), 3)
    each_refuses(main, a.reshape(12), np.zeros(6, "float32"), 3)
    each_refuses(main, a.astype("float64"), np.zeros(6, "float32"), 3)


@pytest.mark.meaning("entry")
def test_an_extent_that_is_an_expression_says_what_does_not_fit() -> None:
    """``n * 2`` gives n no value, and is compared once another argument has, also one behind it."""

    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n * 2,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i * 2]

    holds(main, [np.arange(4, dtype="float32"), np.zeros(2, "float32")], {1: [0, 2]})
    each_refuses(
        main, np.zeros(3, "float32"), np.zeros(2, "float32"), match=r"\bA (is|must have shape) .*4.*\(3,\)"
    )


@pytest.mark.meaning("entry")
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("given", ["3", None, np.zeros(1, "int32"), np.zeros(3, "float32"), [3]])
def test_what_is_no_number_is_refused(dtype: str, given: Any) -> None:
    func = from_source(f'@T.prim_func\ndef main(A: T.Buffer((1,), "{dtype}"), n: T.{dtype}):\n    A[0] = n\n')
    each_refuses(func, np.zeros(1, dtype), given, match=rf"\bn (must be|is) {dtype}, got")


@pytest.mark.meaning("entry")
@pytest.mark.parametrize("given", [1.5, np.float32(-0.5), float("nan"), float("inf"), np.array(2.5)])
def test_what_is_no_whole_number_is_refused_for_an_integer(given: Any) -> None:
    each_refuses(NUMBER, np.zeros(1, "int32"), given, match=r"\bn (must be|is) int32, got")


@pytest.mark.meaning("entry")
@pytest.mark.parametrize("given", [2, 2.0, np.int64(2), np.float32(2), np.array(2), np.array(2.0)])
def test_whole_numbers_of_any_kind_are_integers(given: Any) -> None:
    holds(NUMBER, [np.zeros(1, "int32"), given], {0: [2]})


@pytest.mark.meaning("entry")
def test_a_message_does_not_print_what_an_argument_holds() -> None:
    with pytest.raises(InterpreterError, match=r"buffer A needs an array of numpy, got list \[entry\]$"):
        run(NUMBER, [0] * 1000, 1)
    with pytest.raises(InterpreterError, match=r"takes 2 arguments \(A, n\), got 1 \[call\]$"):
        run(NUMBER, np.zeros(1, "int32"))


@pytest.mark.meaning("entry")
def test_an_extent_that_no_argument_gives_is_refused() -> None:
    """Three elements are no even number of them."""

    n = tir.Var("n", "int32")
    buffer = tir.decl_buffer((n * 2,), "float32", "A")
    func = tir.PrimFunc([buffer], tir.BufferStore(buffer, tir.const(1.0), [n * 2 - 1]))
    with pytest.raises(InterpreterError, match="variable n has no value"):
        run(func, np.zeros(3, "float32"))
    with pytest.raises(IRError, match="n"):
        build(func)


@pytest.mark.meaning("entry")
def test_variables_are_known_by_identity() -> None:
    """Two extents of the same name are two."""
    n, m = tir.Var("n", "int32"), tir.Var("n", "int32")
    a, b = tir.decl_buffer((n,), "int32", "A"), tir.decl_buffer((m,), "int32", "B")
    i = tir.Var("i", "int32")
    body = tir.For(i, 0, m, tir.ForKind.SERIAL, tir.BufferStore(b, n * 10 + m, [i]))
    holds(tir.PrimFunc([a, b], body), [np.zeros(3, "int32"), np.zeros(2, "int32")], {1: [32, 32]})


@pytest.mark.meaning("entry")
def test_one_variable_is_one_number() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            B[i] = A[i]

    holds(main, [np.arange(5, dtype="int32"), np.zeros(5, "int32")], {1: range(5)})
    each_refuses(main, np.zeros(5, "int32"), np.zeros(4, "int32"))


@pytest.mark.meaning("entry")
def test_symbolic_strides_come_from_the_array() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        s0 = T.int32()
        s1 = T.int32()
        A = T.match_buffer(a, (4, 4), "int32", strides=[s0, s1])
        B = T.match_buffer(b, (4, 4), "int32")
        for i, j in T.grid(4, 4):
            B[i, j] = A[i, j]

    base = np.arange(64, dtype="int32").reshape(8, 8)
    holds(main, [base[:4, :4].copy(), np.zeros((4, 4), "int32")], {1: base[:4, :4]})
    for view in (base[::2, ::2], base[:4, :4], base[:4, :4].T, base[2:6, 3:7]):
        for name, execute in executors(main):
            out = np.zeros((4, 4), "int32")
            execute(view, out)
            np.testing.assert_array_equal(out, view, err_msg=name)


@pytest.mark.meaning("entry")
def test_declared_strides_are_compared() -> None:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4, 4), "int32", strides=[8, 1])
        B = T.match_buffer(b, (4, 4), "int32")
        for i, j in T.grid(4, 4):
            B[i, j] = A[i, j]

    base = np.arange(32, dtype="int32").reshape(4, 8)
    for name, execute in executors(main):
        out = np.zeros((4, 4), "int32")
        execute(base[:, :4], out)
        np.testing.assert_array_equal(out, base[:, :4], err_msg=name)
    each_refuses(main, np.zeros((4, 4), "int32"), np.zeros((4, 4), "int32"))


@pytest.mark.meaning("entry")
def test_an_array_with_gaps_needs_declared_strides() -> None:
    each_refuses(script({"A": ((4,), "int32")}, "A[0] = 1"), np.zeros(8, "int32")[::2], match="contiguous")


@pytest.mark.meaning("entry")
def test_an_array_is_aligned_to_its_elements() -> None:
    shifted = np.zeros(17, "uint8")[1:].view("int32")
    each_refuses(
        script({"A": ((4,), "int32")}, "A[0] = 1"), shifted, match="no multiple of its elements' size"
    )


@pytest.mark.meaning("entry")
@pytest.mark.parametrize("dtype", ["int32", "bool", "float64"])
def test_a_number_of_the_kind_that_is_declared(dtype: str) -> None:
    main = from_source(f"""@T.prim_func
def main(A: T.Buffer((1,), "{dtype}"), x: T.{dtype}):
    A[0] = x""")
    fractions = [1.5, np.float32(0.5), math.nan, math.inf]
    good = [1, True, 1.0, np.int8(1), np.uint64(1), np.float32(1), np.array(1)]
    bad = ["1", b"1", np.str_("1"), None, [1], np.array([1]), 1j]
    (good if dtype == "float64" else bad).extend(fractions)
    for _, execute in executors(main):
        for value in good:
            found = np.zeros(1, dtype)
            execute(found, value)
            np.testing.assert_array_equal(found[0], value)
        for value in bad:
            with pytest.raises((InterpreterError, KernelError), match="x must be"):
                execute(np.zeros(1, dtype), value)


@pytest.mark.meaning("read-only")
def test_an_array_that_may_not_be_written() -> None:
    main = script({"A": ((4,), "int32"), "B": ((4,), "int32")}, "B[0] = A[0]")
    fixed = np.zeros(4, "int32")
    fixed.flags.writeable = False
    each_refuses(main, np.zeros(4, "int32"), fixed)
    for _, execute in executors(main):
        execute(fixed, np.zeros(4, "int32"))


# ---- views -------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("view")
def test_a_view_is_the_memory_of_its_source() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(2):
            with T.block("B"):
                v = T.axis.spatial(2, i)
                s0 = T.int32()
                s1 = T.int32()
                V = T.match_buffer(
                    A[v * 4 : v * 4 + 4, 2:6], (4, 4), "int32", strides=[s0, s1], offset_factor=1
                )
                W = T.match_buffer(A[v * 4, 2:6], (4,), "int32", offset_factor=1)
                for j in range(4):
                    V[j, j] = -1
                B[v] = W[0] + W[1] + s0 * 100
                A[v * 4, 3] = 50
                B[v + 2] = V[0, 1]

    a = np.arange(64, dtype="int32").reshape(8, 8)
    expected = a.copy()
    for v in range(2):
        for j in range(4):
            expected[v * 4 + j, 2 + j] = -1
        expected[v * 4, 3] = 50
    b = [-1 + int(a[v * 4, 3]) + 800 for v in range(2)] + [50, 50]
    holds(main, [a, np.zeros(4, "int32")], {0: expected, 1: b})


@pytest.mark.meaning("view")
def test_a_region_outside_is_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        with T.block("B"):
            V = T.match_buffer(A[n : n + 4], (4,), "int32", offset_factor=1)
            V[0] = 1

    refused(main, [np.zeros(8, "int32"), 5], "bounds")


@pytest.mark.meaning("packed")
def test_a_store_changes_its_own_element_only() -> None:
    import ml_dtypes

    main = script(
        {"A": ((9,), "int4"), "B": ((9,), "uint2")},
        'A[3] = T.Cast("int4", -3)',
        'A[4] = T.Cast("int4", 20)',
        'B[5] = T.Cast("uint2", 6)',
    )
    a, b = np.arange(-4, 5).astype(ml_dtypes.int4), (np.arange(9) % 4).astype(ml_dtypes.uint2)
    expected_a, expected_b = a.copy(), b.copy()
    expected_a[3], expected_a[4], expected_b[5] = -3, 4, 2
    holds(main, [a, b], {0: expected_a, 1: expected_b})


# ---- what is known, and nothing ----------------------------------------------------------------------------------


@pytest.mark.meaning("load-known")
def test_a_load_is_known_until_a_call_that_may_write() -> None:
    from ir import register_func

    @register_func("tests.semantics.increment", override=True)
    def increment(memory: np.ndarray) -> int:
        memory[0] += 1
        return 0

    buffer, out = tir.decl_buffer((1,), "int32", "A"), tir.decl_buffer((2,), "int32", "O")
    load = tir.BufferLoad(buffer, [tir.const(0)])
    call = tir.Evaluate(tir.call_packed("tests.semantics.increment", tir.address_of(buffer)))
    stores: list[Callable[[], Any]] = [
        lambda: tir.BufferStore(out, load, [tir.const(0)]),
        lambda: tir.BufferStore(out, load, [tir.const(1)]),
    ]
    func = tir.PrimFunc([buffer, out], tir.SeqStmt([stores[0](), call, stores[1]()]))
    holds(func, [np.array([5], "int32"), np.zeros(2, "int32")], {0: [6], 1: [5, 6]})


@pytest.mark.meaning("empty")
@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel"])
def test_extents_of_zero_are_ordinary(loop: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m,), "float32")
    with T.decl_buffer((n, m), "float32") as C:
        for i in {loop}(n):
            for j in range(m):
                C[i, j] = A[i, j] + T.float32(1)
        for i in range(n):
            for j in range(m):
                B[j] = B[j] + C[i, j]
"""
    )
    holds(func, [np.zeros((0, 3), "float32"), np.ones(3, "float32")], {})
    holds(func, [np.zeros((3, 0), "float32"), np.ones(0, "float32")], {})
    holds(func, [np.zeros((2, 3), "float32"), np.ones(3, "float32")], {1: np.full(3, 3)})
