"""What blocks are found to read and write, and the boxes of that at places around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir.script import from_source
from ir.tir.analysis.verify_well_formed import verify_well_formed
from ir.tir.interpreter import Interpreter, run
from schedules import Schedule, ScheduleError
from schedules.access import access_regions, box_touched
from schedules.affine import simplify_polynomial
from schedules.tree import BlockNode, loops_around

from .checks import assert_refused, assert_same_meaning

PROGRAM = """@T.prim_func
def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            BODY
"""


THREAD = """x = T.int32()
with T.attr(T.iter_var(x, None, "ThreadIndex", "threadIdx.x"), "thread_extent", 4):"""


def block_of(body: str) -> BlockNode:
    sch = Schedule(from_source(PROGRAM.replace("BODY", body.replace("\n", "\n            "))))
    return sch._block("C")


@pytest.mark.parametrize(
    ("body", "low", "extent"),
    [
        ("C[vi] = A[vi]", "vi", "1"),
        ("C[T.Ramp(vi * 8, 1, 4)] = A[T.Ramp(vi * 8, 2, 4)]", "vi * 8", "7"),
        ("C[T.Ramp(vi * 8, 1, 4)] = A[T.Ramp(vi * 8 + 6, -2, 4)]", "vi * 8", "7"),
        ("C[T.Ramp(vi * 8, 1, 4)] = A[T.Ramp(vi * 8, vi, 4)]", "0", "64"),
        ("for j in range(2, 5):\n    C[vi] = A[vi * 8 + j]", "vi * 8 + 2", "3"),
        ("x: T.int32 = vi * 2\nC[vi] = A[x + 1]", "vi * 2 + 1", "1"),
        (f"{THREAD}\n    C[vi] = A[vi * 8 + x]", "vi * 8", "4"),
        (
            f"{THREAD}\n    with T.block('inner'):\n        vx = T.axis.spatial(4, x)\n        C[vi] = A[vi * 8 + vx]",
            "vi * 8",
            "4",
        ),
    ],
)
def test_what_an_access_reaches(body: str, low: str, extent: str) -> None:
    reads, writes = access_regions(block_of(body), None)
    ((only,),) = [region.region for region in reads]
    assert (str(simplify_polynomial(only.min)), str(only.extent)) == (low, extent)
    assert [item.buffer.name for item in writes] == ["C"]


THREADS = """@T.prim_func
def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    DECLARED
    for i in range(4):
        NAME
            for j in range(2):
                with T.block("C"):
                    v = T.axis.spatial(64, INDEX)
                    C[v] = A[v]
"""


@pytest.mark.parametrize(
    ("name", "index", "low", "extent"),
    [
        ("if i < 4:", "i * 8 + j", "i * 8", "2"),
        ("with T.LetStmt(i * 8, var=x):", "x + j", "i * 8", "2"),
        (
            'with T.attr(T.iter_var(x, None, "ThreadIndex", "threadIdx.x"), "thread_extent", 4):',
            "x * 2 + j",
            "0",
            "64",
        ),
    ],
)
def test_a_box_is_said_in_names_of_its_place(name: str, index: str, low: str, extent: str) -> None:
    names = "x = T.int32()" if "x" in index else ""
    text = THREADS.replace("DECLARED", names).replace("NAME", name).replace("INDEX", index)
    block = Schedule(from_source(text))._block("C")
    outer, inner = loops_around(block)
    ((found_low, found_extent),) = box_touched(block, block.reads[0], [inner], outer)
    assert (str(found_low), str(found_extent)) == (low, extent)


VIEWS = """@T.prim_func
def main(C: T.Buffer((8,), "int32")):
    with T.block("outer"):
        T.reads(C[4])
        T.writes(C[2:6])
        V = T.match_buffer(C[2:6], (4,), "int32"{strides})
        {second}
        with T.block("inner"):
            T.reads({view}[2])
            T.writes({view}[0:4])
            for i in range(4):
                {view}[i] = {view}[2] + i
"""


@pytest.mark.parametrize("strides", ["", ', strides=("s",)'])
@pytest.mark.parametrize(
    ("second", "view"), [("pass", "V"), ('W = T.match_buffer(V[0:4], (4,), "int32")', "W")]
)
def test_copies_of_a_view_are_stated_of_what_it_shows(strides: str, second: str, view: str) -> None:
    """The copy reads all of the view, and the block that has it stated one element."""
    func = from_source(VIEWS.format(strides=strides, second=second, view=view))
    sch = Schedule(func)
    sch.cache_inplace("inner", 0, "global")
    assert_same_meaning(func, sch)


# -- inits that read, of reductions over nothing -----------------------------------
STEPS: dict[str, Callable[[Schedule], Any]] = {
    "compute_at": lambda sch: sch.compute_at("D", sch.get_loops("C")[0]),
    "split": lambda sch: sch.split(sch.get_loops("C")[1], [None, 2]),
    "loop_partition": lambda sch: sch.loop_partition(sch.get_loops("C")[0], [None, 3]),
    "cache_read": lambda sch: sch.cache_read("C", "D", "global"),
    "blockize": lambda sch: sch.blockize(sch.get_loops("C")[0]),
    "compute_inline": lambda sch: sch.compute_inline("D"),
    "scope": lambda sch: sch.set_scope("D", 0, "global"),
}


@pytest.mark.parametrize(
    "names",
    [
        "compute_at",
        "split compute_at",
        "loop_partition",
        "cache_read loop_partition",
        "loop_partition scope",
        "blockize compute_inline",
    ],
)
def test_an_init_that_runs_over_nothing_finds_what_it_reads(names: str) -> None:
    """The region of a reduction over k, while k has no values, has no ends: the row was made up to column -1."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((4, 9), "int32"), C: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
    D = T.alloc_buffer((4, 9), "int32")
    for i, j in T.grid(4, 9):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * 2
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = D[vi, m]
            C[vi] = C[vi] + D[vi, vk]
