"""Which accesses are one piece of memory, and which loads may read the start of their buffer instead."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.codegen.build import build
from ir.tir import Broadcast, BufferLoad, BufferStore, Cast, PrimFunc, Ramp, SizeVar, Var, decl_buffer
from ir.tir.analysis.contiguous import constant_lanes, first_of_piece, may_read_the_start
from ir.tir.expr import FloorDiv, FloorMod, PrimExpr

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


# ---- lanes that differ by constants ------------------------------------------------------------------------------------

LANES = 8


@st.composite
def indices(draw: st.DrawFn, depth: int = 0) -> PrimExpr:
    """Vectors of indices of variables, constants and arithmetic."""
    number = st.integers(-9, 9)
    kind = draw(
        st.sampled_from(["shared", "ramp"] if depth > 2 else ["shared", "ramp", "+", "-", "*", "//", "%"])
    )
    if kind == "shared":
        return Broadcast(draw(st.one_of(st.just(i), number)), LANES)
    if kind == "ramp":
        return Ramp(draw(st.one_of(st.just(i), number)), draw(number), LANES)
    a, b = draw(indices(depth + 1)), draw(indices(depth + 1))
    if kind in ("+", "-"):
        return a + b if kind == "+" else a - b
    constant = Broadcast(draw(number), LANES)
    if kind == "*":
        return a * constant if draw(st.booleans()) else constant * a
    return FloorDiv(a, constant) if kind == "//" else FloorMod(a, constant)


def lanes_of(index: PrimExpr, value: int) -> list[int]:
    """By Python, lane by lane."""
    if isinstance(index, Var):
        return [value] * LANES
    if isinstance(index, Broadcast):
        return lanes_of(index.value, value)
    if isinstance(index, Ramp):
        return [base + lane * index.stride.value for lane, base in enumerate(lanes_of(index.base, value))]
    if not hasattr(index, "a"):
        return [index.value] * LANES  # type: ignore[attr-defined]
    pairs = zip(lanes_of(index.a, value), lanes_of(index.b, value))
    operations: dict[str, Any] = {
        "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
        "FloorDiv": lambda a, b: a // b, "FloorMod": lambda a, b: a % b,
    }  # fmt: skip
    return [operations[type(index).__name__](a, b) for a, b in pairs]


@given(indices(), st.integers(-20, 20))
def test_a_base_and_offsets_are_the_lanes(index: PrimExpr, value: int) -> None:
    found = constant_lanes(index)
    if found is not None:
        base = 0 if found.base is None else lanes_of(found.base, value)[0]
        assert [base + offset for offset in found.offsets] == lanes_of(index, value)


@pytest.mark.parametrize(
    "index",
    [
        Broadcast(i, 8) + Ramp(0, 1, 8) // Broadcast(4, 8) * Broadcast(4, 8),
        Broadcast(3, 8) * (Broadcast(i, 8) - Ramp(i, 2, 8)),
        Ramp(7, -1, 8) % Broadcast(3, 8),
    ],
    ids=str,
)
def test_lanes_that_are_known(index: PrimExpr) -> None:
    assert constant_lanes(index) is not None


@pytest.mark.parametrize(
    "index",
    [
        (Broadcast(i, 8) + Ramp(0, 1, 8)) // Broadcast(4, 8),  # where groups begin is not known
        Ramp(i, n, 8),
        Ramp(0, 1, 8) * Ramp(i, 1, 8),
        Ramp(0, 1, 8) // Ramp(0, 1, 8),  # by zero
        Cast("int64x8", Ramp(i, 1, 8)),
        Ramp(Var("b", "uint8"), 1, 8),  # data, which may have wrapped
    ],
    ids=str,
)
def test_lanes_that_are_not(index: PrimExpr) -> None:
    assert constant_lanes(index) is None
