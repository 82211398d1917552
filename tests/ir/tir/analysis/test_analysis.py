"""Analyses of TIR functions: access regions, free variables, scopes of accesses, costs, limits."""

from __future__ import annotations

from typing import Any

import pytest

import ir
from ir import IRModule, Range, te, tir
from ir.tir import BufferStore, For, ForKind, IterVar, Var, decl_buffer
from ir.tir.analysis import (
    OOBChecker,
    OutOfBoundsError,
    assert_pure_function,
    calculate_allocated_bytes,
    calculate_workspace_bytes,
    detect_buffer_access_lca,
    estimate_tir_flops,
    expr_deep_equal,
    find_anchor_block,
    get_block_access_region,
    get_block_read_write_region,
    gpu_code_problems,
    is_pure_function,
    undefined_vars,
    verify_gpu_code,
    verify_memory,
    verify_ssa,
)

A, B, C = (decl_buffer((64, 64), "float32", name) for name in "ABC")


def block(
    name: str, kinds: str, body: Any, loops: list[Any], init: Any = None, **fields: Any
) -> tir.BlockRealize:
    """A block over ``vi, vj, ...`` bound to loop variables; ``body`` and ``init`` are functions of its variables."""
    variables = [Var(f"v{loop.name}") for loop in loops]
    iters = [
        IterVar(Range(0, 64), var, IterVar.DataPar if kind == "S" else IterVar.CommReduce)
        for var, kind in zip(variables, kinds)
    ]
    made = tir.Block(
        iters,
        fields.pop("reads", []),
        fields.pop("writes", []),
        name,
        body(*variables),
        None if init is None else init(*variables),
        **fields,
    )
    return tir.BlockRealize(loops, tir.const(True), made)


def matmul() -> tuple[tir.PrimFunc, tir.BlockRealize, list[Var]]:
    """C = A B in one block inside three loops."""
    i, j, k = loops = [Var(name) for name in "ijk"]
    realize = block(
        "C",
        "SSR",
        lambda vi, vj, vk: BufferStore(C, C[vi, vj] + A[vi, vk] * B[vk, vj], [vi, vj]),
        loops,
        lambda vi, vj, vk: BufferStore(C, tir.const(0.0), [vi, vj]),
    )
    reads, writes = get_block_read_write_region(realize.block)
    realize = realize.replace(block=realize.block.replace(reads=tuple(reads), writes=tuple(writes)))
    body: Any = realize
    for loop in reversed(loops):
        body = For(loop, 0, 64, ForKind.SERIAL, body)
    root = tir.Block([], [], [], "root", body)
    return tir.PrimFunc([A, B, C], tir.BlockRealize([], tir.const(True), root)), realize, loops


def text(regions: list[tir.BufferRegion]) -> list[str]:
    """Regions as text."""
    return [
        r.buffer.name + "[" + ", ".join(f"{item.min}:{item.extent}" for item in r.region) + "]"
        for r in regions
    ]


# ---- regions ----------------------------------------------------------------------------------------------------


def test_reduction_reads_inputs_and_writes_its_output() -> None:
    _, realize, _ = matmul()
    reads, writes, opaque = get_block_access_region(realize.block)
    assert text(reads) == ["A[vi:1, vk:1]", "B[vk:1, vj:1]"]
    assert text(writes) == ["C[vi:1, vj:1]"] and opaque == []


def test_inner_loops_are_relaxed() -> None:
    i, k = Var("i"), Var("k")
    realize = block(
        "b",
        "S",
        lambda vi: For(k, 0, 16, ForKind.SERIAL, BufferStore(C, A[vi * 2 + k, k] + A[vi, 3], [vi, k])),
        [i],
    )
    reads, writes, _ = get_block_access_region(realize.block)
    assert text(reads) == ["A[T.min(vi * 2, vi):T.max(vi * 2 + 15, vi) + 1 - T.min(vi * 2, vi), 0:16]"]
    assert text(writes) == ["C[vi:1, 0:16]"]


