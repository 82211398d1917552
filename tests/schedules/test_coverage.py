"""Copies of buffers: made only of what a block surely writes."""

from __future__ import annotations

import numpy as np
import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError
from schedules.coverage import why_not_begun
from schedules.tree import scope_of
from tests.schedules.checks import assert_same_meaning, outputs_of

HEADER = """@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((16, 6)), C: T.Buffer((8, 6))):
    T.func_attr({"tir.noalias": True})
"""


def schedule(body: str) -> Schedule:
    lines = ["    " + line for line in body.strip("\n").splitlines()]
    return Schedule(from_source(HEADER + "\n".join(lines) + "\n"), error_render_level="none")


def stored(place: str, where: str = "", store: str = "B[PLACE] = A[vi, vj]") -> str:
    return f"""
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        {where or "T.reads(A[vi, vj])"}
        {store.replace("PLACE", place)}
"""


PARTIAL = [
    (stored("vi * 2, vj"), "not known to fill a box"),
    (stored("vi, vi % 6"), "not known to fill a box"),
    (stored("vi, vj", "T.where(j <= i)"), "runs only where"),
    (stored("vi, vj", store="if A[vi, vj] > 0.0: B[PLACE] = 1.0"), "under a condition"),
    (stored("vi, vj", store="while A[vi, vj] > 0.0: B[PLACE] = 1.0"), "under a condition"),
    (
        stored("vi, vj", "pass", "B[PLACE] = 1.0").replace("T.grid(8, 6)", "T.grid(8, 0)"),
        "without iterations",
    ),
    (stored("vj // 4, vj % 4"), "not known to fill a box"),  # six elements in two rows of four
    (stored("vi, vj", "T.where(False)"), "runs only where"),
]
STEPS = {
    "cache_write": lambda sch: sch.cache_write("B", 0, "global"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("B")[0], "B", 0, "global"),
}


