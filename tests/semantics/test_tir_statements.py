"""Vectors, loops, blocks, calls: statements in order."""

from __future__ import annotations

import numpy as np
import pytest

from ir import GlobalVar, IRError, IRModule, tir
from ir.codegen.entry import KernelError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run
from ir.tir.interpreter.error import UndefinedError
from ir.tir.interpreter.machine import MOST_NESTED_CALLS

from .running import executors, holds, law, refused, script

# ---- vectors -----------------------------------------------------------------------------------------------------


@pytest.mark.meaning("vector-lanes")
def test_vectors_are_their_lanes() -> None:
    buffers = {name: tir.decl_buffer((16,), "int32", name) for name in "ABO"}
    lanes = tir.Ramp(tir.const(0), tir.const(1), 8)
    backwards = tir.Ramp(tir.const(15), tir.const(-1), 8)
    a, b = tir.BufferLoad(buffers["A"], [lanes]), tir.BufferLoad(buffers["B"], [backwards])
    chosen = tir.Select(a < b, a * tir.Broadcast(tir.const(3), 8), b)
    every_other = tir.Ramp(tir.const(1), tir.const(2), 8)
    func = tir.PrimFunc(list(buffers.values()), tir.BufferStore(buffers["O"], chosen, [every_other]))
    x, y = np.arange(16, dtype="int32") * 2, np.arange(16, dtype="int32") + 3
    expected = np.zeros(16, "int32")
    for lane in range(8):
        left, right = x[lane], y[15 - lane]
        expected[1 + 2 * lane] = left * 3 if left < right else right
    holds(func, [x, y, np.zeros(16, "int32")], {2: expected})


@pytest.mark.meaning("vector-lanes")
def test_a_shuffle_picks_lanes() -> None:
    a, o = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((4,), "float32", "O")
    low = tir.BufferLoad(a, [tir.Ramp(tir.const(0), tir.const(1), 4)])
    high = tir.BufferLoad(a, [tir.Ramp(tir.const(4), tir.const(1), 4)])
    picked = tir.Shuffle([low, high], [7, 0, 4, 3])
    func = tir.PrimFunc([a, o], tir.BufferStore(o, picked, [tir.Ramp(tir.const(0), tir.const(1), 4)]))
    values = np.arange(8, dtype="float32")
    holds(func, [values, np.zeros(4, "float32")], {1: [7, 0, 4, 3]})


@pytest.mark.meaning("vector-mask")
def test_masked_lanes_touch_nothing() -> None:
    """The lanes that are masked off lie outside of the buffers."""
    a, o = tir.decl_buffer((5,), "int32", "A"), tir.decl_buffer((6,), "int32", "O")
    lanes = tir.Ramp(tir.const(0), tir.const(1), 8)
    below = lanes < tir.Broadcast(tir.const(5), 8)
    loaded = tir.BufferLoad(a, [lanes], below)
    first = tir.BufferStore(o, loaded, [lanes], lanes < tir.Broadcast(tir.const(6), 8))
    func = tir.PrimFunc([a, o], first)
    holds(func, [np.arange(5, dtype="int32") + 1, np.full(6, 9, "int32")], {1: [1, 2, 3, 4, 5, 0]})


# ---- loops -------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("order")
def test_statements_run_in_order() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = 1
        A[1] = A[0] + 1
        A[0] = A[1] * 10
        A[2] = A[0]
        A[3] = A[2] - A[1]

    holds(main, [np.zeros(4, "int32")], {0: [20, 2, 20, 18]})


@pytest.mark.meaning("order", "for")
def test_a_serial_loop_may_depend_on_itself() -> None:
    @T.prim_func
    def main(A: T.Buffer((20,), "int32")):
        for i in range(19):
            A[i + 1] = A[i] + A[i + 1]

    a = np.arange(20, dtype="int32")
    holds(main, [a], {0: np.cumsum(a)})