def test_inner_blocks_count_with_what_they_declare() -> None:
    i, j = Var("i"), Var("j")
    inner = block(
        "inner",
        "SS",
        lambda vi, vj: BufferStore(C, A[vi, vj], [vi, vj]),
        [i, j],
    )
    reads, writes = get_block_read_write_region(inner.block)
    inner = inner.replace(block=inner.block.replace(reads=tuple(reads), writes=tuple(writes)))
    outer = tir.Block([], [], [], "outer", For(j, 0, 8, ForKind.SERIAL, inner))
    assert [text(found) for found in get_block_read_write_region(outer)] == [["A[i:1, 0:8]"], ["C[i:1, 0:8]"]]


def test_pointers_make_accesses_opaque() -> None:
    body = tir.Evaluate(tir.call_extern("int32", "f", A.access_ptr("r"), tir.address_of(B[0, 0])))
    found = get_block_access_region(tir.Block([], [], [], "b", body), {A.data: A})
    assert [text(regions) for regions in found] == [[], [], ["A[0:64, 0:64]", "B[0:64, 0:64]"]]


def test_matched_buffers_are_seen_through() -> None:
    view = decl_buffer((16, 16), "float32", "view", offset_factor=1, strides=[Var("s0"), Var("s1")])
    source = tir.BufferRegion(A, [Range.from_min_extent(16, 16), Range.from_min_extent(32, 16)])
    i = Var("i")
    body = For(i, 0, 4, ForKind.SERIAL, BufferStore(view, tir.const(0.0), [i, 3]))
    made = tir.Block([], [], [], "b", body, None, [], [tir.MatchBufferRegion(view, source)])
    assert text(get_block_access_region(made)[1]) == ["A[16:4, 35:1]"]


def test_bounds_that_the_block_itself_changes_are_not_known_around_it() -> None:
    """An index that is read from memory is one where that memory stays as it is, and may be any where the block writes it."""
    i = Var("i")
    table, cursor = decl_buffer((64,), "int32", "table"), decl_buffer((1,), "int32", "cursor")
    given = BufferStore(C, A[table[i], 0], [i, 0])
    assert text(get_block_access_region(tir.Block([], [], [], "b", given))[0]) == [
        "A[table[i]:1, 0:1]",
        "table[i:1]",
    ]
    advance = BufferStore(cursor, cursor[0] + 1, [0])
    stepping = tir.SeqStmt([BufferStore(C, A[table[cursor[0]], 0], [i, cursor[0]]), advance])
    reads, writes, _ = get_block_access_region(tir.Block([], [], [], "b", stepping))
    assert text(reads) == ["A[0:64, 0:1]", "table[0:64]", "cursor[0:1]"]
    assert text(writes) == ["C[i:1, 0:64]", "cursor[0:1]"]
    own = tir.Block([], [], [], "b", stepping, None, [cursor])
    assert text(get_block_access_region(own)[0]) == ["A[0:64, 0:1]", "table[0:64]"]


def test_what_begins_inside_of_a_block_is_no_region_of_it() -> None:
    """Memory of its own, other names of memory around it, and bounds that are read from either."""
    i = Var("i")
    own, view = decl_buffer((4,), "int32", "own"), decl_buffer((4096,), "float32", "view", data=A.data)
    body = tir.DeclBuffer(own, tir.SeqStmt([BufferStore(own, 1, [i]), BufferStore(C, A[own[i], 0], [i, 0])]))
    reads, writes, _ = get_block_access_region(tir.Block([], [], [], "b", body))
    assert text(reads) == ["A[0:64, 0:1]"]
    assert text(writes) == ["C[i:1, 0:1]"]
    named = tir.DeclBuffer(view, BufferStore(C, view[i], [i, 0]))
    found = get_block_access_region(tir.Block([], [], [], "b", named), {A.data: A})
    assert [text(regions) for regions in found] == [[], ["C[i:1, 0:1]"], ["A[0:64, 0:64]"]]
    table = decl_buffer((4,), "int32", "table")
    seen = decl_buffer((4,), "int32", "seen", data=Var("seen", table.data.type_annotation))
    match = tir.MatchBufferRegion(seen, tir.BufferRegion(table, [Range.from_min_extent(0, 4)]))
    block = tir.Block([], [], [], "b", BufferStore(C, A[seen[i], 0], [i, 0]), None, [], [match])
    assert text(get_block_access_region(block)[0]) == ["A[0:64, 0:1]", "table[i:1]"]


