"""ManifestSharedMemoryLocalStage: annotated copies go by registers, under the same loops."""

import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.transform import Sequential

PASS = tir.transform.ManifestSharedMemoryLocalStage()


def test_a_copy_becomes_two(check):
    @T.prim_func
    def before(A: T.Buffer((8, 16, 4), "float32"), C: T.Buffer((8, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(8):
                with T.block(""):
                    T.reads(A[k, tx, 0:4])
                    T.writes(C[k, tx])
                    A_shared = T.alloc_buffer((16, 4), scope="shared")
                    for x in T.vectorized(4):
                        with T.block("A_shared"):
                            T.where(k < 7)
                            T.reads(A[k, tx, x])
                            T.writes(A_shared[tx, x])
                            T.block_attr(
                                {"tir.manifest_shared_memory_local_stage": 1, "double_buffer_scope": 0}
                            )
                            A_shared[tx, x] = A[k, tx, x]
                    with T.block("C"):
                        T.where(k < 7)
                        T.reads(A_shared[tx, 3])
                        T.writes(C[k, tx])
                        C[k, tx] = A_shared[tx, 3]

    @T.prim_func
    def after(A: T.Buffer((8, 16, 4), "float32"), C: T.Buffer((8, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(8):
                with T.block(""):
                    T.reads(A[k, tx, 0:4])
                    T.writes(C[k, tx])
                    A_shared = T.alloc_buffer((16, 4), scope="shared")
                    with T.block(""):
                        T.reads(A[k, tx, 0:4])
                        T.writes(A_shared[tx, 0:4])
                        A_shared_local = T.alloc_buffer((4,), scope="local")
                        for x in T.vectorized(4):
                            with T.block("A_shared"):
                                T.where(k < 7)
                                T.reads(A[k, tx, x])
                                T.writes(A_shared_local[x])
                                A_shared_local[x] = A[k, tx, x]
                        for x in T.vectorized(4):
                            with T.block("A_shared"):
                                T.where(k < 7)
                                T.reads(A_shared_local[x])
                                T.writes(A_shared[tx, x])
                                T.block_attr({"double_buffer_scope": 0})
                                A_shared[tx, x] = A_shared_local[x]
                    with T.block("C"):
                        T.where(k < 7)
                        T.reads(A_shared[tx, 3])
                        T.writes(C[k, tx])
                        C[k, tx] = A_shared[tx, 3]

    check(PASS, before, after)


def copy(loops, body, extra="", scope="shared"):
    """A copy by a block under loops; ``body`` are the lines of the block."""
    indent = " " * 12
    lines = [indent + "    " * at + line for at, line in enumerate(loops.splitlines())]
    depth = len(lines)
    lines += [indent + "    " * depth + 'with T.block("copy"):']
    attr = 'T.block_attr({"tir.manifest_shared_memory_local_stage": True})'
    lines += [
        indent + "    " * (depth + 1) + line for line in (*extra.splitlines(), attr, *body.splitlines())
    ]
    text = "\n".join(lines)
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    for k in range(2):
        with T.block(""):
            S = T.alloc_buffer((64,), scope="{scope}")
{text}
            for x in range(16):
                C[k * 16 + x] = S[x]
"""
    )


def stages(func):
    found = {}
    post_order_visit(
        func.body,
        lambda node: (
            found.update({b.name: [int(e) for e in b.shape] for b in node.alloc_buffers})
            if isinstance(node, tir.Block)
            else None
        ),
    )
    return found


@pytest.mark.parametrize(
    ("loops", "body", "shape"),
    [
        ("for x in range(16):", "S[x] = A[k * 16 + x]", [16]),
        ("for x in range(4):\nfor y in range(4):", "S[x * 4 + y] = A[x * 4 + y]", [4, 4]),
        ("for x in range(4):", "for y in range(4):\n    S[x * 4 + y] = A[x * 4 + y]", [4, 4]),
        ("for x in range(3, 19):\nfor z in range(1):", "S[x - 3] = A[x]", [16]),
        ("", "for y in range(16):\n    if y < 20:\n        S[y] = A[y] * T.float32(2)", [16]),
        ("for x in range(16):", "S[x] = T.if_then_else(x < n, A[x], T.float32(0))", [16]),
    ],
)
def test_registers_have_the_extents_of_the_loops(apply, loops, body, shape):
    assert stages(apply(PASS, copy(loops, body)))["S_local"] == shape


def test_a_copy_of_one_element(apply):
    @T.prim_func
    def before(A: T.Buffer((1,), "float32"), C: T.Buffer((1,), "float32")):
        with T.block(""):
            S = T.alloc_buffer((1,), scope="shared")
            with T.block("copy"):
                T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                S[0] = A[0]
            C[0] = S[0]

    assert stages(apply(PASS, before))["S_local"] == [1]


def test_threads_have_registers_for_themselves(apply):
    func = copy(
        "for ty in T.thread_binding(4, thread='threadIdx.y'):\nfor x in range(4):",
        "S[ty * 4 + x] = A[ty * 4 + x]",
    )

    assert stages(apply(PASS, func))["S_local"] == [4]


def test_a_pipeline_keeps_the_steps_apart(apply):
    """Loads run one iteration ahead of stores, and these one ahead of the sum."""

    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
        for k in T.serial(
            8, annotations={"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 1, 2]}
        ):
            with T.block(""):
                S = T.alloc_buffer((4,), scope="shared")
                for x in range(4):
                    with T.block("S"):
                        T.reads(A[k, x])
                        T.writes(S[x])
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                        S[x] = A[k, x]
                with T.block("C"):
                    T.reads(S[0:4])
                    T.writes(C[k])
                    C[k] = S[0] + S[1] + S[2] + S[3]

    after = apply(Sequential([PASS, tir.transform.InjectSoftwarePipeline()]), before)
    assert stages(after) == {"S": [2, 4], "S_local": [2, 4]}


@pytest.mark.parametrize(
    ("loops", "body", "extra", "scope", "message"),
    [
        (
            "for x in range(16):",
            "S[x] = A[x]",
            "",
            "local",
            "'copy' .* it stores to memory of scope 'local'; annotate blocks that copy",
        ),
        ("for x in range(16):", "S[x] = T.float32(1)", "", "shared", "it loads nothing from global memory"),
        (
            "for x in range(16):",
            "S[x] = A[x]\nS[x + 1] = A[x]",
            "",
            "shared",
            "there is a SeqStmt where one store is expected",
        ),
        ("for x in range(n):", "S[x] = A[x]", "", "shared", "loop 'x' has extent n; registers need a number"),
        ("for x in range(16):", "S[x + 1] = S[x] + A[x]", "", "shared", "it also reads S"),
        (
            "for x in range(16):",
            "S[v] = A[v]",
            "v = T.axis.spatial(16, x)",
            "shared",
            "it has variables, views",
        ),
    ],
)
def test_what_is_no_copy_is_refused(loops, body, extra, scope, message):
    with pytest.raises(IRValueError, match=message):
        PASS(IRModule({"main": copy(loops, body, extra, scope)}))


def test_a_function_without_annotations_is_the_same_object():
    @T.prim_func
    def plain(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = T.float32(0)

    assert PASS(IRModule({"main": plain}))["main"] is plain