@pytest.mark.parametrize(("body", "reason"), PARTIAL)
def test_elements_that_are_not_written_are_not_written_back(body: str, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        STEPS["cache_write"](schedule(body))


@pytest.mark.parametrize("primitive", ["reindex", "reindex_cache_write"])
def test_a_conditional_store_is_not_redirected(primitive: str) -> None:
    sch = schedule(PARTIAL[3][0])
    with pytest.raises(ScheduleError, match="under a condition"):
        if primitive == "reindex":
            sch.reindex("B", ("write", 0))
        else:
            sch.reindex_cache_write("B", 0, "global", lambda i, j: (i, j))


@pytest.mark.parametrize(
    "body", [stored("vi * 2, vj").replace("(8, 6)", "(6, 8)").replace("vi * 2, vj", "vi, vj * 2 % 6")]
)
def test_steps_within_one_iteration_of_a_loop(body: str) -> None:
    sch = schedule(
        body.replace("T.reads(A[vi, vj])", "T.reads(A[vi, vj % 6])").replace("= A[vi, vj]", "= A[vi, vj % 6]")
    )
    with pytest.raises(ScheduleError, match="write_at: .*not known to fill a box"):
        STEPS["write_at"](sch)


@pytest.mark.parametrize("primitive", list(STEPS))
@pytest.mark.parametrize("place", ["vi, vj", "vi + 3, vj", "15 - vi, vj", "vi, 5 - vj"])
def test_boxes_are_copied(primitive: str, place: str) -> None:
    sch = schedule(stored(place))
    before = sch.mod["main"]
    STEPS[primitive](sch)
    assert_same_meaning(before, sch.mod["main"])


@pytest.mark.parametrize("factor", [3, 4, 5])
def test_guards_of_uneven_loops_are_no_conditions(factor: int) -> None:
    sch = schedule(stored("vi, vj").replace("B[", "C["))
    before = sch.mod["main"]
    sch.split(sch.get_loops("B")[0], [None, factor])
    sch.cache_write("B", 0, "local")
    assert_same_meaning(before, sch.mod["main"])


@pytest.mark.parametrize("factor", [3, 5])
def test_guards_that_end_before_the_buffer_does(factor: int) -> None:
    """The copy would be cut at the end of B only, and take elements past the guard along."""
    sch = schedule(stored("vi, vj"))
    sch.split(sch.get_loops("B")[0], [None, factor])
    with pytest.raises(ScheduleError, match="runs only where"):
        sch.cache_write("B", 0, "local")


def test_what_nobody_wrote_is_not_read() -> None:
    body = """
P = T.alloc_buffer((16, 6))
for i, j in T.grid(8, 6):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi * 2, vj] = A[vi, vj]
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = P[vi * 2, vj]
"""
    with pytest.raises(ScheduleError, match="cache_read: .*not known to fill a box"):
        schedule(body).cache_read("C", 0, "local")


def test_a_triangle_is_no_box() -> None:
    body = """
for i in range(6):
    for j in range(6 - i):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(6, i + j)
            B[vi, vj] = A[vi, vj]
"""
    with pytest.raises(ScheduleError, match="not known to fill a box"):
        schedule(body).cache_write("B", 0, "global")


@pytest.mark.parametrize("bound", ["3", "r + 1", "3 - r"])
def test_a_reduction_that_does_not_begin_with_its_init_goes_on_with_what_was_there(bound: str) -> None:
    sch = schedule(
        f"""
for i, j, r in T.grid(8, 6, 3):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        vr = T.axis.reduce(4, {bound})
        with T.init():
            B[vi, vj] = 0.0
        B[vi, vj] = B[vi, vj] + A[vi, vr]
"""
    )
    with pytest.raises(ScheduleError, match="is not finished here"):
        sch.cache_write("B", 0, "local")


def test_loops_that_do_not_count_a_fused_number_up_come_late_to_the_init() -> None:
    """The numbers are 0, 2, 4 in the first iteration of i: the second element is updated before it is initialised."""
    sch = schedule(
        """
for i, j in T.grid(2, 3):
    with T.block("B"):
        vi = T.axis.spatial(3, (j * 2 + i) % 3)
        vr = T.axis.reduce(2, (j * 2 + i) // 3)
        with T.init():
            B[vi, 0] = 0.0
        B[vi, 0] = B[vi, 0] + A[vi, vr]
"""
    )
    with pytest.raises(ScheduleError, match="do not run in the order of its elements"):
        sch.cache_write("B", 0, "local")


@pytest.mark.parametrize("extent", ["3", "n"])
def test_one_loop_for_both_kinds_initialises_the_first_element_only(extent: str) -> None:
    sch = Schedule(
        from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i, k in T.grid({extent}, {extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            vr, vk = T.axis.remap("RR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vr, vk]
"""),
        error_render_level="none",
    )
    with pytest.raises(ScheduleError, match="is not finished here"):
        sch.cache_write("B", 0, "local")


FILLED = """
for i in range(2):
    with T.block("B"):
        vi = T.axis.spatial(2, i)
        T.where(WHERE)
        T.reads()
        T.writes(B[vi * 8:vi * 8 + ROWS, 0:6])
        T.evaluate(T.call_extern("int32", "fill", T.tvm_access_ptr(T.type_annotation("float32"), B.data, vi * 48, 48, 2)))
"""


@pytest.mark.parametrize(
    ("where", "rows", "reason"),
    [("True", 8, None), ("True", 5, "not known to fill a box"), ("i > 0", 8, "runs only where")],
)
def test_a_call_fills_what_its_block_states_where_that_runs(
    where: str, rows: int, reason: str | None
) -> None:
    sch = schedule(FILLED.replace("WHERE", where).replace("ROWS", str(rows)))
    if reason is None:
        sch.cache_write("B", 0, "global")
    else:
        with pytest.raises(ScheduleError, match=reason):
            sch.cache_write("B", 0, "global")


def _irregular(loop: str, begins: bool) -> Schedule:
    """Sums over the columns that an inner loop goes through, doubled; with or without reduction variable and init."""
    block = """
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
"""
    plain = """
            vi = T.axis.spatial(8, i)
            vk = T.axis.spatial(8, k)
            S[vi] = A[vi, 0]
"""
    return Schedule(
        from_source(
            f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), S: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
      for k in {loop}:
        with T.block("S"):
{block if begins else plain}
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = S[vi] * 2
"""
        )
    )


IRREGULAR_STEPS = {
    "cache_write": lambda sch: sch.cache_write("S", 0, "global"),
    "reindex": lambda sch: sch.reindex("S", ("write", 0)),
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("S")[0]),
}


@pytest.mark.parametrize("step", IRREGULAR_STEPS)
@pytest.mark.parametrize(
    "loop", ["range(i + 1)", "range(8 - i)", "range(T.min(i + 2, 8))", "range(i // 2 * 2 + 1)"]
)
def test_a_loop_that_no_index_mentions_leaves_a_box_a_box(loop: str, step: str) -> None:
    """It has iterations, whatever the others say."""
    sch = _irregular(loop, True)
    before = sch.mod["main"]
    IRREGULAR_STEPS[step](sch)
    assert_same_meaning(before, sch)


@pytest.mark.parametrize("loop", ["range(i)", "range(7 - i)", "range(i, 8 - i)"])
def test_a_loop_that_may_have_no_iterations_may_leave_elements_out(loop: str) -> None:
    for step in ("cache_write", "reindex"):
        with pytest.raises(ScheduleError, match="may have no iterations"):
            IRREGULAR_STEPS[step](_irregular(loop, False))


def test_loops_that_begin_where_others_say_are_no_rectangle() -> None:
    """A band of a matrix; where each element of a vector is another iteration of both loops, it is filled."""
    band = from_source(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i in range(4):
        for k in range(i, i + 4):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(8, k)
                B[vi, vk] = A[vi, vk]
"""
    )
    with pytest.raises(ScheduleError, match="not known to fill a box"):
        Schedule(band).cache_write("B", 0, "global")
    tiles = from_source(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(4):
        for k in range(i * 2, i * 2 + 2):
            with T.block("B"):
                vk = T.axis.spatial(8, k)
                B[vk] = A[vk, vk]
"""
    )
    sch = Schedule(tiles)
    sch.cache_write("B", 0, "global")
    assert_same_meaning(tiles, sch)


def test_an_inner_loop_of_a_copied_writer_has_iterations() -> None:
    """The reader stands in the same iteration: the loop outside stands still, and still its first iteration leaves B[0] out."""
    sch = Schedule(
        from_source(
            """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        for k in range(i):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi, vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * 2
"""
        )
    )
    with pytest.raises(ScheduleError, match="may have no iterations"):
        sch.cache_write("B", 0, "global")


UNKNOWN_FACTOR = """@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (4,))
    B = T.match_buffer(b, (16,))
    for o in range(1, 2):
        for i in range(4):
            with T.block("B"):
                vo, vi = T.axis.remap("SS", [o, i])
                B[PLACE] = A[vi]
"""


@pytest.mark.parametrize("primitive", STEPS)
@pytest.mark.parametrize("place", ["vi * n % 4", "vi * (vo + 1) % 4", "vi * (vo + 1)", "(vi + n) % 4"])
def test_a_factor_whose_value_is_not_known_leaves_gaps(primitive: str, place: str) -> None:
    """At 0 in its place, a factor would be gone, and a shift beyond the end of a remainder."""
    sch = Schedule(from_source(UNKNOWN_FACTOR.replace("PLACE", place)), error_render_level="none")
    with pytest.raises(ScheduleError, match="not known to fill a box"):
        STEPS[primitive](sch)


GUARDED = """@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32"), m: T.int32):
    for i, k in T.grid(4, 8):
        if ASKED:
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(GUARD)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(
    ("asked", "guard", "reason"),
    [
        ("i < m", "i < m", None),
        ("i < m", "k < 3", None),
        ("i < m", "k < m", "runs only where k < m, which may leave out its init"),
        ("i < m", "k + i < m", "which may leave out its init"),
        ("k < m", "i < m", "runs under a condition, which may leave out its init"),
    ],
)
def test_a_sum_begins_where_conditions_let_its_first_instance_run(
    asked: str, guard: str, reason: str | None
) -> None:
    block = Schedule(from_source(GUARDED.replace("ASKED", asked).replace("GUARD", guard)))._block("C")
    scope = scope_of(block)
    assert scope is not None
    found = why_not_begun(block, block.writes[0].buffer, scope)
    assert found is None if reason is None else reason in (found or "")


@pytest.mark.meaning("unwritten")
@pytest.mark.parametrize("at", [0, 1])
def test_a_copy_does_not_take_what_an_uneven_split_leaves_to_another_iteration(at: int) -> None:
    program = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), B: T.Buffer((24,), "int32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 6 + vj] = A[vi, vj]
"""
    sch = Schedule(from_source(program), error_render_level="none")
    outer, inner = sch.get_loops("B")
    copy = sch.write_at(outer, "B", 0, "global")
    sch.split(inner, [None, 4])
    loop = sch.get_loops("B")[at]
    with pytest.raises(ScheduleError, match="runs only where"):
        sch.cache_read(copy, 0, "global") if at == 0 else sch.write_at(loop, "B", 0, "global")


CALLED = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8)), n: T.int32):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            BODY
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
POINTER = 'T.tvm_access_ptr(T.type_annotation("float32"), B.data, vi * 8 + vj, 1, MASK)'
CALL = f'T.call_extern("int32", "fill", {POINTER})'.replace("MASK", "2")
FILL = f"T.evaluate({CALL})"
CALLED_STEPS = {
    **STEPS,
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
}
NO_WRITE = "no statement that is known to write"
CALLED_BODIES = {
    FILL: None,
    f"for k in range(vi + 1): {FILL}": None,
    f"T.evaluate({POINTER.replace('MASK', '2')})": NO_WRITE,
    FILL.replace(", 2)", ", 1)"): NO_WRITE,
    FILL.replace("call_extern", "call_pure_extern"): NO_WRITE,
    "T.evaluate(0)": NO_WRITE,
    f"if A[vi, vj] > 0.0: {FILL}": "under a condition",
    f"while A[vi, vj] > 0.0: {FILL}": "under a condition",
    f"T.evaluate(T.if_then_else(A[vi, vj] > 0.0, {CALL}, 0))": "under a condition",
    f'for k in range(T.Cast("int32", A[vi, vj])): {FILL}': "may have no iterations",
    f"for k in range(n): {FILL}": "may have no iterations",
    f"for k in range(vi): {FILL}": "may have no iterations",
    'for k in range(T.Cast("int32", A[vi, vj])): B[vi, vj] = 1.0': "may have no iterations",
    "for k in range(n): B[vi, vj] = 1.0": "may have no iterations",
    "for k in range(vi): B[vi, vj] = 1.0": "may have no iterations",
    "for k in range(vi + 1): B[vi, vj] = 1.0": None,
}


