"""A reduction over a symbolic extent that is 0 gives its identity, however its loops are scheduled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir.codegen.build import build
from ir.script import from_source
from ir.tir.interpreter import run
from ir.tir.transform import LowerInitBlock
from ir.tir.transform.empty_reduction import identities_beside_loops
from schedules import Schedule, ScheduleError


def maxima() -> tir.PrimFunc:
    """The maximum of each row, plus one."""
    n = tir.Var("n", "int64")
    a = te.placeholder((6, n, 2), "float32", name="A")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, 2), "l")
    most = te.compute((6,), lambda i: te.max(a[i, k, l], axis=[k, l]), "most")
    return te.create_prim_func([a, te.compute((6,), lambda i: most[i] + 1.0, "C")])


def _split(s: Schedule) -> None:
    i, k, _ = s.get_loops(s.get_block("most"))
    i0, i1 = s.split(i, [None, 4])
    k0, k1 = s.split(k, [None, 4])
    s.reorder(i0, k0, k1, i1)
    s.vectorize(i1)


def _inside(s: Schedule) -> None:
    (i,) = s.get_loops(s.get_block("C"))
    s.compute_at(s.get_block("most"), i)
    s.parallel(i)


def _outside(s: Schedule) -> None:
    i, k, _ = s.get_loops(s.get_block("most"))
    s.reorder(k, i)


def _apart(s: Schedule) -> None:
    _, k, _ = s.get_loops(s.get_block("most"))
    s.decompose_reduction(s.get_block("most"), k)


def _apart_inside(s: Schedule) -> None:
    i, k, _ = s.get_loops(s.get_block("most"))
    s.reorder(k, i)
    s.decompose_reduction(s.get_block("most"), k)


def _partial_maxima_of_columns(s: Schedule) -> None:
    s.rfactor(s.get_loops(s.get_block("most"))[2], 0)


def _partial_maxima_of_steps(s: Schedule) -> None:
    s.rfactor(s.get_loops(s.get_block("most"))[1], 1)


def _blocked(s: Schedule) -> None:
    i, _, _ = s.get_loops(s.get_block("most"))
    s.blockize(s.split(i, [None, 3])[1])


def _cached(s: Schedule) -> None:
    s.cache_write(s.get_block("most"), 0, "local")
    s.reverse_compute_at(s.get_block("most_local"), s.get_loops(s.get_block("most"))[0])


def _fused_rows(s: Schedule) -> None:
    i, k, _ = s.get_loops(s.get_block("most"))
    i0, i1 = s.split(i, [2, 3])
    s.reorder(k, i0, i1)
    s.fuse(i0, i1)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda s: None, _split, _inside, _outside, _apart, _apart_inside, _blocked, _cached, _fused_rows,
        _partial_maxima_of_columns, _partial_maxima_of_steps,
    ],
)  # fmt: skip
def test_what_is_reduced_over_nothing(schedule: Callable[[Schedule], None]) -> None:
    s = Schedule(maxima())
    schedule(s)
    _holds(s)


def _holds(s: Schedule) -> None:
    native = build(s.mod)["main"]
    for n in (0, 1, 7):
        a = np.random.default_rng(0).standard_normal((6, n, 2)).astype("float32")
        for execute in (native, partial(run, s.mod)):
            c = np.full(6, 77, "float32")
            execute(a, c)
            np.testing.assert_array_equal(c, a.max((1, 2), initial=-np.inf) + 1)


def test_rows_are_not_fused_with_a_reduction_that_may_be_over_nothing() -> None:
    s = Schedule(maxima())
    i, k, _ = s.get_loops(s.get_block("most"))
    with pytest.raises(ScheduleError, match="'v_k' of block 'most' has n steps, which may be none"):
        s.fuse(i, k)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_the_identity_is_written_where_the_block_runs_and_nowhere_else(length: int) -> None:
    """Tiles reach beyond the rows: the predicate of the block is also that of its identity."""
    s = Schedule(maxima())
    _split(s)
    lowered = LowerInitBlock()(s.mod)
    assert "most_identity" in lowered.script()
    a = np.random.default_rng(0).standard_normal((6, length, 2)).astype("float32")
    c = np.full(6, 77, "float32")
    run(lowered, a, c)
    np.testing.assert_array_equal(c, a.max((1, 2), initial=-np.inf) + 1)


@pytest.mark.parametrize("shape", [(6, 0, 3), (6, 2, 0), (6, 0, 0), (6, 2, 3)])
def test_one_of_two_extents_is_0(shape: tuple[int, ...]) -> None:
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    a = te.placeholder((6, n, m), "float32", name="A")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, m), "l")
    most = te.compute((6,), lambda i: te.max(a[i, k, l], axis=[k, l]), "most")
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    found = np.full(6, 77, "float32")
    build(te.create_prim_func([a, most]))["main"](values, found)
    np.testing.assert_array_equal(found, values.max((1, 2), initial=-np.inf))


def test_an_extent_that_is_a_number_needs_nothing() -> None:
    a = te.placeholder((6, 5), "float32", name="A")
    k = te.reduce_axis((0, 5), "k")
    func = te.create_prim_func([a, te.compute((6,), lambda i: te.max(a[i, k], axis=k), "B")])
    assert identities_beside_loops(func.body) == {}


GUARDED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32"), n: T.int32, m: T.int32):
{lines}
"""