"""
    )
    sch = Schedule(func)
    for name in names.split():
        STEPS[name](sch)
    rows = np.arange(36, dtype="int32").reshape(4, 9)
    for n, m in [(0, 3), (0, 8), (2, 0), (2, 5), (9, 4)]:
        found = np.full(4, -1, "int32")
        Interpreter(sch.mod).call(sch.mod["main"], [rows, found, n, m])
        np.testing.assert_array_equal(found, 2 * (rows[:, m] + rows[:, :n].sum(1)))


ROWS = """
@T.prim_func
def main(A: T.Buffer((18,), "int32"), D: T.Buffer((18,), "int32"), C: T.Buffer((9,), "int32")):
    for j in range(9):
        with T.block("D"):
            vj = T.axis.spatial(18, j)
            D[vj] = A[vj] * 2
    for j in range(9):
        for k in range(0):
            with T.block("C"):
                vj, vk = T.axis.remap("SR", [j, k])
                T.reads(D[vj:vj + 4 * vk + 4])
                T.writes(C[vj])
                with T.init():
                    C[vj] = D[vj + 3]
                C[vj] = C[vj] + D[vj]
"""
IN_ONE_LOOP = ROWS.replace("    for j in range(9):\n        for k", "        for k")
IN_PLACE = ROWS.replace("C[", "D[").replace("spatial(18, j)", "spatial(18, j + 9)").replace("C: T", "E: T")


@pytest.mark.parametrize(
    ("text", "step", "legal"),
    [
        (ROWS, lambda sch: sch.merge(sch.get_loops("D")[0], sch.get_loops("C")[0]), False),
        (ROWS, lambda sch: sch.cache_write("D", 0, "global", ["C"]), False),
        (ROWS, lambda sch: sch.cache_read("C", 0, "global"), True),
        (IN_ONE_LOOP, lambda sch: sch.parallel(sch.get_loops("D")[0]), False),
        (IN_ONE_LOOP, lambda sch: sch.write_at(sch.get_loops("D")[0], "D", 0, "global"), False),
        (IN_PLACE, lambda sch: sch.cache_inplace("C", 0, "global"), True),
    ],
)
def test_what_an_init_reads_counts_beside_a_region_that_has_no_elements(
    text: str, step: Callable[[Schedule], Any], legal: bool
) -> None:
    """While ``k`` has no values, ``D[vj:vj + 4 * vk + 4]`` has none either: it lies in whatever is written, or copied."""
    func = from_source(text)
    sch = Schedule(func)
    if legal:
        step(sch)
        assert_same_meaning(func, sch)
    else:
        assert_refused(sch, lambda: step(sch))


MEMORY = {
    "a view of what it reads": (
        "V = T.match_buffer(D[vi, 0:9], (9,), 'int32', offset_factor=1)",
        "C[vi] = V[m]",
    ),
    "a view of what it writes": (
        "V = T.match_buffer(C[vi], (1,), 'int32', offset_factor=1)",
        "V[0] = D[vi, m]",
    ),
    "memory of its own": ("V = T.alloc_buffer((1,), 'int32')", "V[0] = D[vi, m]; C[vi] = V[0]"),
    "a view of memory of its own": (
        "W = T.alloc_buffer((2,), 'int32'); V = T.match_buffer(W[1], (1,), 'int32', offset_factor=1)",
        "V[0] = D[vi, m]; C[vi] = V[0]",
    ),
}
MOVES: dict[str, Callable[[Schedule, int], Any]] = {
    "blockize": lambda sch, depth: sch.blockize(sch.get_loops("C")[depth]),
    "decompose_reduction": lambda sch, depth: sch.decompose_reduction("C", sch.get_loops("C")[depth]),
    "compute_at": lambda sch, depth: sch.compute_at("D", sch.get_loops("C")[depth]),
    "read_at": lambda sch, depth: sch.read_at(sch.get_loops("C")[depth], "C", 0, "global"),
}


@pytest.mark.parametrize("extent", ["n", "2"])
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("depth", [0, 1])
def test_an_init_takes_its_memory_and_its_views_along(
    name: str, memory: str, depth: int, extent: str
) -> None:
    declared, init = MEMORY[memory]
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((4, 9), "int32"), C: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
    D = T.alloc_buffer((4, 9), "int32")
    for i, j in T.grid(4, 9):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * 2
    for i, k in T.grid(4, {extent}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(D[vi, 0:9])
            T.writes(C[vi])
            {declared}
            with T.init():
                {init}
            C[vi] = C[vi] + D[vi, vk]
"""
    )
    sch = Schedule(func)
    if depth and extent == "n" and name in ("compute_at", "read_at"):
        with pytest.raises(ScheduleError, match="the init of block 'C' reads D"):
            MOVES[name](sch, depth)
        return
    MOVES[name](sch, depth)
    verify_well_formed(sch.mod["main"])
    rows = np.arange(36, dtype="int32").reshape(4, 9)
    for n, m in [(0, 3), (2, 8)]:
        results = [np.full(4, -1, "int32") for _ in range(2)]
        for program, result in zip((func, sch.mod["main"]), results, strict=True):
            run(program, rows, result, n, m)
        np.testing.assert_array_equal(results[1], results[0])
