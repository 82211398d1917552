"""Reductions: their order is free, they begin with their identity, and NaN comes through."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import IRModule, te, tir, topi
from ir.dtype import to_numpy
from ir.script import from_source
from ir.tir import transform
from ir.tir.interpreter import InterpreterError, run

from .running import executors, holds, script


def reduction(combine: Any, length: int, dtype: str, rows: int = 3) -> tir.PrimFunc:
    """Each row of an array reduced."""
    a = te.placeholder((rows, length), dtype, name="A")
    k = te.reduce_axis((0, length), name="k")
    return te.create_prim_func([a, te.compute((rows,), lambda i: combine(a[i, k], axis=k), name="B")])


@pytest.mark.meaning("reduce-order")
def test_integers_do_not_depend_on_the_order() -> None:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 100), dtype="int32")
    with np.errstate(all="ignore"):
        holds(reduction(te.sum, 100, "int32"), [a, np.zeros(3, "int32")], {1: a.sum(1, dtype="int32")})


@pytest.mark.meaning("reduce-order")
def test_floats_are_within_the_error_of_some_order() -> None:
    a = np.random.default_rng(0).normal(size=(3, 1000)).astype("float32")
    bound = 1000 * 2.0**-24 * np.abs(a.astype("float64")).sum(1)
    for name, execute in executors(reduction(te.sum, 1000, "float32")):
        out = np.zeros(3, "float32")
        execute(a, out)
        assert np.all(np.abs(out - a.astype("float64").sum(1)) <= bound), name


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("length", [4, 13, 64])
def test_no_factor_is_taken_out_of_a_sum(length: int) -> None:
    a, w = te.placeholder((3, length), "float32", name="A"), te.placeholder((2,), "float32", name="W")
    k = te.reduce_axis((0, length), name="k")
    func = te.create_prim_func(
        [a, w, te.compute((3, 2), lambda i, j: te.sum(a[i, k] * w[j], axis=k), name="C")]
    )
    values = np.ones((3, length), "float32")
    values[:, 0], values[1, 1], values[2, 1] = 2, -1, 0
    expected = np.array([[np.inf, length + 1], [np.nan, length - 1], [np.nan, length]], "float32")
    holds(func, [values, np.array([np.inf, 1], "float32"), np.zeros((3, 2), "float32")], {2: expected})


_IDENTITIES = [
    (te.max, "float32", -np.inf), (te.min, "float32", np.inf), (te.max, "float16", -np.inf), (te.min, "float64", np.inf),
    (te.max, "int8", -128), (te.min, "int8", 127), (te.max, "int32", -(2**31)), (te.min, "int64", 2**63 - 1),
    (te.max, "uint8", 0), (te.min, "uint8", 255), (te.min, "uint64", 2**64 - 1), (te.sum, "float32", 0), (te.sum, "int32", 0),
]  # fmt: skip


@pytest.mark.meaning("reduce-identity", "reduce-empty")
@pytest.mark.parametrize(
    "combine, dtype, identity", _IDENTITIES, ids=lambda item: getattr(item, "__name__", str(item))
)
def test_a_reduction_over_nothing_is_its_identity(combine: Any, dtype: str, identity: Any) -> None:
    empty, out = np.zeros((3, 0), to_numpy(dtype)), np.ones(3, to_numpy(dtype))
    holds(reduction(combine, 0, dtype), [empty, out], {1: np.full(3, identity, to_numpy(dtype))})


@pytest.mark.meaning("reduce-identity")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_a_maximum_of_infinities(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    low, high = np.full((3, 20), -np.inf).astype(kind), np.full((3, 20), np.inf).astype(kind)
    holds(reduction(te.max, 20, dtype), [low, np.zeros(3, kind)], {1: low[:, 0]})
    holds(reduction(te.min, 20, dtype), [high, np.zeros(3, kind)], {1: high[:, 0]})


@pytest.mark.meaning("reduce-identity")
def test_a_maximum_of_the_smallest_integers() -> None:
    for dtype in ("int8", "int32", "int64", "uint8"):
        info = np.iinfo(dtype)
        holds(
            reduction(te.max, 20, dtype),
            [np.full((3, 20), info.min, dtype), np.zeros(3, dtype)],
            {1: np.full(3, info.min, dtype)},
        )
        holds(
            reduction(te.min, 20, dtype),
            [np.full((3, 20), info.max, dtype), np.zeros(3, dtype)],
            {1: np.full(3, info.max, dtype)},
        )


@pytest.mark.meaning("reduce-nan")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("place", [0, 7, 19])
def test_nan_comes_through(place: int, dtype: str) -> None:
    a = np.random.default_rng(0).normal(size=(3, 20)).astype(dtype)
    a[1, place] = np.nan
    holds(reduction(te.max, 20, dtype), [a, np.zeros(3, dtype)], {1: a.max(1)})
    holds(reduction(te.min, 20, dtype), [a, np.zeros(3, dtype)], {1: a.min(1)})


@pytest.mark.meaning("argmax")
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax(name: str) -> None:
    """The first NaN, else the first extremum, of rows of infinities too."""
    rows = np.array(
        [
            [1, 5, 2, 5, 0, -3], [np.nan, 5, 2, 5, 0, np.nan], [1, 5, np.nan, 9, np.nan, 0], [-np.inf] * 6, [np.inf] * 6,
            [0.0, -0.0, 0.0, -0.0, 0.0, 0.0], [-np.inf, np.nan, np.inf, 1, 2, 3], [3, 3, 3, 3, 3, 3], [5, -np.inf, -np.inf, 6, 6, 1],
        ],
        "float32",
    )  # fmt: skip
    a = te.placeholder(rows.shape, "float32", name="A")
    func = te.create_prim_func([a, getattr(topi, name)(a, axis=1)])
    dtype = func.buffer_map[func.params[1]].dtype
    expected = getattr(np, name)(rows, axis=1).astype(dtype)
    holds(func, [rows, np.zeros(len(rows), dtype)], {1: expected})


def _rows(length: Any, *lines: str, header: tuple[str, ...] = ()) -> tir.PrimFunc:
    """A function of A (5 rows of ``length`` numbers, which is n or a number), N (numbers for loads) and B (5 numbers)."""
    extent = "n" if length == "n" else length
    return from_source(
        "\n".join(
            [
                "@T.prim_func",
                'def main(a: T.handle, N: T.Buffer((5,), "int32"), B: T.Buffer((5,), "float32")):',
                "    n = T.int32()",
                f"    A = T.match_buffer(a, (5, {extent}))",
                *("    " + line for line in (*header, *lines)),
            ]
        )
    )


_SUM = (
    'with T.block("sum"):',
    '    vi, vk = T.axis.remap("SR", [i, k])',
    "    with T.init():",
    "        B[vi] = T.float32(0)",
    "    B[vi] = B[vi] + A[vi, vk]",
)
_PREDICATED = (
    'with T.block("sum"):',
    "    vi = T.axis.spatial(5, i0 * 4 + i1)",
    "    vk = T.axis.reduce(EXTENT, k0 * 4 + k1)",
    "    T.where(i0 * 4 + i1 < 5 and k0 * 4 + k1 < EXTENT)",
    *_SUM[2:],
)


def _nested(*loops: str, body: tuple[str, ...] = _SUM) -> tuple[str, ...]:
    lines = ["    " * depth + loop for depth, loop in enumerate(loops)]
    return (*lines, *("    " * len(loops) + line for line in body))


_NESTS = {
    "rows outside": _nested("for i, k in T.grid(5, EXTENT):"),
    "rows inside": _nested("for k, i in T.grid(EXTENT, 5):"),
    "parallel rows": _nested("for i in T.parallel(5):", "for k in range(EXTENT):"),
    "vectorized rows outside": _nested("for i in T.vectorized(5):", "for k in range(EXTENT):"),
    "vectorized rows inside": _nested("for k in range(EXTENT):", "for i in T.vectorized(5):"),
    "unrolled rows": _nested("for i in T.unroll(5):", "for k in range(EXTENT):"),
    "tiles": _nested("for i0, k0, i1, k1 in T.grid(2, (EXTENT + 3) // 4, 4, 4):", body=_PREDICATED),
    "tiles, the reduction outside": _nested("for k0, i0, k1, i1 in T.grid((EXTENT + 3) // 4, 2, 4, 4):", body=_PREDICATED),
    "a bound index": _nested("for i, j in T.grid(5, EXTENT):", "with T.LetStmt(j) as k:", body=(
        _SUM[0], "    vi = T.axis.spatial(5, i)", "    vk = T.axis.reduce(EXTENT, k)", *_SUM[2:],
    )),
}  # fmt: skip


@pytest.mark.meaning("reduce-empty", "block")
@pytest.mark.parametrize("length", [0, "n"])
@pytest.mark.parametrize("nest", list(_NESTS))
def test_a_block_over_nothing_leaves_what_its_init_says(nest: str, length: Any) -> None:
    func = _rows(length, *(line.replace("EXTENT", str(length)) for line in _NESTS[nest]))
    for count in (0,) if length == 0 else (0, 1, 6):
        a = np.random.default_rng(0).integers(-9, 9, (5, count)).astype("float32")
        before = np.full(5, 77, "float32")
        holds(func, [a, np.zeros(5, "int32"), before], {2: a.sum(1)})


@pytest.mark.meaning("reduce-empty")
def test_two_reductions_of_which_one_is_over_nothing() -> None:
    func = script({"A": ((5, 4, 0), "float32"), "B": ((5,), "float32")},
        "for k, i, l in T.grid(4, 5, 0):",
        '    with T.block("sum"):',
        '        vi, vk, vl = T.axis.remap("SRR", [i, k, l])',
        "        with T.init():",
        "            B[vi] = T.float32(3)",
        "        B[vi] = B[vi] + A[vi, vk, vl]",
    )  # fmt: skip
    holds(func, [np.zeros((5, 4, 0), "float32"), np.full(5, 77, "float32")], {1: np.full(5, 3)})


@pytest.mark.meaning("reduce-empty")
def test_rows_of_unequal_lengths() -> None:
    """Each row's domain is its own: the empty ones are the identity."""
    func = _rows(
        9,
        "for i in range(5):",
        '    with T.block("row"):',
        "        vr = T.axis.spatial(5, i)",
        "        for k in range(N[vr]):",
        '            with T.block("sum"):',
        "                vi = T.axis.spatial(5, vr)",
        "                vk = T.axis.reduce(N[vr], k)",
        *("            " + line for line in _SUM[2:]),
    )
    a = np.random.default_rng(0).integers(-9, 9, (5, 9)).astype("float32")
    lengths = np.array([3, 0, 9, 0, 1], "int32")
    expected = [row[:length].sum() for row, length in zip(a, lengths)]
    holds(func, [a, lengths, np.full(5, 77, "float32")], {2: expected})


