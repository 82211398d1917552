"""separate: windows reduced axis by axis mean the same, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import te, topi
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

WINDOWS = """@T.prim_func
def main(A: T.Buffer((9, 11), "int32"), B: T.Buffer((4, 5), "int32")):
    for i, j, r, s in T.grid(4, 5, 3, 3):
        with T.block("B"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                B[vi, vj] = 0
            B[vi, vj] = B[vi, vj] + {value}
"""

BY_AXES = """@T.prim_func
def main(A: T.Buffer((9, 11), "int32"), B: T.Buffer((4, 5), "int32")):
    first = T.alloc_buffer((4, 11), "int32")
    for i, j, r in T.grid(4, 11, 3):
        with T.block("first"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                first[vi, vj] = 0
            first[vi, vj] = first[vi, vj] + A[vi * 2 + vr, vj]
    for i, j, s in T.grid(4, 5, 3):
        with T.block("B"):
            vi, vj, vs = T.axis.remap("SSR", [i, j, s])
            with T.init():
                B[vi, vj] = 0
            B[vi, vj] = B[vi, vj] + first[vi, vj * 2 + vs]
"""


def windows(value: str = "A[vi * 2 + vr, vj * 2 + vs]") -> PrimFunc:
    return from_source(WINDOWS.format(value=value))


def test_the_first_axis_is_reduced_for_every_place() -> None:
    sch = Schedule(windows())
    made = sch.separate(sch.get_loops(sch.get_block("B"))[2])
    assert sch.get(made).name_hint == "B_r"
    assert_program(sch, from_source(BY_AXES))
    assert_replays(sch, windows())
    assert_same_meaning(windows(), sch)


@pytest.mark.parametrize(
    ("value", "loop", "message"),
    [
        ("A[vi * 2 + vr, vj * 2 + vs]", 0, "is not one of several reduction loops"),
        ("A[vs * 2 + vr, vj]", 2, "must say the place"),
        ("B[(vi + vr) % 4, (vj + vs) % 5]", 2, "not one element of a tensor"),
        ("A[vi * 2 + vr, vj * 2 + vs] * 2", 2, "is not one element of a tensor"),
        ("A[vi + vr + vs, vj]", 2, "must say the place"),
        ("A[vi + vr, vi + vs]", 2, "must say the place"),
        ("A[vi + vr, vj + vr + vs]", 2, "moves through 2 dimensions"),
    ],
)
def test_refusals(value: str, loop: int, message: str) -> None:
    sch = Schedule(windows(value))
    loops = sch.get_loops(sch.get_block("B"))
    assert_refused(sch, lambda: sch.separate(loops[loop]), "separate", message)


def test_tiled_nests_are_refused() -> None:
    sch = Schedule(windows())
    i, _, r, _ = sch.get_loops(sch.get_block("B"))
    sch.split(i, [2, 2])
    assert_refused(sch, lambda: sch.separate(r), "separate", "is not alone in a nest of plain loops")


def test_a_parameter_of_which_a_part_may_be_missing_is_refused() -> None:
    """What the function writes may come without values."""
    before = """
    for i, j in T.grid(9, 10):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = vi + vj
    for i, j, r, s in"""
    text = WINDOWS.replace("\n    for i, j, r, s in", before, 1)
    sch = Schedule(from_source(text.format(value="A[vi * 2 + vr, vj + vs]")))
    loop = sch.get_loops("B")[2]
    assert_refused(sch, lambda: sch.separate(loop), "separate", "something may be missing")


@pytest.mark.parametrize("wide", ["T.axis.spatial(4, i)", "T.axis.spatial(5, j)", "T.axis.reduce(3, r)"])
def test_variables_of_which_loops_run_through_a_part_are_refused(wide: str) -> None:
    """Windows that nobody takes may lie outside of the tensor."""
    own = ["T.axis.spatial(4, i)", "T.axis.spatial(5, j)", "T.axis.reduce(3, r)", "T.axis.reduce(3, s)"]
    kind, number, loop = wide[:-1].replace("(", " ").replace(",", "").split()
    given_ = [f"{kind}({int(number) + 2}, {loop})" if item == wide else item for item in own]
    text = WINDOWS.replace('T.axis.remap("SSRR", [i, j, r, s])', ", ".join(given_))
    sch = Schedule(from_source(text.format(value="A[vi * 2 + vr, vj * 2 + vs]")))
    loop_r = sch.get_loops("B")[2]
    assert_refused(sch, lambda: sch.separate(loop_r), "separate", "all their values")


def test_places_and_taps_may_be_of_different_types() -> None:
    """The first nest's variables are of the taps' type, and stand where variables of the places' type stood."""
    text = WINDOWS.replace("i, j, r, s in T.grid(4, 5, 3, 3)", "i, j, r, s in T.grid(T.int64(4), 5, 3, 3)")
    func = from_source(text.format(value='A[vi * T.int64(2) + T.cast(vr, "int64"), vj * 2 + vs]'))
    sch = Schedule(func)
    made = sch.get(sch.separate(sch.get_loops("B")[2]))
    assert {item.var.dtype for item in made.iter_vars} == {"int32"}
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


def test_places_in_other_dimensions_may_be_data() -> None:
    text = WINDOWS.replace("B: T.Buffer((4", 'at: T.Buffer((5,), "int32"), B: T.Buffer((4')
    func = from_source(text.format(value="A[vi * 2 + vr, (at[vj] + 4) % 9 + vs]"))
    sch = Schedule(func)
    sch.separate(sch.get_loops("B")[2])
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


def test_an_intermediate_result_of_which_a_part_is_missing_is_refused() -> None:
    """Windows that never reach the last column: nobody has written it."""
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((9, 11), "int32"), B: T.Buffer((4, 5), "int32")):
    C = T.alloc_buffer((9, 12), "int32")
    for i, j in T.grid(9, 11):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
    for i, j, r, s in T.grid(4, 5, 3, 3):
        with T.block("B"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                B[vi, vj] = 0
            B[vi, vj] = B[vi, vj] + C[vi * 2 + vr, vj * 2 + vs]
"""
    )
    sch = Schedule(program)
    loops = sch.get_loops(sch.get_block("B"))
    assert_refused(sch, lambda: sch.separate(loops[2]), "separate", "of which something may be missing")


WRITTEN = """@T.prim_func
def main(A: T.Buffer((9, 11), "int32"), B: T.Buffer((2, 2), "int32")):
    C = T.alloc_buffer((11, 11), "int32")
    for i, j in T.grid(11, 11):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            {write}
    for i, j, r, s in T.grid(2, 2, 3, 3):
        with T.block("B"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                B[vi, vj] = 0
            B[vi, vj] = B[vi, vj] + C[vi * 2 + vr, vj * 2 + vs]
"""


@pytest.mark.parametrize(
    "write",
    [
        "T.where(i < 10)\n            C[vi, vj] = vi + vj",
        "C[vi, vi] = vi",
        "C[10 - vi, vj] = vi",
        "for q in range(2):\n                C[vi, vj] = q",
    ],
)
def test_only_what_plainly_has_all_values_may_be_reduced_everywhere(write: str) -> None:
    sch = Schedule(from_source(WRITTEN.format(write=write)))
    loop = sch.get_loops("B")[2]
    assert_refused(sch, lambda: sch.separate(loop), "separate", "of which something may be missing")


@pytest.mark.parametrize(
    "nest",
    [
        'for i, j, s in T.grid(4, 5, 3):\n        for r in T.serial(3, annotations={{"pragma": 1}}):',
        "for i, j, s in T.grid(4, 5, 3):\n        for r in range(1, 4):",
    ],
)
def test_loops_with_annotations_or_that_begin_elsewhere_are_refused(nest: str) -> None:
    head, tail = WINDOWS.split("for i, j, r, s in T.grid(4, 5, 3, 3):\n")
    tail = "\n".join("    " + line if line else line for line in tail.split("\n"))
    text = (head + nest + "\n" + tail).replace("A: T.Buffer((9,", "A: T.Buffer((12,")
    sch = Schedule(from_source(text.format(value="A[vi * 2 + vr, vj * 2 + vs]")))
    loop = sch.get_loops("B")[3]
    assert_refused(sch, lambda: sch.separate(loop), "separate", "plain loops")


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["max", "sum", "min"]),
    st.tuples(st.integers(2, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.booleans(),
    st.booleans(),
)
def test_pools_keep_their_meaning(
    combiner: str, kernel: tuple[int, int], steps: tuple[int, int], padded: bool, second: bool
) -> None:
    extents = [2, *[(3 - 1) * step + size for step, size in zip(steps, kernel, strict=True)]]
    source = te.placeholder(extents, "int32", name="A")
    x = topi.nn.pad(source, [0, 1, 1], [0, 0, 1]) if padded else source
    r, s = te.reduce_axis((0, kernel[0]), name="r"), te.reduce_axis((0, kernel[1]), name="s")
    reduce = {"max": te.max, "sum": te.sum, "min": te.min}[combiner]
    pool = te.compute(
        (2, 3, 3),
        lambda n, i, j: reduce(x[n, i * steps[0] + r, j * steps[1] + s], axis=[r, s]),
        name="pool",
    )
    func = te.create_prim_func([source, pool])
    sch = Schedule(func)
    sch.separate(sch.get_loops(sch.get_block("pool"))[-1 if second else -2])
    assert_replays(sch, func)
    assert_same_meaning(func, sch)
