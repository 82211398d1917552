"""UnrollLoop: explicit loops, the pragma's limit, and marking instead of copying."""

from functools import partial

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.transform import UnrollLoop


def loops(func):
    found = []
    post_order_visit(
        func.body, lambda n: found.append((n.loop_var.name, n.kind.name)) if isinstance(n, tir.For) else None
    )
    return sorted(found)


def test_explicit(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in T.unroll(2):
            A[i + 1] = T.float32(0)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        A[1] = T.float32(0)
        A[2] = T.float32(0)

    check(tir.transform.UnrollLoop(), before, after)


@T.prim_func
def nest(A: T.Buffer((4, 4, 4), "float32")):
    with T.attr(T.int32(0), "pragma_auto_unroll_max_step", 16):
        for i, j, k in T.grid(4, 4, 4):
            A[i, j, k] = A[i, j, k] * T.float32(2)


@pytest.mark.parametrize(("limit", "left"), [(3, 3), (4, 2), (16, 1), (64, 0)])
def test_pragma_limit(apply, limit, left):
    func = nest.replace(body=nest.body.replace(value=tir.const(limit)))
    after = apply(tir.transform.UnrollLoop(), func)
    assert len(loops(after)) == left


def test_marking_only(apply):
    after = apply(tir.transform.UnrollLoop(expand=False), nest)
    assert loops(after) == [("i", "SERIAL"), ("j", "UNROLLED"), ("k", "UNROLLED")]


def test_a_loop_of_one_iteration_is_no_loop_that_stays(apply):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        with T.attr(T.int32(0), "pragma_auto_unroll_max_step", 16):
            for i in range(4):
                for j in T.parallel(1):
                    A[i] = A[i + j] * T.float32(2)

    after = apply(tir.transform.UnrollLoop(expand=False), before)
    assert loops(after) == [("i", "UNROLLED"), ("j", "PARALLEL")]


def test_loops_over_local_buffers(apply):
    @T.prim_func
    def local(A: T.Buffer((8, 64), "float32")):
        acc = T.allocate([8], "float32", "local")
        acc_1 = T.Buffer((8,), data=acc, scope="local")
        for i in range(8):
            acc_1[i] = T.float32(0)
        for k in range(64):
            for i in range(8):
                acc_1[i] = acc_1[i] + A[i, k]
        for i in range(8):
            A[i, 0] = acc_1[i]

    after = apply(tir.transform.UnrollLoop(expand=False, unroll_local_access=True), local)
    assert loops(after) == [("i", "UNROLLED")] * 3 + [("k", "SERIAL")]


def test_copies_define_variables_of_their_own(apply):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in T.unroll(4):
            with T.LetStmt(A[i] * 3) as x:
                for j in range(2):
                    B[i] = B[i] + x * j

    assert tir.analysis.verify_ssa(apply(tir.transform.UnrollLoop(), before))


def test_numbers_wrap_in_their_width(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.unroll(4):
            A[i] = i * 2147483647 + i

    @T.prim_func
    def after(A: T.Buffer((4,), "int32")):
        A[0] = 0
        A[1] = -2147483648
        A[2] = 0
        A[3] = -2147483648

    check(tir.transform.UnrollLoop(), before, after)


def test_masks_of_copies_are_decided(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in T.unroll(2):
            B.vstore([i], A.vload([i + 2], predicate=i < 1), predicate=0 <= i)
            B.vstore([i + 2], A[i], predicate=1 <= i)

    @T.prim_func
    def after(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        B[0] = A[2]
        B[1] = 0
        B[3] = A[1]

    check(tir.transform.UnrollLoop(), before, after)


@pytest.mark.parametrize(("extent", "left"), [(1, 1), (2, 2)])
def test_a_loop_that_runs_once_does_not_keep_the_loops_around_it(apply, extent, left):
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        with T.attr(T.int32(0), "pragma_auto_unroll_max_step", 16):
            for i in range(4):
                for j in T.parallel(extent):
                    A[i + j] = T.float32(0)

    after = loops(apply(tir.transform.UnrollLoop(expand=False), main))
    assert sum(kind != "UNROLLED" for _, kind in after) == left


def test_one_nested_loop_among_statements_keeps_the_loops_around_them(apply):
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        with T.attr(T.int32(0), "pragma_auto_unroll_max_step", 16):
            for i in range(4):
                for j in T.parallel(2):
                    A[i + j] = T.float32(0)
                A[i] = T.float32(1)

    assert loops(apply(tir.transform.UnrollLoop(), main)) == [("i", "SERIAL"), ("j", "PARALLEL")]


@pytest.mark.parametrize(("limit", "kind"), [(8, "UNROLLED"), (7, "SERIAL")])
def test_as_many_statements_as_are_allowed_are_copied(apply, limit, kind):
    @T.prim_func
    def main(A: T.Buffer((4, 2), "float32")):
        for i in T.unroll(4):
            for j in T.unroll(2):
                A[i, j] = T.float32(0)

    after = loops(apply(tir.transform.UnrollLoop(expand=False, max_statements=limit), main))
    assert after == [("i", kind), ("j", "UNROLLED")]


def test_what_is_cast_wraps_first(check):
    """Products of int32 that become a number of 64 bits behind that."""

    @T.prim_func
    def before(A: T.Buffer((3,), "int64")):
        for i in T.unroll(3):
            A[i] = T.Cast("int64", i * 65537 * 65537 + i)

    @T.prim_func
    def after(A: T.Buffer((3,), "int64")):
        A[0] = T.int64(0)
        A[1] = T.int64(131074)
        A[2] = T.int64(262148)

    check(tir.transform.UnrollLoop(), before, after)


_DATA = {
    "a product with zero": "A[i] * j + i * 1000000000 < 0",
    "a remainder": "(A[i] + j) % (j + 1) + i * 1000000000 < 0",
    "a quotient of zero": "j // (A[i] + 3) + i * 1000000000 < 0",
    "a choice": "T.if_then_else(j == 0, i * 1000000000, A[i]) < 0",
    "a selection": "T.Select(j == 0, i * 1000000000, A[i]) < 0",
    "a cast": 'T.Cast("int64", A[i] * j + i * 1000000000) < T.int64(0)',
    "a connective": "(A[i] * j + i * 1000000000 < 0) and i >= j",
}


@pytest.mark.meaning("data-let", "index-condition")
@pytest.mark.parametrize("condition", _DATA.values(), ids=_DATA)
def test_data_stays_data_in_a_copy_that_lost_its_loads(condition: str) -> None:
    func = from_source(
        "@T.prim_func\n"
        'def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 2), "int32")):\n'
        "    for i in range(4):\n"
        "        for j in T.unroll(2):\n"
        "            B[i, j] = 0\n"
        f"            if {condition}:\n"
        "                B[i, j] = 1\n"
    )
    _same_results(func)


@pytest.mark.meaning("data-let")
def test_a_let_of_data_stays_data_in_a_copy_that_lost_its_loads() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 2), "int32")):
        for i in range(4):
            for j in T.unroll(2):
                with T.LetStmt(A[i] * j + i * 1000000000) as x:
                    B[i, j] = 0
                    if x + 1000000000 < 0:
                        B[i, j] = 1

    _same_results(main)


def _same_results(func: PrimFunc) -> None:
    """The interpreter finds the same numbers in the program and in the copies; native code, too."""
    module = IRModule({"main": func})
    results = []
    for execute in (partial(run, module), partial(run, UnrollLoop()(module)), build(module)["main"]):
        out = np.full((4, 2), 7, "int32")
        execute(np.array([5, -1, 2**31 - 1, -7], "int32"), out)
        results.append(out)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_a_let_in_an_expression_that_is_copied() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 2), "int32")):
        x = T.int32()
        for i in range(4):
            for j in T.unroll(2):
                B[i, j] = T.Let(x * 2 + j, where={x: A[i] + j})

    _same_results(main)