# ---- variables --------------------------------------------------------------------------------------------------


def test_undefined_variables() -> None:
    x, y, i = Var("x"), Var("y"), Var("i")
    assert undefined_vars(x + y * x) == [x, y]
    assert undefined_vars(tir.Let(x, y, x + 1)) == [y]
    loop = For(i, 0, x, ForKind.SERIAL, BufferStore(A, tir.const(0.0), [i, y]))
    assert undefined_vars(loop) == [x, A.data, y]
    assert undefined_vars(loop, [A.data, y]) == [x]
    assert undefined_vars(matmul()[0]) == []


def test_deep_equality() -> None:
    x, y = Var("x"), Var("y")
    assert expr_deep_equal(x + y * 2, x + y * 2)
    assert not expr_deep_equal(x + y, y + x)
    assert not expr_deep_equal(Var("x"), Var("x"))
    assert not expr_deep_equal(tir.const(1, "int32"), tir.const(1, "int64"))
    assert expr_deep_equal(A[x, y], A[x, y]) and not expr_deep_equal(A[x, y], B[x, y])


def test_ssa() -> None:
    i = Var("i")
    loop = For(i, 0, 4, ForKind.SERIAL, BufferStore(A, tir.const(0.0), [i, 0]))
    assert verify_ssa(tir.PrimFunc([A], loop))
    assert not verify_ssa(tir.PrimFunc([A], tir.seq(loop, loop)))


# ---- scopes of accesses -----------------------------------------------------------------------------------------


def test_common_scope_of_accesses() -> None:
    func, realize, _ = matmul()
    found = detect_buffer_access_lca(func)
    assert found[A] is realize.block and found[B] is realize.block
    # The result of a reduction lives outside of the reduction's loop.
    assert isinstance(found[C], For) and found[C].loop_var.name == "j"


# ---- costs ------------------------------------------------------------------------------------------------------


def test_flops() -> None:
    func, _, _ = matmul()
    assert estimate_tir_flops(func) == 2 * 64**3
    assert estimate_tir_flops(IRModule({"f": func, "g": func})) == 4 * 64**3
    assert estimate_tir_flops(func.with_attr("estimated_flops", 7)) == 7
    i = Var("i")
    store = BufferStore(A, tir.exp(A[i * 4 + 1, 0]) + 1.0, [i * 8, 0])
    branch = tir.IfThenElse(i < 3, store, tir.seq(store, store))
    assert estimate_tir_flops(For(i, 0, 8, ForKind.SERIAL, branch)) == 8 * 2


def test_flops_of_a_convolution_are_those_of_its_products() -> None:
    """Not the selection of padding, nor the indices."""
    data, weight = te.placeholder((256, 64), name="data"), te.placeholder((3, 64, 128), name="weight")
    padded = te.compute(
        (258, 64),
        lambda i, c: tir.if_then_else(tir.And(i >= 1, i < 257), data[i - 1, c], tir.const(0.0)),
        "padded",
    )
    k, c = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 64), "c")
    result = te.compute(
        (128, 128), lambda i, o: te.sum(padded[i * 2 + k, c] * weight[k, c, o], axis=[k, c]), "result"
    )
    assert estimate_tir_flops(te.create_prim_func([data, weight, result])) == 2 * 128 * 128 * 64 * 3


