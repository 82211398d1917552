"""One program for every kind of TIR node, for tests that must hold for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir import PointerType, PrimType, Range, tir
from ir.tir import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IndexMap,
    IterVar,
    SizeVar,
    Var,
    decl_buffer,
)

x, y, f = Var("x"), Var("y"), Var("f", "float32")
n = SizeVar("n")
A = decl_buffer((16, 16), "float32", "A")
B = decl_buffer((16, n), "float32", "B", strides=[n * 2, tir.const(1)], elem_offset=y, axis_separators=[1])
i, j = Var("i"), Var("j")
pointer = Var("p", PointerType(PrimType("float32"), "shared"))
nothing = tir.Evaluate(0)
store = BufferStore(A, f + 1.0, [i, 0])
summed = tir.comm_reducer(lambda a, b: a + b, lambda dtype: tir.const(0, dtype), "sum")
axis = IterVar(Range(0, 4), Var("k"), IterVar.CommReduce)


def function(body: Any, *params: Any) -> tir.PrimFunc:
    """A function."""
    return tir.PrimFunc(params or [A], body).with_attr("global_symbol", "main")


def blocks() -> BlockRealize:
    """A reduction with everything that a block may have."""
    vi, vk = Var("vi"), Var("vk")
    scratch = decl_buffer((16,), "float32", "scratch", scope="local")
    view = decl_buffer((16,), "float32", "view", offset_factor=1)
    region = tir.BufferRegion(A, [Range.from_min_extent(vi, 1), Range(0, 16)])
    block = Block(
        [IterVar(Range(0, 16), vi, IterVar.DataPar), IterVar(Range(0, 16), vk, IterVar.CommReduce)],
        [region],
        [region],
        "b",
        BufferStore(A, A[vi, vk] + scratch[vk], [vi, vk]),
        BufferStore(A, tir.const(0.0), [vi, vk]),
        [scratch],
        [tir.MatchBufferRegion(view, region)],
        {"pragma": 1, "names": ["a", "b"], "expr": vi + 1},
    )
    return BlockRealize([i, 3], i < 5, block)


SAMPLES: dict[str, Any] = {
    "Var": x,
    "SizeVar": n,
    "IntImm": tir.const(5, "int64"),
    "FloatImm": tir.const(1.5, "float16"),
    "StringImm": tir.StringImm("text"),
    **{
        name: getattr(tir, name)(x, y)
        for name in ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")
    },
    **{name: getattr(tir, name)(x, y) for name in ("EQ", "NE", "LT", "LE", "GT", "GE")},
    "And": tir.And(x < y, x > 0),
    "Or": tir.Or(x < y, x > 0),
    "Not": tir.Not(x < y),
    "Cast": tir.Cast("float32", x),
    "Select": tir.Select(x < y, f, f * 2.0),
    "BufferLoad": A[x, y],
    "Ramp": tir.Ramp(x, 2, 4),
    "Broadcast": tir.Broadcast(x, 4),
    "Shuffle": tir.Shuffle([tir.Ramp(x, 1, 4)], [2]),
    "Call": tir.exp(f),
    "Let": tir.Let(Var("v"), x, x + y),
    "Reduce": summed(f * 2.0, axis),
    "CommReducer": tir.CommReducer([Var("a")], [Var("b")], [x], [tir.const(0)]),
    "IterVar": axis,
    "Range": Range.from_min_extent(x, 4),
    "Buffer": B,
    "IndexMap": IndexMap.from_func(lambda a, b: [a // 4, b, a % 4]),
    "LetStmt": tir.LetStmt(Var("v"), x, nothing),
    "AssertStmt": tir.AssertStmt(x < y, "wrong", nothing),
    "AttrStmt": tir.AttrStmt(A, "layout", tir.StringImm("row"), nothing),
    "For": For(i, 0, n, ForKind.PARALLEL, store, None, {"unroll": True, "step": 4}),
    "While": tir.While(x < y, nothing),
    "BufferStore": store,
    "BufferRealize": tir.BufferRealize(A, [Range(0, 16), Range(0, 16)], tir.const(True), store),
    "Allocate": tir.Allocate(pointer, "float32", [4, n], tir.const(True), nothing, {"tag": "a"}),
    "AllocateConst": tir.AllocateConst(pointer, "float32", [3], np.arange(3, dtype="float32"), nothing),
    "DeclBuffer": tir.DeclBuffer(decl_buffer((8,), name="flat", data=pointer), nothing),
    "SeqStmt": tir.SeqStmt([store, nothing]),
    "IfThenElse": tir.IfThenElse(x < y, store, nothing),
    "Evaluate": tir.Evaluate(tir.call_extern("int32", "f", x, A.access_ptr("w"))),
    "BufferRegion": tir.BufferRegion(A, [Range(0, 4), Range.from_min_extent(x, 2)]),
    "MatchBufferRegion": blocks().block.match_buffers[0],
    "Block": blocks().block,
    "BlockRealize": blocks(),
    "PrimFunc": function(For(i, 0, 4, ForKind.SERIAL, For(j, 0, 4, ForKind.VECTORIZED, blocks())), A, B, n),
    "TensorIntrin": tir.TensorIntrin(function(store), function(nothing)),
}
"""Sample by class name."""
