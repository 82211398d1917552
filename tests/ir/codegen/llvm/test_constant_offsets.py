"""Constant places beyond 2^31: the flat offset of an element is a number of ℤ, whatever parts of it are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ir import te, tir
from ir.codegen.build import build
from ir.module import IRModule
from ir.script import from_source
from ir.tir.transform.flatten_buffer import FlattenBuffer
from schedules import Schedule
from tests.semantics.running import executors

_HEAD = "@T.prim_func\ndef main({}"
_PLAIN = 'A: T.Buffer((50000, 50000), "int8"), O: T.Buffer((8,), "int8")):\n'
_STRIDED = (
    'a: T.handle, O: T.Buffer((8,), "int8")):\n'
    '    A = T.match_buffer(a, (50000, 50000), "int8", strides=[50000, 1])\n'
)
_SYMBOLIC = (
    'a: T.handle, O: T.Buffer((8,), "int8")):\n'
    '    n = T.int32()\n    A = T.match_buffer(a, (n, 50000), "int8")\n'
)
_OF_FOUR = 'A: T.Buffer((50, 1000, 50, 1000), "int8"), O: T.Buffer((8,), "int8")):\n'
_ONE = "    O[0] = A[49999, 49999]\n"
_ALONG = "    for j in T.vectorized(8):\n        O[j] = A[49999, j + 49992]\n"
_VIEW = """    with T.block("b"):
        T.reads(A[49996:50000, 49996:50000])
        T.writes(O[0:8])
        V = T.match_buffer(A[49996:50000, 49996:50000], (4, 4), "int8", strides=[{}], offset_factor=1)
        O[0] = V[3, 3]
"""
_LAST, _ROW, _COLUMN = [18, 0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, 18], [*range(11, 19)]

PROGRAMS = {
    "load": (_PLAIN + _ONE, _LAST),
    "guard": (_PLAIN + "    if O[1] == T.int8(0):\n        O[0] = A[49999, 49999]\n", _LAST),
    "strides": (_STRIDED + _ONE, _LAST),
    "symbolic": (_SYMBOLIC + _ONE, _LAST),
    "four dimensions": (_OF_FOUR + "    O[0] = A[49, 999, 49, 999]\n", _LAST),
    "vector": (_PLAIN + _ALONG, _ROW),
    "vector, strides": (_STRIDED + _ALONG, _ROW),
    "vector, symbolic": (_SYMBOLIC + _ALONG, _ROW),
    "column": (_PLAIN + "    for j in T.vectorized(8):\n        O[j] = A[49992 + j, 49999]\n", _COLUMN),
    "gather": (
        _PLAIN
        + '    for j in T.vectorized(8):\n        O[j] = A[49999, T.Cast("int32", O[j]) + 49992 + j]\n',
        _ROW,
    ),
    "broadcast": (_PLAIN + "    for j in T.vectorized(8):\n        O[j] = A[49999, 49999]\n", [18] * 8),
    "view": (_PLAIN + _VIEW.format('"s0", "s1"'), _LAST),
    "view, strides": (_PLAIN + _VIEW.format("50000, 1"), _LAST),
}


@pytest.fixture(scope="module")
def memory() -> Iterator[np.ndarray]:
    """2.5e9 bytes of which two pages are touched."""
    found = np.zeros((50000, 50000), "int8")
    found[49999, 49992:] = range(1, 9)
    found[49992:, 49999] = range(11, 19)
    yield found


@pytest.mark.meaning("index-flat")
@pytest.mark.parametrize("name", PROGRAMS)
def test_constant_places(name: str, memory: np.ndarray) -> None:
    source, expected = PROGRAMS[name]
    array = memory.reshape(50, 1000, 50, 1000) if name == "four dimensions" else memory
    for by, execute in executors(from_source(_HEAD.format(source))):
        found = np.zeros(8, "int8")
        execute(array, found)
        assert found.tolist() == expected, by


@pytest.mark.meaning("index-flat")
def test_constant_places_of_stores(memory: np.ndarray) -> None:
    lines = "    A[49999, 0] = O[0]\n    for j in T.vectorized(4):\n        A[49999, j + 4] = O[j + 1]\n"
    for by, execute in executors(from_source(_HEAD.format(_PLAIN + lines))):
        memory[49999, :8] = 0
        execute(memory, np.arange(1, 9, dtype="int8"))
        assert memory[49999, :8].tolist() == [1, 0, 0, 0, 2, 3, 4, 5], by


@pytest.mark.meaning("index-flat")
@pytest.mark.parametrize("change", [None, "vectorize", "unroll"])
def test_constant_places_of_te(change: str | None, memory: np.ndarray) -> None:
    A = te.placeholder((50000, 50000), "int8", "A")
    O = te.compute((4,), lambda i: A[49999, i + 49996] + A[0, i] + A[49999, 49999], "O")
    sch = Schedule(IRModule({"main": te.create_prim_func([A, O])}))
    if change is not None:
        (loop,) = sch.get_loops(sch.get_block("O"))
        getattr(sch, change)(loop)
    found = np.zeros(4, "int8")
    build(sch.mod)["main"](memory, found)
    assert found.tolist() == [5 + 18, 6 + 18, 7 + 18, 18 + 18]


def test_offsets_are_numbers_of_z() -> None:
    wide = tir.decl_buffer((50000, 50000), "int8")
    assert wide.offset_of([49999, 49999])[0].value == 2_499_999_999  # type: ignore[attr-defined]
    shifted = tir.decl_buffer((4,), "int8", elem_offset=2**31 - 1)
    assert shifted.offset_of([3])[0].value == 2**31 + 2  # type: ignore[attr-defined]
    # no part of a sum that holds a wide number is computed in 32 bits
    i = tir.Var("i", "int32")
    strided = tir.decl_buffer((9, 50000), "int8", strides=[50000, 60000])
    assert (
        str(strided.offset_of([i, 49999])[0]) == 'T.Cast("int64", i) * T.int64(50000) + T.int64(2999940000)'
    )
    extent = wide.access_ptr("r").args[3]
    assert extent.value == 2_500_000_000  # type: ignore[attr-defined]


def test_loaded_places_of_a_buffer_with_an_offset() -> None:
    """Its last element lies beyond 2^31, though it has few elements."""
    for form in ("elem_offset=2147483640", "strides=[1000000000, 1000000000, 1000000000]"):
        shape, place = ("(100,)", "B[0]") if "elem" in form else ("(2, 2, 2)", "B[0], B[1], B[2]")
        func = from_source(
            f'@T.prim_func\ndef main(a: T.handle, B: T.Buffer((3,), "int32"), O: T.Buffer((1,), "int8")):\n'
            f'    A = T.match_buffer(a, {shape}, "int8", {form})\n    O[0] = A[{place}]\n'
        )
        text = FlattenBuffer()(IRModule({"main": func})).script()
        assert 'T.Cast("int64", B[0])' in text, text