def test_flops_of_loops_that_depend_on_each_other() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    store = BufferStore(A, A[0, 0] * 2.0, [0, 0])
    triangle = For(i, 0, 16, ForKind.SERIAL, For(k, 0, i, ForKind.SERIAL, store))
    assert estimate_tir_flops(triangle) == 120
    corner = For(
        i, 0, 5, ForKind.SERIAL, For(j, 0, i + 1, ForKind.SERIAL, For(k, j, i + 1 - j, ForKind.SERIAL, store))
    )
    assert estimate_tir_flops(corner) == sum(
        1 for i in range(5) for j in range(i + 1) for _ in range(i + 1 - j)
    )
    large = For(i, 0, 100_000, ForKind.SERIAL, For(k, 0, i, ForKind.SERIAL, store))
    assert estimate_tir_flops(large) == 100_000 * 99_999 / 2
    below = For(i, 0, 4, ForKind.SERIAL, For(k, 0, i - 2, ForKind.SERIAL, store))
    assert estimate_tir_flops(below) == 1


@pytest.mark.parametrize("extent", [Var("m", "int64"), Var("n", "int32"), Var("n", "int32") + 1], ids=str)
def test_flops_of_a_loop_that_nothing_bounds_are_those_of_one_iteration(extent: Any) -> None:
    i = Var("i", extent.dtype)
    assert estimate_tir_flops(For(i, 0, extent, ForKind.SERIAL, BufferStore(A, A[i, 0] * 2.0, [i, 0]))) == 1


def test_workspace_is_the_largest_sum_along_a_path() -> None:
    def allocate(size: int, body: Any) -> tir.Allocate:
        pointer = ir.PointerType(ir.PrimType("float32"), "global")
        return tir.Allocate(Var("buf", pointer), "float32", [size], tir.const(True), body)

    nothing = tir.Evaluate(0)
    func = tir.PrimFunc([], tir.SeqStmt([allocate(8, allocate(4, nothing)), allocate(10, nothing)]))
    assert calculate_workspace_bytes(func) == 48
    assert calculate_workspace_bytes(func, 64) == 128
    assert calculate_allocated_bytes(func) == {"main": {"global": 88}}
    assert calculate_allocated_bytes(IRModule({"f": func})) == {"f": {"global": 88}}


def test_anchor_block() -> None:
    func, realize, _ = matmul()
    found = find_anchor_block(IRModule({"main": func}))
    assert found is realize.block
    assert find_anchor_block(IRModule({"main": tir.PrimFunc([], tir.Evaluate(0))})) is None


# ---- purity, devices, bounds ------------------------------------------------------------------------------------


def test_purity() -> None:
    func, _, _ = matmul()
    assert not is_pure_function(func)
    with pytest.raises(ir.IRValueError, match="writes to buffer C"):
        assert_pure_function(func)
    x = Var("x")
    assert is_pure_function(tir.PrimFunc([x], tir.Evaluate(tir.ret(x + 1))))
    assert not is_pure_function(tir.PrimFunc([x], tir.Evaluate(tir.call_extern("int32", "f", x))))


def gpu(threads: int, shared: int = 0) -> tir.PrimFunc:
    """A kernel with one block axis and one thread axis."""
    bx, tx = Var("bx"), Var("tx")
    scratch = decl_buffer((max(shared, 1),), "float32", "scratch", scope="shared")
    inner = tir.Block(
        [], [], [], "b", BufferStore(A, tir.const(0.0), [bx, tx]), None, [scratch] if shared else []
    )
    body: Any = tir.BlockRealize([], tir.const(True), inner)
    for var, tag, extent in ((tx, "threadIdx.x", threads), (bx, "blockIdx.x", 4)):
        axis = IterVar(Range(0, extent), Var(var.name), IterVar.ThreadIndex, tag)
        body = For(var, 0, extent, ForKind.THREAD_BINDING, body, axis)
    return tir.PrimFunc([A], body)