@pytest.mark.meaning("for")
@pytest.mark.parametrize("loop", ["T.serial", "T.vectorized", "T.parallel", "T.unroll"])
def test_a_loop_runs_from_its_begin(loop: str) -> None:
    func = from_source(
        f'@T.prim_func\ndef main(A: T.Buffer((40,), "int32"), b: T.int32, e: T.int32):\n'
        f"    for i in {loop}(b, e):\n        A[i] = i + 1\n"
    )
    for begin, end in ((0, 40), (3, 8), (5, 5), (9, 2), (39, 40), (7, -100)):
        expected = [i + 1 if begin <= i < end else 0 for i in range(40)]
        holds(func, [np.zeros(40, "int32"), begin, end], {0: expected})


@pytest.mark.meaning("for")
@pytest.mark.parametrize("kind", [kind for kind in tir.ForKind if kind != tir.ForKind.THREAD_BINDING])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_loop_may_end_at_the_greatest_number(dtype: str, kind: tir.ForKind) -> None:
    """There is no number behind the last one."""
    first = int(np.iinfo(dtype).max) - 2
    b, n = tir.Var("b", dtype), tir.Var("n", dtype)
    i, j, k, m = (tir.Var(name, dtype) for name in "ijkm")
    counts = [tir.decl_buffer((4,), dtype, name) for name in "ABCD"]

    def loop(counter: tir.Var, begin: tir.PrimExpr, extent: tir.PrimExpr, out: tir.Buffer) -> tir.Stmt:
        return tir.For(counter, begin, extent, kind, tir.BufferStore(out, counter, [counter - begin]))

    begin, three = tir.const(first, dtype), tir.const(3, dtype)
    loops = [loop(i, begin, three, counts[0])]
    if kind not in (tir.ForKind.VECTORIZED, tir.ForKind.UNROLLED):
        loops += [loop(j, b, n, counts[1]), loop(k, begin, n, counts[2]), loop(m, b, three, counts[3])]
    func = tir.PrimFunc([b, n, *[buffer.data for buffer in counts]], tir.SeqStmt([*loops, tir.Evaluate(0)]))
    func = func.replace(
        buffer_map={buffer.data: buffer for buffer in counts}, attrs={"global_symbol": "main"}
    )
    numbers = np.array([first, first + 1, first + 2, 0], dtype)
    zeros = np.zeros(4, dtype)
    holds(func, [first, 3, *[zeros] * 4], {2 + number: numbers for number in range(len(loops))})
    some = {2: numbers} | ({5: numbers} if len(loops) > 1 else {})
    holds(func, [first, 0, *[zeros] * 4], some)


@pytest.mark.meaning("for")
def test_the_ends_of_a_loop_are_evaluated_once() -> None:
    @T.prim_func
    def main(A: T.Buffer((12,), "int32")):
        for i in range(A[0], A[1]):
            A[0] = 0
            A[1] = 12
            A[i] = i

    holds(main, [np.array([3, 7] + [0] * 10, "int32")], {0: [0, 12, 0, 3, 4, 5, 6, 0, 0, 0, 0, 0]})


@pytest.mark.meaning("while")
def test_while_evaluates_before_each_turn() -> None:
    @T.prim_func
    def main(A: T.Buffer((3,), "int32")):
        while A[0] < 5:
            A[0] = A[0] + 2
            A[1] = A[1] + 1
        while A[0] < 5:
            A[2] = 1

    holds(main, [np.zeros(3, "int32")], {0: [6, 3, 0]})
    holds(main, [np.array([9, 0, 0], "int32")], {})


@pytest.mark.meaning("assert")
def test_an_assertion_ends_the_program() -> None:
    func = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((2,), "int32")):\n'
        '    A[0] = 5\n    assert A[1] > 0, "A[1] must be positive"\n    A[0] = 6\n'
    )
    for name, execute in executors(func):
        good, bad = np.array([0, 1], "int32"), np.zeros(2, "int32")
        execute(good)
        assert good.tolist() == [6, 1], name
        with pytest.raises((InterpreterError, KernelError), match="must be positive"):
            execute(bad)
        assert bad.tolist() == [5, 0], name


