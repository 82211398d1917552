"""InjectSoftwarePipeline: iterations overlap, buffers get versions, copies are waited for; what would change results is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ir import IRModule, tir
from ir.error import IRValueError
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run

from .late_copies import LateCopies

PASS = tir.transform.InjectSoftwarePipeline()


def pipelined(func):
    return PASS(IRModule({"main": func}))["main"]


def shapes(func):
    found = {}

    def note(node):
        if isinstance(node, tir.Block):
            found.update({buffer.name: [int(e) for e in buffer.shape] for buffer in node.alloc_buffers})

    post_order_visit(func.body, note)
    return found


def loop(body, stage, order, extra="", extent="16", allocated="", params=""):
    """A function with one annotated loop over ``i``; the body's lines are children."""
    lines = "\n".join(f"            {line}" for line in (*allocated.splitlines(), *body.splitlines()))
    return from_source(
        f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32"), D: T.Buffer((32,), "float32"){params}):
    T.func_attr({{"tir.noalias": True}})
    for i in T.serial({extent}, annotations={{"software_pipeline_stage": {stage}, "software_pipeline_order": {order}{extra}}}):
        with T.block(""):
{lines}
"""
    )


# ---- structure ---------------------------------------------------------------------------------------------------


def test_two_stages(check):
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for i in T.serial(
                0, 16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
            ):
                with T.block(""):
                    T.reads(A[tx, i])
                    T.writes(C[tx, i])
                    B = T.alloc_buffer((16, 1), scope="shared")
                    with T.block("B"):
                        T.reads(A[tx, i])
                        T.writes(B[tx, 0])
                        B[tx, 0] = A[tx, i] * T.float32(2)
                    with T.block("C"):
                        T.reads(B[tx, 0])
                        T.writes(C[tx, i])
                        C[tx, i] = B[tx, 0] + T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[tx, 0:16])
                T.writes(C[tx, 0:16])
                B = T.alloc_buffer((2, 16, 1), scope="shared")
                with T.block("B"):
                    T.reads(A[tx, 0])
                    T.writes(B[0, tx, 0])
                    B[0, tx, 0] = A[tx, 0] * T.float32(2)
                with T.block(""):
                    T.reads(A[tx, 1:16], B[0:2, tx, 0])
                    T.writes(B[0:2, tx, 0], C[tx, 0:15])
                    for i in range(15):
                        with T.block("B"):
                            T.reads(A[tx, i + 1])
                            T.writes(B[(i + 1) % 2, tx, 0])
                            B[(i + 1) % 2, tx, 0] = A[tx, i + 1] * T.float32(2)
                        with T.block("C"):
                            T.reads(B[i % 2, tx, 0])
                            T.writes(C[tx, i])
                            C[tx, i] = B[i % 2, tx, 0] + T.float32(1)
                with T.block("C"):
                    T.reads(B[1, tx, 0])
                    T.writes(C[tx, 15])
                    C[tx, 15] = B[1, tx, 0] + T.float32(1)

    check(PASS, before, after)


def test_a_longer_prologue_is_unrolled_and_says_when_its_stages_run(check):
    before = loop(
        "B[0] = A[i]\nD[i] = B[0]\nC[i] = B[0] + D[i]",
        [0, 1, 2],
        [0, 1, 2],
        allocated="B = T.alloc_buffer((1,))",
    )

    @T.prim_func
    def after(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32"), D: T.Buffer((32,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block(""):
                T.reads(A[0:16], D[0:16])
                T.writes(D[0:17], C[0:16])
                B = T.alloc_buffer((3, 1))
                with T.block(""):
                    T.reads(A[0:2], B[0:3, 0])
                    T.writes(B[0:2, 0], D[0])
                    for i in T.unroll(2):
                        with T.block(""):
                            T.reads(A[i])
                            T.writes(B[i, 0])
                            B[i, 0] = A[i]
                        with T.block(""):
                            T.where(1 <= i)
                            T.reads(B[(i + 2) % 3, 0])
                            T.writes(D[i - 1])
                            D[i - 1] = B[(i + 2) % 3, 0]
                with T.block(""):
                    T.reads(A[2:16], B[0:3, 0], D[0:14])
                    T.writes(B[0:3, 0], D[1:15], C[0:14])
                    for i in range(14):
                        with T.block(""):
                            T.reads(A[i + 2])
                            T.writes(B[(i + 2) % 3, 0])
                            B[(i + 2) % 3, 0] = A[i + 2]
                        with T.block(""):
                            T.reads(B[(i + 1) % 3, 0])
                            T.writes(D[i + 1])
                            D[i + 1] = B[(i + 1) % 3, 0]
                        with T.block(""):
                            T.reads(B[i % 3, 0], D[i])
                            T.writes(C[i])
                            C[i] = B[i % 3, 0] + D[i]
                with T.block(""):
                    T.reads(B[0:3, 0], D[14:16])
                    T.writes(D[15:17], C[14:16])
                    for i in T.unroll(2):
                        with T.block(""):
                            T.where(i < 1)
                            T.reads(B[i, 0])
                            T.writes(D[i + 15])
                            D[i + 15] = B[i, 0]
                        with T.block(""):
                            T.reads(B[(i + 2) % 3, 0], D[i + 14])
                            T.writes(C[i + 14])
                            C[i + 14] = B[(i + 2) % 3, 0] + D[i + 14]

    check(PASS, before, after)


# ---- versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "order", "versions"),
    [
        ([0, 0], [0, 1], 1),
        ([0, 1], [0, 1], 2),
        ([0, 1], [1, 0], 1),  # what an iteration reads is read before the next one writes
        ([0, 2], [0, 1], 3),
        ([0, 2], [1, 0], 2),
        ([1, 2], [0, 1], 2),
    ],
)
def test_versions_are_as_many_as_iterations_under_way_need(apply, stage, order, versions):
    before = loop(
        "B[0] = A[i]\nC[i] = B[0] + T.float32(1)", stage, order, allocated="B = T.alloc_buffer((1,))"
    )
    expected = [versions, 1] if versions > 1 else [1]

    assert shapes(apply(PASS, before))["B"] == expected


def test_iterations_that_use_different_elements_need_one_version(apply):
    before = loop(
        "B[i] = A[i]\nC[i] = B[i] + T.float32(1)", [0, 1], [0, 1], allocated="B = T.alloc_buffer((16,))"
    )

    assert shapes(apply(PASS, before))["B"] == [16]


def test_a_block_may_ask_for_two_versions(apply):
    body = """with T.block("B"):
    T.reads(A[i])
    T.writes(B[0])
    T.block_attr({"double_buffer_scope": 0})
    B[0] = A[i]
C[i] = B[0]"""
    after = apply(PASS, loop(body, [0, 0], [0, 1], allocated="B = T.alloc_buffer((1,))"))

    assert shapes(after)["B"] == [2, 1]
    assert "double_buffer_scope" not in after.script()


def test_rows_of_versions_keep_their_strides(apply):
    @T.prim_func
    def before(A: T.Buffer((8, 2, 3), "float32"), C: T.Buffer((8, 2, 3), "float32")):
        for i in T.serial(
            8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
        ):
            with T.block(""):
                B = T.alloc_buffer((2, 3), strides=(5, 1))
                for x, y in T.grid(2, 3):
                    B[x, y] = A[i, x, y]
                for x, y in T.grid(2, 3):
                    C[i, x, y] = B[x, y] + T.float32(1)

    after = apply(PASS, before)
    found = []
    post_order_visit(
        after.body, lambda n: found.extend(n.alloc_buffers) if isinstance(n, tir.Block) else None
    )
    assert [[int(s) for s in buffer.strides] for buffer in found] == [[10, 5, 1]]


@T.prim_func
def tensor_cores(A: T.Buffer((8, 16, 16), "float16"), C: T.Buffer((8, 256), "float32")):
    for i in T.serial(
        8, annotations={"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 1, 2]}
    ):
        with T.block(""):
            T.reads(A[i, 0:16, 0:16])
            T.writes(C[i, 0:256])
            F = T.alloc_buffer((32, 16), "float16", scope="wmma.matrix_a")
            G = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
            S = T.alloc_buffer((300,), "float32", scope="shared")
            T.evaluate(
                T.tvm_load_matrix_sync(
                    F.data, 16, 16, 16, 1, A.access_ptr("r", offset=i * 256), 16, "row_major"
                )
            )
            with T.block(""):
                T.reads(F[0:32, 0:16], G[0:16, 0:16])
                T.writes(G[0:16, 0:16], S[0:300])
                T.evaluate(T.tvm_fill_fragment(G.data, 16, 16, 16, 0, T.float32(0)))
                T.evaluate(T.tvm_mma_sync(G.data, 0, F.data, 1, F.data, 1, G.data, 0))
                T.evaluate(
                    T.tvm_store_matrix_sync(
                        G.data, 16, 16, 16, 0, S.access_ptr("w", offset=44), 16, "row_major"
                    )
                )
            for j in range(256):
                C[i, j] = S[j + 44]


def test_addresses_and_fragments_move_by_versions():
    text = pipelined(tensor_cores).script()

    assert (
        re.findall(r"load_matrix_sync\(F.data, 16, 16, 16, (\S.*), T.tvm_access", text)[-1] == "i % 2 * 2 + 1"
    )
    assert re.findall(r"mma_sync\(G.data, 0, F.data, (.*?), F.data", text)[-1] == "(i + 1) % 2 * 2 + 1"
    assert re.findall(r"S.data, (.*?), ", text)[-1] == "(i + 1) % 2 * 300 + 44"
    assert "G = T.alloc_buffer((16, 16)" in text


def test_what_has_no_number_of_fragments_is_refused():
    @T.prim_func
    def before(C: T.Buffer((8,), "float32")):
        for i in T.serial(
            8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
        ):
            with T.block(""):
                T.reads()
                T.writes(C[i])
                F = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
                T.evaluate(T.tvm_mma_sync(F.data, 0, F.data, 0, F.data, 0, F.data, 0))
                C[i] = T.Cast("float32", F[0, 0])

    with pytest.raises(
        IRValueError, match="'i': buffer F needs 2 versions, but it is no whole number of fragments"
    ):
        pipelined(before)


# ---- what the children are ----------------------------------------------------------------------------------------


NESTED = """with T.block("S"):
    T.reads(A[i])
    T.writes(S[0:4])
    for x in range(4):
        S[x] = A[i] + T.Cast("float32", x)
for k in T.serial(4, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
    with T.block(""):
        T.reads(S[k], C[i])
        T.writes(C[i])
        L = T.alloc_buffer((1,), scope="local")
        L[0] = S[k]
        C[i] = C[i] + L[0]"""


@pytest.mark.parametrize(
    ("stage", "order", "shape_of_inner"),
    [
        ([0, 0, 1, 1], [0, 1, 2, 3], [2, 2, 1]),  # the prologue of the inner pipeline runs an iteration ahead
        ([0, 0, 1, 1], [0, 3, 1, 2], [2, 1]),  # behind what reads what it wrote the last time
        ([0, 1, 1, 1], [0, 1, 2, 3], [2, 1]),
        ([0, 1], [0, 1], [2, 1]),  # the inner pipeline is one child
    ],
)
def test_pipelines_in_pipelines(apply, stage, order, shape_of_inner):
    after = apply(PASS, loop(NESTED, stage, order, allocated='S = T.alloc_buffer((4,), scope="shared")'))

    assert shapes(after) == {"S": [2, 4], "L": shape_of_inner}


def test_statements_of_a_block_without_predicate_are_children(apply):
    body = """with T.block("copy"):
    T.reads(A[i])
    T.writes(B[0])
    L = T.alloc_buffer((1,), scope="local")
    L[0] = A[i]
    B[0] = L[0]
C[i] = B[0]"""
    allocated = "B = T.alloc_buffer((1,))"

    after = apply(PASS, loop(body, [0, 1, 2], [0, 1, 2], allocated=allocated))
    assert shapes(after) == {"L": [2, 1], "B": [2, 1]}
    whole = apply(PASS, loop(body, [0, 2], [0, 1], allocated=allocated))
    assert shapes(whole)["B"] == [3, 1]


def test_predicates_of_children_stay(apply):
    body = """with T.block("B"):
    T.where(i < 10)
    T.reads(A[i])
    T.writes(B[0])
    B[0] = A[i]
with T.block("C"):
    T.where(i < 10)
    T.reads(B[0])
    T.writes(C[i])
    C[i] = B[0] + T.float32(1)"""
    text = apply(PASS, loop(body, [0, 1], [0, 1], allocated="B = T.alloc_buffer((1,))")).script()

    assert "T.where(i + 1 < 10)" in text or "T.where(i < 9)" in text


def test_what_is_around_all_children_is_around_each(apply):
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), n: T.int32):
        for i in T.serial(
            16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
        ):
            with T.block(""):
                T.where(i < 15)
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((1,))
                with T.LetStmt(i * 2 + 1) as j:
                    if j != n:
                        B[0] = A[i]
                        C[i] = B[0] + T.Cast("float32", j)

    after = apply(PASS, before)
    assert shapes(after)["B"] == [2, 1]


def test_loops_that_do_not_begin_at_zero(apply):
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), n: T.int32):
        for i in T.serial(
            n, 12, annotations={"software_pipeline_stage": [0, 2], "software_pipeline_order": [1, 0]}
        ):
            with T.block(""):
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((1,))
                B[0] = A[i]
                C[i] = B[0] + T.float32(1)

    apply(PASS, before)


def test_other_annotations_stay_with_the_steady_state():
    func = loop(
        "B[0] = A[i]\nC[i] = B[0]", [0, 1], [0, 1], ', "keep": 1', allocated="B = T.alloc_buffer((1,))"
    )

    assert pipelined(func).script().count("annotations={'keep': 1}".replace("'", '"')) == 1


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_loops_shorter_than_the_pipeline(extent, is_symbolic):
    body = "B[0] = A[i]\nD[i] = B[0] * T.float32(2)\nC[i] = B[0] + D[i]"
    func = loop(
        body,
        [0, 1, 3],
        [2, 0, 1],
        extent="n" if is_symbolic else str(extent),
        allocated="B = T.alloc_buffer((1,))",
        params=", n: T.int32",
    )
    results = []
    for program in (func, pipelined(func)):
        arrays = [np.arange(32, dtype="float32") + k for k in range(3)]
        run(program, *arrays, extent)
        results.append(arrays)
    np.testing.assert_array_equal(results[0], results[1])


# ---- refusals -----------------------------------------------------------------------------------------------------


TWO = """with T.block("B"):
    T.reads(A[i])
    T.writes(B[0])
    B[0] = A[i]
C[i] = B[0]"""


@pytest.mark.parametrize(
    ("stage", "order", "extra", "message"),
    [
        (
            [0],
            [0, 1],
            "",
            r"'i': software_pipeline_stage has 1 entries, the loop's body 2 children: block 'B', a BufferStore",
        ),
        ([0, 1], [0, 1, 2], "", r"'i': software_pipeline_order has 3 entries, the loop's body 2 children"),
        (
            [0, 1],
            [0, 2],
            "",
            r"'i': software_pipeline_order \[0, 2\] is no permutation of 0 to 1: look at child 1",
        ),
        ([0, 1], [1, 1], "", r"no permutation of 0 to 1: look at child 1 \(a BufferStore\)"),
        ([-1, 1], [0, 1], "", r"software_pipeline_stage of child 0 \(block 'B'\) is -1; expected at least 0"),
        ("'x'", [0, 1], "", r"loop 'i': software_pipeline_stage is 'x', expected a list of integers"),
        ([0, 1], [0, 1], ', "software_pipeline_async_stages": [2]', r"has stage 2; there are \[0, 1\]"),
        (
            [1, 0],
            [0, 1],
            "",
            r"'i': child 1 in stage 0 at position 1 would run before child 0 \(block 'B'\) in stage 1",
        ),
        ([0, 0], [1, 0], "", r"both access buffer B; give the later one a later stage or position\n"),
        (
            [0, 1],
            [0, 1],
            ', "software_pipeline_async_stages": [1]',
            r"child 1 of asynchronous stage 1 writes buffer C, for which nothing behind the loop would wait",
        ),
    ],
)
def test_wrong_annotations_are_refused(stage, order, extra, message):
    with pytest.raises(IRValueError, match=message):
        pipelined(loop(TWO, stage, order, extra, allocated="B = T.alloc_buffer((1,))"))


def test_a_dependence_between_iterations_is_refused():
    """The first child reads what the second has written an iteration before, of which a pipeline would be too early."""
    func = loop("C[i] = D[i]\nD[i + 1] = C[i] + A[i]", [0, 1], [0, 1])

    with pytest.raises(
        IRValueError,
        match="child 0 in stage 0 at position 0 would run before child 1 of the iteration 1 before in stage 1 at position 1, but"
        " both access buffer D; give the later one a later stage or position, or allocate it in the loop's body",
    ):
        pipelined(func)


def test_a_dependence_between_iterations_that_the_order_keeps(apply):
    apply(PASS, loop("C[i] = D[i]\nD[i + 1] = C[i] + A[i]", [0, 1], [1, 0]))
    apply(PASS, loop("C[i] = D[i]\nD[i + 2] = C[i] + A[i]", [0, 1], [0, 1]))


def test_threads_of_a_block_share_memory():
    """Another thread reads what this one writes in the iteration before."""

    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        with T.block("root"):
            S = T.alloc_buffer((8, 4), scope="shared")
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                for i in T.serial(
                    7, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
                ):
                    with T.block(""):
                        T.reads(A[i, tx], S[i, 3 - tx])
                        T.writes(S[i + 1, tx], C[i, tx])
                        C[i, tx] = S[i, 3 - tx]
                        S[i + 1, tx] = A[i, tx]

    with pytest.raises(IRValueError, match="both access buffer S"):
        pipelined(before)


def test_barriers_stay_where_they_are():
    func = loop(
        'B[0] = A[i]\nT.evaluate(T.tvm_storage_sync("shared"))\nC[i] = B[0]',
        [0, 0, 1],
        [0, 1, 2],
        allocated="B = T.alloc_buffer((1,))",
    )

    with pytest.raises(IRValueError, match="effects whose order matters"):
        pipelined(func)


def test_blocks_with_variables_are_refused():
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0], "software_pipeline_order": [0]}):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = A[vi]

    with pytest.raises(
        IRValueError, match="'i': block 'C' has iteration variables; run ConvertBlocksToOpaque"
    ):
        pipelined(before)


def test_a_stage_without_an_order_is_refused():
    @T.prim_func
    def before(C: T.Buffer((16,), "float32")):
        for i in T.serial(16, annotations={"software_pipeline_stage": [0]}):
            C[i] = T.float32(0)

    with pytest.raises(IRValueError, match="'i' has software_pipeline_stage; a software pipeline needs"):
        pipelined(before)


def test_loops_of_threads_are_refused():
    @T.prim_func
    def before(C: T.Buffer((16,), "float32")):
        for i in T.parallel(16, annotations={"software_pipeline_stage": [0], "software_pipeline_order": [0]}):
            C[i] = T.float32(0)

    with pytest.raises(IRValueError, match="'i': the loop is parallel"):
        pipelined(before)


def test_a_function_without_pipelines_is_the_same_object():
    @T.prim_func
    def plain(C: T.Buffer((16,), "float32")):
        for i in T.serial(16):
            C[i] = T.float32(0)

    assert pipelined(plain) is plain


# ---- asynchronous stages -------------------------------------------------------------------------------------------


def counts(func):
    """What attributes wait for: (queue, in flight) in the order of the program."""
    found = []

    def walk(node):
        if isinstance(node, tir.AttrStmt) and node.attr_key == "async_wait_queue_scope":
            found.append((node.value.value, str(node.body.value)))
        node._visit_children(walk)

    walk(func.body)
    return found


def asynchronous(stages):
    return f', "software_pipeline_async_stages": {stages}'


SHARED = 'B = T.alloc_buffer((1,), scope="shared")\nE = T.alloc_buffer((1,), scope="shared")'


def test_copies_are_committed_and_waited_for(check):
    before = loop(
        "B[0] = A[i]\nC[i] = B[0]", [0, 1], [0, 1], asynchronous([0]), allocated=SHARED.splitlines()[0]
    )

    @T.prim_func
    def after(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32"), D: T.Buffer((32,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block(""):
                T.reads(A[0:16])
                T.writes(C[0:16])
                B = T.alloc_buffer((2, 1), scope="shared")
                with T.block(""):
                    T.reads(A[0])
                    T.writes(B[0, 0])
                    with T.attr(0, "async_commit_queue_scope", 0), T.attr(0, "async_scope", 1):
                        B[0, 0] = A[0]
                with T.block(""):
                    T.reads(A[1:16], B[0:2, 0])
                    T.writes(B[0:2, 0], C[0:15])
                    for i in range(15):
                        with T.block(""):
                            T.reads(A[i + 1])
                            T.writes(B[(i + 1) % 2, 0])
                            with T.attr(0, "async_commit_queue_scope", 0), T.attr(0, "async_scope", 1):
                                B[(i + 1) % 2, 0] = A[i + 1]
                        with T.block(""):
                            T.reads(B[i % 2, 0])
                            T.writes(C[i])
                            with (
                                T.attr(0, "async_wait_queue_scope", 0),
                                T.attr(0, "async_wait_inflight_count", 1),
                            ):
                                C[i] = B[i % 2, 0]
                with T.block(""):
                    T.reads(B[1, 0])
                    T.writes(C[15])
                    with T.attr(0, "async_wait_queue_scope", 0), T.attr(0, "async_wait_inflight_count", 0):
                        C[15] = B[1, 0]

    check(PASS, before, after)


@pytest.mark.parametrize(
    ("body", "stage", "order", "stages", "expected"),
    [
        # one group for two copies that follow each other
        ("B[0] = A[i]\nE[0] = A[i + 1]\nC[i] = B[0] + E[0]", [0, 0, 1], [0, 1, 2], [0], ["1", "0"]),
        # the consumer runs first: nothing of the next iteration is under way
        ("B[0] = A[i]\nE[0] = A[i + 1]\nC[i] = B[0] + E[0]", [0, 0, 1], [1, 2, 0], [0], ["0", "0"]),
        # two groups an iteration, for consumers that need one each
        (
            "B[0] = A[i]\nD[i] = B[0]\nE[0] = A[i + 1]\nC[i] = E[0]",
            [0, 1, 0, 1],
            [0, 1, 2, 3],
            [0],
            ["2", "2", "1", "0"],
        ),
        # who waited for the last group need not wait for those before
        (
            "B[0] = A[i]\nE[0] = A[i + 1]\nC[i] = E[0]\nD[i] = B[0]",
            [0, 0, 1, 1],
            [0, 1, 2, 3],
            [0],
            ["1", "0"],
        ),
        # a consumer in a later stage finds what one in an earlier stage has waited for
        ("B[0] = A[i]\nD[i] = B[0]\nC[i] = B[0]", [0, 1, 3], [0, 1, 2], [0], ["1", "1", "0"]),
        # two queues
        (
            "B[0] = A[i]\nE[0] = B[0]\nC[i] = E[0]",
            [0, 1, 2],
            [0, 1, 2],
            [0, 1],
            ["1", "1", "1", "0", "1 - i"],
        ),
    ],
)
def test_how_many_groups_may_be_under_way(body, stage, order, stages, expected):
    after = pipelined(loop(body, stage, order, asynchronous(stages), allocated=SHARED))

    assert [count for _, count in counts(after)] == expected


def test_queues_of_both_pipelines_would_be_mixed():
    nested = NESTED.replace(
        '"software_pipeline_order": [0, 1]',
        '"software_pipeline_order": [0, 1], "software_pipeline_async_stages": [0]',
    )
    allocated = 'S = T.alloc_buffer((4,), scope="shared")'

    with pytest.raises(IRValueError, match="has asynchronous stages of its own, which would be mixed"):
        pipelined(loop(nested, [0, 1], [0, 1], asynchronous([0]), allocated=allocated))
    with pytest.raises(IRValueError, match="has asynchronous stages of its own, which would be mixed"):
        pipelined(loop(nested, [0, 0, 1, 1], [0, 1, 2, 3], allocated=allocated))


# ---- numbers ------------------------------------------------------------------------------------------------------


@st.composite
def pipelines(draw):
    """Chains of children that write buffers of their own from those before, the last of them an output."""
    n = draw(st.integers(2, 5))
    kinds = [draw(st.sampled_from("BBBD")) for _ in range(n - 1)]
    lines, buffers = [], []
    for at, kind in enumerate(kinds):
        is_copy = draw(st.booleans())
        sources = [name for name in buffers if not is_copy and draw(st.booleans())]
        value = " + ".join([f"A[i + {draw(st.integers(0, 2))}]", *[f"{name}[0]" for name in sources]])
        if kind == "D":
            lines.append(f"D[i + {draw(st.integers(0, 2))}] = D[i + {draw(st.integers(0, 2))}] + {value}")
        else:
            name = draw(st.sampled_from(buffers)) if buffers and draw(st.integers(0, 4)) == 0 else f"B{at}"
            buffers += [name] * (name not in buffers)
            lines.append(f"{name}[0] = {value}")
    lines.append("C[i] = " + " + ".join(["D[i]", *[f"{name}[0]" for name in buffers]]))
    stage = [draw(st.integers(0, 3)) for _ in range(n)]
    if draw(st.integers(0, 3)):
        stage.sort()
    order = draw(st.permutations(range(n))) if draw(st.booleans()) else list(range(n))
    outside = {stage[at] for at, line in enumerate(lines) if line[0] in "CD"}
    inside = sorted(set(stage) - outside)
    stages = [item for item in inside if draw(st.integers(0, 3))]
    allocated = "\n".join(f'{name} = T.alloc_buffer((1,), scope="shared")' for name in buffers)
    extent = draw(st.integers(0, 9))
    is_symbolic = draw(st.booleans())
    func = loop(
        "\n".join(lines),
        stage,
        list(order),
        asynchronous(stages) if stages else "",
        extent="n" if is_symbolic else str(extent),
        allocated=allocated,
        params=", n: T.int32",
    )
    return func, extent, lines, stage, list(order)


def breaks(lines, stage, order, extent):
    """Whether the order of a pipeline is not that of two accesses of one element, found by running through all of them."""
    accesses = []  # in the order of the program
    for i in range(extent):
        for at, line in enumerate(lines):
            target, _, value = line.partition(" = ")
            for text, is_write in ((value, False), (target, True)):
                for name, index in re.findall(r"(\w+)\[(.*?)\]", text):
                    element = (name, eval(index, {"i": i}), i if name[0] == "B" else None)
                    accesses.append(((i + stage[at], order[at]), element, is_write))
    return any(
        first[1] == second[1] and (first[2] or second[2]) and first[0] > second[0]
        for at, first in enumerate(accesses)
        for second in accesses[at:]
    )


@settings(max_examples=150, deadline=None)
@given(pipelines())
def test_random_pipelines_compute_the_same_or_are_refused(drawn):
    func, extent, lines, stage, order = drawn
    try:
        after = pipelined(func)
    except IRValueError as error:
        event("refused")
        assert "both access buffer" in str(error)
        assert breaks(lines, stage, order, 12)
        return
    event("pipelined")
    first = [
        np.arange(32, dtype="float32") ** 2 % 13,
        np.zeros(32, "float32"),
        np.arange(32, dtype="float32"),
    ]
    second, third = [item.copy() for item in first], [item.copy() for item in first]
    run(func, *first, extent)
    run(after, *second, extent)
    np.testing.assert_array_equal(first, second)
    LateCopies(after, [*third, extent])
    np.testing.assert_array_equal(first, third)
