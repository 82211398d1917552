"""run_chain: parts are combined as they come; numbers against the unscheduled program, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.rule.online_tiles import inline_producers, tiles_of_chain
from schedules.rule.reduction_chain import Tile
from tests.programs import chains

from ..checks import assert_refused, assert_replays
from .test_rfactor_chain import arrays_of, assert_close_on


def running(func: PrimFunc, size: int, joins_parts: bool = False) -> Schedule:
    """A chain in parts of so many keys, which are combined as they come."""
    sch = Schedule(func, debug_mask="all")
    inline_producers(sch, sch.get_block("peak"))
    _, loop, _ = tiles_of_chain(sch, sch.get_block("peak"), Tile(size))
    sch.run_chain(loop, joins_parts)
    return sch


def test_parts_that_join_are_relative_to_the_maximum_so_far() -> None:
    func = chains.attention(1, 4, 6, 2)
    sch = running(func, 3, joins_parts=True)
    assert_replays(sch, func)
    text = sch.mod.script()
    assert text.index('T.block("peak")') < text.index('T.block("weight")') < text.index('T.block("mixed_rf")')
    assert "peak_scale[" not in text, "the sums of a part need no factor"
    assert "- T.Select(peak[" in text and "- T.Select(peak_rf[" not in text


def test_what_combines_the_parts_moves_into_their_loop() -> None:
    func = chains.attention(1, 4, 6, 2)
    sch = running(func, 3)
    assert_replays(sch, func)
    text = sch.mod.script()
    loop = text[text.index("in range(2)") :]
    for name in (
        "peak_rf",
        "weight",
        "mixed_rf",
        "total_rf",
        "peak_before",
        "peak",
        "peak_scale_again",
        "mixed",
        "total",
    ):
        assert f'T.block("{name}")' in loop
    assert "T.axis.scan(2" in loop, "the maximum so far is taken in order"


@settings(max_examples=40)
@given(st.data())
def test_chains_mean_the_same(data: st.DataObject) -> None:
    """One key a part and more; rows of infinities and NaN; masks that hide whole parts; -infinity for "no key"."""
    rows, keys = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([2, 4, 6, 8]))
    size = data.draw(st.sampled_from([n for n in range(1, keys) if keys % n == 0]))
    kind = data.draw(st.sampled_from(["log_sum_exp", "none", "causal", "added", "earlier"]))
    if kind == "log_sum_exp":
        func = chains.log_sum_exp(rows, keys)
    else:
        func = chains.attention(1, rows, keys, 2, kind, data.draw(st.sampled_from(["exp", "exp2"])))
    sch = running(func, size, data.draw(st.booleans()))
    assert_close_on(func, sch, arrays_of(func, data.draw(st.integers(0, 1000)), data.draw(st.booleans())))


def test_rows_that_are_hidden_to_the_end_are_what_they_were() -> None:
    """Parts of nothing but -infinity come before and behind others; a row of nothing else is NaN, as it is in the whole."""
    func = chains.attention(1, 4, 6, 2, "added")
    query, key, value = (np.ones(shape, "float32") for shape in ((1, 4, 2), (1, 6, 2), (1, 6, 2)))
    bias = np.zeros((4, 6), "float32")
    bias[0, :4] = bias[1, 2:] = bias[2, :2] = bias[3] = -np.inf
    out = np.zeros((1, 4, 2), "float32")
    for size in (1, 2, 3, 6):
        for joins_parts in (False, True):
            assert_close_on(func, running(func, size, joins_parts), [query, key, value, bias, out])


def test_refuses_parts_that_nothing_combines() -> None:
    sch = Schedule(chains.log_sum_exp(3, 8))
    outer, _ = sch.split(sch.get_loops("peak")[1], [None, 4])
    assert_refused(sch, lambda: sch.run_chain(outer), "run_chain", "takes the maximum of its parts")


def test_refuses_what_combines_somewhere_else() -> None:
    """The rows of what combines are not those of the parts yet."""
    func = chains.log_sum_exp(3, 8)
    sch = Schedule(func)
    outer = [sch.split(sch.get_loops(name)[1], [None, 4])[0] for name in ("peak", "total")]
    parts = sch.rfactor_chain(*outer)
    loop = sch.merge(*[sch.get_loops(part)[1] for part in parts])
    assert_refused(sch, lambda: sch.run_chain(loop), "run_chain", "has no nest of its own behind loop")


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (
            "T.exp(peak_rf",
            "T.exp(T.float32(2) - peak_rf",
            ("no exponential of the difference of two maxima",),
        ),
        ("total[vi] + scale", "total[vi] + T.float32(2) * scale", ("multiples of parts",)),
        ("total[vi] = T.float32(0)", "total[vi] = T.float32(1)", ("not the identity of Add",)),
    ],
)
def test_refuses_what_combines_otherwise(right: str, wrong: str, words: tuple[str, ...]) -> None:
    assert right in COMBINED
    sch = Schedule(from_source(COMBINED.replace(right, wrong)))
    loop = sch.get_loops("total_rf")[1]
    assert_refused(sch, lambda: sch.run_chain(loop), *words)


def test_refuses_to_join_parts_that_are_not_computed_in_one_sequence() -> None:
    """Here what is relative to the maximum of a part stands before it."""
    sch = Schedule(from_source(COMBINED))
    loop = sch.get_loops("total_rf")[1]
    sch.run_chain(loop, True)
    text = sch.mod.script()
    assert text.index('T.block("peak")') < text.index('T.block("total_rf")')
    func = chains.log_sum_exp(3, 8)
    alone = Schedule(func)
    outer = [alone.split(alone.get_loops(name)[1], [None, 4])[0] for name in ("peak", "total")]
    parts = alone.rfactor_chain(*outer)
    apart = alone.get_loops(parts[1])[1]
    assert_refused(alone, lambda: alone.run_chain(apart, True), "run_chain")


def test_refuses_factors_that_others_read() -> None:
    text = COMBINED.replace("result[vi] = total[vi]", "result[vi] = total[vi] + scale[vi, 0]")
    text = text.replace("T.reads(total[vi])", "T.reads(total[vi], scale[vi, 0])")
    sch = Schedule(from_source(text))
    assert_refused(sch, lambda: sch.run_chain(sch.get_loops("total_rf")[1]), "run_chain", "reads")


COMBINED = """@T.prim_func
def main(x: T.Buffer((3, 8), "float32"), result: T.Buffer((3,), "float32")):
    peak = T.alloc_buffer((3,))
    total = T.alloc_buffer((3,))
    peak_rf = T.alloc_buffer((3, 2))
    total_rf = T.alloc_buffer((3, 2))
    scale = T.alloc_buffer((3, 2))
    for i in range(3):
        for k0 in range(2):
            for k1 in range(4):
                with T.block("peak_rf"):
                    v0, vi, v1 = T.axis.remap("SSR", [k0, i, k1])
                    with T.init():
                        peak_rf[vi, v0] = T.float32("-inf")
                    peak_rf[vi, v0] = T.max(peak_rf[vi, v0], x[vi, v0 * 4 + v1])
            for k1 in range(4):
                with T.block("total_rf"):
                    v0, vi, v1 = T.axis.remap("SSR", [k0, i, k1])
                    with T.init():
                        total_rf[vi, v0] = T.float32(0)
                    total_rf[vi, v0] = total_rf[vi, v0] + T.exp(x[vi, v0 * 4 + v1] - peak_rf[vi, v0])
        for k0 in range(2):
            with T.block("peak"):
                v0, vi = T.axis.remap("RS", [k0, i])
                with T.init():
                    peak[vi] = T.float32("-inf")
                peak[vi] = T.max(peak[vi], peak_rf[vi, v0])
        for k0 in range(2):
            with T.block("scale"):
                v0, vi = T.axis.remap("SS", [k0, i])
                scale[vi, v0] = T.exp(peak_rf[vi, v0] - peak[vi])
        for k0 in range(2):
            with T.block("total"):
                v0, vi = T.axis.remap("RS", [k0, i])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + scale[vi, v0] * total_rf[vi, v0]
    for i in range(3):
        with T.block("result"):
            vi = T.axis.spatial(3, i)
            T.reads(total[vi])
            T.writes(result[vi])
            result[vi] = total[vi]
"""


def test_what_is_written_by_hand_is_combined_as_well() -> None:
    func = from_source(COMBINED)
    sch = Schedule(func)
    sch.run_chain(sch.get_loops("total_rf")[1])
    assert_close_on(func, sch, arrays_of(func, 3))