@pytest.mark.meaning("reduce-empty")
def test_what_guards_the_rows_guards_their_identity() -> None:
    for guarded in (
        _nested("for i, k in T.grid(5, n):", "if N[i] > 0:"),
        _nested("for i in range(5):", "if N[i] > 0:", "for k in range(n):"),
        (
            *("for k, i in T.grid(n, 5):", "    if N[i] <= 0:", "        T.evaluate(0)", "    else:"),
            *("        " + line for line in _SUM),
        ),
    ):
        func = _rows("n", *guarded)
        chosen = np.array([1, 0, 2, 0, -1], "int32")
        a = np.zeros((5, 0), "float32")
        holds(func, [a, chosen, np.full(5, 77, "float32")], {2: np.where(chosen > 0, 0, 77)})


@pytest.mark.meaning("reduce-empty", "index-mark")
@pytest.mark.parametrize("mark", ["", "T.likely", "T.ignore_loop_partition"])
@pytest.mark.parametrize("guard", ["where", "if"])
def test_clauses_that_do_not_mention_the_reduction_guard_its_identity_also_inside_of_a_mark(
    mark: str, guard: str
) -> None:
    condition = f"{mark}(k < 100 and i < 2)"
    below = [f"if {condition}:"] if guard == "if" else []
    where = [f"    T.where({condition})"] if guard == "where" else []
    body = (*_SUM[:2], *where, *_SUM[2:])
    func = _rows("n", *_nested("for i, k in T.grid(5, n):", *below, body=body))
    for count in (0, 3):
        a = np.random.default_rng(0).integers(-9, 9, (5, count)).astype("float32")
        expected = np.where(np.arange(5) < 2, a.sum(1), 77)
        holds(func, [a, np.zeros(5, "int32"), np.full(5, 77, "float32")], {2: expected})