@pytest.mark.parametrize("step", CALLED_STEPS)
@pytest.mark.parametrize("body", CALLED_BODIES)
def test_only_what_surely_runs_writes(body: str, step: str) -> None:
    """A block may write what it states, and need not: a call that may not run, or none, fills nothing."""
    sch = Schedule(from_source(CALLED.replace("BODY", body)), error_render_level="none")
    reason = CALLED_BODIES[body]
    if reason is None:
        CALLED_STEPS[step](sch)
    else:
        with pytest.raises(ScheduleError, match=reason):
            CALLED_STEPS[step](sch)


NESTED_CALL = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((64,))):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi * 8:vi * 8 + 8])
            for k in range(4):
                with T.block("inner"):
                    vk = T.axis.spatial(4, k)
                    T.reads(A[vi])
                    T.writes(B[PLACE])
                    T.evaluate(T.call_extern("int32", "clear", B.access_ptr("rw", offset=vi * 8, extent=8)))
                    T.evaluate(T.call_extern("int32", "fill", B.access_ptr("w", offset=vi * 8, extent=8)))
"""


@pytest.mark.parametrize(
    ("place", "fills"),
    [("vi * 8 + vk * 2:vi * 8 + vk * 2 + 2", True), ("vi * 8 + vk * 2:vi * 8 + vk * 2 + 1", False)],
)
def test_calls_fill_what_the_innermost_block_states(place: str, fills: bool) -> None:
    sch = Schedule(from_source(NESTED_CALL.replace("PLACE", place)), error_render_level="none")
    if fills:
        sch.cache_write("B", 0, "global")
    else:
        with pytest.raises(ScheduleError, match="not known to fill a box"):
            sch.cache_write("B", 0, "global")


def test_a_triangle_in_a_block_is_no_box() -> None:
    sch = Schedule(
        from_source("""
