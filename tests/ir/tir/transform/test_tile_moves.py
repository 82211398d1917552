# ruff: noqa: E501  scripts have long calls
"""Calls that move whole tiles say what they read and write: buffers of tiles are allocated in the loops that make them."""

from __future__ import annotations

from ir import IRModule
from ir.node import post_order_visit
from ir.script import from_source
from ir.tir import For
from ir.tir.transform import PlanAndUpdateBufferAllocationLocation

TEXT = """@T.prim_func
def main(A: T.Buffer((64, 16), "float16")):
    X = T.alloc_buffer((64, 16), "float16", scope="wmma.matrix_a")
    Y = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
    for k in range(4):
        with T.block("load"):
            vk = T.axis.spatial(4, k)
            T.reads(A[vk * 16 : vk * 16 + 16, 0:16])
            T.writes(X[vk * 16 : vk * 16 + 16, 0:16])
            a = T.match_buffer(A[vk * 16 : vk * 16 + 16, 0:16], (16, 16), "float16", offset_factor=1)
            x = T.match_buffer(X[vk * 16 : vk * 16 + 16, 0:16], (16, 16), "float16", scope="wmma.matrix_a", offset_factor=1)
            T.tvm_load_matrix_sync(x.data, 16, 16, 16, 0, T.tvm_access_ptr(T.type_annotation("float16"), a.data, a.elem_offset, 256, 1), 16, "row_major")
        with T.block("multiply"):
            vk = T.axis.spatial(4, k)
            T.reads(X[vk * 16 : vk * 16 + 16, 0:16], Y[0:16, 0:16])
            T.writes(Y[0:16, 0:16])
            x = T.match_buffer(X[vk * 16 : vk * 16 + 16, 0:16], (16, 16), "float16", scope="wmma.matrix_a", offset_factor=1)
            y = T.match_buffer(Y[0:16, 0:16], (16, 16), scope="wmma.accumulator", offset_factor=1)
            T.tvm_mma_sync(y.data, 0, x.data, 0, x.data, 0, y.data, 0)
"""


def inside_of_the_loop(text: str) -> set[str]:
    placed = PlanAndUpdateBufferAllocationLocation()(IRModule({"main": from_source(text)}))["main"]
    found: set[str] = set()

    def look(node: object) -> None:
        if isinstance(node, For):
            block = getattr(node.body, "block", None)
            found.update(buffer.name for buffer in getattr(block, "alloc_buffers", ()))

    post_order_visit(placed.body, look)
    return found


def test_operands_belong_to_an_iteration_and_sums_do_not() -> None:
    assert inside_of_the_loop(TEXT) == {"X"}


def test_what_is_not_loaded_whole_stays_outside() -> None:
    foreign = TEXT.replace(
        "T.tvm_load_matrix_sync(x.data, 16, 16, 16, 0, ", 'T.call_extern("handle", "load", x.data, '
    )
    assert inside_of_the_loop(foreign) == set()