@pytest.mark.meaning("reduce-empty", "block")
def test_loops_that_do_not_run_over_a_domain_that_is_not_empty_do_nothing() -> None:
    func = _rows(
        4,
        "for i in range(5):",
        "    for k in range(N[0]):",
        '        with T.block("sum"):',
        "            vi = T.axis.spatial(5, i)",
        "            vk = T.axis.reduce(4, k)",
        *("        " + line for line in _SUM[2:]),
    )
    a = np.ones((5, 4), "float32")
    holds(func, [a, np.zeros(5, "int32"), np.full(5, 77, "float32")], {})


@pytest.mark.meaning("reduce-empty")
def test_a_block_inside_of_a_block_that_does_not_run_does_nothing() -> None:
    func = _rows(
        "n",
        "for i, k0 in T.grid(5, n):",
        '    with T.block("outer"):',
        '        vi, vo = T.axis.remap("SR", [i, k0])',
        "        for k1 in range(1):",
        '            with T.block("sum"):',
        "                vk = T.axis.reduce(n, vo + k1)",
        "                with T.init():",
        "                    B[vi] = T.float32(0)",
        "                B[vi] = B[vi] + A[vi, vk]",
    )
    holds(func, [np.zeros((5, 0), "float32"), np.zeros(5, "int32"), np.full(5, 77, "float32")], {})


