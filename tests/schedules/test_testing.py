"""The helpers for tests of scheduling programs."""

from __future__ import annotations

import pytest

from ir import IRModule
from ir.error import IRError
from schedules import Schedule, ScheduleError
from schedules.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip
from tests.programs import kernels

from .checks import assert_refused, assert_replays

first = kernels.copy(8).with_attr("global_symbol", "first")


second = kernels.copy(8).with_attr("global_symbol", "second")


def test_round_trip() -> None:
    sch = Schedule(first)
    sch.split(sch.get_loops("B")[0], [None, 2])
    for text_format in ("json", "python"):
        again = verify_trace_roundtrip(sch, first, text_format=text_format)
        assert again.mod.script() == sch.mod.script()
    with pytest.raises(ScheduleError, match="text_format"):
        verify_trace_roundtrip(sch, first, text_format="xml")


def test_symbols_do_not_count() -> None:
    assert_structural_equal_ignore_global_symbol(first, second)
    assert_structural_equal_ignore_global_symbol(IRModule({"main": first}), IRModule({"main": second}))
    sch = Schedule(second)
    sch.split(sch.get_loops("B")[0], [None, 2])
    with pytest.raises(IRError):
        assert_structural_equal_ignore_global_symbol(first, sch.mod["main"])


def test_places_of_statements() -> None:
    sch = Schedule(first)
    loop = sch.get_loops("B")[0]
    sref = sch.get_sref(sch.get_block("B"))
    assert sref.stmt.name_hint == "B" and sref.parent is not None
    assert sref.parent.stmt.same_as(sch.get(loop)) and sref.parent.parent.parent is None
    assert sch.get_sref(sch.get(loop)).stmt.same_as(sch.get(loop))


def test_stated_regions() -> None:
    sch = Schedule(first)
    block = sch.get_block("B")
    sch.annotate_buffer_access(block, 0, "read", lambda i: [(i - 1, i + 2)])
    (region,) = sch.get(block).reads
    assert str(region.region[0].extent) == "3"
    assert sch.get(block).annotations["explicit_read_region"] == (0,)
    assert_replays(sch, first)
    assert_refused(
        sch,
        lambda: sch.annotate_buffer_access(block, 0, "read", lambda i: [i, i]),
        "2 ranges",
        "1 dimensions",
    )
