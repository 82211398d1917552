"""Variables, bindings, purity, recursion, unused bindings, reshape patterns, memory."""

from __future__ import annotations

from typing import Any

import ir
from ir import relax as rx
from ir import te, tir, topi
from ir.relax import analysis

T = rx.TensorStructInfo
n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def names(variables: list[Any]) -> list[str]:
    return [getattr(var, "name_hint", getattr(var, "name", None)) for var in variables]


def example() -> rx.Function:
    x, y = rx.Var("x", T((n, 4))), rx.Var("y", T((4,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            a = bb.emit(rx.op.add(x, y), "a")
            b = bb.emit(rx.op.multiply(a, a), "b")
            bb.emit(rx.op.exp(b), "unused")
            out = bb.emit_output(b, "out")
        bb.emit_func_output(out)
    return bb.finalize()["main"]


def test_variables() -> None:
    func = example()
    z = rx.Var("z", T((2,)))
    expr = rx.op.add(z, func.params[1])
    assert names(analysis.all_vars(func)) == ["x", "y", "a", "b", "unused", "out"]
    assert names(analysis.bound_vars(func)) == ["x", "y", "a", "b", "unused", "out"]
    assert analysis.free_vars(func) == []
    assert names(analysis.free_vars(expr)) == ["z", "y"]
    assert names(analysis.used_vars(func.body)) == ["x", "y", "a", "b", "out"]
    assert names(analysis.free_vars(func.body)) == ["x", "y"]


def test_global_vars() -> None:
    gv, other = rx.GlobalVar("f"), rx.GlobalVar("g")
    expr = rx.Tuple([rx.Call(gv, [rx.Var("x", T((1,)))]), other])
    assert names(analysis.all_global_vars(expr)) == ["f", "g"]
    assert names(analysis.called_global_vars(expr)) == ["f"]


def test_bindings() -> None:
    func = example()
    values = analysis.get_var2val(func)
    assert {var.name_hint: type(value).__name__ for var, value in values.items()}["a"] == "Call"
    assert list(analysis.name_to_binding(func)) == ["a", "b", "unused", "out"]
    chain = {var.name_hint: names(users) for var, users in analysis.udchain(func.body.blocks[0]).items()}
    assert chain == {"a": ["b"], "b": ["unused", "out"], "unused": [], "out": [], "x": ["a"], "y": ["a"]}


def test_post_order_visit() -> None:
    seen: list[str] = []
    x = rx.Var("x", T((2,)))
    analysis.post_order_visit(
        rx.op.add(rx.op.abs(x), x),
        lambda e: seen.append(e.op.name if isinstance(e, rx.Call) else type(e).__name__),
    )
    assert seen.index("relax.abs") < seen.index("relax.add") and seen.count("Var") == 1


def test_symbolic_variables() -> None:
    func = example()
    own = func.params[0].struct_info.shape[0]
    assert analysis.defined_symbolic_vars(func) == [own] and analysis.free_symbolic_vars(func) == []
    assert analysis.tir_vars_in_struct_info(T((n + m, m))) == [n, m]
    assert analysis.definable_tir_vars_in_struct_info(
        rx.TupleStructInfo([T((n + m, m)), rx.ShapeStructInfo((n,))])
    ) == [m, n]
    x = rx.Var("x", T((n * 2,)))
    assert analysis.free_symbolic_vars(rx.Function([x], x, x.struct_info)) == [n]
    found = analysis.collect_non_negative_expressions(
        rx.TupleStructInfo([T((n, 3, m + 1)), rx.PrimStructInfo(value=n)])
    )
    assert found[0] is n and len(found) == 2


def test_purity() -> None:
    x = rx.Var("x", T((2,)))
    assert not analysis.contains_impure_call(example())
    assert analysis.contains_impure_call(rx.op.print(x))
    assert analysis.contains_impure_call(rx.extern("f")(x))
    assert not analysis.contains_impure_call(rx.op.call_pure_packed("f", x, sinfo_args=T((2,))))
    impure = rx.Function([x], rx.op.print(x), rx.TupleStructInfo([]), is_pure=False)
    gv = rx.GlobalVar("g", impure.struct_info)
    assert analysis.contains_impure_call(rx.Call(gv, [x]))
    assert not analysis.contains_impure_call(rx.Call(gv, [x]), own_name=gv)
    # building a closure has no effect, calling it does
    assert not analysis.contains_impure_call(rx.Tuple([impure]))


def test_recursion() -> None:
    def module(calls: dict[str, list[str]]) -> ir.IRModule:
        info = rx.FuncStructInfo([T((1,))], T((1,)))
        gvs = {name: rx.GlobalVar(name, info) for name in calls}
        functions = {}
        for name, callees in calls.items():
            x = rx.Var("x", T((1,)))
            value: Any = x
            for callee in callees:
                value = rx.Call(gvs[callee], [value])
            functions[gvs[name]] = rx.Function([x], value, T((1,)))
        return ir.IRModule(functions)

    assert analysis.detect_recursion(module({"a": ["b"], "b": []})) == []
    assert [names(g) for g in analysis.detect_recursion(module({"a": ["a"], "b": ["a"]}))] == [["a"]]
    groups = analysis.detect_recursion(module({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["d"], "e": ["a"]}))
    assert [names(g) for g in groups] == [["a", "b", "c"], ["d"]]


def test_remove_all_unused() -> None:
    func = example()
    new = analysis.remove_all_unused(func)
    assert [b.var.name_hint for b in new.body.blocks[0].bindings] == ["a", "b", "out"]
    assert analysis.remove_all_unused(new) is new
    block = analysis.remove_all_unused(func.body.blocks[0])
    assert len(block.bindings) == 3


def test_effects_and_needed_match_casts_are_kept() -> None:
    x = rx.Var("x", T(ndim=1))
    bb = rx.BlockBuilder()
    with bb.function("main", [x], pure=False):
        bb.emit(rx.op.print(x))
        bb.emit(rx.op.abs(x))
        bb.match_cast(x, T((m,)))
        bb.emit_func_output(bb.emit(rx.op.zeros((m,), "float32")))
    new = analysis.remove_all_unused(bb.finalize()["main"])
    assert [type(b).__name__ for b in new.body.blocks[0].bindings] == [
        "VarBinding",
        "MatchCast",
        "VarBinding",
    ]
    assert new.body.blocks[0].bindings[0].value.op.name == "relax.print"


def test_computable_at_compile_time() -> None:
    x, w = rx.Var("x", T((4, 4))), rx.Var("w", T((4, 4)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, w], attrs={"num_input": 1}):
        a = bb.emit(rx.op.permute_dims(w), "a")
        b = bb.emit(rx.op.matmul(x, a), "b")
        c = bb.emit(rx.op.exp(a), "c")
        bb.emit_func_output(rx.Tuple([b, c]))
    assert names(analysis.computable_at_compile_time(bb.finalize()["main"])) == ["w", "a", "c"]


def test_reshape_pattern() -> None:
    a = te.placeholder((4, 6), name="A")
    assert analysis.has_reshape_pattern(te.create_prim_func([a, topi.reshape(a, (2, 12))]))
    assert analysis.has_reshape_pattern(te.create_prim_func([a, topi.expand_dims(a, 1)]))
    b = te.placeholder((n, 16), name="B")
    for shape in ((n * 4, 4), (n * 16,), (1, n, 16)):
        assert analysis.has_reshape_pattern(te.create_prim_func([b, topi.reshape(b, shape)], "int64"))
    rolled = te.compute((n, 16), lambda i, j: b[tir.floormod(i + 1, n), j], name="rolled")
    assert not analysis.has_reshape_pattern(te.create_prim_func([b, rolled], "int64"))
    assert not analysis.has_reshape_pattern(te.create_prim_func([a, topi.transpose(a)]))
    assert not analysis.has_reshape_pattern(te.create_prim_func([a, topi.abs(a)]))


def test_suggest_layout_transforms() -> None:
    a, b = te.placeholder((8, 4), name="A"), te.placeholder((8, 4), name="B")
    func = te.create_prim_func([a, b, topi.add(a, b)])
    index_map = tir.IndexMap.from_func(lambda i, j: (i // 4, j, i % 4), index_dtype="int32")
    ((block,),) = [list(analysis.suggest_layout_transforms(func, [index_map]).values())]
    assert len(block) == 4  # the block, two inputs, one output
    other = te.create_prim_func([a, topi.transpose(a)])
    (kept,) = analysis.suggest_layout_transforms(other, [lambda i, j: (j, i)]).values()
    assert len(kept) == 2  # the input is read in another order and keeps its layout


def test_estimate_memory_usage() -> None:
    bb = rx.BlockBuilder()
    with bb.function("main", [], pure=False):
        bb.emit(rx.op.builtin.alloc_tensor((2, 3), "float32", 0))
        bb.emit_func_output(bb.emit(rx.op.memory.alloc_storage([24], 0, "global", "float32")))
    report = analysis.estimate_memory_usage(bb.finalize())
    assert (
        "Function main" in report
        and "1 tensors of static size, 24 bytes" in report
        and "1 planned storages" in report
    )


def test_a_shape_variable_in_the_result_of_a_call_is_used() -> None:
    shape = rx.Var("shape", rx.ShapeStructInfo(ndim=2))
    x = rx.Var("x", rx.TensorStructInfo(None, "float32", ndim=2))
    call = rx.call_dps_packed("f", (x,), rx.TensorStructInfo(shape, "float32"))
    assert names(analysis.used_vars(call)) == ["x", "shape"]
    assert names(analysis.free_vars(call)) == ["x", "shape"]