@pytest.mark.meaning("assume")
def test_an_assumption_must_hold() -> None:
    func = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((4,), "int32"), n: T.int32):\n    T.evaluate(T.assume(n < 4))\n    A[0] = n\n'
    )
    holds(func, [np.zeros(4, "int32"), 3], {0: [3, 0, 0, 0]})
    refused(func, [np.zeros(4, "int32"), 4], "assume")


@pytest.mark.meaning("unroll")
def test_an_unrolled_loop_is_the_loop() -> None:
    @T.prim_func
    def main(A: T.Buffer((12,), "int32")):
        for i in T.unroll(11):
            A[i + 1] = A[i] * 2 + A[i + 1]

    expected = [1]
    for _ in range(11):
        expected.append(expected[-1] * 2 + 1)
    holds(main, [np.ones(12, "int32")], {0: expected})


@pytest.mark.meaning("thread")
def test_threads_share_memory() -> None:
    """In the interpreter one after the other; natively there is no target here."""

    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for block in T.thread_binding(2, "blockIdx.x"):
            with T.block("copy"):
                S = T.alloc_buffer((4,), "int32", scope="shared")
                for thread in T.thread_binding(4, "threadIdx.x"):
                    S[thread] = A[block * 4 + thread]
                for thread in T.thread_binding(4, "threadIdx.x"):
                    B[block * 4 + thread] = S[3 - thread]

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(main, a, b)
    assert b.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


# ---- blocks ------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("block")
def test_a_block_runs_where_its_predicate_holds() -> None:
    @T.prim_func
    def main(A: T.Buffer((3, 3), "int32"), B: T.Buffer((3,), "int32")):
        for i, k0, k1 in T.grid(4, 2, 2):
            with T.block("B"):
                v = T.axis.spatial(3, i)
                r = T.axis.reduce(3, k0 * 2 + k1)
                T.where(i < 3 and k0 * 2 + k1 < 3)
                with T.init():
                    B[v] = 100
                B[v] = B[v] + A[v, r]

    a = np.arange(9, dtype="int32").reshape(3, 3)
    holds(main, [a, np.full(3, 7, "int32")], {1: 100 + a.sum(1)})


@pytest.mark.meaning("block")
def test_a_variable_outside_of_its_domain_is_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(7, i)
                A[v] = 1

    refused(main, [np.zeros(8, "int32")], "block")


# ---- parallel loops ----------------------------------------------------------------------------------------------

_RACES = {
    "written twice": "A[i // 2] = i",
    "read by the next": "A[i + 1] = A[i]",
    "read by the one before": "A[i] = A[i + 1]",
    "an accumulator": "A[0] = A[0] + B[i]",
    "read from the outside": "A[T.max(i, 3)] = B[i]",
    "by data": 'A[T.Cast("int32", B[i] * 0)] = i',
}


@pytest.mark.meaning("parallel")
@pytest.mark.parametrize("loop", ["T.vectorized", "T.parallel"])
@pytest.mark.parametrize("body", _RACES.values(), ids=_RACES)
def test_iterations_must_not_disturb_each_other(body: str, loop: str) -> None:
    main = script({"A": ((17,), "int32"), "B": ((17,), "int32")}, f"for i in {loop}(16):", f"    {body}")
    refused(main, [np.zeros(17, "int32"), np.zeros(17, "int32")], "parallel")


@pytest.mark.meaning("parallel")
@pytest.mark.parametrize("loop", ["T.vectorized", "T.parallel"])
def test_independent_iterations_are_the_serial_loop(loop: str) -> None:
    main = script(
        {"A": ((64,), "int32"), "B": ((32,), "int32")},
        f"for i in {loop}(32):",
        "    A[i * 2] = A[i * 2] + B[i]",
        "    A[i * 2 + 1] = A[i * 2] + B[31]",
        "    if B[i] > 10:",
        "        A[i * 2] = 0",
    )
    a, b = np.arange(64, dtype="int32"), np.arange(32, dtype="int32")
    expected = a.copy()
    for i in range(32):
        expected[2 * i] += b[i]
        expected[2 * i + 1] = expected[2 * i] + b[31]
        if b[i] > 10:
            expected[2 * i] = 0
    holds(main, [a, b], {0: expected})


