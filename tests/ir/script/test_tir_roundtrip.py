"""Every kind of TIR node, printed and read back."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from ir.expr import GlobalVar
from ir.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IndexMap,
    IntImm,
    IterVar,
    Let,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Ramp,
    Range,
    Select,
    SeqStmt,
    Shuffle,
    SizeVar,
    StringImm,
    TensorIntrin,
    Var,
    While,
    const,
    decl_buffer,
)
from ir.tir.stmt_functor import StmtExprMutator
from ir.type import PointerType, PrimType
from tests.ir.script.roundtrip import check

I32 = "int32"
A = decl_buffer((16, 16), "float32", "A")
N = Var("n", I32)
X, Y = Var("x", I32), Var("y", I32)
F = Var("f", "float32")
L = Var("l", "int64")
P = Var("p", "bool")


def of_statement(stmt: tir.Stmt, *params: object) -> str:
    """Check a statement as the body of a function."""
    return check(PrimFunc(params or (A, N, X, Y, F, L, P), stmt, attrs={"global_symbol": "main"}))


def rooted(stmt: tir.Stmt) -> tir.Stmt:
    """A statement with blocks below the root block that every function with blocks has."""
    return BlockRealize([], True, Block([], [], [], "root", stmt))


def one(expr: tir.PrimExpr) -> str:
    """The text of an expression after checking it."""
    text = of_statement(Evaluate(expr))
    line = text.rstrip().split("\n")[-1].strip()
    return line.removeprefix("T.evaluate(")[:-1] if line.startswith("T.evaluate(") else line


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (X + Y, "x + y"),
        (X - (Y - N), "x - (y - n)"),
        ((X - Y) - N, "x - y - n"),
        (X + (Y + N), "x + (y + n)"),
        ((X + Y) * N, "(x + y) * n"),
        (X * Y + N, "x * y + n"),
        (X // 4 * 4 + X % 4, "x // 4 * 4 + x % 4"),
        (X * (Y // N), "x * (y // n)"),
        (tir.Div(X, Y), "T.Div(x, y)"),
        (tir.Mod(X, Y), "T.truncmod(x, y)"),
        (tir.Div(F, const(2, "float32")), "f / T.float32(2)"),
        (tir.Min(X, Y), "T.min(x, y)"),
        (tir.Max(X, const(0)), "T.max(x, 0)"),
        (X == Y, "x == y"),
        (tir.NE(X, const(1)), "x != 1"),
        (tir.LT(const(1), X), "1 < x"),
        (X <= Y, "x <= y"),
        (tir.And(X > Y, X >= const(0)), "x > y and x >= 0"),
        (tir.Or(tir.And(P, P), tir.Not(P)), "p and p or not p"),
        (tir.And(P, tir.And(P, P)), "p and (p and p)"),
        (tir.Not(tir.And(P, P)), "not (p and p)"),
        (tir.EQ(tir.LT(X, Y), P), "(x < y) == p"),
        (tir.Add(X, const(0)), "T.Add(x, 0)"),
        (tir.Mul(const(2), const(3)), "T.Mul(2, 3)"),
        (tir.FloorDiv(X, const(1)), "T.FloorDiv(x, 1)"),
        (tir.FloorDiv(X, const(0)), "T.FloorDiv(x, 0)"),
        (tir.Min(const(1), const(2)), "T.Min(1, 2)"),
        (tir.EQ(const(1), const(2)), "T.EQ(1, 2)"),
        (tir.And(const(True), P), "T.And(T.bool(True), p)"),
        (tir.Not(const(False)), "T.Not(T.bool(False))"),
        (L * const(2, "int64"), "l * T.int64(2)"),
        (const(-3), "-3"),
        (X + -1, "x + -1"),
        (X * const(-1), "x * -1"),
        (const(3, "uint8"), "T.uint8(3)"),
        (const(True), "T.bool(True)"),
        (const(0.0, "float32"), "T.float32(0)"),
        (const(0.1, "float32"), "T.float32(0.10000000000000001)"),
        (const(1e-5, "float16"), "T.float16(1.0000000000000001e-05)"),
        (const(float("inf"), "float32"), 'T.float32("inf")'),
        (const(float("-inf"), "float64"), 'T.float64("-inf")'),
        (tir.min_value("float32"), "T.float32(-3.4028234663852886e+38)"),
        (Cast("int64", X), 'T.Cast("int64", x)'),
        (Cast("float32", const(1)), 'T.Cast("float32", 1)'),
        (Select(P, X, Y), "T.Select(p, x, y)"),
        (Ramp(X, 1, 4), "T.Ramp(x, 1, 4)"),
        (Broadcast(F, 4), "T.Broadcast(f, 4)"),
        (Broadcast(const(1), 4), "T.Broadcast(1, 4)"),
        (
            Shuffle([Broadcast(X, 2), Broadcast(Y, 2)], [0, 3]),
            "T.Shuffle([T.Broadcast(x, 2), T.Broadcast(y, 2)], [0, 3])",
        ),
        (tir.exp(F), "T.exp(f)"),
        (tir.pow(F, 2), "T.pow(f, T.float32(2))"),
        (tir.if_then_else(P, X, 0), "T.if_then_else(p, x, 0)"),
        (tir.likely(P), "T.likely(p)"),
        (X << 2, "T.shift_left(x, 2)"),
        (X & Y, "T.bitwise_and(x, y)"),
        (~X, "T.bitwise_not(x)"),
        (tir.popcount(X), "T.popcount(x)"),
        (tir.clz(L), "T.clz(l)"),
        (tir.isnan(F), "T.isnan(f)"),
        (tir.reinterpret("float32", X), 'T.reinterpret("float32", x)'),
        (tir.call_extern("float32", "sin", F), 'T.call_extern("float32", "sin", f)'),
        (tir.call_pure_extern("int32", "f", X, 3), 'T.call_pure_extern("int32", "f", x, 3)'),
        (
            tir.call_llvm_pure_intrin("int32", "llvm.ctpop.i32", X),
            'T.call_llvm_pure_intrin("int32", "llvm.ctpop.i32", x)',
        ),
        (tir.call_packed("f", X, F), 'T.call_packed("f", x, f)'),
        (tir.address_of(BufferLoad(A, [X, 0])), "T.address_of(A[x, 0])"),
        (A.access_ptr("r"), 'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 256, 1)'),
        (Call("handle", "tir.exp", (X,)), 'T.call_intrin("handle", "tir.exp", x)'),
        (Call("int32", "tir.tvm_storage_sync", (StringImm("shared"),)), 'T.tvm_storage_sync("shared")'),
        (tir.vscale(), "T.vscale()"),
        (tir.assume(P), "T.assume(p)"),
        (BufferLoad(A, [X, Y]), "A[x, y]"),
        (BufferLoad(A, [X, Ramp(Y * 4, 1, 4)]), "A[x, y * 4:y * 4 + 4]"),
        (BufferLoad(A, [X, Ramp(0, 2, 4)]), "A[x, 0:8:2]"),
        (BufferLoad(A, [X, Ramp(0, Y, 4)]), "A[x, T.Ramp(0, y, 4)]"),
        (
            BufferLoad(A, [0, Ramp(0, 1, 4)], predicate=Broadcast(P, 4)),
            "A.vload([0, T.Ramp(0, 1, 4)], predicate=T.Broadcast(p, 4))",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_expression(expr: tir.PrimExpr, text: str) -> None:
    assert one(expr) == text


def test_vector_arithmetic_on_slices() -> None:
    index = Ramp(X, 1, 4)
    text = of_statement(BufferStore(A, BufferLoad(A, [0, index]) + BufferLoad(A, [1, index]), [X, index]))
    assert "A[x, x:x + 4] = A[0, x:x + 4] + A[1, x:x + 4]" in text


def test_let_expression_declares_its_variable() -> None:
    v = Var("v", I32)
    text = of_statement(Evaluate(Let(v, X + 1, v * 2)))
    assert "v = T.int32()" in text
    assert "T.evaluate(T.Let(v * 2, where={v: x + 1}))" in text


def test_reduce_and_iter_var() -> None:
    k = IterVar(Range(0, 16), Var("k", I32), IterVar.CommReduce)
    reduced = tir.sum(A[X, k.var], axis=[k])
    text = of_statement(Evaluate(reduced))
    assert 'T.iter_var(k, T.Range(0, 16), "CommReduce", "")' in text
    assert "T.comm_reducer(lambda x_1, y_1: x_1 + y_1, [T.float32(0)])" in text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ForKind.SERIAL, "for i in range(16):"),
        (ForKind.PARALLEL, "for i in T.parallel(16):"),
        (ForKind.VECTORIZED, "for i in T.vectorized(16):"),
        (ForKind.UNROLLED, "for i in T.unroll(16):"),
    ],
)
def test_loop_kinds(kind: ForKind, text: str) -> None:
    i = Var("i", I32)
    assert text in of_statement(For(i, 0, 16, kind, Evaluate(i)))


def test_loop_bounds() -> None:
    i = Var("i", I32)
    assert "for i in range(2, 18):" in of_statement(For(i, 2, 16, 0, Evaluate(i)))
    assert "for i in range(n, n + 4):" in of_statement(For(i, N, 4, 0, Evaluate(i)))
    assert "for i in range(2, 2 + n):" in of_statement(For(i, 2, N, 0, Evaluate(i)))
    big = Var("i", "int64")
    assert "for i in range(T.int64(16)):" in of_statement(
        For(big, const(0, "int64"), const(16, "int64"), 0, Evaluate(big))
    )


def test_loop_annotations_and_threads() -> None:
    i = Var("i", I32)
    notes = {"pragma": 1, "list": ["a", 2.5], "nested": {"k": True}}
    text = of_statement(For(i, 0, 16, 0, Evaluate(i), None, notes))
    assert 'T.serial(16, annotations={"list": ["a", 2.5], "nested": {"k": True}, "pragma": 1})' in text
    thread = IterVar(None, Var("", I32), IterVar.ThreadIndex, "threadIdx.x")
    text = of_statement(For(i, 0, 16, ForKind.THREAD_BINDING, Evaluate(i), thread))
    assert 'for i in T.thread_binding(16, thread="threadIdx.x"):' in text


def test_grid_stops_at_dependent_extents() -> None:
    i, j, k = (Var(name, I32) for name in "ijk")
    inner = For(k, 0, i + 1, 0, Evaluate(k))
    text = of_statement(For(i, 0, 4, 0, For(j, 0, 8, 0, inner)))
    assert "for i, j in T.grid(4, 8):" in text
    assert "for k in range(i + 1):" in text


def test_scopes_are_concise_at_the_end_only() -> None:
    v = Var("v", I32)
    let = LetStmt(v, X + 1, Evaluate(v))
    assert "v: T.int32 = x + 1" in of_statement(let)
    text = of_statement(SeqStmt([let, Evaluate(Y)]))
    assert "with T.LetStmt(x + 1) as v:" in text
    check_ = AssertStmt(P, "must hold", Evaluate(X))
    assert 'assert p, "must hold"' in of_statement(check_)
    assert 'with T.Assert(p, "must hold"):' in of_statement(SeqStmt([check_, Evaluate(Y)]))
    attr = AttrStmt(A, "key", X, Evaluate(Y))
    assert 'T.attr(A, "key", x)' in of_statement(attr)
    assert 'with T.attr(A, "key", x):' in of_statement(SeqStmt([attr, Evaluate(Y)]))
    assert 'T.attr("default", "device_id", 0)' in of_statement(
        AttrStmt("default", "device_id", 0, Evaluate(Y))
    )
    assert "T.attr(None, " in of_statement(AttrStmt(None, "key", 0, Evaluate(Y)))


def test_if_while_evaluate_return() -> None:
    text = of_statement(IfThenElse(X < Y, Evaluate(X), IfThenElse(P, Evaluate(Y), None)))
    assert "    if x < y:\n        T.evaluate(x)\n    else:\n        if p:\n            T.evaluate(y)" in text
    assert "if T.bool(True):" in of_statement(IfThenElse(const(True), Evaluate(X), None))
    assert "while x < 10:" in of_statement(While(X < 10, Evaluate(X)))
    func = PrimFunc([X], Evaluate(tir.ret(X + 1)), PrimType(I32), attrs={"global_symbol": "inc"})
    assert "def inc(x: T.int32) -> T.int32:\n    return x + 1" in check(func)


def test_free_variables_keep_branches_together() -> None:
    free = Var("m", I32)
    text = check(
        PrimFunc([P], IfThenElse(P, Evaluate(0), Evaluate(free)), attrs={"global_symbol": "main"}),
        map_free_vars=True,
    )
    assert text.index("m = T.int32()") < text.index("if p:")


def allocate(dtype: str, extent: int, scope: str = "global") -> Var:
    return Var("buf", PointerType(PrimType(dtype), scope))


def test_allocations() -> None:
    var = allocate("float32", 16, "shared")
    plain = Allocate(var, "float32", [16], const(True), Evaluate(X))
    assert 'buf = T.allocate([16], "float32", "shared")' in of_statement(plain)
    assert 'with T.allocate([16], "float32", "shared") as buf:' in of_statement(SeqStmt([plain, Evaluate(Y)]))
    view = decl_buffer((16,), "float32", "view", data=var, scope="shared")
    body = BufferStore(view, const(0.0, "float32"), [X])
    text = of_statement(Allocate(var, "float32", [16], P, body, {"k": 1}))
    assert 'condition=p, annotations={"k": 1})' in text
    assert 'view = T.Buffer((16,), data=buf, scope="shared")' in text
    own = decl_buffer((16,), "float32", "own")
    both = Allocate(
        own.data, "float32", [16], const(True), DeclBuffer(own, BufferStore(own, const(1.0, "float32"), [0]))
    )
    assert "own = T.decl_buffer((16,))" in of_statement(both)
    assert "with T.decl_buffer((16,)) as own:" in of_statement(SeqStmt([both, Evaluate(Y)]))
    alias = decl_buffer((256,), "float32", "flat", data=A.data)
    assert "flat = T.decl_buffer((256,), data=A.data)" in of_statement(
        DeclBuffer(alias, BufferStore(alias, const(1.0, "float32"), [0]))
    )


def test_allocate_const() -> None:
    var = allocate("int32", 3)
    data = np.array([1, 2, 3], "int32")
    assert 'T.allocate_const([1, 2, 3], "int32", [3])' in of_statement(
        AllocateConst(var, I32, [3], data, Evaluate(X))
    )
    large = np.arange(100, dtype="int32")
    assert 'metadata["NDArray"][0]' in of_statement(AllocateConst(var, I32, [100], large, Evaluate(X)))


def test_realize() -> None:
    local = decl_buffer((16,), "float32", "B")
    body = BufferRealize(local, [Range(0, 16)], const(True), BufferStore(local, const(0.0, "float32"), [0]))
    text = check(PrimFunc([X], body, attrs={"global_symbol": "main"}), map_free_vars=True)
    assert 'T.realize(B[0:16], "global")' in text


def test_launch_thread() -> None:
    def launch(var: Var, tag: str, extent: int, body: tir.Stmt) -> tir.Stmt:
        return AttrStmt(
            IterVar(Range(0, extent), var, IterVar.ThreadIndex, tag), "thread_extent", extent, body
        )

    bx, tx = Var("blockIdx_x", I32), Var("threadIdx_x", I32)
    text = of_statement(launch(bx, "blockIdx.x", 8, launch(tx, "threadIdx.x", 32, Evaluate(bx + tx))))
    assert 'blockIdx_x = T.launch_thread("blockIdx.x", 8)' in text
    text = of_statement(SeqStmt([launch(bx, "blockIdx.x", 8, Evaluate(bx)), Evaluate(X)]))
    assert 'with T.launch_thread("blockIdx.x", 8) as blockIdx_x:' in text
    shared = IterVar(Range(0, 8), tx, IterVar.ThreadIndex, "threadIdx.x")
    twice = SeqStmt(
        [
            AttrStmt(shared, "thread_extent", 8, Evaluate(tx)),
            AttrStmt(shared, "thread_extent", 8, Evaluate(tx)),
        ]
    )
    text = check(PrimFunc([X], twice, attrs={"global_symbol": "main"}), map_free_vars=True)
    assert 'threadIdx_x = T.env_thread("threadIdx.x")' in text
    assert "T.launch_thread(threadIdx_x, 8)" in text


def region(buffer: tir.Buffer, *ranges: object) -> BufferRegion:
    return BufferRegion(
        buffer, [item if isinstance(item, Range) else Range.from_min_extent(item, 1) for item in ranges]
    )


def test_block() -> None:
    i, j = Var("i", I32), Var("j", I32)
    vi, vj, vk, vo = (Var(name, I32) for name in ("vi", "vj", "vk", "vo"))
    inner = decl_buffer((4,), "float32", "inner", scope="local")
    view = decl_buffer((4, 4), "float32", "view", strides=[Var("s0", I32), Var("s1", I32)], offset_factor=1)
    source = region(A, Range.from_min_extent(vi * 4, 4), Range(0, 4))
    block = Block(
        [
            IterVar(Range(0, 4), vi, IterVar.DataPar),
            IterVar(Range(0, 8), vj, IterVar.CommReduce),
            IterVar(Range(2, 6), vk, IterVar.Ordered),
            IterVar(Range(0, 1), vo, IterVar.Opaque),
        ],
        [source, region(A, vi, vj)],
        [region(A, vi, Range(0, 16))],
        "blk",
        BufferStore(A, inner[0] + view[0, 0], [vi, vj]),
        BufferStore(A, const(0.0, "float32"), [vi, vj]),
        [inner],
        [MatchBufferRegion(view, source)],
        {"attr": 1, "flag": True},
    )
    realize = BlockRealize([i, j, i + 2, 0], X < Y, block)
    text = of_statement(rooted(For(i, 0, 4, 0, For(j, 0, 8, 0, realize))))
    assert 'vi, vj = T.axis.remap("SR", [i, j])' in text
    assert "vk = T.axis.scan((2, 6), i + 2)" in text
    assert "vo = T.axis.opaque(1, 0)" in text
    assert "T.where(x < y)" in text
    assert "T.reads(A[vi * 4:vi * 4 + 4, 0:4], A[vi, vj])" in text
    assert "T.writes(A[vi, 0:16])" in text
    assert 'T.block_attr({"attr": 1, "flag": True})' in text
    assert 'inner = T.alloc_buffer((4,), scope="local")' in text
    assert (
        'view = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:4], (4, 4), strides=("s0", "s1"), offset_factor=1)'
        in text
    )
    assert "with T.init():" in text


def test_block_without_realize_and_axis_of_other_extent() -> None:
    i, vi = Var("i", I32), Var("vi", I32)
    block = Block([IterVar(Range(0, 32), vi, 0)], [], [], "b", Evaluate(vi))
    assert "vi = T.axis.spatial(32, i)" in of_statement(
        rooted(For(i, 0, 16, 0, BlockRealize([i], True, block)))
    )
    assert 'with T.block("b", no_realize=True):' in of_statement(block)


def test_implicit_root_is_a_comment() -> None:
    local = decl_buffer((16,), "float32", "B")
    vi, i = Var("vi", I32), Var("i", I32)
    block = Block(
        [IterVar(Range(0, 16), vi, 0)],
        [],
        [region(local, vi)],
        "b",
        BufferStore(local, const(1.0, "float32"), [vi]),
    )
    root = Block([], [], [], "root", For(i, 0, 16, 0, BlockRealize([i], True, block)), None, [local])
    text = of_statement(BlockRealize([], True, root))
    assert '# with T.block("root"):\n    B = T.alloc_buffer((16,))' in text
    annotated = root.replace(annotations={"k": 1})
    assert '    with T.block("root"):\n        T.reads()' in of_statement(BlockRealize([], True, annotated))


def test_parameters() -> None:
    n, m = Var("n", I32), SizeVar("m", "int64")
    pointer = Var("ptr", PointerType(PrimType("float16"), "shared"))
    dynamic = decl_buffer((n, m * 2), "float16", "D")
    detailed = decl_buffer(
        (8,), "int8", "E", offset_factor=4, scope="local", data_alignment=128, buffer_type="auto_broadcast"
    )
    handle = Var("h", "handle")
    func = PrimFunc(
        [dynamic, detailed, pointer, handle, X],
        Evaluate(dynamic[0, const(0, "int64")] + detailed[0].astype("float16")),
        attrs={"global_symbol": "main", "tir.noalias": True, "target": None},
    )
    text = check(func)
    assert "D_handle: T.handle" in text
    assert 'ptr: T.handle("float16", "shared")' in text
    assert "m = T.int64(is_size_var=True)" in text
    assert 'D = T.match_buffer(D_handle, (n, m * T.int64(2)), "float16")' in text
    assert 'scope="local", align=128, offset_factor=4, buffer_type="auto_broadcast")' in text
    assert 'T.func_attr({"target": None, "tir.noalias": True})' in text


def test_scalar_and_zero_dimensional_buffers() -> None:
    s = decl_buffer((), "float32", "S")
    flags = decl_buffer((4,), "bool", "flags")
    body = SeqStmt([BufferStore(s, const(1.0, "float32"), []), BufferStore(flags, P, [0])])
    text = check(PrimFunc([s, flags, P], body, attrs={"global_symbol": "main"}))
    assert "S[()] = T.float32(1)" in text
    assert 'flags: T.Buffer((4,), "bool")' in text


def test_aliased_and_undeclared_buffers() -> None:
    alias = decl_buffer((256,), "float32", "A", data=A.data)
    text = of_statement(BufferStore(alias, const(1.0, "float32"), [0]))
    assert "A_1 = T.Buffer((256,), data=A.data)\n" in text
    free = decl_buffer((4,), "float32", "G")
    text = check(
        PrimFunc([X], BufferStore(free, const(1.0, "float32"), [0]), attrs={"global_symbol": "main"}),
        map_free_vars=True,
    )
    assert "G = T.Buffer((4,))" in text


def test_names_are_made_valid_and_unique() -> None:
    outer, inner = Var("i.outer", I32), Var("i", I32)
    same = Var("i", I32)
    body = For(outer, 0, 2, 0, For(inner, 0, outer + 1, 0, For(same, 0, inner + 1, 0, Evaluate(same))))
    text = of_statement(body)
    assert "for i_outer in range(2):" in text
    assert "for i_1 in range(i + 1):" in text
    keyword = Var("lambda", I32)
    assert "lambda_: T.int32" in check(PrimFunc([keyword], Evaluate(keyword)))


def test_private_function() -> None:
    assert "@T.prim_func(private=True)\ndef main(" in check(PrimFunc([X], Evaluate(X)))


def test_index_map_and_tensor_intrin() -> None:
    index_map = IndexMap.from_func(lambda i, j: (j, i // 4, i % 4), index_dtype="int32")
    text = of_statement(
        AttrStmt(A, "layout", 0, For(Var("i", I32), 0, 4, 0, Evaluate(0), None, {"map": index_map}))
    )
    assert "T.index_map(lambda i, j: (j, i // 4, i % 4))" in text
    func = PrimFunc([X], Evaluate(X))
    intrin = TensorIntrin(func, func)
    assert "metadata" in repr(intrin)


def test_call_of_module_function() -> None:
    from ir import IRModule

    callee = PrimFunc([X], Evaluate(tir.ret(X)), PrimType(I32), attrs={"global_symbol": "callee"})
    var = GlobalVar("callee")
    other = Var("z", I32)
    caller = PrimFunc([other], Evaluate(Call(I32, var, [other])), attrs={"global_symbol": "caller"})
    text = check(IRModule({var: callee, GlobalVar("caller"): caller}))
    assert "cls = Module" in text
    assert "cls.callee(z)" in text


def test_repr_is_script() -> None:
    assert repr(X + 1) == "x + 1"
    assert repr(A) == "A"
    assert repr(region(A, X, Range(0, 4))) == "A[x, 0:4]"
    assert repr(Range(0, 10)) == "I.Range(0, 10)"
    assert repr(IntImm("int64", 3)) == "T.int64(3)"
    assert (
        repr(BufferStore(A, const(1.0, "float32"), [0, 0]))
        == "A = T.Buffer((16, 16))\nA[0, 0] = T.float32(1)"
    )
    assert repr(PointerType(PrimType("float32"), "shared")) == 'T.handle("float32", "shared")'


def test_sequences_hold_no_sequences() -> None:
    store = [Evaluate(tir.call_extern("int32", name)) for name in "abc"]
    nested = SeqStmt([SeqStmt(store[:2]), store[2]])
    assert list(nested.seq) == store

    class Twice(StmtExprMutator):
        def visit_Evaluate(self, node: Evaluate) -> SeqStmt:
            return SeqStmt([node, node])

    assert len(Twice().visit(SeqStmt(store)).seq) == 6
    of_statement(Twice().visit(SeqStmt(store)))
