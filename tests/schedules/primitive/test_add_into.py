"""add_into: sums that go on with what is there; what it makes, that it means the same, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from schedules.rule.online_tiles import inline_producers, tiles_of_chain
from schedules.rule.reduction_chain import Tile
from tests.programs import chains

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning
from .test_rfactor_chain import arrays_of, assert_close_on


@T.prim_func
def running_sums(A: T.Buffer((3, 4, 5), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    P = T.alloc_buffer((3, 4))
    for i in range(4):
        with T.block("begin"):
            vi = T.axis.spatial(4, i)
            S[vi] = T.float32(1)
    for t in range(3):
        for i, k in T.grid(4, 5):
            with T.block("part"):
                vt, vi, vk = T.axis.remap("SSR", [t, i, k])
                with T.init():
                    P[vt, vi] = T.float32(0)
                P[vt, vi] = P[vt, vi] + A[vt, vi, vk]
        for i in range(4):
            with T.block("whole"):
                vt = T.axis.scan(3, t)
                vi = T.axis.spatial(4, i)
                S[vi] = S[vi] * T.float32(2) + P[vt, vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[vi]


@T.prim_func
def added_one_by_one(A: T.Buffer((3, 4, 5), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("begin"):
            vi = T.axis.spatial(4, i)
            S[vi] = T.float32(1)
    for t in range(3):
        for i in range(4):
            with T.block("whole"):
                vt = T.axis.scan(3, t)
                vi = T.axis.spatial(4, i)
                S[vi] = S[vi] * T.float32(2)
        for i, k in T.grid(4, 5):
            with T.block("part"):
                vt = T.axis.scan(3, t)
                vi, vk = T.axis.remap("SR", [i, k])
                S[vi] = S[vi] + A[vt, vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[vi]


def test_terms_are_added_to_what_is_there() -> None:
    sch = Schedule(running_sums, debug_mask="all")
    sch.add_into("whole")
    assert_program(sch, added_one_by_one)
    assert_replays(sch, running_sums)
    assert_same_meaning(running_sums, sch)


@settings(max_examples=20)
@given(st.data())
def test_chains_mean_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["none", "causal", "added", "earlier"]))
    func = chains.attention(1, 4, 6, 2, kind)
    sch = Schedule(func, debug_mask="all")
    inline_producers(sch, sch.get_block("peak"))
    _, loop, _ = tiles_of_chain(sch, sch.get_block("peak"), Tile(data.draw(st.sampled_from([1, 2, 3]))))
    sch.run_chain(loop, data.draw(st.booleans()))
    if "peak_scale[" in sch.mod.script():
        assert_refused(sch, lambda: sch.add_into("mixed"), "does not store the sum of something")
        return
    sch.add_into("mixed")
    assert_close_on(func, sch, arrays_of(func, data.draw(st.integers(0, 1000)), data.draw(st.booleans())))


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("* T.float32(2) + P[vt, vi]", "* T.float32(2) - P[vt, vi]", "does not store the sum of something"),
        ("P[vt, vi] = T.float32(0)", "P[vt, vi] = T.float32(1)", "not the identity"),
        ("P[vt, vi] + A[vt, vi, vk]", "P[vt, vi] + A[vt, vi, vk] * S[vi]", "reads S"),
        ("C[vi] = S[vi]", "C[vi] = S[vi] + P[2, vi]", "no intermediate that block 'whole' alone reads"),
        ("S[vi] * T.float32(2) +", "S[T.max(vi, 1) - 1] +", "reads other elements of S than it writes"),
        ("S[vi] * T.float32(2) +", "S[3 - vi] * T.float32(2) +", "reads other elements of S than it writes"),
    ],
)  # fmt: skip
def test_refusals(right: str, wrong: str, words: str) -> None:
    text = without_regions(running_sums.script())
    assert right in text
    sch = Schedule(from_source(text.replace(right, wrong)))
    assert_refused(sch, lambda: sch.add_into("whole"), words)


def without_regions(text: str) -> str:
    """A program that says no regions: script fills them in."""
    return "\n".join(line for line in text.splitlines() if "T.reads(" not in line and "T.writes(" not in line)


def test_refuses_sums_of_which_some_are_not_added() -> None:
    text = without_regions(running_sums.script())
    bound = "vi = T.axis.spatial(4, i)\n                "
    assert bound + "S[vi] = S[vi] *" in text
    sch = Schedule(
        from_source(
            text.replace(bound + "S[vi] = S[vi] *", bound + "T.where(i < 3)\n                S[vi] = S[vi] *")
        )
    )
    assert_refused(sch, lambda: sch.add_into("whole"), "all of both running")


def test_refuses_parts_of_what_is_summed_up() -> None:
    """The sum has more elements than are added."""
    text = without_regions(running_sums.script()).replace(
        "S[vi] = S[vi] * T.float32(2) + P[vt, vi]", "S[vi] = S[vi] * T.float32(2) + P[vt, vi + 0]"
    )
    text = text.replace(
        '        for i in range(4):\n            with T.block("whole")',
        '        for i in range(2):\n            with T.block("whole")',
    )
    sch = Schedule(from_source(text))
    assert_refused(sch, lambda: sch.add_into("whole"), "do not run over the same elements")


@pytest.mark.parametrize("name", ["whole", "part"])
def test_refuses_instances_that_run_twice(name: str) -> None:
    """The second time, a sum begins anew; but terms would be added twice."""
    sch = Schedule(from_source(repeated(name)))
    assert_refused(
        sch, lambda: sch.add_into("whole"), f"that the loops of block '{name}' run each of its instances once"
    )


def repeated(name: str) -> str:
    """The program with a block each of whose instances runs twice."""
    text = without_regions(running_sums.script())
    right, wrong = {
        "whole": ('for i in range(4):\n            with T.block("whole")', 'for i in range(8):\n            with T.block("whole")'),
        "part": ("for i, k in T.grid(4, 5)", "for i, k in T.grid(8, 5)"),
    }[name]  # fmt: skip
    assert right in text
    head, tail = text.replace(right, wrong).split(f'T.block("{name}")')
    bound = {
        "whole": ("vi = T.axis.spatial(4, i)", "vi = T.axis.scan(4, i // 2)"),
        "part": (
            'vt, vi, vk = T.axis.remap("SSR", [t, i, k])',
            'vt, vk = T.axis.remap("SR", [t, k])\n                vi = T.axis.spatial(4, i // 2)',
        ),
    }[name]
    assert bound[0] in tail
    return head + f'T.block("{name}")' + tail.replace(*bound, 1)


CHOICES = {
    "S[vi] * T.float32(2) + P[vt, vi]": (
        "S[vi] * T.float32(2) + P[vt, vi]",
        "P[vt, vi] + S[vi]",
        "A[vt, vi, 0] + P[vt, vi]",
        "S[3 - vi] + P[vt, vi]",
        "S[T.max(vi, 1) - 1] + P[vt, vi]",
        "S[vi] - P[vt, vi]",
        "(S[vi] + A[vt, 0, vi]) + P[vt, vi]",
        "P[vt, vi] + P[vt, vi]",
    ),
    "P[vt, vi] + A[vt, vi, vk]": (
        "P[vt, vi] + A[vt, vi, vk]",
        "P[vt, vi] + A[vt, 3 - vi, vk] * A[0, vi, vk]",
        "P[vt, vi] + S[vi]",
        "T.max(P[vt, vi], A[vt, vi, vk])",
    ),
    'with T.block("whole"):\n                vt = T.axis.scan(3, t)\n                vi = T.axis.spatial(4, i)': (
        'with T.block("whole"):\n                vt = T.axis.scan(3, t)\n                vi = T.axis.spatial(4, i)',
        'with T.block("whole"):\n                vt = T.axis.scan(3, t)\n                vi = T.axis.scan(4, i)',
        'with T.block("whole"):\n                vt = T.axis.scan(3, t)\n                vi = T.axis.scan(4, 3 - i)',
        'with T.block("whole"):\n                vt = T.axis.scan(3, t)\n                vi = T.axis.scan(4, i // 2)',
    ),
    "C[vi] = S[vi]": ("C[vi] = S[vi]", "C[vi] = S[vi] * S[3 - vi]", "C[vi] = S[vi] + P[1, vi]"),
}  # fmt: skip


@settings(max_examples=60)
@given(st.data())
def test_random_sums_mean_the_same_or_are_refused(data: st.DataObject) -> None:
    text = without_regions(running_sums.script())
    for right, choices in CHOICES.items():
        assert right in text, text
        text = text.replace(right, data.draw(st.sampled_from(choices)))
    func = from_source(text)
    sch = Schedule(func, debug_mask="all")
    before = sch.mod.script()
    try:
        sch.add_into("whole")
    except ScheduleError:
        assert sch.mod.script() == before
        return
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


BESIDE = """@T.prim_func
def main(A: T.Buffer((3, 4, 5), "float32"), C: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    P = T.alloc_buffer((3, 4))
    Q = T.alloc_buffer((4,))
    R = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("begin"):
            vi = T.axis.spatial(4, i)
            S[vi] = T.float32(1)
            Q[vi] = T.float32(2)
    for t in range(3):
        for i, k in T.grid(4, 5):
            with T.block("part"):
                vt, vi, vk = T.axis.remap("SSR", [t, i, k])
                with T.init():
                    P[vt, vi] = T.float32(0)
                P[vt, vi] = P[vt, vi] + A[vt, vi, vk]
        for i in range(4):
            with T.block("beside"):
                vt = T.axis.scan(3, t)
                vi = T.axis.spatial(4, i)
                {statement}
        for i in range(4):
            with T.block("whole"):
                vt = T.axis.scan(3, t)
                vi = T.axis.spatial(4, i)
                S[vi] = S[vi] * Q[vi] + P[vt, vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[vi] + Q[vi] + R[vi]
"""


@pytest.mark.parametrize(
    ("statement", "is_apart"),
    [
        ("R[vi] = S[vi]", False),
        ("Q[vi] = Q[vi] + T.float32(1)", False),
        ("R[vi] = A[vt, vi, 0]", True),
    ],
)
def test_what_stands_between_touches_nothing_of_it(statement: str, is_apart: bool) -> None:
    """What is moved before it reads Q, and stores S."""
    func = from_source(BESIDE.format(statement=statement))
    sch = Schedule(func, debug_mask="all")
    if is_apart:
        sch.add_into("whole")
        assert_same_meaning(func, sch)
    else:
        assert_refused(sch, lambda: sch.add_into("whole"), "block 'beside' stands between, and touches what")


def test_refuses_a_sum_that_comes_behind() -> None:
    sch = Schedule(running_sums)
    text = without_regions(sch.mod["main"].script())
    begin, end = (text.index(f'T.block("{name}")') for name in ("part", "whole"))
    first, second = (text.rindex("\n", 0, text.rindex("for ", 0, at)) for at in (begin, end))
    last = text.rindex("\n", 0, text.rindex("for ", 0, text.index('T.block("C")')))
    swapped = Schedule(from_source(text[:first] + text[second:last] + text[first:second] + text[last:]))
    assert_refused(swapped, lambda: swapped.add_into("whole"), "do not stand in one sequence")


def test_refuses_sums_of_fewer_elements_than_are_read() -> None:
    text = without_regions(running_sums.script()).replace(
        "for i, k in T.grid(4, 5)", "for i, k in T.grid(2, 5)"
    )
    sch = Schedule(from_source(text))
    assert_refused(sch, lambda: sch.add_into("whole"), "do not run over the same elements")


def test_numbers_of_another_order_are_close() -> None:
    sch = Schedule(running_sums)
    sch.add_into("whole")
    rng = np.random.default_rng(0)
    assert_close_on(running_sums, sch, [rng.random((3, 4, 5), "float32"), np.zeros(4, "float32")])