@pytest.mark.meaning("reduce-empty")
def test_an_init_that_reads() -> None:
    func = _rows("n", *_nested("for k, i in T.grid(n, 5):", body=(
        *_SUM[:3], '        B[vi] = T.Cast("float32", N[vi])', _SUM[4],
    )))  # fmt: skip
    start = np.arange(5, dtype="int32")
    holds(func, [np.zeros((5, 0), "float32"), start, np.full(5, 77, "float32")], {2: start.astype("float32")})


@pytest.mark.meaning("reduce-empty")
def test_unrolled_steps_of_which_there_are_none() -> None:
    func = _rows(0, *_nested("for k in T.unroll(0):", "for i in range(5):"))
    holds(
        func, [np.zeros((5, 0), "float32"), np.zeros(5, "int32"), np.full(5, 77, "float32")], {2: np.zeros(5)}
    )


@pytest.mark.meaning("reduce-empty")
@pytest.mark.parametrize("make", [
    transform.Simplify, transform.SimplifyIndices, transform.RemoveNoOp, transform.HoistIfThenElse, transform.LoopPartition,
    lambda: transform.UnrollLoop(auto_max_step=64, auto_max_extent=8), transform.LowerInitBlock, transform.ConvertSSA,
], ids=lambda make: getattr(make, "__name__", "UnrollLoop"))  # fmt: skip
@pytest.mark.parametrize("nest", ["rows outside", "rows inside", "tiles", "tiles, the reduction outside"])
def test_passes_keep_what_a_reduction_over_nothing_leaves(nest: str, make: Any) -> None:
    for extent in (0, "n"):
        func = _rows(extent, *(line.replace("EXTENT", str(extent)) for line in _NESTS[nest]))
        module = make()(IRModule({"main": func}))
        out = np.full(5, 77, "float32")
        run(module, np.zeros((5, 0), "float32"), np.zeros(5, "int32"), out)
        np.testing.assert_array_equal(out, np.zeros(5))


@pytest.mark.meaning("reduce-empty")
def test_an_init_over_nothing_is_bound_inside_of_its_domains_too() -> None:
    func = from_source("""
@T.prim_func
def main(B: T.Buffer((2,), "int32")):
    for k in range(0):
        with T.block("sum"):
            vi, vk = T.axis.spatial(1, 1), T.axis.reduce(0, k)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + vk
""")
    with pytest.raises(
        InterpreterError, match=r"variable vi of block sum is 1, outside of \[0, 1\) \[block\]"
    ):
        run(func, np.zeros(2, "int32"))
