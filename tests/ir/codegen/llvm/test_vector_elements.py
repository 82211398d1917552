"""Buffers of vectors are read and written at places apart from each other: each element is all lanes of its vector."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.error import CodegenError
from ir.tir import Broadcast, BufferLoad, BufferStore, PrimExpr, Ramp
from runners.native import build_native

WIDTH, COUNT, EXTENT = 4, 5, 13
PLACES: dict[str, tuple[PrimExpr, list[int]]] = {
    "two apart": (Ramp(0, 2, COUNT), [0, 2, 4, 6, 8]),
    "three apart, backwards": (Ramp(12, -3, COUNT), [12, 9, 6, 3, 0]),
    "backwards": (Ramp(5, -1, COUNT), [5, 4, 3, 2, 1]),
    "one place": (Broadcast(tir.IntImm("int32", 7), COUNT), [7] * COUNT),
}
CASES = pytest.mark.parametrize("case", sorted(PLACES))


@CASES
def test_elements_apart_are_read_whole(case: str) -> None:
    index, places = PLACES[case]
    source = tir.decl_buffer((EXTENT,), f"float32x{WIDTH}", "A")
    result = tir.decl_buffer((COUNT * WIDTH,), "float32", "B")
    store = BufferStore(result, BufferLoad(source, [index]), [Ramp(0, 1, COUNT * WIDTH)])
    func = tir.PrimFunc([source, result], store).with_attr("global_symbol", "main")
    data, found = np.arange(EXTENT * WIDTH, dtype="float32").reshape(EXTENT, WIDTH), np.zeros(20, "float32")
    build_native(IRModule({"main": func}), "cpu")(data, found)
    np.testing.assert_array_equal(found, data[places].reshape(-1))


@CASES
def test_elements_apart_are_written_whole(case: str) -> None:
    index, places = PLACES[case]
    source = tir.decl_buffer((COUNT * WIDTH,), "float32", "A")
    result = tir.decl_buffer((EXTENT,), f"float32x{WIDTH}", "B")
    store = BufferStore(result, BufferLoad(source, [Ramp(0, 1, COUNT * WIDTH)]), [index])
    func = tir.PrimFunc([source, result], store).with_attr("global_symbol", "main")
    data, found = np.arange(1, 21, dtype="float32"), np.zeros((EXTENT, WIDTH), "float32")
    build_native(IRModule({"main": func}), "cpu")(data, found)
    expected = np.zeros((EXTENT, WIDTH), "float32")
    for place, element in zip(places, data.reshape(COUNT, WIDTH), strict=True):
        expected[place] = element
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stored", [False, True])
def test_elements_apart_under_a_mask_are_refused(stored: bool) -> None:
    """LLVM ended the process."""
    vectors = tir.decl_buffer((EXTENT,), f"float32x{WIDTH}", "V")
    plain, bits = tir.decl_buffer((COUNT * WIDTH,), "float32", "P"), tir.decl_buffer((COUNT,), "bool", "M")
    apart, whole = Ramp(0, 2, COUNT), Ramp(0, 1, COUNT * WIDTH)
    mask = BufferLoad(bits, [Ramp(0, 1, COUNT)])
    if stored:
        store = BufferStore(vectors, BufferLoad(plain, [whole]), [apart], mask)
    else:
        store = BufferStore(plain, BufferLoad(vectors, [apart], mask), [whole])
    func = tir.PrimFunc([vectors, bits, plain], store).with_attr("global_symbol", "main")
    with pytest.raises(CodegenError, match="buffer V of float32x4 is accessed under a mask"):
        build_native(IRModule({"main": func}), "cpu")