@pytest.mark.meaning("parallel")
def test_nested_loops_are_watched_each() -> None:
    inner = script(
        {"A": ((4, 8), "int32")},
        "for i in range(4):",
        "    for j in T.parallel(8):",
        "        A[i, j] = A[i, 7 - j]",
    )
    refused(inner, [np.zeros((4, 8), "int32")], "parallel")
    outer = script(
        {"A": ((4, 8), "int32")},
        "for i in T.parallel(4):",
        "    for j in range(8):",
        "        A[0, j] = A[0, j] + i",
    )
    refused(outer, [np.zeros((4, 8), "int32")], "parallel")
    fine = script(
        {"A": ((4, 8), "int32")},
        "for i in T.parallel(4):",
        "    for k in range(3):",
        "        for j in T.vectorized(8):",
        "            A[i, j] = A[i, j] + k",
    )
    holds(fine, [np.zeros((4, 8), "int32")], {0: np.full((4, 8), 3)})


@pytest.mark.meaning("parallel")
def test_parts_of_elements_are_elements_too() -> None:
    """Two names of one memory with elements of different sizes."""
    main = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((8,), "int32")):\n'
        '    B = T.Buffer((32,), "uint8", data=A.data)\n'
        "    for i in T.parallel(8):\n        A[i] = 0\n        B[31 - i * 4] = T.uint8(1)\n"
    )
    refused(main, [np.zeros(8, "int32")], "parallel")


@pytest.mark.meaning("parallel-local", "alloc-fresh")
@pytest.mark.parametrize("loop", ["range", "T.parallel"])
def test_what_an_iteration_allocates_belongs_to_it(loop: str) -> None:
    main = script(
        {"A": ((16,), "int32")},
        f"for i in {loop}(16):",
        '    with T.decl_buffer((4,), "int32", scope="local") as L:',
        "        for j in range(4):",
        "            L[j] = i * j",
        "        A[i] = L[1] + L[3]",
    )
    holds(main, [np.zeros(16, "int32")], {0: 4 * np.arange(16)})


@pytest.mark.meaning("parallel-local")
def test_a_block_buffer_belongs_to_the_loop_that_holds_all_uses() -> None:
    """Neighbours compute overlapping parts of T, each before it reads them."""

    @T.prim_func
    def main(A: T.Buffer((18,), "int32"), B: T.Buffer((16,), "int32")):
        with T.block("root"):
            S = T.alloc_buffer((18,), "int32")
            for i in T.parallel(4):
                for j in range(6):
                    S[i * 4 + j] = A[i * 4 + j] * 2
                for j in range(4):
                    B[i * 4 + j] = S[i * 4 + j] + S[i * 4 + j + 1] + S[i * 4 + j + 2]

    a = np.arange(18, dtype="int32")
    holds(main, [a, np.zeros(16, "int32")], {1: 2 * (a[:16] + a[1:17] + a[2:])})


@pytest.mark.meaning("parallel")
def test_a_block_buffer_that_carries_values_between_iterations_is_refused() -> None:
    @T.prim_func
    def main(B: T.Buffer((16,), "int32")):
        with T.block("root"):
            S = T.alloc_buffer((17,), "int32")
            S[0] = 1
            for i in T.parallel(16):
                S[i + 1] = S[i] + 1
                B[i] = S[i]

    refused(main, [np.zeros(16, "int32")], "parallel")


# ---- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.meaning("call")
def test_a_call_binds_parameters_and_runs_the_body() -> None:
    @T.prim_func(private=True)
    def helper(A: T.Buffer((4,), "int32"), factor: T.int32):
        for i in range(4):
            A[i] = A[i] * factor

    gv = GlobalVar("helper")
    buffer = tir.decl_buffer((4,), "int32", "B")
    body = tir.SeqStmt([tir.Evaluate(tir.Call("void", gv, (buffer.data, tir.const(k)))) for k in (3, 5)])
    module = IRModule({gv: helper, "main": tir.PrimFunc([buffer], body)})
    a = np.arange(4, dtype="int32")
    run(module, a)
    assert a.tolist() == [0, 15, 30, 45]