def test_the_sides_of_a_choice_do_not_run_in_each_other(apply):
    """Each side alone is short enough."""

    @T.prim_func
    def main(A: T.Buffer((8, 4), "float32"), n: T.int32):
        for i in range(8):
            if n < 3:
                for j in T.unroll(4):
                    A[i, j] = T.float32(1)
            else:
                for j in T.unroll(4):
                    A[i, j] = T.float32(2)

    after = apply(UnrollLoop(max_statements=6), main)
    assert loops(after) == [("i", "SERIAL")]
    assert len(loops(apply(UnrollLoop(max_statements=3), main))) == 3


@pytest.mark.parametrize(("limit", "left"), [(7, [("i", "SERIAL")]), (8, [])])
def test_statements_beside_each_other_add_up(apply, limit, left):
    @T.prim_func
    def main(A: T.Buffer((2, 2), "float32"), B: T.Buffer((2, 2), "float32")):
        for i in range(2):
            for j in range(2):
                A[i, j] = T.float32(0)
            for k in range(2):
                B[i, k] = T.float32(0)

    assert loops(apply(UnrollLoop(auto_max_step=limit), main)) == left


@pytest.mark.parametrize("scope", ["local", "warp"])
def test_loops_over_registers_that_instructions_are_given(scope):
    """The offset behind the address of registers counts as an index; that of shared memory does not."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((512,), "float16")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([1024], "float16", "shared")
    W = T.allocate([1024], "float16", "{scope}")
    for k in range(4):
        for i in range(4):
            T.evaluate(T.ptx_ldmatrix("float16", False, 4, ".b16", W, i * 256 + tx * 8, S, k * 256 + tx * 8))
""")
    after = tir.transform.UnrollLoop(expand=False, unroll_local_access=True)(IRModule({"main": func}))["main"]
    assert loops(after) == [("i", "UNROLLED"), ("k", "SERIAL")]