def guarded(*steps: str, extent: str = "n", where: str = "") -> tir.PrimFunc:
    """A sum of A under loops, lets and guards, the first of them outermost."""
    lines = [
        *steps,
        'with T.block("C"):',
        f"    vk = T.axis.reduce({extent}, k)",
        *([f"    T.where({where})"] if where else []),
        "    with T.init():",
        "        C[0] = T.float32(0)",
        "    C[0] = C[0] + A[vk]",
    ]
    text = "\n".join("    " * (1 + min(place, len(steps))) + line for place, line in enumerate(lines))
    func = from_source(GUARDED.format(lines=text))
    assert isinstance(func, tir.PrimFunc)
    return func


@pytest.mark.parametrize("name", ["Simplify", "SimplifyIndices"])
@pytest.mark.parametrize(
    "func",
    [
        guarded("for k in range(n):", "if n > 0:"),
        guarded("for k in range(n):", "if k < n:", "if n > 0:"),
        guarded("for k in range(n):", "if k < n and n > 0:"),
        guarded("for k in range(n):", "if k < n:", where="n > 0"),
        guarded("for k in range(n):", "if n > k:"),
        guarded("for k in range(T.min(n, 4)):", "if (m * 4 + k) // 4 > 2:", extent="T.min(n, 4)"),
        guarded("for k in range(T.min(n, 4)):", extent="T.min(n, 4)", where="(m * 4 + k) // 4 > 2"),
        guarded("for k in range(T.min(n, 4)):", "if k > 5:", extent="T.min(n, 4)"),
        guarded("for k in range(T.min(n, 4)):", "for j in range((m * 4 + k) // 4):", extent="T.min(n, 4)"),
        guarded("for k in range(1):", "if k < n:"),
        guarded("for k in range(8):", "if k < n:"),
    ],
)
def test_conditions_around_a_reduction_over_nothing_say_what_they_said(func: tir.PrimFunc, name: str) -> None:
    """In an iteration they are known to hold, or depend on less: where there is no iteration, they do not."""
    after = getattr(tir.transform, name)()(IRModule({"main": func}))["main"]
    for n, m in [(0, 0), (0, 1), (0, 3), (1, 3), (3, 3), (3, 0), (-1, 2)]:
        found = []
        for version in (func, after):
            c = np.full((1,), 7, "float32")
            run(version, np.arange(1, 9, dtype="float32"), c, n, m)
            found.append(c)
        np.testing.assert_array_equal(*found, err_msg=f"n = {n}, m = {m}")


@pytest.mark.meaning("reduce-empty")
def test_where_the_rows_depend_on_the_reduction_there_is_nothing_to_initialize() -> None:
    func = from_source(
        """@T.prim_func
def main(a: T.handle, C: T.Buffer((4,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (4, n), "int32")
    for k in range(n):
        for i in range(k + 1):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(n, k)
                with T.init():
                    C[vi] = 5
                C[vi] = C[vi] + A[vi, vk]
"""
    )
    assert isinstance(func, tir.PrimFunc)
    assert identities_beside_loops(func.body) == {}
    for call in (partial(run, func), build(func)["main"]):
        c = np.full(4, -9, "int32")
        call(np.zeros((4, 0), "int32"), c)
        assert c.tolist() == [-9] * 4


def test_the_identity_states_what_the_init_reads_where_the_block_reads_more() -> None:
    """The block reads A at places of the reduction and at one of the init: its region of A names the reduction's variable."""
    main = from_source(
        """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
    for k in range(n):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(n, k)
                T.reads(A[T.min(vi, vk):8])
                T.writes(B[vi])
                with T.init():
                    B[vi] = A[vi + 4]
                B[vi] = T.max(B[vi], A[vk])
"""
    )
    lowered = LowerInitBlock()(IRModule({"main": main}))["main"]
    for extent, expected in ((0, [4, 5, 6, 7]), (3, [4, 5, 6, 7])):
        result = np.zeros(4, "int32")
        run(lowered, np.arange(8, dtype="int32"), result, extent)
        np.testing.assert_array_equal(result, expected)


def test_the_identity_has_memory_that_the_init_knows_by_a_view_alone() -> None:
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
    for i, k in T.grid(4, n):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi])
            T.writes(B[vi])
            memory = T.alloc_buffer((2,), "int32")
            view = T.match_buffer(memory[1], (1,), "int32", offset_factor=1)
            with T.init():
                view[0] = A[vi] * 2
                B[vi] = view[0]
            B[vi] = B[vi] + vk + 1
"""
    )
    array = np.arange(4, dtype="int32")
    for n in (0, 2):
        expected, found = (np.full(4, -1, "int32") for _ in range(2))
        run(func, array, expected, n)
        build(func, "cpu")["main"](array, found, n)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found, array * 2 + n * (n + 1) // 2)
