"""HoistTensorMaps: maps are made before the kernel, of whole tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.tir.interpreter import run

PASS = tir.transform.HoistTensorMaps()
ENCODE = 'A_map: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled'


def program(*lines: str, shape: str = "(4, 512, 256)") -> tir.PrimFunc:
    text = "\n".join(f"    {line}" for line in lines)
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(a: T.handle):
    A = T.match_buffer(a, {shape}, "float16")
{text}
"""
    )


KERNEL = (
    'bx = T.launch_thread("blockIdx.x", 8)',
    's = T.allocate([4096], "float16", "shared.dyn")',
)


def test_a_part_becomes_a_place_in_the_whole() -> None:
    before = program(
        *KERNEL,
        f'{ENCODE}(T.address_of(A[1, bx * 64, 32]), "float16", 128, 64, 224, 256, 1, 64, 64)',
        "for k in range(3):",
        '    T.evaluate(T.ptx_cp_async_bulk_tensor("float16", s, 0, A_map, 0, 2, k * 64))',
    )
    expected = program(
        f'{ENCODE}(A.data, "float16", 128, 4, 512, 256, 131072, 256, 1, 1, 64, 64)',
        *KERNEL,
        "for k in range(3):",
        '    T.evaluate(T.ptx_cp_async_bulk_tensor("float16", s, 0, A_map, 0, 1, bx * 64 + 2, k * 64 + 32))',
    )
    after = PASS(IRModule({"main": before}))["main"]
    simplify = tir.transform.Simplify()
    assert_structural_equal(
        simplify(IRModule({"main": after}))["main"], simplify(IRModule({"main": expected}))["main"], True
    )


COPYING = """
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((3, 32, 64), "float16"), B: T.Buffer((2, 4, 512), "float16")):
    bx = T.launch_thread("blockIdx.x", 2)
    by = T.launch_thread("blockIdx.y", 4)
    tx = T.launch_thread("threadIdx.x", 16)
    s = T.allocate([512], "float16", "shared")
    S = T.Buffer((512,), "float16", data=s, scope="shared")
    A_map: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(
        T.address_of(A[bx + 1, by * 8, 32 * (by % 2)]), "float16", 64, 8, 32, 64, 1, 4, 32)
    T.evaluate(T.create_barriers(1))
    if tx == 0:
        T.evaluate(T.ptx_init_barrier_thread_count(0, 1))
    T.tvm_storage_sync("shared")
    if tx == 0:
        T.evaluate(T.ptx_arrive_barrier_expect_tx(0, 512))
        for k in range(2):
            T.evaluate(T.ptx_cp_async_bulk_tensor("float16", s, k * 256, A_map, 0, k * 4, 0))
    T.evaluate(T.ptx_wait_barrier(0, 0))
    for i in range(8):
        B[bx, by, i // 4 * 256 + i % 4 * 16 + tx] = S[i // 4 * 256 + i % 4 * 16 + tx]
"""


def test_copies_bring_the_same() -> None:
    """Each block copies boxes of a part of its own, before the pass by a map of that part, behind it by one of all of the tensor."""
    func = from_source(COPYING)
    after = PASS(IRModule({"main": func}))["main"]
    assert after.script().index("tensor_map_encode_tiled") < after.script().index("launch_thread")
    a = np.random.default_rng(0).standard_normal((3, 32, 64)).astype("float16")
    found = [np.zeros((2, 4, 512), "float16") for _ in range(2)]
    run(func, a, found[0])
    run(after, a, found[1])
    assert (found[0] == found[1]).all()
    first = found[0][1, 2, :32].copy()  # the first row of a box is not swizzled
    assert (first == a[2, 16, :32]).all()


def test_without_maps_nothing_changes() -> None:
    mod = IRModule({"main": program(*KERNEL, "for k in range(3):", "    T.evaluate(k)")})
    assert PASS(mod)["main"] is mod["main"]


@pytest.mark.parametrize(
    ("line", "shape", "told"),
    [
        (
            '(T.address_of(A[0, 0, 0]), "float16", 128, 64, 256, 512, 1, 64, 64)',
            "(4, 512, 256)",
            "it must show the innermost ones",
        ),
        (
            '(T.address_of(A[0, 0, 0, 0, 0, 0]), "float16", 128, 64, 64, 64, 1, 64, 64)',
            "(2, 2, 2, 2, 64, 64)",
            "at most 5",
        ),
        ('(A.data, "float16", 128, 64, 256, 256, 1, 64, 64)', "(4, 512, 256)", "the address of an element"),
        (
            '(T.address_of(S[0, 0]), "float16", 128, 64, 64, 64, 1, 64, 64)',
            "(4, 512, 256)",
            "known within it only",
        ),
    ],
)
def test_refusals(line: str, shape: str, told: str) -> None:
    own = 'S = T.Buffer((64, 64), "float16", data=s, scope="shared.dyn")'
    func = program(
        *KERNEL,
        own,
        f"{ENCODE}{line}",
        'T.evaluate(T.ptx_cp_async_bulk_tensor("float16", s, 0, A_map, 0, 0, 0))',
        shape=shape,
    )
    with pytest.raises(IRValueError, match=told):
        PASS(IRModule({"main": func}))
