"""Which loops may run in any order: proved from what their iterations touch, refused otherwise."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir import ForKind
from schedules import Schedule, ScheduleError
from schedules.random_variable import LoopRV


def schedule(body: str, buffers: str = "") -> Schedule:
    """A function over A and B of (8, 6), C of (8, 6) and I of (8,), with blocks as given."""
    lines = ["    " + line for line in (buffers + body).strip("\n").splitlines()]
    header = "A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6)), I: T.Buffer((8,), 'int32')"
    text = "\n".join(
        ["@T.prim_func", f"def main({header}):", "    T.func_attr({'tir.noalias': True})", *lines]
    )
    return Schedule(from_source(text + "\n"), error_render_level="none")


def stored(place: str, value: str = "A[vi, vj]") -> str:
    """One block that stores to B."""
    return f"""
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[{place}] = {value}
"""


def run(sch: Schedule, block: str, position: int, primitive: str) -> None:
    loop = sch.get_loops(block)[position]
    getattr(sch, primitive)(loop)
    kind = {"parallel": ForKind.PARALLEL, "vectorize": ForKind.VECTORIZED}[primitive]
    assert sch.get(loop).kind == kind


both = pytest.mark.parametrize("primitive", ["parallel", "vectorize"])


@both
@pytest.mark.parametrize(
    ("place", "loop"),
    [("vi, vj", 0), ("vi, vj", 1), ("7 - vi, vj", 0), ("vi, 5 - vj", 1), ("vi // 2 * 2 + vi % 2, vj", 0)],
)
def test_iterations_that_write_elements_of_their_own(primitive: str, place: str, loop: int) -> None:
    run(schedule(stored(place)), "B", loop, primitive)


@both
@pytest.mark.parametrize(
    ("place", "loop"), [("vi // 2, vj", 0), ("0, vj", 0), ("vi % 4, vj", 0), ("vi, vj // 2", 1), ("vi, 0", 1)]
)
def test_iterations_that_write_one_element(primitive: str, place: str, loop: int) -> None:
    sch = schedule(stored(place))
    with pytest.raises(ScheduleError, match=r"one iteration of loop '[ij]' may write to B"):
        run(sch, "B", loop, primitive)
    run(sch, "B", 1 - loop, primitive)


@both
def test_stores_at_places_that_data_says(primitive: str) -> None:
    sch = schedule(
        """
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(I[vi], A[vi, vj])
        T.writes(B[0:8, vj])
        B[I[vi], vj] = A[vi, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        run(sch, "B", 0, primitive)
    run(sch, "B", 1, primitive)


TWO = """
for i in range(8):
    for j in range(6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[ROW, vj]
"""


@both
@pytest.mark.parametrize("row", ["7 - vi", "T.max(vi - 1, 0)", "0", "(vi + 1) % 8"])
def test_a_block_that_reads_what_other_iterations_write(primitive: str, row: str) -> None:
    with pytest.raises(ScheduleError, match="what block 'C' reads in another"):
        run(schedule(TWO.replace("ROW", row)), "C", 0, primitive)


@both
def test_a_block_that_reads_what_its_iteration_writes(primitive: str) -> None:
    run(schedule(TWO.replace("ROW", "vi")), "C", 0, primitive)


@both
def test_a_buffer_that_every_iteration_fills_is_its_own(primitive: str) -> None:
    """Neighbouring rows overlap; each iteration computes all three that it reads."""
    sch = schedule(
        """
for i, j in T.grid(10, 6):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1, vj], 0.0)
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = P[vi, vj] + P[vi + 1, vj] + P[vi + 2, vj]
""",
        "P = T.alloc_buffer((10, 6))\n",
    )
    loop = sch.get_loops("C")[0]
    sch.compute_at("P", loop)
    run(sch, "C", 0, primitive)


@both
def test_a_buffer_that_is_read_after_the_loop_belongs_to_no_iteration(primitive: str) -> None:
    text = """
P = T.alloc_buffer((1, 6))
for i in range(8):
    for j in range(6):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[0, vj] = A[vi, vj]
    for j in range(6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = P[0, vj]
"""
    run(schedule(text), "C", 0, primitive)
    after = """
for j in range(6):
    with T.block("D"):
        vj = T.axis.spatial(6, j)
        B[0, vj] = P[0, vj]
"""
    with pytest.raises(ScheduleError, match="may write to P"):
        run(schedule(text + after), "C", 0, primitive)


@both
def test_blocks_without_variables_count_as_well(primitive: str) -> None:
    text = """
for i, j in T.grid(8, 6):
    with T.block("B"):
        T.reads(A[i, j])
        T.writes(B[PLACE])
        B[PLACE] = A[i, j]
"""
    run(schedule(text.replace("PLACE", "i, j")), "B", 0, primitive)
    with pytest.raises(ScheduleError, match="may write to B"):
        run(schedule(text.replace("PLACE", "i // 2, j")), "B", 0, primitive)


@both
def test_stores_beside_blocks(primitive: str) -> None:
    sch = schedule(
        """
for i in range(8):
    C[0, 0] = A[i, 0]
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = A[vi, 0]
"""
    )
    with pytest.raises(ScheduleError, match="stores that are in no block"):
        run(sch, "B", 0, primitive)


def test_a_loop_that_repeats_a_block() -> None:
    sch = schedule(
        """
for r, i, j in T.grid(3, 8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        sch.parallel(sch.get_loops("B")[0])


def test_a_loop_with_a_fused_split() -> None:
    sch = schedule(stored("vi, vj"))
    fused = sch.fuse(*sch.get_loops("B"))
    outer, inner = sch.split(fused, [None, 7])
    sch.parallel(outer)
    sch.vectorize(inner)


def test_thread_blocks_may_not_conflict() -> None:
    sch = schedule(stored("vi // 2, vj"))
    with pytest.raises(ScheduleError, match="bind: one iteration of loop 'i' may write to B"):
        sch.bind(sch.get_loops("B")[0], "blockIdx.x")


@both
def test_bindings_that_reach_a_number_twice(primitive: str) -> None:
    """``i * 2 + j`` reaches all of 0 to 4 with three j, and 2 from two i."""
    sch = schedule(
        """
for i, j in T.grid(2, 3):
    with T.block("B"):
        v = T.axis.spatial(8, i * 2 + j)
        vj = T.axis.spatial(6, 0)
        B[v, vj] = A[v, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        run(sch, "B", 0, primitive)
    run(sch, "B", 1, primitive)


SYMBOLIC = """@T.prim_func
def main(n: T.int32, a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (n * 8,))
    B = T.match_buffer(b, (n * 8,))
    for i, j in T.grid(n, WIDTH):
        with T.block("B"):
            v = T.axis.spatial(n * 8, PLACE)
            B[v] = A[v]
"""


@pytest.mark.parametrize(
    ("place", "width", "is_right"), [("i * 8 + j", 8, True), ("i * 4 + j", 8, False), ("i + j", 4, False)]
)
def test_symbolic_extents_are_no_excuse(place: str, width: int, is_right: bool) -> None:
    sch = Schedule(
        from_source(SYMBOLIC.replace("PLACE", place).replace("WIDTH", str(width))), error_render_level="none"
    )
    outer, inner = sch.get_loops("B")
    if is_right:
        sch.parallel(outer)
        sch.vectorize(inner)
    else:
        with pytest.raises(ScheduleError, match="may write to B"):
            sch.parallel(outer)


@pytest.mark.parametrize("rows", [20, 2_000_000])
def test_digits_of_a_fused_loop_that_is_split_again(rows: int) -> None:
    """Both where all iterations can be counted, and where they cannot: also backwards, and with a rest."""
    text = f"""@T.prim_func
def main(A: T.Buffer(({rows}, 3)), B: T.Buffer(({rows}, 3))):
    for i, j in T.grid({rows}, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[{rows - 1} - vi, vj] = A[vi, vj]
"""
    sch = Schedule(from_source(text), error_render_level="none")
    outer, inner = sch.split(sch.fuse(*sch.get_loops("B")), [None, 64 if rows > 64 else 8])
    sch.bind(outer, "blockIdx.x")
    sch.vectorize(inner)


# -- threads -----------------------------------------------------------------------
def handed_over(scope: str) -> Schedule:
    """Every iteration writes an element, and reads that of its neighbour."""
    return schedule(
        """
for i in range(8):
    with T.block("P"):
        vi = T.axis.spatial(8, i)
        P[vi] = A[vi, 0]
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = P[(vi + 1) % 8]
""",
        f"P = T.alloc_buffer((8,), scope='{scope}')\n",
    )


@pytest.mark.parametrize("axis", ["threadIdx.x", "vthread.x", "blockIdx.x"])
def test_threads_that_write_one_element(axis: str) -> None:
    sch = schedule(stored("vi // 2, vj"))
    with pytest.raises(ScheduleError, match="bind: one iteration of loop 'i' may write to B"):
        sch.bind(sch.get_loops("B")[0], axis)
    sch.bind(sch.get_loops("B")[1], axis)


@pytest.mark.parametrize(
    ("scope", "axis", "is_right"),
    [
        ("shared", "threadIdx.x", True),
        ("shared", "blockIdx.x", False),
        ("global", "threadIdx.x", False),
        ("local", "threadIdx.x", False),
    ],
)
@pytest.mark.meaning("thread")
def test_what_threads_hand_over_lies_in_shared_memory(scope: str, axis: str, is_right: bool) -> None:
    sch = handed_over(scope)
    (loop,) = sch.get_loops("B")
    if is_right:
        sch.bind(loop, axis)
    else:
        with pytest.raises(
            ScheduleError, match="may write to P, in block 'P', what block 'B' reads in another"
        ):
            sch.bind(loop, axis)


def test_threads_share_a_reduction() -> None:
    sch = schedule(
        """
for i, k in T.grid(8, 6):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + A[vi, vk]
"""
    )
    outer, inner = sch.get_loops("B")
    with pytest.raises(ScheduleError, match="reduction"):
        sch.bind(inner, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.bind(outer, "blockIdx.x")


@pytest.mark.parametrize("factor", [2, 4])
def test_an_instance_that_runs_twice_is_no_element_of_its_own(factor: int) -> None:
    """A copy of one row, for every row: its bindings take all values of its variable, but several times."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((2,)), B: T.Buffer((2,))):
    T.func_attr({{"tir.noalias": True}})
    for o, i in T.grid(4, {factor}):
        with T.block("B"):
            vj = T.axis.spatial(2, (o * {factor} + i) % 2)
            T.where(o * {factor} + i < {factor * 4 - 1})
            B[vj] = A[vj]
"""
    )
    sch = Schedule(func, error_render_level="none")
    with pytest.raises(ScheduleError, match="may write to B"):
        sch.parallel(sch.get_loops("B")[0])


# -- what is around blocks ---------------------------------------------------------
AROUND = {
    "condition": "if B[i, 0] > 0.0:\n    BLOCK",
    "predicate": "BLOCK\n    T.where(B[i, 0] > 0.0)",
    "bound": "for k in range(T.Cast('int32', B[i, 0])):\n    BLOCK",
    "let": "x: T.int32 = T.Cast('int32', B[i, 0])\nBLOCK\n    vx = T.axis.spatial(8, x)",
    "binding": "BLOCK\n    vx = T.axis.spatial(8, T.Cast('int32', B[i, 0]))",
    "while": "while B[i, 0] > 0.0:\n    BLOCK",
}


def surrounded(around: str, stored: str) -> Schedule:
    """A block that stores to B, and what is around it loads from B."""
    indent = "    " if "\n    BLOCK" in around else ""
    before, after = around.split("BLOCK")
    block = [
        "with T.block('B'):",
        f"{indent}    vi = T.axis.spatial(7, i)",
        f"{indent}    vj = T.axis.spatial(6, j)",
    ]
    lines = [
        before + "\n".join(block) + after,
        f"{indent}    T.reads()\n{indent}    T.writes(B[{stored}, vj])",
    ]
    lines.append(f"{indent}    B[{stored}, vj] = T.float32(1)")
    body = ["    " * 2 + line for text in lines for line in text.splitlines()]
    return schedule("\n".join(["for i in range(7):", "    for j in range(6):", *body]))


@both
@pytest.mark.parametrize("around", list(AROUND))
def test_what_is_around_a_block_reads_too(primitive: str, around: str) -> None:
    sch = surrounded(AROUND[around], "vi + 1")
    with pytest.raises(ScheduleError, match="what a condition or an index around block 'B' reads in another"):
        run(sch, "B", 0, primitive)
    run(surrounded(AROUND[around], "vi"), "B", 0, primitive)


def test_instances_that_decide_of_each_other_keep_their_order() -> None:
    """Whether an instance runs depends on what the one before it has written."""
    sch = surrounded(AROUND["predicate"], "vi + 1")
    with pytest.raises(ScheduleError, match="reorder: one iteration of loop"):
        sch.reorder(*sch.get_loops("B")[::-1])


@both
@pytest.mark.parametrize("let", ["", "x: T.int32 = K[0]\n"])
def test_an_index_that_the_loop_changes_may_be_any(primitive: str, let: str) -> None:
    """All iterations write the last row."""
    lines = """
for i in range(8):
    with T.block("K"):
        vi = T.axis.spatial(8, i)
        K[0] = 7 - vi
    LETwith T.block("B"):
        vi = T.axis.spatial(8, i)
        vk = T.axis.spatial(8, PLACE)
        T.writes(B[vi + vk, 0])
        B[vi + vk, 0] = A[vi, 0]
"""
    text = lines.replace("LET", let.replace("\n", "\n    ")).replace("PLACE", "x" if let else "K[0]")
    sch = schedule(text, "K = T.alloc_buffer((1,), 'int32')\n")
    with pytest.raises(ScheduleError, match="may write to B, in block 'B', what block 'B' writes"):
        run(sch, "B", 0, primitive)


@both
def test_an_index_that_nothing_changes_is_the_same_for_all_iterations(primitive: str) -> None:
    run(schedule(stored("vi * 2 // 2 + I[0] % 2 - I[0] % 2, vj + I[1] % 2")), "B", 0, primitive)


@both
def test_threads_of_a_launch_are_several(primitive: str) -> None:
    sch = schedule(
        """
for i in range(4):
    with T.launch_thread("threadIdx.x", 4) as tx:
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(4, tx)
            B[vi + vj, 0] = A[vi, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        run(sch, "B", 0, primitive)


@both
def test_a_reduction_that_reads_its_neighbour(primitive: str) -> None:
    sch = schedule(
        """
for i, k in T.grid(8, 6):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi, 0] = 0.0
        B[vi, 0] = B[vi, 0] + A[vi, vk] + B[T.max(vi - 1, 0), 0]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B, in block 'B', what block 'B' reads"):
        run(sch, "B", 0, primitive)


@both
@pytest.mark.parametrize("repeats", [1, 100_000])
def test_remainders_by_two_numbers_do_not_number_iterations(primitive: str, repeats: int) -> None:
    """``v % 4 + v % 3`` is 2 for both 2 and 9; 100,000 iterations are not counted."""
    sch = schedule(
        f"""
for k in range({repeats}):
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            vk = T.axis.spatial({repeats}, k)
            B[vi % 4 + vi % 3, 0] = A[vi % 8, 0] + T.Cast("float32", vk)
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        run(sch, "B", 1, primitive)


@pytest.mark.parametrize(
    ("place", "is_own"),
    [
        ("v // 6, v % 6", True),
        ("v // 6, v % 3", False),
        ("v // 6 + I[0] % 2, v % 6", True),
        ("v // (w + 1), v % (w + 1)", False),
    ],
)
def test_digits_that_tell_an_instance(place: str, is_own: bool) -> None:
    """Two indices are both digits of a number only to one base, which all instances have."""
    repeats = 2 if "w" in place else 1
    sch = schedule(
        f"""
for i, j, k in T.grid(6, 4, {repeats}):
    with T.block("B"):
        v = T.axis.spatial(24, i * 4 + j)
        w = T.axis.spatial({repeats}, k)
        T.writes(B[{place}])
        B[{place}] = A[v // 6, v % 6]
"""
    )
    outer, inner, _ = sch.get_loops("B")
    if is_own:
        sch.reorder(inner, outer)
    else:
        with pytest.raises(ScheduleError, match="reorder: one iteration of loop"):
            sch.reorder(inner, outer)


def test_a_stride_that_may_be_zero_keeps_all_iterations_at_one_element() -> None:
    func = from_source("""
@T.prim_func
def main(a: T.handle, B: T.Buffer((64,), "int32"), n: T.int32):
    A = T.match_buffer(a, (8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi * n] = A[vi]
""")
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="may write to B"):
        sch.parallel(sch.get_loops("B")[0])


ROWS_OF_SUMS = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m, 16), "float32")
    C = T.match_buffer(c, (n, m), "float32")
    for i, j, l in T.grid(n, m, 16):
        with T.block("C"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[PLACE] = T.float32(0)
            C[PLACE] = C[PLACE] + A[vi, vj, vl]
"""


def fused_rows(sch: Schedule, *, tiled: bool) -> LoopRV:
    rows, columns, _ = sch.get_loops("C")
    if tiled:
        rows, row = sch.split(rows, [None, 4])
        columns, column = sch.split(columns, [None, 8])
        sch.reorder(rows, columns, row, column)
    return sch.fuse(rows, columns)


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("place", ["vi, vj", "vj, vi", "vi * 2, vj"])
def test_elements_tell_the_digits_of_a_fused_loop(tiled: bool, place: str) -> None:
    sch = Schedule(from_source(ROWS_OF_SUMS.replace("PLACE", place)))
    sch.parallel(fused_rows(sch, tiled=tiled))


@pytest.mark.parametrize("place", ["vi, vi", "vi, 0", "vi, vj // 2", "vi + vj, vj // 2"])
def test_elements_that_tell_only_one_digit(place: str) -> None:
    sch = Schedule(from_source(ROWS_OF_SUMS.replace("PLACE", place)), error_render_level="none")
    with pytest.raises(ScheduleError, match="may write to C"):
        sch.parallel(fused_rows(sch, tiled=False))


def test_elements_tell_three_digits() -> None:
    program = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    m = T.int32()
    p = T.int32()
    A = T.match_buffer(a, (n, m, p, 16), "float32")
    C = T.match_buffer(c, (n, m, p), "float32")
    for i, j, k, l in T.grid(n, m, p, 16):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SSSR", [i, j, k, l])
            with T.init():
                C[vi, vj, vk] = T.float32(0)
            C[vi, vj, vk] = C[vi, vj, vk] + A[vi, vj, vk, vl]
"""
    sch = Schedule(from_source(program))
    sch.parallel(sch.fuse(*sch.get_loops("C")[:3]))
