"""LowerAutoCopy: threads share copies out, fragments are loaded tile by tile, and rows lie in different banks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal, tir
from ir.error import IRValueError
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.transform import PassContext, Sequential

PASS = tir.transform.LowerAutoCopy()


def lowered(func):
    """The pass alone: before it, every thread makes the whole copy, which the interpreter's threads would do at once."""
    return PASS.transform_function(func, IRModule({"main": func}), PassContext.current())


def equals(func, expected):
    assert_structural_equal(
        lowered(func).without_attr("global_symbol"), expected.without_attr("global_symbol"), True
    )


def buffers(func):
    found = {}

    def note(node):
        if isinstance(node, tir.Block):
            found.update({buffer.name: buffer for buffer in node.alloc_buffers})

    post_order_visit(func.body, note)
    return found


def strides(func, name):
    return [int(stride) for stride in buffers(func)[name].strides]


def results(func, *arrays):
    """What a kernel of threads leaves in its arrays."""
    mod = Sequential([tir.transform.LowerOpaqueBlock()])(IRModule({"main": lowered(func)}))
    run(mod, *arrays)
    return arrays


# ---- structure ---------------------------------------------------------------------------------------------------


@T.prim_func
def load(A: T.Buffer((64, 1024), "float32"), C: T.Buffer((1024, 64), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        for k in range(32):
            with T.block(""):
                T.reads(A[0:64, k * 32 : k * 32 + 32])
                T.writes(C[k * 32 : k * 32 + 32, 0:64])
                S = T.alloc_buffer((64, 32), scope="shared")
                with T.block("A_shared"):
                    T.reads(A[0:64, k * 32 : k * 32 + 32])
                    T.writes(S[0:64, 0:32])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                    for x, y in T.grid(64, 32):
                        S[x, y] = A[x, k * 32 + y]
                T.evaluate(T.tvm_storage_sync("shared"))
                with T.block("C"):
                    T.reads(S[0:64, 0:32])
                    T.writes(C[k * 32 : k * 32 + 32, 0:64])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                    for x, y in T.grid(64, 32):
                        C[k * 32 + y, x] = S[x, y]


@T.prim_func
def loaded(A: T.Buffer((64, 1024), "float32"), C: T.Buffer((1024, 64), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        for k in range(32):
            with T.block(""):
                T.reads(A[0:64, k * 32 : k * 32 + 32])
                T.writes(C[k * 32 : k * 32 + 32, 0:64])
                S = T.alloc_buffer((64, 32), strides=(36, 1), scope="shared")
                with T.block("A_shared"):
                    T.reads(A[0:64, k * 32 : k * 32 + 32])
                    T.writes(S[0:64, 0:32])
                    for turn in range(4):
                        for lane in T.vectorized(4):
                            S[turn * 16 + tx // 8, tx % 8 * 4 + lane] = A[
                                turn * 16 + tx // 8, k * 32 + tx % 8 * 4 + lane
                            ]
                T.evaluate(T.tvm_storage_sync("shared"))
                with T.block("C"):
                    T.reads(S[0:64, 0:32])
                    T.writes(C[k * 32 : k * 32 + 32, 0:64])
                    for turn in range(4):  # along the rows of C
                        for lane in T.vectorized(4):
                            C[k * 32 + turn * 8 + tx // 16, tx % 16 * 4 + lane] = S[
                                tx % 16 * 4 + lane, turn * 8 + tx // 16
                            ]


def test_neighbours_copy_neighbours_in_global_memory():
    equals(load, loaded)


def test_a_local_stage_loads_before_it_stores():
    text = load.script().replace('"vector_bytes": 16})', '"vector_bytes": 16, "local_stage": 1})', 1)
    after = lowered(from_source(text))

    assert [int(extent) for extent in buffers(after)["S_local"].shape] == [4, 4]
    lines = [line.strip() for line in after.script().splitlines()]
    first = lines.index("S_local[turn, lane] = A[turn * 16 + tx // 8, k * 32 + tx % 8 * 4 + lane]")
    assert lines.index("S[turn * 16 + tx // 8, tx % 8 * 4 + lane] = S_local[turn, lane]") > first


# ---- numbers ------------------------------------------------------------------------------------------------------


def by_shared_memory(shape, order, threads, options, guard, rows="", dtype="float32"):
    """A kernel that copies a matrix to shared memory and transposed back; ``order`` are the loops of the copies."""
    m, n = shape
    heads = "".join(
        f"{'    ' * (at + 1)}for {axis} in T.thread_binding({extent}, thread='threadIdx.{axis[1]}'):\n"
        for at, (axis, extent) in enumerate(threads)
    )
    pad = "    " * (len(threads) + 1)
    extents = {"x": m, "y": n}
    loops = f"for {order[0]}, {order[1]} in T.grid({extents[order[0]]}, {extents[order[1]]}):"
    condition = "\n" + pad + f"            if {guard}:" if guard else ""
    deeper = "    " if guard else ""
    return from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer(({m}, {n}), "{dtype}"), C: T.Buffer(({n}, {m}), "{dtype}"), k: T.int32):
{heads}{pad}with T.block(""):
{pad}    S = T.alloc_buffer(({m}, {n}), "{dtype}", scope="shared")
{pad}    with T.block("S"):
{pad}        T.reads(A[0:{m}, 0:{n}])
{pad}        T.writes(S[0:{m}, 0:{n}])
{pad}        T.block_attr({options})
{pad}        {loops}{condition}
{pad}            {deeper}S[x, y] = A[x, y]
{pad}    T.evaluate(T.tvm_storage_sync("shared"))
{pad}    with T.block("C"):
{pad}        T.reads(S[0:{m}, 0:{n}])
{pad}        T.writes(C[0:{n}, 0:{m}])
{pad}        T.block_attr({{"auto_copy": True, "vector_bytes": 8}})
{pad}        {loops}{condition}
{pad}            {deeper}C[y, x] = S[x, y]
""")


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)) | st.sampled_from([(8, 16), (16, 8), (4, 32)]),
    st.sampled_from(["xy", "yx"]),
    st.lists(
        st.tuples(st.sampled_from(["tx", "ty", "tz"]), st.integers(1, 4)),
        min_size=1,
        max_size=3,
        unique_by=lambda a: a[0],
    ),
    st.sampled_from([1, 4, 8, 16]),
    st.booleans(),
    st.sampled_from(["", "x + y < k"]),
    st.sampled_from(["float32", "float16", "int8"]),
)
def test_every_element_is_copied_once(shape, order, threads, vector_bytes, by_registers, guard, dtype):
    options = {"auto_copy": 1, "vector_bytes": vector_bytes} | ({"local_stage": 1} if by_registers else {})
    func = by_shared_memory(shape, order, threads, options, guard, dtype=dtype)
    a = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    _, c, _ = results(func, a, np.zeros(shape[::-1], dtype), 9)

    copied = np.add.outer(range(shape[0]), range(shape[1])) < (9 if guard else 99)
    np.testing.assert_array_equal(c, np.where(copied, a, 0).T)


def test_threads_that_copy_different_things_do_not_share():
    """Each row of threads copies its own rows; the others of its row help."""

    @T.prim_func
    def rows(A: T.Buffer((4, 3, 8), "float32"), C: T.Buffer((4, 3, 8), "float32")):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("C"):
                    T.reads(A[ty, 0:3, 0:8])
                    T.writes(C[ty, 0:3, 0:8])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                    for x, y in T.grid(3, 8):
                        C[ty, x, y] = A[ty, x, y]

    assert "C[ty, turn * 2 + tx // 4, tx % 4 * 2 + lane]" in lowered(rows).script()
    a = np.random.default_rng(0).standard_normal((4, 3, 8)).astype("float32")
    _, c = results(rows, a, np.zeros_like(a))
    np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("condition", ["tx < 3", "P[0] < tx", "t < 3", "R[0] < 4.0"])
def test_threads_that_may_not_run_do_not_help(condition):
    """What a condition around the copy says differs between them."""
    func = from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"), P: T.Buffer((1,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        with T.block(""):
            T.reads(A[0:16], P[0])
            T.writes(C[0:16])
            R = T.alloc_buffer((1,), scope="local")
            R[0] = T.Cast("float32", tx)
            with T.LetStmt(tx + 0) as t:
                if {condition.replace("4.0", "T.float32(4)")}:
                    with T.block("C"):
                        T.reads(A[0:16])
                        T.writes(C[0:16])
                        T.block_attr({{"auto_copy": 1}})
                        for x in range(16):
                            C[x] = A[x]
""")
    assert "C[turn] = A[turn]" in lowered(func).script()


def test_a_copy_without_threads_is_vectorized():
    func = by_shared_memory((4, 8), "xy", [], {"auto_copy": 1, "vector_bytes": 16}, "")

    assert "for lane in T.vectorized(4):" in lowered(func).script()


def test_symbolic_extents_are_shared_out():
    @T.prim_func
    def rows(a: T.handle, c: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 3), "float32")
        C = T.match_buffer(c, (n, 3), "float32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("C"):
                T.reads(A[0:n, 0:3])
                T.writes(C[0:n, 0:3])
                T.block_attr({"auto_copy": 1})
                for x, y in T.grid(n, 3):
                    C[x, y] = A[x, y]

    a = np.random.default_rng(0).standard_normal((7, 3)).astype("float32")
    _, c, _ = results(rows, a, np.zeros_like(a), 7)
    np.testing.assert_array_equal(a, c)


def test_copies_to_registers_stay_as_they_are():
    @T.prim_func
    def private(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[tx * 4 : tx * 4 + 4])
                T.writes(C[tx * 4])
                R = T.alloc_buffer((4,), scope="local")
                with T.block("R"):
                    T.reads(A[tx * 4 : tx * 4 + 4])
                    T.writes(R[0:4])
                    T.block_attr({"auto_copy": 1})
                    for x in range(4):
                        R[x] = A[tx * 4 + x]
                C[tx * 4] = R[1]

    text = private.script()
    line = next(line for line in text.splitlines() if "auto_copy" in line)
    equals(private, from_source(text.replace(line + "\n", "")))


# ---- threads that the copy itself brings together ------------------------------------------------------------------


def test_a_copy_beside_the_loops_of_threads():
    """UnifyThreadBinding leaves such copies to all threads."""

    @T.prim_func
    def kernel(A: T.Buffer((2, 64), "float32"), C: T.Buffer((2, 64), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            with T.block(""):
                T.reads(A[bx, 0:64])
                T.writes(C[bx, 0:64])
                S = T.alloc_buffer((64,), scope="shared")
                with T.block("S"):
                    T.reads(A[bx, 0:64])
                    T.writes(S[0:64])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                    for x in range(64):
                        S[x] = A[bx, x]
                T.evaluate(T.tvm_storage_sync("shared"))
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    for x in range(4):
                        C[bx, x * 16 + tx] = S[63 - x * 16 - tx]

    bound = tir.transform.UnifyThreadBinding().transform_function(
        kernel, IRModule({"main": kernel}), PassContext.current()
    )
    assert "S[turn * 32 + threadIdx_x * 2 + lane]" in lowered(bound).script()
    a = np.random.default_rng(0).standard_normal((2, 64)).astype("float32")
    _, c = results(bound, a, np.zeros_like(a))
    np.testing.assert_array_equal(c, a[:, ::-1])


# ---- fragments ----------------------------------------------------------------------------------------------------


@T.prim_func
def fragments(
    A: T.Buffer((64, 64), "float16"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")
):
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block(""):
                T.reads(A[0:64, 0:64])
                T.writes(C[ty * 16 : ty * 16 + 16, 0:64])
                S = T.alloc_buffer((64, 64), "float16", scope="shared")
                U = T.alloc_buffer((64, 16), "float32", scope="shared.dyn")
                F = T.alloc_buffer((2, 16, 32), "float16", scope="wmma.matrix_a")
                G = T.alloc_buffer((32, 16), "float16", scope="wmma.matrix_b")
                D = T.alloc_buffer((16, 64), "float32", scope="wmma.accumulator")
                with T.block("S"):
                    T.reads(A[0:64, 0:64])
                    T.writes(S[0:64, 0:64])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                    for x, y in T.grid(64, 64):
                        S[x, y] = A[x, y]
                with T.block("F"):
                    T.reads(S[ty * 16 : ty * 16 + 16, 0:64])
                    T.writes(F[0:2, 0:16, 0:32])
                    T.block_attr({"auto_copy": 1})
                    for z, x, y in T.grid(2, 16, 32):
                        F[z, x, y] = S[ty * 16 + x, z * 32 + y]
                with T.block("G"):
                    T.reads(S[0:16, 0:32])
                    T.writes(G[0:32, 0:16])
                    T.block_attr({"auto_copy": 1})
                    for x, y in T.grid(32, 16):
                        G[x, y] = S[y, x]
                with T.block("U"):
                    T.reads(D[0:16, 16:32])
                    T.writes(U[ty * 16 : ty * 16 + 16, 0:16])
                    T.block_attr({"auto_copy": 1})
                    for x, y in T.grid(16, 16):
                        U[ty * 16 + x, y] = D[x, 16 + y]
                with T.block("C"):
                    T.reads(D[0:16, 0:64])
                    T.writes(C[ty * 16 : ty * 16 + 16, 0:64])
                    T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                    for x, y in T.grid(16, 64):
                        C[ty * 16 + x, y] = D[x, y]


def instructions(func):
    found = []

    def note(node):
        if isinstance(node, tir.Call) and node.op.name.startswith("tir.tvm_") and "matrix" in node.op.name:
            fragment, *_, index, pointer, step, layout = node.args
            name = f"{node.op.name[8:]} {fragment.name}[{index}] {pointer.args[1].name}"
            found.append((name, str(pointer.args[2]), step.value, layout.value))

    post_order_visit(func.body, note)
    return found


def test_fragments_are_loaded_and_stored_tile_by_tile():
    after = lowered(fragments)

    assert strides(after, "S") == [72, 1]  # eight rows of 16 bytes lie in 32 banks
    assert instructions(after) == [
        ("load_matrix_sync F[z * 2 + y] S", "ty * 1152 + z * 32 + y * 16", 72, "row_major"),
        ("load_matrix_sync G[x] S", "x * 16", 72, "col_major"),
        ("store_matrix_sync D[1] U", "ty * 320", 20, "row_major"),
        ("store_matrix_sync D[y] C_shared", "ty * 256", 16, "row_major"),
    ]
    assert [int(extent) for extent in buffers(after)["C_shared"].shape] == [4, 16, 16]
    assert (
        "C[ty * 16 + turn * 8 + tx // 4, y * 16 + tx % 4 * 4 + lane] = C_shared[ty, turn * 8 + tx // 4, tx % 4 * 4 + lane]"
        in after.script()
    )


# ---- banks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "dtype", "is_transposed", "padding"),
    [
        (32, "float32", True, 1),
        (32, "float32", False, 0),
        (33, "float32", True, 0),
        (64, "float16", True, 2),  # half as many banks as lanes, two of which share one
        (32, "float64", True, 1),
    ],
)
def test_rows_are_padded_where_threads_would_meet_in_a_bank(width, dtype, is_transposed, padding):
    access = "S[tx, 5]" if is_transposed else "S[5, tx]"
    func = from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((32, {width}), "{dtype}"), C: T.Buffer((32,), "{dtype}")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block(""):
            S = T.alloc_buffer((32, {width}), "{dtype}", scope="shared")
            with T.block("S"):
                T.block_attr({{"auto_copy": 1}})
                for x, y in T.grid(32, {width}):
                    S[x, y] = A[x, y]
            C[tx] = {access}
""")
    assert strides(lowered(func), "S") == ([width + padding, 1] if padding else [])


def test_memory_that_others_have_the_address_of_is_not_padded():
    func = by_shared_memory((32, 32), "xy", [("tx", 32)], {"auto_copy": 1}, "")
    text = func.script().replace(
        'T.tvm_storage_sync("shared")',
        'T.tvm_storage_sync("shared")\n            T.call_extern("int32", "look", S.data)',
    )

    assert strides(lowered(func), "S") == [33, 1]
    assert strides(lowered(from_source(text)), "S") == []


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "body", "message"),
    [
        (
            '"vector_bytes": 0',
            "S[x] = A[x]",
            "block 'S' is annotated 'auto_copy', but vector_bytes is 0; expected a number",
        ),
        (
            '"local_stage": 1',
            "C[x] = A[x]",
            "local_stage is for copies from global to shared memory, not from global to global",
        ),
        ('"vector_bytes": 4', "S[x] = T.float32(1)", "it stores what is no element of another buffer"),
        (
            '"vector_bytes": 4',
            "S[x] = A[x]\n                    C[x] = A[x]",
            "there is a SeqStmt where one store is expected",
        ),
    ],
)
def test_what_is_no_copy_is_refused(options, body, message):
    func = from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        with T.block(""):
            S = T.alloc_buffer((16,), scope="shared")
            with T.block("S"):
                T.reads(A[0:16])
                T.writes(S[0:16], C[0:16])
                T.block_attr({{"auto_copy": 1, {options}}})
                for x in range(16):
                    {body}
""")
    with pytest.raises(IRValueError, match=message):
        lowered(func)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("F[x, y] = S[x, y]", None),
        ("F[x, y] = S[x, y + 8]", None),
        ("F[x, y + 8] = S[x, y]", "tiles begin at y . 16 . 8 of buffer F, no multiple of 16"),
        ("F[x, y] = S[x, y] * T.float16(2)", "changes nothing"),
        ("F[x, y] = S[x * 2, y * 2]", "neither rows nor columns are contiguous in buffer S"),
    ],
)
def test_what_is_no_tile_is_refused(load, message):
    func = from_source(f"""
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((64, 64), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block(""):
            S = T.alloc_buffer((64, 64), "float16", scope="shared")
            F = T.alloc_buffer((32, 32), "float16", scope="wmma.matrix_a")
            with T.block("F"):
                T.reads(S[0:64, 0:64])
                T.writes(F[0:32, 0:32])
                T.block_attr({{"auto_copy": 1}})
                for x, y in T.grid(16, 16):
                    {load}
""")
    if message is None:
        assert len(instructions(lowered(func))) == 1
        return
    with pytest.raises(IRValueError, match=message):
        lowered(func)


def test_a_function_without_copies_is_the_same_object():
    @T.prim_func
    def plain(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = T.float32(0)

    assert lowered(plain) is plain
