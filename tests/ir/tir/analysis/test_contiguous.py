"""Which accesses are one piece of memory, and which loads may read the start of their buffer instead."""

from __future__ import annotations

from typing import Any

import pytest

from ir.codegen.build import build
from ir.tir import Broadcast, BufferLoad, BufferStore, PrimFunc, Ramp, SizeVar, Var, decl_buffer
from ir.tir.analysis.contiguous import first_of_piece, may_read_the_start

i, n = Var("i"), SizeVar("n")
FLAT, SHORT, OPEN = (decl_buffer((extent,), "float32") for extent in (16, 3, n))
SCALAR, SQUARE = decl_buffer((), "float32"), decl_buffer((4, 4), "float32")


@pytest.mark.parametrize(
    ("index", "piece", "first"),
    [
        (None, True, None),
        (i, True, i),
        (Ramp(i, 1, 4), True, i),
        (Ramp(i, 2, 4), False, None),
        (Ramp(i, -1, 4), False, None),
        (Ramp(i, n, 4), False, None),
        (Broadcast(i, 4), False, None),
    ],
    ids=str,
)
def test_pieces(index: Any, piece: bool, first: Any) -> None:
    found, base = first_of_piece(index)
    assert found is piece and base is first


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (BufferLoad(FLAT, [i]), True),
        (BufferLoad(FLAT, [Ramp(i, 1, 16)]), True),
        (BufferLoad(FLAT, [Ramp(i, 1, 32)]), False),  # the buffer is shorter
        (BufferLoad(SHORT, [i]), True),
        (BufferLoad(SHORT, [Ramp(i, 1, 4)]), False),
        (BufferLoad(FLAT, [Ramp(i, 2, 4)]), False),  # several pieces
        (BufferLoad(FLAT, [Broadcast(i, 4)]), False),
        (BufferLoad(OPEN, [i]), False),  # may be empty
        (BufferLoad(SCALAR, []), False),
        (BufferLoad(SQUARE, [i, i]), False),  # not flat
    ],
    ids=str,
)
def test_loads_that_may_read_the_start(load: BufferLoad, expected: bool) -> None:
    assert may_read_the_start(load) is expected


@pytest.mark.parametrize("load", [BufferLoad(buffer, [i], predicate=i > 2) for buffer in (FLAT, SHORT, OPEN)])
def test_a_masked_load_that_may_read_the_start_needs_no_branch(load: BufferLoad) -> None:
    """What IfConversion asks and what code generation does are one thing."""
    result = decl_buffer((1,), "float32", "result")
    func = PrimFunc([load.buffer, result, i], BufferStore(result, load, [0]))
    assert ("br i1" in build(func).llvm_ir) is not may_read_the_start(load)