@pytest.mark.meaning("call")
def test_ret_ends_the_function() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), n: T.int32) -> T.int32:
        for i in range(4):
            if A[i] == n:
                T.ret(i)
            A[i] = -1
        T.ret(-1)

    for name, execute in executors(main):
        for wanted, left, result in ((7, [-1, -1, 7, 8], 2), (9, [-1] * 4, -1)):
            a = np.array([5, 6, 7, 8], "int32")
            assert execute(a, wanted) == result, name
            assert a.tolist() == left, name


@pytest.mark.meaning("call")
def test_arguments_that_do_not_fit_are_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = 1

    with pytest.raises(InterpreterError, match=r"takes 1 arguments \(A\), got 0 \[call\]"):
        run(main)


@pytest.mark.meaning("vector-lanes")
def test_bits_of_vectors() -> None:
    values = [0, 1, -1, 5, -(2**31), 2**31 - 1]
    law("T.popcount(A[i])", {"A": (values, "int32")}, [bin(v % 2**32).count("1") for v in values], "int32")
    law("T.clz(A[i])", {"A": (values, "int32")}, [32 - (v % 2**32).bit_length() for v in values], "int32")
    law("T.bitwise_xor(A[i], 7) & ~A[i]", {"A": (values, "int32")}, [(v ^ 7) & ~v for v in values], "int32")


_NESTED = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), n: T.int32):
        if n > 0:
            for i in range(1):
                A[0] = A[0] + 1
                Module.main(A.data, n - 1)
"""


@pytest.mark.meaning("call-depth")
def test_calls_nest_up_to_a_depth() -> None:
    program = from_source(_NESTED)
    for name, execute in executors(program):
        found = np.zeros(1, "int32")
        execute(found, MOST_NESTED_CALLS)
        assert found[0] == MOST_NESTED_CALLS, name
    for depth in (MOST_NESTED_CALLS + 1, 20_000, 10**8):
        with pytest.raises(UndefinedError) as raised:
            run(program, np.zeros(1, "int32"), depth)
        assert raised.value.rule == "call-depth"
        assert "main is called 2000 calls deep, which is the limit" in str(raised.value)
        assert "... called through 1985 more calls" in str(raised.value)


@pytest.mark.meaning("call-depth")
def test_calls_in_deep_statements_are_refused_for_their_depth() -> None:
    loops = [f"{'    ' * (2 + i)}for i{i} in range(1):" for i in range(60)]
    call = f"{'    ' * 62}Module.main(A.data, n - 1)"
    text = "\n".join([*_NESTED.splitlines()[:5], "        A[0] = A[0] + 1", *loops, call])
    refused(from_source(text), (np.zeros(1, "int32"), 2), "call-depth")


# ---- returns without a value -----------------------------------------------------------------------------------------

_RETURNS = [
    (("for i in range(4):", "    if A[i] == 2:", "        {}", "    A[i] = 9"), [9, 9, 2, 3]),
    (("A[0] = 1", "if A[1] > 0:", "    {}", "A[2] = 5"), [1, 1, 2, 3]),
    (("A[0] = 1", "if A[1] > 7:", "    {}", "A[2] = 5"), [1, 1, 5, 3]),
    (("A[0] = 1", "{}", "A[2] = 5"), [1, 1, 2, 3]),
    (("{}", "for i in range(4):", "    A[i] = 9"), [0, 1, 2, 3]),
    (("A[0] = 1", "{}"), [1, 1, 2, 3]),
    (("{}",), [0, 1, 2, 3]),
    (("while A[0] < 9:", "    A[0] = A[0] + 1", "    if A[0] == 4:", "        {}"), [4, 1, 2, 3]),
]


@pytest.mark.meaning("call")
@pytest.mark.parametrize("leave", ["return", "return None", "T.ret()", "T.evaluate(T.ret())"])
@pytest.mark.parametrize(("lines", "left"), _RETURNS)
def test_a_return_without_a_value_ends_the_function(lines: list[str], left: list[int], leave: str) -> None:
    program = script({"A": ((4,), "int32")}, *[line.format(leave) for line in lines])
    for func in (program, from_source(program.script())):
        for name, execute in executors(func):
            a = np.arange(4, dtype="int32")
            assert execute(a) is None, name
            assert a.tolist() == left, name


@pytest.mark.meaning("call")
def test_a_called_function_returns_without_a_value_to_its_caller() -> None:
    program = from_source(
        """@I.ir_module
