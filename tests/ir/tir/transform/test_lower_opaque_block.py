"""LowerOpaqueBlock: blocks become statements."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.stmt import Allocate
from ir.tir.transform import ConvertBlocksToOpaque, LowerOpaqueBlock


@T.prim_func
def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        for u in range(1):
            with T.block(""):
                T.where(i < 10)
                T.reads(A[i + u])
                T.writes(C[i])
                B = T.alloc_buffer((4,))
                B[0] = A[i + u]
                C[i] = B[0]


@T.prim_func
def expected(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        if i < 10:
            B_data = T.allocate([4], "float32", "global")
            B = T.Buffer((4,), data=B_data)
            B[0] = A[i + 0]
            C[i] = B[0]


def lowered(func):
    return tir.transform.LowerOpaqueBlock()(IRModule({"main": func}))["main"]


def test_structure(apply):
    after = apply(tir.transform.LowerOpaqueBlock(), before)
    text = after.script()
    assert "T.block" not in text
    assert "if i < 10" in text and "allocate" in text
    assert " u " not in text


def test_pragmas_become_attributes():
    @T.prim_func
    def pragma(A: T.Buffer((16,), "float32")):
        for i in T.serial(16, annotations={"pragma_auto_unroll_max_step": 16, "kept": 1}):
            A[i] = T.float32(0)

    body = lowered(pragma).body
    assert isinstance(body, tir.AttrStmt) and body.attr_key == "pragma_auto_unroll_max_step"
    assert isinstance(body.body, tir.For) and set(body.body.annotations) == {"kept"}


def test_thread_loops_become_attributes():
    @T.prim_func
    def bound(A: T.Buffer((16,), "float32")):
        for i in T.thread_binding(16, thread="threadIdx.x"):
            A[i] = T.float32(0)

    body = lowered(bound).body
    assert isinstance(body, tir.AttrStmt) and body.attr_key == "thread_extent"
    assert body.node.thread_tag == "threadIdx.x"


@pytest.mark.parametrize(
    ("shape", "layout", "elements"),
    [
        ((64, 8), "strides=[1, 64]", 512),
        ((64, 8), "strides=[200, 1]", 12800),
        ((8,), "elem_offset=100", 108),
        ((60000, 3), "strides=[65536, 1]", 60000 * 65536),
    ],
)
@pytest.mark.parametrize("kind", ["alloc_buffer", "decl_buffer"])
def test_memory_holds_the_last_element_of_a_buffer(
    kind: str, shape: tuple[int, ...], layout: str, elements: int
) -> None:
    """However it is laid out, and however many elements that are."""
    names = ", ".join("ij"[: len(shape)])
    main = from_source(f"""@T.prim_func
def main(A: T.Buffer({shape}, "int8"), C: T.Buffer({shape}, "int8")):
    B = T.{kind}({shape}, "int8", {layout})
    for {names} in T.grid({", ".join(map(str, shape))}):
        B[{names}] = A[{names}]
    for {names} in T.grid({", ".join(map(str, shape))}):
        C[{names}] = B[{names}]
""")
    found: list[int] = []
    for item in LowerOpaqueBlock()(ConvertBlocksToOpaque()(IRModule({"main": main})))["main"], main:
        post_order_visit(
            item.body,
            lambda node: found.append(node.extents[0].value) if isinstance(node, Allocate) else None,
        )
    assert found and set(found) == {elements}
    if elements > 1 << 20:
        return  # the process would keep such memory
    a = (np.arange(np.prod(shape)) % 100).astype("int8").reshape(shape)
    result = np.zeros(shape, "int8")
    build(main, "cpu")["main"](a, result)
    np.testing.assert_array_equal(result, a)
