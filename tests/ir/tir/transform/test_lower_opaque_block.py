"""LowerOpaqueBlock: blocks become statements."""

from ir import IRModule, tir
from ir.script import tir as T


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