def test_gpu_limits() -> None:
    limits = {"max_threads_per_block": 64, "max_shared_memory_per_block": 1024}
    assert verify_gpu_code(gpu(64, 256), limits)
    assert not verify_gpu_code(gpu(65), limits)
    assert gpu_code_problems(gpu(32, 257), limits) == [
        "max_shared_memory_per_block: 1028 is more than the limit 1024"
    ]
    with pytest.raises(ir.IRValueError, match="has no limit"):
        verify_gpu_code(gpu(1), {"max_threads": 3})


def test_gaps_between_rows_take_shared_memory() -> None:
    padded = decl_buffer((8, 32), "float32", "S", scope="shared", strides=(33, 1))
    tx = Var("tx")
    axis = IterVar(Range(0, 4), Var("tx"), IterVar.ThreadIndex, "threadIdx.x")
    root = tir.BlockRealize(
        [], tir.const(True), tir.Block([], [], [], "", tir.Evaluate(0), alloc_buffers=[padded])
    )
    kernel = tir.PrimFunc([], For(tx, 0, 4, ForKind.THREAD_BINDING, root, axis))
    assert gpu_code_problems(kernel, {"max_shared_memory_per_block": 1055}) == [
        "max_shared_memory_per_block: 1056 is more than the limit 1055"
    ]
    assert verify_gpu_code(kernel, {"max_shared_memory_per_block": 1056})


def test_gpu_vectors_in_memory_of_its_own_count() -> None:
    tx = Var("tx")
    vectors = Var("vectors", ir.PointerType(ir.PrimType("float32x4"), "local"))
    body = tir.Allocate(vectors, "float32x4", [2], tir.const(True), tir.Evaluate(0))
    axis = IterVar(Range(0, 4), Var("tx"), IterVar.ThreadIndex, "threadIdx.x")
    kernel = tir.PrimFunc([], For(tx, 0, 4, ForKind.THREAD_BINDING, body, axis))
    assert verify_gpu_code(kernel, {"max_vector_bytes": 16})
    assert gpu_code_problems(kernel, {"max_vector_bytes": 15}) == [
        "max_vector_bytes: 16 is more than the limit 15"
    ]


def test_host_code_must_not_touch_device_memory() -> None:
    target = ir.target.Target("cuda -arch=sm_80")
    assert verify_memory(gpu(4).with_attr("target", target))
    func, _, _ = matmul()
    assert verify_memory(func)
    assert not verify_memory(func.with_attr("target", target))


def test_out_of_bounds_accesses_are_listed() -> None:
    i = Var("i")

    def module(index: Any, condition: Any = None) -> IRModule:
        body: Any = BufferStore(A, tir.const(0.0), [index, 0])
        if condition is not None:
            body = tir.IfThenElse(condition, body)
        return IRModule({"main": tir.PrimFunc([A], For(i, 0, 65, ForKind.SERIAL, body))})

    mod = module(i, i < 64)
    assert OOBChecker()(mod) is mod
    with pytest.raises(
        OutOfBoundsError, match=r"store of buffer A in main: index i of dimension 0 reaches \[0, 64\]"
    ):
        OOBChecker()(module(i))
    with pytest.raises(OutOfBoundsError, match=r"index i - 1"):
        OOBChecker()(module(i - 1))


def test_out_of_bounds_accesses_of_block_bindings_are_listed() -> None:
    i, vi = Var("i"), Var("vi")
    index = decl_buffer((8,), "int32", "index")

    def module(place: Any) -> IRModule:
        body = BufferStore(A, tir.const(0.0), [vi, 0])
        axis = IterVar(Range(0, 64), vi, IterVar.DataPar)
        block = tir.Block([axis], [], [], "B", body)
        realize = tir.BlockRealize([index[place]], tir.const(True), block)
        return IRModule({"main": tir.PrimFunc([A, index], For(i, 0, 8, ForKind.SERIAL, realize))})

    assert OOBChecker()(module(i))
    with pytest.raises(OutOfBoundsError, match=r"load of buffer index in main: index i \+ 1"):
        OOBChecker()(module(i + 1))
