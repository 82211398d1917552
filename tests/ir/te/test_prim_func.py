"""The PrimFuncs that tensor expressions lower to, against script."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import te, tir, topi
from ir.error import IRTypeError, IRValueError
from ir.script import tir as T
from ir.tir import Block, interpreter
from ir.tir.analysis import get_block_read_write_region


def blocks_of(func):
    found = []
    ir.post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, Block) else None)
    return {block.name_hint: block for block in found}


def matmul_tensors(n=128):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    return a, b, te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[y, k], axis=k), name="C")


def test_matmul():
    @T.prim_func
    def expected(A: T.Buffer((128, 128)), B: T.Buffer((128, 128)), C: T.Buffer((128, 128))):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for x, y, k in T.grid(128, 128, 128):
            with T.block("C"):
                v_x, v_y, v_k = T.axis.remap("SSR", [x, y, k])
                T.reads(A[v_x, v_k], B[v_y, v_k])
                T.writes(C[v_x, v_y])
                with T.init():
                    C[v_x, v_y] = T.float32(0)
                C[v_x, v_y] = C[v_x, v_y] + A[v_x, v_k] * B[v_y, v_k]

    func = te.create_prim_func(list(matmul_tensors()))
    ir.assert_structural_equal(func, expected)
    assert func.attrs["global_symbol"] == "main" and func.attrs["tir.noalias"]
    assert [param.name for param in func.params] == ["var_A", "var_B", "var_C"]
    assert blocks_of(func)["C"].iter_vars[2].var.name == "v_k"


def test_intermediates_are_allocated_and_names_made_unique():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((8,), lambda i: b[i] * 2.0, name="B")
    func = te.create_prim_func([a, c])

    @T.prim_func
    def expected(A: T.Buffer((8,)), C: T.Buffer((8,))):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v_i = T.axis.spatial(8, i)
                T.reads(A[v_i])
                T.writes(B[v_i])
                B[v_i] = A[v_i] + T.float32(1)
        for i in range(8):
            with T.block("B_1"):
                v_i = T.axis.spatial(8, i)
                T.reads(B[v_i])
                T.writes(C[v_i])
                C[v_i] = B[v_i] * T.float32(2)

    ir.assert_structural_equal(func, expected)
    assert set(blocks_of(func)) == {"root", "B", "B_1"}


def test_several_outputs_share_one_nest():
    a = te.placeholder((4, 8), name="A")
    b, c = te.compute((4, 8), lambda i, j: (a[i, j] + 2.0, a[i, j] * 3.0), name="B")
    func = te.create_prim_func([a, b, c])

    @T.prim_func
    def expected(A: T.Buffer((4, 8)), B0: T.Buffer((4, 8)), B1: T.Buffer((4, 8))):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j in T.grid(4, 8):
            with T.block("B_v0"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[v_i, v_j])
                T.writes(B0[v_i, v_j])
                B0[v_i, v_j] = A[v_i, v_j] + T.float32(2)
            with T.block("B_v1"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                T.reads(A[v_i, v_j])
                T.writes(B1[v_i, v_j])
                B1[v_i, v_j] = A[v_i, v_j] * T.float32(3)

    ir.assert_structural_equal(func, expected)
    assert {"B_v0", "B_v1"} < set(blocks_of(func))


def test_tuple_reduction():
    a = te.placeholder((4, 8), name="A")
    where = topi.argmax(a, 1)
    func = te.create_prim_func([a, where])

    @T.prim_func
    def expected(A: T.Buffer((4, 8)), A_red: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        v0 = T.alloc_buffer((4,), "int32")
        v1 = T.alloc_buffer((4,))
        for ax0, k1 in T.grid(4, 8):
            with T.block("A_red_temp"):
                v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
                T.reads(A[v_ax0, v_k1])
                T.writes(v0[v_ax0], v1[v_ax0])
                with T.init():
                    v0[v_ax0] = T.max_value("int32")
                    v1[v_ax0] = T.float32("-inf")
                t0: T.int32 = T.Select(
                    v1[v_ax0] > A[v_ax0, v_k1]
                    or (v1[v_ax0] == A[v_ax0, v_k1] and v0[v_ax0] < v_k1)
                    or (v1[v_ax0] != v1[v_ax0] and (A[v_ax0, v_k1] == A[v_ax0, v_k1] or v0[v_ax0] < v_k1)),
                    v0[v_ax0],
                    v_k1,
                )
                t1: T.float32 = T.Select(
                    v1[v_ax0] > A[v_ax0, v_k1] or v1[v_ax0] != v1[v_ax0], v1[v_ax0], A[v_ax0, v_k1]
                )
                v0[v_ax0] = t0
                v1[v_ax0] = t1
        for ax0 in range(4):
            with T.block("A_red"):
                v_ax0 = T.axis.spatial(4, ax0)
                T.reads(v0[v_ax0])
                T.writes(A_red[v_ax0])
                A_red[v_ax0] = v0[v_ax0]

    ir.assert_structural_equal(func, expected)


def test_a_reduction_over_nothing_stores_its_identity():
    a = te.placeholder((4, 0, 3), name="A")
    k, m = te.reduce_axis((0, 0), "k"), te.reduce_axis((0, 3), "m")
    func = te.create_prim_func([a, te.compute((4,), lambda i: te.max(a[i, k, m], axis=[k, m]), name="B")])

    @T.prim_func
    def expected(A: T.Buffer((4, 0, 3)), B: T.Buffer((4,))):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                T.reads()
                T.writes(B[v_i])
                B[v_i] = T.float32("-inf")

    ir.assert_structural_equal(func, expected)


def test_a_condition_of_a_reduction_guards_what_is_reduced():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 16), "k")
    func = te.create_prim_func([a, te.compute((1,), lambda i: te.sum(a[k], axis=k, where=k < 8), name="B")])
    assert "T.if_then_else(v_k < 8, A[v_k], T.float32(0))" in func.script()


def test_a_tensor_cannot_be_two_parameters():
    a = te.placeholder((4,), name="A")
    with pytest.raises(ir.IRValueError, match="tensor A is given twice"):
        te.create_prim_func([a, a])


def test_attributes_become_annotations_and_layout_free_placeholders_a_function_attribute():
    a, b, _ = matmul_tensors()
    inner = te.compute((128, 128), lambda i, j: b[i, j] + 1.0, name="inner")
    k = te.reduce_axis((0, 128), "k")
    out = te.compute(
        (128, 128),
        lambda i, j: te.sum(a[i, k] * inner[k, j], axis=k),
        name="out",
        attrs={"layout_free_placeholders": [b, inner], "level": 2},
    )
    func = te.create_prim_func([a, b, out])
    assert func.attrs["layout_free_buffers"] == (1,)
    annotations = blocks_of(func)["out"].annotations
    assert annotations["level"] == 2
    assert annotations["layout_free_placeholders"] == (blocks_of(func)["root"].alloc_buffers[0],)


def test_padding_keeps_its_condition():
    a = te.placeholder((1, 8), name="A")
    func = te.create_prim_func([a, topi.nn.pad(a, [0, 1], [0, 2])])

    @T.prim_func
    def expected(A: T.Buffer((1, 8)), PadInput: T.Buffer((1, 11))):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i0, i1 in T.grid(1, 11):
            with T.block("PadInput"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v_i0, v_i1 - 1])
                T.writes(PadInput[v_i0, v_i1])
                PadInput[v_i0, v_i1] = T.if_then_else(1 <= v_i1 and v_i1 < 9, A[v_i0, v_i1 - 1], T.float32(0))

    ir.assert_structural_equal(func, expected)


def test_stencils_read_a_box():
    a = te.placeholder((16,), name="A")
    func = te.create_prim_func([a, te.compute((12,), lambda i: a[i] + a[i + 4] + a[i + 2], name="B")])
    region = blocks_of(func)["B"].reads[0].region[0]
    assert region.min.name == "v_i" and region.extent.value == 5


def test_rank_zero():
    a = te.placeholder((), name="A")
    func = te.create_prim_func([a, te.compute((), lambda: a() + 1.0, name="B")])
    block = blocks_of(func)["B"]
    assert [item.var.name for item in block.iter_vars] == ["vi"]
    out = np.zeros((), "float32")
    interpreter.run(func, np.float32(2).reshape(()), out)
    assert out == 3


def test_symbolic_shapes_and_scalar_parameters():
    n, m = te.var("n", "int64"), te.var("m", "int64")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] * m.astype("float32"), name="B"), m])
    assert func.params[2] is m
    assert blocks_of(func)["B"].iter_vars[0].dom.extent is n


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_index_dtype_override(dtype):
    n = te.var("n", "int32")
    a = te.placeholder((n, 4), name="A")
    b = te.compute(
        (n, 4), lambda i, j: a[i, j] + te.if_then_else(i < 2, i, j + 1).astype("float32"), name="B"
    )
    func = te.create_prim_func([a, b], index_dtype_override=dtype)
    kinds = set()

    def note(node):
        if isinstance(node, tir.For):
            kinds.update((node.loop_var.dtype, node.extent.dtype))
        elif isinstance(node, tir.BufferLoad):
            kinds.update(item.dtype for item in (*node.indices, *node.buffer.shape))
        elif isinstance(node, Block):
            kinds.update(item.var.dtype for item in node.iter_vars)

    ir.post_order_visit(func.body, note)
    assert kinds == {dtype}
    data = np.arange(12, dtype="float32").reshape(3, 4)
    out = np.zeros_like(data)
    interpreter.run(func, data, out)
    np.testing.assert_array_equal(out, data + [[0] * 4, [1] * 4, [1, 2, 3, 4]])


def test_extern_and_extern_primfunc():
    @T.prim_func
    def before(A: T.Buffer((8,)), B: T.Buffer((8,))):
        for i in range(8):
            with T.block("twice"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)

    a = te.placeholder((8,), name="A")
    b = te.extern_primfunc([a], before)
    c = te.compute((8,), lambda i: b[i] + 1.0, name="C")
    func = te.create_prim_func([a, c])
    data, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpreter.run(func, data, out)
    np.testing.assert_array_equal(out, data * 2 + 1)
    with pytest.raises(IRValueError, match="2 input tensors do not fit"):
        te.extern_primfunc([a, a], before)


def test_conditions_of_reductions_hold():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    func = te.create_prim_func(
        [a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k.var < 3), name="B")]
    )
    data, out = np.arange(32, dtype="float32").reshape(4, 8), np.zeros(4, "float32")
    interpreter.run(func, data, out)
    np.testing.assert_array_equal(out, data[:, :3].sum(1))


def test_regions_agree_with_the_analysis():
    a, w = te.placeholder((1, 4, 8, 8), name="A"), te.placeholder((8, 4, 3, 3), name="W")
    indices = te.placeholder((5,), "int64", name="I")
    cases = [
        (a, w, topi.nn.conv2d_nchw(a, w, 2, 1, 1)),
        (a, topi.nn.softmax(a)),
        (a, topi.concatenate([a, a], 1)),
        (a, topi.reshape(a, (32, 8))),
        (a, indices, topi.take(a, indices, 1)),
    ]
    for tensors in cases:
        for name, block in blocks_of(te.create_prim_func(list(tensors))).items():
            if name != "root":
                reads, writes = get_block_read_write_region(block)
                assert ir.structural_equal(block.reads, tuple(reads))
                assert ir.structural_equal(block.writes, tuple(writes))


def test_scripts_round_trip():
    a, w = te.placeholder((1, 4, 8, 8), name="A"), te.placeholder((8, 4, 3, 3), name="W")
    for outputs in (
        [w, topi.nn.conv2d_nchw(a, w, 2, 1, 1)],
        [topi.nn.softmax(a)],
        [topi.argmax(a, 1)],
        topi.topk(a, 2),
    ):
        func = te.create_prim_func([a, *outputs], "int64")
        ir.assert_structural_equal(ir.script.from_source(func.script()), func)


def test_misuse_is_refused():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    with pytest.raises(IRValueError, match="placeholder A is read but is no parameter"):
        te.create_prim_func([b])
    with pytest.raises(IRTypeError, match=r"takes te.Tensor and tir.Var parameters, got int"):
        te.create_prim_func([a, 3])
    with pytest.raises(IRTypeError, match="'float32'"):
        te.create_prim_func([a, b], "float32")


def test_an_extent_computed_from_that_of_a_later_parameter_is_the_same_variable():
    n, m = te.size_var("n", "int64"), te.size_var("m", "int64")
    a, b = te.placeholder((n * m, 2), name="a"), te.placeholder((n, 2), name="b")
    out = te.compute((n * m, 2), lambda i, j: a[i, j] + b[i // m, j])
    func = te.create_prim_func([a, b, out, m], "int64")
    first, second = (func.buffer_map[param] for param in func.params[:2])
    assert any(item is second.shape[0] for item in (first.shape[0].a, first.shape[0].b))


def test_a_forgotten_reduction_is_refused():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: a[i, k], name="B")
    message = r"compute B: k is no axis of it \(i\) and no parameter of the function; reduce .*, as in te\.sum\(\.\.\., axis=k\)"
    with pytest.raises(IRValueError, match=message):
        te.create_prim_func([a, b])
    other = te.reduce_axis((0, 4), "r")
    c = te.compute((4,), lambda i: te.sum(a[i, k] + other, axis=k), name="C")
    with pytest.raises(IRValueError, match="compute C: r is no axis of it"):
        te.create_prim_func([a, c])


def test_variables_of_parameters_are_known():
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n, 8), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute(
        (8,), lambda i: te.sum(a[k, i] * scale + te.if_then_else(k < n - 1, 1.0, 0.0), axis=k), name="B"
    )
    assert len(te.create_prim_func([a, b, scale]).params) == 3
    with pytest.raises(
        IRValueError, match="compute B: scale is no axis of it .*list a variable of the function"
    ):
        te.create_prim_func([a, b])


def test_a_compute_that_returns_nothing_is_refused():
    with pytest.raises(
        IRTypeError, match="compute B: the function returned None, expected the value of an element"
    ):
        te.compute((4,), lambda i: None, name="B")


def test_parameters_are_one_list() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    with pytest.raises(
        IRTypeError, match=r"takes a list of parameters, as in create_prim_func\(\[A, B, C\]\)"
    ):
        te.create_prim_func(a, b)  # type: ignore[arg-type]
