"""Primitives that copy buffers: the copy holds what is read of it, and writes back nothing but what was computed.

Each program is one that a random schedule broke (``python -m experiments.fuzz schedules``), made as small as it would go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir.script import from_source
from ir.tir import interpreter
from schedules import Schedule, ScheduleError
from tests.schedules.checks import assert_refused, assert_replays, assert_same_meaning

Step = Callable[[Schedule], object]


def program(
    body: str, parameters: str = "A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6))"
) -> str:
    lines = ["    " + line for line in body.strip("\n").splitlines()]
    return f"@T.prim_func\ndef main({parameters}):\n" + "\n".join(lines) + "\n"


def schedule(text: str) -> Schedule:
    return Schedule(from_source(text), error_render_level="none")


def check_kept(text: str, step: Step) -> None:
    sch = schedule(text)
    step(sch)
    assert_same_meaning(from_source(text), sch)
    assert_replays(sch, from_source(text))


REVERSED_ROWS = program("""
for i in range(8):
    for j in range(6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for j in range(6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[7 - vi, vj]
""")


def test_cache_read_copies_what_consumers_read_and_not_only_what_was_written_last() -> None:
    """Four rows of B are read before they are overwritten."""
    check_kept(REVERSED_ROWS, lambda sch: sch.cache_read("C", 0, "local"))


def test_cache_write_keeps_consumers_that_read_more_on_the_buffer() -> None:
    sch = schedule(REVERSED_ROWS)
    assert_refused(sch, lambda: sch.cache_write("B", 0, "local", ["C"]), "cache_write", "reads more of B")
    check_kept(REVERSED_ROWS, lambda sch: sch.cache_write("B", 0, "local"))


BEFORE_AND_BEHIND = program("""
for i, j in T.grid(8, 6):
    with T.block("X"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj]
for i, j in T.grid(8, 6):
    with T.block("W"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(3)
for i, j in T.grid(8, 6):
    with T.block("Y"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = B[vi, vj] + T.float32(1)
""")


@pytest.mark.parametrize("block", ["X", "Y"])
def test_readers_before_the_writer_read_what_the_buffer_held(block: str) -> None:
    check_kept(BEFORE_AND_BEHIND, lambda sch: sch.cache_read(block, 0, "local"))


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write"])
def test_readers_before_the_writer_cannot_be_named(primitive: str) -> None:
    sch = schedule(BEFORE_AND_BEHIND)
    block = "X" if primitive == "cache_read" else "W"
    assert_refused(
        sch, lambda: getattr(sch, primitive)(block, 0, "local", ["X"]), "'X' comes before block 'W'"
    )


def test_the_copy_of_a_region_outside_of_the_buffer_is_empty() -> None:
    """What ``if_then_else`` does not read is stated nevertheless: columns 6 and 7 of A, which has 6."""
    text = program(
        """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.if_then_else(vj < 6, A[vi, vj], T.float32(0))
""",
        "A: T.Buffer((8, 6)), B: T.Buffer((8, 8))",
    )

    def step(sch: Schedule) -> None:
        sch.loop_partition(sch.get_loops("B")[1], [6, None])
        sch.cache_read("B_j1", 0, "local")

    check_kept(text, step)


OVERSTATED = program("""
with T.block("outer"):
    T.reads(A[0:8, 0:6])
    T.writes(B[0:8, 0:6])
    for i in range(8):
        with T.block("B"):
            T.reads(A[0:8, 0:6])
            T.writes(B[0:8, 0:6])
            for j in range(6):
                B[i, j] = A[i, j]
""")


@pytest.mark.parametrize("primitive", ["write_at", "cache_write"])
def test_what_a_block_states_may_be_more_than_it_stores(primitive: str) -> None:
    """One iteration would write the rows of all others back, which nobody has computed."""
    sch = schedule(OVERSTATED)
    steps: dict[str, Callable[[], object]] = {
        "write_at": lambda: sch.write_at(sch.get_loops("B")[0], "B", 0, "local"),
        "cache_write": lambda: sch.cache_write("B", 0, "local"),
    }
    assert_refused(sch, steps[primitive], "states that it writes more of B")


def test_a_buffer_whose_rows_are_stated_as_one_is_not_private_to_an_iteration() -> None:
    text = program("""
P = T.alloc_buffer((8, 6))
for i in range(8):
    for j in range(6):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(P[0:8, vj])
            P[vi, vj] = A[vi, vj]
    for j in range(6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(P[0:8, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = P[0, vj]
""")
    sch = schedule(text)
    assert_refused(sch, lambda: sch.parallel(sch.get_loops("P")[0]), "may write to P")


@pytest.mark.parametrize("body", ["V[j] = A[vi, j]", "if A[vi, j] > T.float32(0): V[j] = A[vi, j]"])
def test_stores_through_a_view_are_stores(body: str) -> None:
    text = program(f"""
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:6])
        T.writes(B[vi, 0:6])
        V = T.match_buffer(B[vi, 0:6], (6,), "float32", offset_factor=1)
        for j in range(3):
            {body}
""")
    sch = schedule(text)
    assert_refused(sch, lambda: sch.cache_write("B", 0, "local"), "through V, a view of it")


TRIANGLES = ["for j in range(i)", "for j in range(6 - i)", "for j in range(i - 1)"]


@pytest.mark.parametrize("loop", TRIANGLES)
@pytest.mark.parametrize("primitive", ["reindex", "cache_write"])
def test_a_triangle_does_not_fill_its_square(loop: str, primitive: str) -> None:
    text = program(
        f"""
for i in range(6):
    {loop}:
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(6, j)
            B[vi, vj] = A[vj, vi] + T.float32(1)
""",
        "A: T.Buffer((6, 6)), B: T.Buffer((6, 6))",
    )
    sch = schedule(text)
    with pytest.raises(ScheduleError, match=primitive):
        sch.reindex("B", ("write", 0)) if primitive == "reindex" else sch.cache_write("B", 0, "local")
    check_kept(text, lambda sch: sch.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)))


def test_reindex_of_a_block_under_a_predicate() -> None:
    text = program("""
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(j <= i)
        B[vi, vj] = A[vi, vj]
""")
    sch = schedule(text)
    assert_refused(sch, lambda: sch.reindex("B", ("write", 0)), "runs only where")


REDUCTION_OUTSIDE = program(
    """
for k in range(6):
    with T.block("outer"):
        vk_o = T.axis.opaque(6, k)
        T.reads(A[0:8, vk_o], B[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(6, vk_o)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
""",
    "A: T.Buffer((8, 6)), B: T.Buffer((8,))",
)


@pytest.mark.parametrize("primitive", ["cache_write", "reindex", "reindex_cache_write", "write_at"])
def test_a_reduction_that_runs_outside_is_not_begun_anew(primitive: str) -> None:
    sch = schedule(REDUCTION_OUTSIDE)
    steps: dict[str, Callable[[], object]] = {
        "cache_write": lambda: sch.cache_write("B", 0, "local"),
        "reindex": lambda: sch.reindex("B", ("write", 0)),
        "reindex_cache_write": lambda: sch.reindex_cache_write("B", 0, "local", lambda i, k: (i,)),
        "write_at": lambda: sch.write_at(sch.get_loops("B")[0], "B", 0, "local"),
    }
    assert_refused(sch, steps[primitive], "what block 'B' reduces is not finished here")


EINSUM = """
for i, j in T.grid({extents}):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        {store}
"""


@pytest.mark.parametrize(
    ("store", "extents", "reason"),
    [
        ("if A[vi, vj] > T.float32(0): B[vi, vj] = A[vi, vj]", "8, 6", "under a condition"),
        ("B[0, vj] = A[vi, vj]", "8, 6", "whole buffers are padded"),
        ("B[vi, vi] = A[vi, 0]", "6, 6", "'vj' does not index B"),
        ("C[vi, vj] = A[vi, vj] + B[vj, vj]", "8, 6", "part of B only"),
        ("B[vi, vj] = A[vi, vj]", "5, 6", "a part of its dimension of 8"),
        ("B[vi, vj] = A[vi, vj]", "8, 5", "part of A only"),
        ("B[vi, vi] = A[vi, vj]", "6, 6", "'vj' does not index B"),
    ],
)
def test_pad_einsum_takes_blocks_that_fill_their_buffers(store: str, extents: str, reason: str) -> None:
    sch = schedule(program(EINSUM.format(store=store, extents=extents)))
    assert_refused(sch, lambda: sch.pad_einsum("B", [1, 4]), "pad_einsum", reason)


def test_pad_einsum_does_not_take_the_diagonal_for_the_whole_buffer() -> None:
    text = program("""
for i in range(6):
    with T.block("B"):
        vi = T.axis.spatial(6, i)
        B[vi, vi] = A[0, vi]
""").replace("(8, 6)", "(6, 6)")
    sch = schedule(text)
    assert_refused(sch, lambda: sch.pad_einsum("B", [4]), "a part of its dimension")


def test_pad_einsum_inside_of_a_block() -> None:
    """The rows that the inner block does not compute were copied out as well."""
    text = program(EINSUM.format(store="B[vi, vj] = A[vi, vj]", extents="8, 6"))
    sch = schedule(text)
    sch.blockize(sch.get_loops("B")[1])
    assert_refused(sch, lambda: sch.pad_einsum("B", [4]), "whole buffers are padded")


def test_layouts_of_buffers_without_elements() -> None:
    """The extent of the copy was the greatest number of the index type."""
    text = program(
        """
for i, j in T.grid(0, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
""",
        "A: T.Buffer((0, 6)), B: T.Buffer((0, 6))",
    )
    check_kept(text, lambda sch: sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)))
    check_kept(text, lambda sch: sch.fuse(*sch.get_loops("B")))


PART_READ = """
P = T.alloc_buffer((8, 6))
for i, j in T.grid(4, 6):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = A[vi, vj] * T.float32(2)
for i, j in T.grid({extents}):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        vj = T.axis.spatial(6, j)
        B[vi, vj] = {value}
"""
OUTSIDE = "T.if_then_else(vi < 4, P[vi, vj], T.float32(0))"


@pytest.mark.parametrize(
    ("extents", "value", "reason"),
    [("4, 6", "P[vi, vj]", "does not run over all values"), ("8, 6", OUTSIDE, "may write a part only")],
)
def test_a_copy_by_the_variables_of_a_block_reads_no_more_than_the_block(
    extents: str, value: str, reason: str
) -> None:
    sch = schedule(program(PART_READ.format(extents=extents, value=value)))
    assert_refused(sch, lambda: sch.reindex("B", ("read", 0)), "reindex", reason)
    if value == OUTSIDE:
        assert_refused(sch, lambda: sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)), reason)
    of_a_parameter = program(PART_READ.format(extents=extents, value=value.replace("P[", "A[")))
    check_kept(of_a_parameter, lambda sch: sch.reindex("B", ("read", 0)))
    check_kept(of_a_parameter, lambda sch: sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)))


def test_a_copy_stays_inside_where_the_block_does() -> None:
    text = program(PART_READ.format(extents="4, 6", value="A[vi + 4, vj]"))
    sch = schedule(text)
    assert_refused(sch, lambda: sch.reindex("B", ("read", 0)), "may lie outside the buffer")
    check_kept(text, lambda sch: sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)))


@pytest.mark.parametrize("primitive", ["cache_write", "reindex", "reverse_compute_at"])
def test_a_guard_of_a_split_loop_does_not_hide_a_predicate(primitive: str) -> None:
    """Both clauses are about the loop that was split, one of them keeps it inside of its domain."""
    text = program("""
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = A[vi, 0]
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(j <= i)
        C[vi, vj] = B[vi, 0]
""")
    sch = schedule(text)
    sch.split(sch.get_loops("C")[1], [None, 4])
    steps: dict[str, Callable[[], object]] = {
        "cache_write": lambda: sch.cache_write("C", 0, "local"),
        "reindex": lambda: sch.reindex("C", ("write", 0)),
        "reverse_compute_at": lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
    }
    assert_refused(sch, steps[primitive], "runs only where")


IN_PLACE = """
P = T.alloc_buffer((8, 6))
for i, j in T.grid(ROWS, 6):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = A[vi, vj]
for i in range(4):
    with T.block("Q"):
        vi = T.axis.spatial(4, i)
        T.reads(P[vi, 0:3])
        T.writes(P[vi, 0:6])
        for j in range(6):
            P[vi, j] = P[vi, j % 3] + T.float32(1)
for i, j in T.grid(4, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = P[vi, vj]
"""


def test_cache_inplace_copies_all_that_is_written() -> None:
    check_kept(program(IN_PLACE.replace("ROWS", "4")), lambda sch: sch.cache_inplace("Q", 0, "local"))


def test_cache_inplace_reads_what_was_written() -> None:
    """The block writes its last columns before anybody did."""
    sch = schedule(program(IN_PLACE.replace("ROWS, 6", "4, 3")))
    assert_refused(
        sch, lambda: sch.cache_inplace("Q", 0, "local"), "no block before block 'Q' is known to fill"
    )


@pytest.mark.parametrize("extents", [(0, 5), (5, 0)])
def test_copies_of_blocks_that_never_run(extents: tuple[int, int]) -> None:
    text = program(
        f"""
for i, j in T.grid{extents}:
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
""",
        f"A: T.Buffer({extents}), B: T.Buffer({extents})",
    )

    def step(sch: Schedule) -> None:
        sch.fuse(*sch.get_loops("B"))
        sch.reindex_cache_read("B", 0, "local", lambda i, j: (i, j))

    check_kept(text, step)


# What a guard keeps from being evaluated. ``{index}`` is undefined where the guard does not hold.
GUARDS = {
    "predicate": "T.where(i > 0)\n        C[vi] = A[{index}]",
    "choice": "C[vi] = T.if_then_else(vi > 0, A[{index}], 0)",
    "and": "C[vi] = T.Cast('int32', vi > 0 and A[{index}] > 3)",
    "condition": "if vi > 0:\n            C[vi] = A[{index}]",
}
INDICES = ["12 // vi", "15 % vi", "T.shift_right(15, vi - 1)", "T.min(T.max(I[vi - 1], 0), 15)"]
EARLY: dict[str, Step] = {
    "cache_index": lambda sch: sch.cache_index("C", "global", 0),
    "cache_index of parts": lambda sch: sch.cache_index("C", "global", 1),
    "reindex": lambda sch: sch.reindex("C", "A"),
    "reindex_cache_read": lambda sch: sch.reindex_cache_read("C", "A", "global", lambda i: i),
    "read_at": lambda sch: sch.read_at(sch.get_loops("C")[-1], "C", "A", "global"),
}
ARRAYS = "A: T.Buffer((16,), 'int32'), I: T.Buffer((16,), 'int32'), C: T.Buffer((16,), 'int32')"


def guarded(body: str, above: str = "for i in range(16):", value: str = "i") -> str:
    lines = f'{above}\n    with T.block("C"):\n        vi = T.axis.spatial(16, {value})\n        {body}'
    return program(lines, ARRAYS)


def check_refused_or_kept(text: str, step: Step) -> None:
    try:
        check_kept(text, step)
    except ScheduleError:
        sch = schedule(text)
        assert_refused(sch, lambda: step(sch))


@pytest.mark.meaning("early")
@pytest.mark.parametrize("step", EARLY)
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("guard", GUARDS)
def test_what_a_guard_keeps_from_being_evaluated_stays_behind_it(guard: str, index: str, step: str) -> None:
    check_refused_or_kept(guarded(GUARDS[guard].format(index=index)), EARLY[step])


@pytest.mark.meaning("early")
@pytest.mark.parametrize("step", ["cache_index", "reindex", "reindex_cache_read"])
@pytest.mark.parametrize(
    "above", ["for i in range(16):\n  if i > 0:", "for i in range(16):\n for j in range(I[15] - I[15]):"]
)
def test_conditions_and_loops_around_a_block_guard_it_too(above: str, step: str) -> None:
    check_refused_or_kept(guarded("C[vi] = A[12 // vi]", above), EARLY[step])


DEFINED = [
    guarded("C[vi] = T.if_then_else(vi < 9, A[12 // (vi + 1)], 0)"),
    guarded("C[vi] = A[12 // vi]", "for i in range(15):", "i + 1").replace("spatial(16", "spatial((1, 16)"),
]


@pytest.mark.parametrize("step", EARLY)
@pytest.mark.parametrize("text", DEFINED)
def test_what_is_defined_for_all_values_of_the_variables_is_evaluated_early(text: str, step: str) -> None:
    check_kept(text, EARLY[step])
    sch = schedule(text)
    EARLY[step](sch)
    before, after = (str(mod).count("] = ") for mod in (schedule(text).mod.script(), sch.mod.script()))
    assert after > before


@pytest.mark.meaning("early")
def test_write_at_does_not_evaluate_where_a_guarded_block_stores() -> None:
    check_refused_or_kept(
        guarded("T.where(i > 0)\n        C[15 // vi] = A[vi]"),
        lambda sch: sch.write_at(sch.get_loops("C")[0], "C", 0, "global"),
    )


MASKED = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), I: T.Buffer((8,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        AROUND
            with T.block("C"):
                vi = T.axis.spatial(8, BINDING)
                C[vi] = A[vi] + 1
"""
SURROUNDINGS = [
    ("if B[7 - i] > 0:", "i"),
    ("for j in range(B[7 - i] % 3):", "i"),
    ("for j in range(1):", "B[7 - i] % 8"),
]
"""What stands around a block and loads B, of which the block says nothing."""


@pytest.mark.parametrize(("around", "binding"), SURROUNDINGS)
@pytest.mark.parametrize("primitive", ["cache_write", "set_scope", "unsafe_set_dtype", "transform_layout"])
def test_what_stands_around_a_block_reads(around: str, binding: str, primitive: str) -> None:
    """Conditions, bounds and bindings read the buffer that is copied or changed."""
    program = from_source(MASKED.replace("AROUND", around).replace("BINDING", binding))
    sch = Schedule(program)
    if primitive == "cache_write":
        sch.cache_write("B", 0, "local")
    elif primitive == "set_scope":
        sch.set_scope("B", 0, "local")
    elif primitive == "unsafe_set_dtype":
        sch.unsafe_set_dtype("B", 0, "int64")
    else:
        sch.transform_layout("B", ("write", 0), lambda i: (7 - i,))
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


CONDITIONAL = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        if i > 0:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.if_then_else(vi > 0, B[vi], 0)
"""


@pytest.mark.parametrize("primitive", ["cache_write", "cache_read"])
def test_a_block_under_a_condition_does_not_fill_what_is_copied(primitive: str) -> None:
    sch = Schedule(from_source(CONDITIONAL), error_render_level="none")
    step = {
        "cache_write": lambda: sch.cache_write("B", 0, "local"),
        "cache_read": lambda: sch.cache_read("C", 0, "local"),
    }
    assert_refused(sch, step[primitive], "block 'B' runs under a condition")


def test_a_copy_under_the_same_condition() -> None:
    """Where the copy stands under the condition as well, that is no reason."""
    text = (
        CONDITIONAL.split("    for i in range(8):\n        with")[0].replace('"B"', '"P"')
        + """            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + 1
"""
    )
    program = from_source(text)
    sch = Schedule(program)
    sch.cache_write("P", 0, "local")
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("reader", ["A[i] > 0 and C[7 - i] > 0", None])
def test_a_copy_goes_back_before_the_next_iteration_reads(reader: str | None) -> None:
    """A reader ahead of the writer, in a block or around one, finds in a later iteration what the writer made in an earlier one."""
    program = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            {"D[vi] = C[7 - vi]" if reader is None else f"T.where({reader})"}
            {"" if reader is None else "D[vi] = 1"}
        with T.block("W"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * 2
"""
    )
    sch = Schedule(program)
    sch.cache_write("W", 0, "local")
    for seed in range(5):
        assert_same_meaning(program, sch, seed)


def test_the_place_that_is_copied_does_not_change_meanwhile() -> None:
    """A box whose bounds are loaded is copied only where nobody writes those."""
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((16,), "int32"), J: T.Buffer((8,), "int32"), C: T.Buffer((16,), "int32")):
    I = T.alloc_buffer((1,), "int32")
    for i in range(8):
        with T.block("I"):
            vi = T.axis.spatial(8, i)
            I[0] = J[vi] % 8
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[I[0] + vj] = A[I[0] + vj]
"""
    )
    sch = Schedule(program, error_render_level="none")
    assert_refused(
        sch, lambda: sch.cache_write("C", 0, "local"), "stores where I says, which changes meanwhile"
    )
    sch.cache_read("C", "A", "local")
    assert_same_meaning(program, sch)


def test_blocks_that_are_bound_to_data_fill_no_box() -> None:
    program = MASKED.replace("AROUND", "for j in range(1):").replace("BINDING", "I[i] % 8")
    sch = Schedule(from_source(program), error_render_level="none")
    assert_refused(sch, lambda: sch.cache_write("C", 0, "local"), "is not known to fill a box")


@pytest.mark.parametrize(
    ("binding", "where"),
    [
        ("3", "True"),
        ("7 - k", "True"),
        ("k", "k > 0"),
        ("T.bitwise_xor(k, 1)", "True"),
        ("(k + i) % 8", "True"),
    ],
)
def test_a_reduction_that_does_not_begin_with_its_init_goes_on_with_the_buffer(
    binding: str, where: str
) -> None:
    sch = Schedule(
        from_source(
            f"""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, {binding})
            T.where({where})
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
        ),
        error_render_level="none",
    )
    assert_refused(sch, lambda: sch.cache_write("C", 0, "local"), "no values to start from")


VECTORS = """@T.prim_func
def main(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
    B = T.alloc_buffer((32,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[T.Ramp(vi, 8, 4)] = A[T.Ramp(vi * 4, 1, 4)]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[T.Ramp(vi * 4, 1, 4)] = B[T.Ramp(vi, 8, 4)]
"""


@pytest.mark.parametrize("primitive", ["cache_write B", "cache_write C", "cache_read A", "unsafe_set_dtype"])
def test_blocks_that_access_vectors_are_copied(primitive: str) -> None:
    program = from_source(VECTORS)
    sch = Schedule(program)
    if primitive == "unsafe_set_dtype":
        sch.unsafe_set_dtype("B", 0, "int64")
    elif primitive == "cache_read A":
        sch.cache_read("B", 0, "local")
    else:
        sch.cache_write(primitive[-1], 0, "local")
    assert_same_meaning(program, sch)


PREDICATED = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("F"):
            vi = T.axis.spatial(8, i)
            B[vi] = 7
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B.vstore([vi], A.vload([vi], predicate=vi < 5) + 1, predicate=vi % 3 != 0)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi])
            T.writes(C[vi])
            C.vstore([vi], B.vload([vi], predicate=vi > 2) * 2, predicate=vi % 2 != 0)
"""


@pytest.mark.parametrize("primitive", ["transform_layout", "unsafe_set_dtype", "set_scope"])
def test_predicates_of_loads_and_stores_stay(primitive: str) -> None:
    program = from_source(PREDICATED)
    sch = Schedule(program)
    if primitive == "transform_layout":
        sch.transform_layout("B", ("write", 0), lambda i: (7 - i,))
    elif primitive == "unsafe_set_dtype":
        sch.unsafe_set_dtype("B", 0, "int64")
    else:
        sch.set_scope("B", 0, "local")
    assert_same_meaning(program, sch)


def test_pad_einsum_does_not_copy_a_diagonal_back() -> None:
    """A variable that indexes two dimensions fills neither of them."""
    sch = schedule(
        program(
            """
for i in range(6):
    with T.block("B"):
        vi = T.axis.spatial(6, i)
        B[vi, vi] = A[vi] * 2
""",
            'A: T.Buffer((6,), "int32"), B: T.Buffer((6, 6), "int32")',
        )
    )
    assert_refused(sch, lambda: sch.pad_einsum("B", [4]), "whole buffers are padded")


@pytest.mark.parametrize("primitive", ["reindex", "reindex_cache_write", "reindex_cache_read"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [(VECTORS, "is accessed by vectors"), (PREDICATED.replace('"F"', '"C0"'), "under a predicate")],
)
def test_copies_by_the_variables_of_a_block_are_made_of_elements(
    primitive: str, text: str, reason: str
) -> None:
    sch = Schedule(from_source(text), error_render_level="none")
    steps: dict[str, Callable[[], object]] = {
        "reindex": lambda: sch.reindex("C", ("read", 0)),
        "reindex_cache_read": lambda: sch.reindex_cache_read("C", 0, "local", lambda i: (i,)),
        "reindex_cache_write": lambda: sch.reindex_cache_write("C", 0, "local", lambda i: (i,)),
    }
    assert_refused(sch, steps[primitive], reason)


SHIFTED = program("""
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi = T.axis.spatial((-4, 4), i - 4)
        vj = T.axis.spatial(6, j)
        B[vi + 4, vj] = A[3 - vi, vj]
""")


def test_variables_below_zero_index_no_copy() -> None:
    reason = "indices of a copy count from zero"
    for is_write in (False, True):
        sch = schedule(SHIFTED)
        assert_refused(sch, lambda sch=sch: sch.reindex("B", ("write" if is_write else "read", 0)), reason)
        cached = sch.reindex_cache_write if is_write else sch.reindex_cache_read
        assert_refused(sch, lambda cached=cached: cached("B", 0, "local", lambda i, j: (j, i)), reason)


CHANGING = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), J: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    X = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = J[7 - vi] % 8
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[X[vi]] + 1
"""


def test_a_copy_is_not_made_before_its_indices() -> None:
    sch = Schedule(from_source(CHANGING), error_render_level="none")
    assert_refused(sch, lambda: sch.reindex("C", ("read", 0)), "depends on X, which changes meanwhile")
    loop = sch.get_loops("C")[0]
    assert_refused(sch, lambda: sch.read_at(loop, "C", 0, "local"), "depends on X, which changes")


@pytest.mark.parametrize("reads", ["J[vi] = A[vi]", "T.where(A[i] > 0)\n            J[vi] = 1"])
def test_write_at_leaves_no_reader_behind(reads: str) -> None:
    """What reads ahead of the writer, in a block or around one, finds what the buffer held before."""
    text = CHANGING.replace("X[vi] = J[7 - vi] % 8", reads).replace(
        "C[vi] = A[X[vi]] + 1", "A[vi] = C[vi] + 1"
    )
    sch = Schedule(from_source(text), error_render_level="none")
    loop = sch.get_loops("C")[0]
    assert_refused(
        sch,
        lambda: sch.write_at(loop, "C", 0, "local"),
        "reads A, or depends on it, before that is copied back",
    )


def test_reindex_of_what_a_nest_is_asked_for() -> None:
    text = CHANGING.replace("X[vi] = J[7 - vi] % 8", "T.where(C[7 - i] > 0)\n            X[vi] = 1")
    sch = Schedule(from_source(text.replace("A[X[vi]]", "A[vi]")), error_render_level="none")
    assert_refused(sch, lambda: sch.reindex("C", ("write", 0)), "whether block 'X' runs depends on C")


@pytest.mark.parametrize("primitive", ["cache_write", "reindex_cache_read", "reindex_cache_write"])
def test_a_name_around_a_block_is_not_known_where_the_copy_is(primitive: str) -> None:
    text = MASKED.replace("AROUND", "for j in range(1):\n            x: T.int32 = 7 - i").replace(
        "BINDING", "x"
    )
    sch = Schedule(from_source(text), error_render_level="none")
    steps: dict[str, Callable[[], object]] = {
        "cache_write": lambda: sch.cache_write("C", 0, "local"),
        "reindex_cache_read": lambda: sch.reindex_cache_read("C", 0, "local", lambda i: (i,)),
        "reindex_cache_write": lambda: sch.reindex_cache_write("C", 0, "local", lambda i: (i,)),
    }
    assert_refused(sch, steps[primitive], "depends on x, a name that is known only around it")


def test_rows_over_which_nothing_is_summed_are_not_copied_back() -> None:
    """The loop of the first row has no iterations: its element keeps what it held."""
    program = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        for k in range(i):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(program, error_render_level="none")
    assert_refused(
        sch, lambda: sch.write_at(sch.get_loops("C")[0], "C", 0, "local"), "may have no iterations"
    )


def test_read_at_under_an_uneven_split_of_a_symbolic_extent_stays_inside() -> None:
    program = from_source("""@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "int32")
    C = T.match_buffer(c, (n, 4), "int32")
    for i, j in T.grid(n, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
""")
    sch = Schedule(program)
    _, inner = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.read_at(inner, "C", 0, "global")
    a, c = np.arange(12, dtype="int32").reshape(3, 4), np.zeros((3, 4), "int32")
    interpreter.run(sch.mod["main"], a, c)
    np.testing.assert_array_equal(c, a * 2)


@pytest.mark.parametrize("primitive", ["cache_write", "reindex_cache_write"])
def test_a_reduction_that_need_not_run_is_not_copied_back(primitive: str) -> None:
    """Over no iterations of a loop whose domain has some nothing is initialised, and C keeps what it held."""
    program = from_source("""@T.prim_func
def main(A: T.Buffer((4, 24), "int32"), C: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        for k in range(n):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(24, k)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(program, error_render_level="none")
    if primitive == "cache_write":
        assert_refused(sch, lambda: sch.cache_write("C", 0, "local"), "may have no iterations")
    else:
        assert_refused(
            sch, lambda: sch.reindex_cache_write("C", 0, "local", lambda i, k: i), "may have no iterations"
        )