@T.prim_func
def main(B: T.Buffer((8, 8), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.writes(B[vi, 0:vi + 1])
            for k in range(vi + 1):
                B[vi, k] = k
"""),
        error_render_level="none",
    )
    with pytest.raises(ScheduleError, match="not known to fill a box"):
        sch.cache_write("B", 0, "global")


SPREAD = """
@T.prim_func
def main(A: T.Buffer((64,)), B: T.Buffer((8,), "int32"), C: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(2, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[PLACE])
            STORE
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[B[vi]]
"""
NUMBER = 'T.evaluate(T.call_extern("int32", "number", B.access_ptr("w", offset=PLACE, extent=1)))'


@pytest.mark.parametrize("store", ["B[PLACE] = vi", NUMBER])
@pytest.mark.parametrize(
    ("place", "reason"), [("vi * 4 + vj", None), ("vj * 2 + vi", "not known to fill a box")]
)
def test_a_consumer_does_not_move_before_what_it_reads(store: str, place: str, reason: str | None) -> None:
    source = SPREAD.replace("STORE", store).replace("PLACE", place)
    sch = Schedule(from_source(source), error_render_level="none")
    if reason is None:
        sch.reverse_compute_at("C", sch.get_loops("B")[0])
    else:
        with pytest.raises(ScheduleError, match=reason):
            sch.reverse_compute_at("C", sch.get_loops("B")[0])


SYMBOLIC = """
@T.prim_func
def main(s: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    m = T.int32()
    S = T.match_buffer(s, (n, m), "int32")
    B = T.match_buffer(b, (EXTENT,), "int32")
    for i, j in T.grid(LOOPS):
        with T.block("B"):
            v = T.axis.spatial(EXTENT, INDEX)
            B[v] = v + 1
"""


@pytest.mark.parametrize(
    ("loops", "index", "extent", "is_box"),
    [
        ("n, 4", "i * 4 + j", "n * 4", True),
        ("4, n", "i * n + j", "n * 4", True),
        ("n, m", "i * m + j", "n * m", True),
        ("n, 4", "i + j", "n + 3", False),
        ("n, 4", "i * 2 + j", "n * 2 + 2", False),
    ],
)
def test_where_a_loop_has_no_iterations_its_box_has_no_elements(
    loops: str, index: str, extent: str, is_box: bool
) -> None:
    """Of ``i + j`` three would be left, which nobody wrote, and the copy would write them."""
    text = SYMBOLIC.replace("LOOPS", loops).replace("INDEX", index).replace("EXTENT", extent)
    sch = Schedule(from_source(text), error_render_level="none")
    before = sch.mod["main"]
    if not is_box:
        with pytest.raises(ScheduleError, match="may have no iterations"):
            sch.cache_write("B", 0, "global")
        return
    sch.cache_write("B", 0, "global")
    for n, m in ((0, 0), (0, 3), (2, 3)):
        arrays = [np.zeros((n, m), "int32"), np.full(eval(extent, {"n": n, "m": m}), 7, "int32")]
        (_, expected), (_, found) = outputs_of(before, arrays), outputs_of(sch.mod["main"], arrays)
        np.testing.assert_array_equal(found, expected)


def test_a_variable_of_one_value_takes_all_of_them_wherever_its_loop_is() -> None:
    text = """@T.prim_func
def main(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
    for o in range(1):
        for i, j in T.grid(2, 4):
            with T.block("B"):
                u = T.axis.spatial(1, o)
                v = T.axis.spatial(6, i * 4 + j)
                T.where(i * 4 + j < 6)
                B[v + u] = A[v]
"""
    sch = Schedule(from_source(text), error_render_level="none")
    before = sch.mod["main"]
    sch.write_at(sch.get_loops("B")[0], "B", 0, "global")
    assert_same_meaning(before, sch)


@pytest.mark.parametrize("loop", ["range(I[0], I[0] + 4)", "range(T.max(I[0], 1))"])
def test_a_loop_does_not_begin_or_end_where_changing_data_says(loop: str) -> None:
    """A copy behind all iterations would know the last value of I only."""
    text = f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), I: T.Buffer((1,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for o in range(2):
        with T.block("I"):
            vo = T.axis.spatial(2, o)
            I[0] = vo * 4
        for i in {loop}:
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
"""
    sch = Schedule(from_source(text), error_render_level="none")
    with pytest.raises(ScheduleError, match="which changes meanwhile"):
        sch.cache_write("B", 0, "global")


STRAIGHT_LINE = """
P = T.alloc_buffer((4, 3, 4, 2))
for i, j in T.grid(4, 3):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj])
        T.writes(P[vi, vj, 0:4, 0:2])
        STORES
for i, j in T.grid(16, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = P[vi // 4, vj // 2, vi % 4, vj % 2]
"""


def straight_line(places: list[tuple[int, int]]) -> Schedule:
    """A block that stores to some places of tiles of four rows and two columns, and one that reads the tiles."""
    stores = [f"P[vi, vj, {i}, {j}] = A[vi, vj] + T.float32({i})" for i, j in places]
    return schedule(STRAIGHT_LINE.replace("STORES", "\n        ".join(stores)))


ALL_PLACES = [(i, j) for i in range(4) for j in range(2)]


def test_straight_line_stores_that_fill_a_box_are_a_loop() -> None:
    sch = straight_line(ALL_PLACES)
    before = sch.mod["main"]
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert len(sch.get_loops("C")) == 3
    assert_same_meaning(before, sch)
    sch.cache_write("B", 0, "global")
    assert_same_meaning(before, sch)


@pytest.mark.parametrize("missing", [0, 3, 7])
def test_straight_line_stores_with_a_gap_fill_no_box(missing: int) -> None:
    sch = straight_line([place for number, place in enumerate(ALL_PLACES) if number != missing])
    with pytest.raises(ScheduleError, match="states that it writes more|several places"):
        sch.cache_write("B", 0, "global")