class Program:
    @T.prim_func(private=True)
    def helper(A: T.Buffer((4,), "int32"), n: T.int32) -> None:
        if A[0] == n:
            return
        A[0] = n

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        Program.helper(A.data, A[0])
        A[1] = 7
        Program.helper(A.data, 5)
"""
    )
    holds(program, [np.arange(4, dtype="int32")], {0: [5, 7, 2, 3]})


@pytest.mark.meaning("call")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (["for i in T.parallel(4):", "    if A[i] == 2:", "        return"], "inside of a parallel loop"),
        (
            ["for i in T.vectorized(4):", "    if A[i] == 2:", "        T.ret(0)"],
            "inside of a vectorized loop",
        ),
        (
            [
                "for i in range(4):",
                "    with T.block('B'):",
                "        v = T.axis.spatial(4, i)",
                "        return",
            ],
            "inside of block 'B', whose iterations have no order",
        ),
        (["if A[0] > 0:", "    return", "return 1"], "a return in it has no value"),
        (["if A[0] > 0:", "    return 1", "if A[0] > 1:", "    return"], "a return in it has no value"),
    ],
)
def test_returns_that_say_nothing_clear_are_refused(body: list[str], message: str) -> None:
    with pytest.raises(IRError, match=message):
        script({"A": ((4,), "int32")}, *body)


def test_a_return_in_a_macro_would_end_its_user() -> None:
    lines = ["@T.macro", "def put(n):", "    A[n] = 1", "    return", "put(1)", "A[2] = 3"]
    with pytest.raises(IRError, match="a return in macro 'put' would end the function that uses it"):
        script({"A": ((4,), "int32")}, *lines)


# ---- tuples that are assigned ----------------------------------------------------------------------------------------

_TUPLES = [
    "A[0], A[1] = A[1], A[0]",
    "A[0], x = 7, A[0]\nA[1] = x",
    "x, A[0], y = A[0], A[1], A[0] + A[1]\nA[2] = x\nA[3] = y",
    "(A[0], A[1]), A[2] = (A[2], A[0]), A[1]",
    "A[0], *x = A[3], A[0], A[0] + 1\nA[1] = x[0]\nA[2] = x[1]",
    "A[0], A[A[0]] = 1, 9",
    "[A[0], A[1], A[2], A[3]] = [A[k] for k in (3, 2, 1, 0)]",
    "for i in range(2):\n    A[i], A[3 - i] = A[3 - i], A[i]",
]


@pytest.mark.meaning("data-let")
@pytest.mark.parametrize("text", _TUPLES)
def test_a_tuple_is_evaluated_before_its_first_store(text: str) -> None:
    given = np.array([3, 5, 8, 13], "int32")
    expected = given.copy()
    exec(text, {"A": expected})
    holds(script({"A": ((4,), "int32")}, *text.split("\n")), [given], {0: expected})


def test_a_member_of_a_set_and_numbers_of_numpy_are_compared() -> None:
    three = np.int64(3)
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    for i in range(4):
        if A[i] in {A[0], 8} or A[i] == three:
            A[i] = 1
        else:
            A[i] = 0
""",
        {"three": three},
    )
    holds(program, [np.array([2, 3, 5, 8], "int32")], {0: [1, 1, 0, 1]})
