"""Copies of a buffer between a writer and a reader of every shape: what is accepted keeps the meaning, what is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.tir.function import PrimFunc
from ir.tir.interpreter import InterpreterError
from schedules import Schedule, ScheduleError
from tests.schedules.checks import arrays_for, assert_replays, main_of, outputs_of

WRITES = ["P[vi, vj]", "P[vi, 5 - vj]", "P[5 - vi, vj]", "P[vi, vj * 2 % 6]", "P[vi // 2, vj]", "P[0, vj]"]
READS = ["P[vi, vj]", "P[5 - vi, vj]", "P[vi, vj // 2]", "P[vi, 0]", "P[vj, vi]", "P[vi, (vj + 1) % 6]"]
GUARDS = ["", "T.where(j <= i)", "if A[vi, vj] > T.float32(0):"]
EXTENTS = ["6", "4", "i + 1", "6 - i"]


@dataclass(frozen=True)
class Pair:
    """A block P that writes a buffer, a block C that reads it, and what is said of both."""

    is_parameter: bool
    shares_loop: bool
    rows: int
    write: str
    extent: str
    guard: str
    read: str
    is_lazy: bool

    def func(self) -> PrimFunc:
        """The program; ``P`` has 6 rows of 6."""
        read = f"T.if_then_else(vi < 3, {self.read}, T.float32(5))" if self.is_lazy else self.read
        writer = [
            f"    for j in range({self.extent}):",
            '        with T.block("P"):',
            "            vi = T.axis.spatial(6, i)",
            "            vj = T.axis.spatial(6, j)",
            f"            {self.guard or 'pass'}",
            f"            {'    ' if self.guard.startswith('if') else ''}{self.write} = A[vi, vj] * T.float32(2)",
        ]
        reader = [
            "    for j in range(6):",
            '        with T.block("C"):',
            "            vi = T.axis.spatial(6, i)",
            "            vj = T.axis.spatial(6, j)",
            f"            C[vi, vj] = {read} + T.float32(1)",
        ]
        lines = [f"for i in range({self.rows}):", *writer]
        lines += reader if self.shares_loop else [f"for i in range({self.rows}):", *reader]
        names = ["A", "C", *(["P"] if self.is_parameter else [])]
        parameters = ", ".join(f"{name}: T.Buffer((6, 6))" for name in names)
        if not self.is_parameter:
            lines.insert(0, "P = T.alloc_buffer((6, 6))")
        return from_source(f"@T.prim_func\ndef main({parameters}):\n" + "\n".join("    " + x for x in lines))  # type: ignore[no-any-return]


pairs = st.builds(
    Pair,
    is_parameter=st.booleans(),
    shares_loop=st.booleans(),
    rows=st.sampled_from([6, 6, 4]),
    write=st.sampled_from([WRITES[0], *WRITES]),
    extent=st.sampled_from([EXTENTS[0], *EXTENTS]),
    guard=st.sampled_from([GUARDS[0], *GUARDS]),
    read=st.sampled_from([READS[0], *READS]),
    is_lazy=st.booleans(),
)

Step = Callable[[Schedule], Any]

BEFORE: dict[str, Step] = {
    "nothing": lambda sch: None,
    "tiles of P": lambda sch: _tiled(sch, "P"),
    "tiles of C": lambda sch: _tiled(sch, "C"),
    "blocks": lambda sch: sch.blockize(sch.get_loops("P")[1]),
    "shifted": lambda sch: sch.transform_block_layout("C", lambda i, j: (i + 1, j)),
    "parallel": lambda sch: sch.parallel(sch.get_loops("P")[0]),
    "uneven": lambda sch: sch.split(sch.get_loops("C")[1], [None, 4]),
    "parts": lambda sch: sch.loop_partition(sch.get_loops("P")[-1], [2, None]),
}
COPIES: dict[str, Step] = {
    "cache_read": lambda sch: sch.cache_read("C", 0, "local"),
    "cache_read of P": lambda sch: sch.cache_read("P", 0, "local"),
    "cache_write": lambda sch: sch.cache_write("P", 0, "local"),
    "cache_write for C": lambda sch: sch.cache_write("P", 0, "local", ["C"]),
    "cache_write of C": lambda sch: sch.cache_write("C", 0, "local"),
    "reindex read": lambda sch: sch.reindex("C", ("read", 0)),
    "reindex write": lambda sch: sch.reindex("P", ("write", 0)),
    "reindex_cache_read": lambda sch: sch.reindex_cache_read("C", 0, "local", lambda *v: v[::-1]),
    "reindex_cache_write": lambda sch: sch.reindex_cache_write("P", 0, "local", lambda *v: v[::-1]),
    "read_at": lambda sch: sch.read_at(sch.get_loops("C")[0], "C", 0, "local"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("P")[0], "P", 0, "local"),
    "inner write_at": lambda sch: sch.write_at(sch.get_loops("P")[-1], "P", 0, "local"),
    "pad_einsum of P": lambda sch: sch.pad_einsum("P", [1, 4]),
    "pad_einsum of C": lambda sch: sch.pad_einsum("C", [4, 1]),
    "compute_at": lambda sch: sch.compute_at("P", sch.get_loops("C")[0]),
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("P")[0]),
    "inner reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("P")[-1]),
    "compute_inline": lambda sch: sch.compute_inline("P"),
}


def _tiled(sch: Schedule, block: str) -> None:
    outer, inner = sch.split(sch.get_loops(block)[0], [None, 2])
    sch.reorder(inner, outer)


@settings(max_examples=150, deadline=None)
@given(pairs, st.sampled_from(list(BEFORE)), st.lists(st.sampled_from(list(COPIES)), min_size=1, max_size=2))
def test_copies(pair: Pair, before: str, copies: list[str]) -> None:
    func = pair.func()
    arrays = arrays_for(func)
    try:
        expected = outputs_of(func, arrays)
    except InterpreterError:
        assume(False)
    sch = Schedule(func, error_render_level="none")
    accepted = 0
    for step in (BEFORE[before], *(COPIES[name] for name in copies)):
        text = sch.mod.script()
        try:
            step(sch)
            accepted += 1
        except ScheduleError:
            if step is not BEFORE[before]:
                assert sch.mod.script() == text
    event(f"{accepted} steps of {1 + len(copies)}")
    for found, wanted in zip(outputs_of(main_of(sch), arrays), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert_replays(sch, func)
