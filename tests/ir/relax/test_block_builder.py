"""BlockBuilder: scopes, emission, normalization, te calls, the module."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import te, tir, topi
from ir.relax.testing import evaluate

T = rx.TensorStructInfo
n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def test_function_and_dataflow() -> None:
    x, y = rx.Var("x", T((n, m))), rx.Var("y", T((m,)))
    bb = rx.BlockBuilder()
    with bb.function("func", [x, y]):
        assert rx.BlockBuilder.current() is bb
        with bb.dataflow():
            lv0 = bb.emit(rx.op.add(x, y))
            lv1 = bb.emit(rx.op.multiply(lv0, y))
            gv = bb.emit_output(lv1)
        bb.emit_func_output(gv)
    assert rx.BlockBuilder.current() is None
    func = bb.finalize()["func"]
    (block,) = func.body.blocks
    assert isinstance(block, rx.DataflowBlock) and len(block.bindings) == 3
    assert isinstance(lv0, rx.DataflowVar) and not isinstance(gv, rx.DataflowVar)
    assert [b.var.name_hint for b in block.bindings] == ["lv", "lv1", "gv"]
    assert func.attrs["global_symbol"] == "func" and func.ret_struct_info == T((n, m))
    assert rx.analysis.well_formed(bb.finalize())


def test_nested_expressions_become_bindings() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("f", [x]):
        out = bb.emit(rx.op.add(rx.op.abs(x), rx.Tuple([rx.op.exp(x), x])[0]))
        bb.emit_func_output(rx.op.negative(out))
    func = bb.finalize()["f"]
    names = [binding.value.op.name for binding in func.body.blocks[0].bindings]
    assert names == ["relax.abs", "relax.exp", "relax.add", "relax.negative"]
    assert isinstance(func.body.body, rx.Var)
    assert rx.analysis.well_formed(func)


def test_normalized_expressions_come_back_as_they_are() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("f", [x]):
        bb.emit_func_output(bb.emit(rx.op.abs(x)))
    func = bb.finalize()["f"]
    assert rx.BlockBuilder().normalize(func) is func


def test_names_are_unique() -> None:
    bb = rx.BlockBuilder()
    assert [bb.get_unique_name(p) for p in ("a", "a", "b", "a", "a1")] == ["a", "a1", "b", "a2", "a11"]


def test_emit_te_static_and_symbolic() -> None:
    x, y = rx.Var("x", T((n, 4))), rx.Var("y", T((4,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, y]):
        out = bb.emit_te(topi.add, x, y)
        again = bb.emit_te(topi.add, out, y, primfunc_name_hint="other_name")
        bb.emit_func_output(again)
    mod = bb.finalize()
    assert sorted(v.name_hint for v in mod) == ["add", "main"]  # the second PrimFunc equals the first
    assert out.struct_info == T((n, 4))
    assert "global_symbol" not in mod["add"].attrs
    a, b = np.ones((3, 4), "float32"), np.arange(4, dtype="float32")
    np.testing.assert_allclose(evaluate(mod, a, b), a + 2 * b)


def test_emit_te_passes_unbound_symbolic_variables() -> None:
    x = rx.Var("x", T((n * 2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, rx.Var("s", rx.ShapeStructInfo((n,)))]):
        out = bb.emit_te(topi.abs, x)
        bb.emit_func_output(out)
    call = bb.finalize()["main"].body.blocks[0].bindings[0].value
    assert len(call.args) == 3 and call.args[2].values[0] is n
    func = bb.finalize()["abs"]
    assert len(func.params) == 3
    # the PrimFunc has variables of its own
    used: list = []
    ir.post_order_visit(func, lambda node: used.append(node is n))
    assert not any(used)


def test_emit_te_with_scalars_lists_and_several_outputs() -> None:
    x = rx.Var("x", T((6,)))
    bb = rx.BlockBuilder()

    def split_and_scale(tensors: list, factor: object) -> list:
        first, second = topi.split(tensors[0], 2)
        return [first * factor, second]

    with bb.function("main", [x]):
        out = bb.emit_te(
            split_and_scale, [x], rx.PrimValue(tir.const(2.0, "float32")), primfunc_attrs={"tag": 1}
        )
        bb.emit_func_output(out)
    assert out.struct_info == rx.TupleStructInfo([T((3,)), T((3,))])
    assert bb.finalize()["split_and_scale"].attrs["tag"] == 1
    a, b = evaluate(bb.finalize(), np.arange(6, dtype="float32"))
    assert a.tolist() == [0, 2, 4] and b.tolist() == [3, 4, 5]


def test_emit_te_needs_a_known_shape() -> None:
    bb = rx.BlockBuilder()
    x = rx.Var("x", T(ndim=2))
    with bb.testing_scope([]), pytest.raises(ir.IRTypeError, match="match_cast"):
        bb.emit_te(topi.abs, x)


def test_call_te_with_grad() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        call = bb.call_te_with_grad(topi.abs, x, te_grad_name="abs_grad", te_grad_kwargs={"k": 1})
    assert call.op.name == "relax.call_tir_with_grad"
    assert call.attrs["te_grad_name"] == "abs_grad" and call.attrs["te_grad_kwargs"] == {"k": 1}


def test_match_cast_defines_symbolic_variables() -> None:
    x = rx.Var("x", T(ndim=1))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.match_cast(x, T((m,)))
        z = bb.emit(rx.op.zeros((m, 2), "float32"))
        bb.emit_func_output(rx.Tuple([y, z]))
    func = bb.finalize()["main"]
    assert rx.analysis.well_formed(func)
    assert func.ret_struct_info == rx.TupleStructInfo([T(ndim=1), T(ndim=2)])


def test_if_joins_its_branches() -> None:
    cond, x, y = rx.Var("c", T((), "bool")), rx.Var("x", T((2, 3))), rx.Var("y", T((4, 3)))
    bb = rx.BlockBuilder()
    with bb.function("main", [cond, x, y]):
        out = bb.emit(rx.If(cond, rx.op.abs(x), rx.op.exp(y)))
        bb.emit_func_output(out)
    assert out.struct_info == T(ndim=2)
    assert rx.analysis.well_formed(bb.finalize())


def test_calls_of_functions_in_the_module() -> None:
    x, y = rx.Var("x", T((n,))), rx.Var("y", T((5,)))
    bb = rx.BlockBuilder()
    with bb.function("twice", [x], private=True):
        callee = bb.emit_func_output(bb.emit(rx.op.add(x, x)))
    with bb.function("main", [y]):
        out = bb.emit(callee(y))
        bb.emit_func_output(out)
    mod = bb.finalize()
    assert out.struct_info == T((5,)) and "global_symbol" not in mod["twice"].attrs
    assert evaluate(mod, np.ones(5, "float32")).tolist() == [2] * 5


def test_add_func_reuses_equal_functions() -> None:
    def doubled() -> tir.PrimFunc:
        a = te.placeholder((4,), name="A")
        return te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 2.0, name="B")]).without_attr(
            "global_symbol"
        )

    bb = rx.BlockBuilder()
    first, second = bb.add_func(doubled(), "f"), bb.add_func(doubled(), "g")
    assert first is second
    third = bb.add_func(doubled().with_attr("k", 1), "f")
    assert third.name_hint == "f1"
    bb.update_func(third, doubled().with_attr("k", 2))
    assert bb.finalize()[third].attrs["k"] == 2


def test_builder_works_on_a_copy_of_the_module() -> None:
    mod = ir.IRModule()
    bb = rx.BlockBuilder(mod)
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(rx.op.zeros((1,), "float32")))
    assert len(mod) == 0 and len(bb.finalize()) == 1


def test_lookup_binding() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        y = bb.emit(rx.op.abs(x))
        assert bb.lookup_binding(y).op.name == "relax.abs"
        assert bb.lookup_binding(x) is None


def test_public_functions_keep_their_names() -> None:
    a = te.placeholder((4,), name="A")
    prim = te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 2.0, name="B")]).without_attr(
        "global_symbol"
    )
    x = rx.Var("x", T((4,)))
    bb = rx.BlockBuilder()
    gv = bb.add_func(prim, "func")
    with bb.function("func", [x]):
        bb.emit_func_output(bb.emit(rx.call_tir(gv, [x], T((4,)))))
    mod = bb.finalize()
    assert isinstance(mod["func"], rx.Function) and len(mod) == 2
    assert rx.analysis.well_formed(mod)


def test_misuse_is_explained() -> None:
    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with pytest.raises(ir.IRValueError, match="emit_func_output must be called"), bb.function("f", [x]):
        pass
    with pytest.raises(ir.IRValueError, match="function scope"):
        bb.emit_func_output(x)
    with pytest.raises(ir.IRValueError, match="emit into"):
        bb.emit(rx.op.abs(x))
    with pytest.raises(ir.IRValueError, match="dataflow block"), bb.testing_scope([]):
        bb.emit_output(x)
    with pytest.raises(ir.IRValueError, match="has no parameters"), bb.function("f"):
        bb.emit_func_output(x)
    with pytest.raises(ir.IRTypeError, match=r"relax\.Var"):
        bb.function("f", [1])
    with pytest.raises(ir.IRValueError, match="no struct info"), bb.testing_scope([]):
        bb.emit(rx.op.abs(rx.Var("y")))


def test_errors_inside_a_function_scope_leave_the_builder_usable() -> None:
    bb = rx.BlockBuilder()
    x = rx.Var("x", T((2,)))
    with pytest.raises(ZeroDivisionError), bb.function("f", [x]):
        raise ZeroDivisionError
    with bb.function("f", [x]):
        bb.emit_func_output(x)
    assert "f" in bb.finalize()


def test_inference_errors_name_the_operator() -> None:
    bb = rx.BlockBuilder()
    x, y = rx.Var("x", T((2, 3))), rx.Var("y", T((4,)))
    with bb.testing_scope([]):
        with pytest.raises(
            ir.IRValueError, match=r"relax\.add: shapes \(2, 3\) and \(4\) cannot be broadcast"
        ):
            bb.emit(rx.op.add(x, y))
        with pytest.raises(ir.IRTypeError, match=r"relax\.add: operands must have one dtype"):
            bb.emit(rx.op.add(x, rx.Var("z", T((2, 3), "int32"))))
        with pytest.raises(ir.IRValueError, match=r"relax\.matmul: .*last extent"):
            bb.emit(rx.op.matmul(x, rx.Var("w", T((4, 5)))))
        with pytest.raises(ir.IRTypeError, match=r"relax\.exp: .* float"):
            bb.emit(rx.op.exp(rx.Var("i", T((2,), "int32"))))
        with pytest.raises(ir.IRValueError, match=r"relax\.reshape: .* 6 elements"):
            bb.emit(rx.op.reshape(x, (4,)))


def test_neighbouring_dataflow_blocks_are_one() -> None:
    x = rx.Var("x", rx.TensorStructInfo([4], "float32"))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_output(rx.op.exp(x))
        with bb.dataflow():
            b = bb.emit_output(rx.op.exp(a))
        bb.emit_func_output(b)
    (block,) = bb.get()["main"].body.blocks
    assert isinstance(block, rx.DataflowBlock) and len(block.bindings) == 2
