"""Relax expressions: constructors, operators, equality, JSON, caching of struct info."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.error import IRValueError
from ir.relax.expr import is_call_to

T = rx.TensorStructInfo


def example(name: str = "x") -> rx.Function:
    n = tir.Var("n", "int64")
    x = rx.Var(name, T((n, 4)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(rx.op.add(x, rx.const(np.ones(4, "float32"))))
            out = bb.emit_output(rx.op.reshape(y, (n * 4,)))
        bb.emit_func_output(out)
    return bb.finalize()["main"]


def test_equality_up_to_variables() -> None:
    f, g = example("x"), example("renamed")
    ir.assert_structural_equal(f, g)
    assert ir.structural_hash(f) == ir.structural_hash(g)
    assert not ir.structural_equal(f, f.with_attr("k", 1))


def test_json_round_trip() -> None:
    f = example()
    g = ir.load_json(ir.save_json(f))
    ir.assert_structural_equal(f, g)
    assert g.struct_info == f.struct_info
    assert rx.analysis.well_formed(g)


def test_const_narrows_64_bits() -> None:
    assert rx.const(1).struct_info == T((), "int32")
    assert rx.const([1.0, 2.0]).struct_info == T((2,), "float32")
    assert rx.const(np.arange(3), "int64").struct_info == T((3,), "int64")
    assert rx.const(True).struct_info.dtype == "bool"


@pytest.mark.parametrize("value", [2**62 + 1, 2**31, -(2**31) - 1, [1, 2**40], 1e300, [0.5, -1e39]])
def test_const_does_not_lose_what_32_bits_do_not_hold(value: Any) -> None:
    with pytest.raises(IRValueError, match="does not fit .*32.*dtype='.*64'"):
        rx.const(value)
    dtype = np.asarray(value).dtype
    np.testing.assert_array_equal(rx.const(value, dtype.name).data, np.asarray(value))
    assert np.isinf(rx.const(np.inf).data) and rx.const(2**31 - 1).data == 2**31 - 1


def test_constant_data_cannot_be_changed() -> None:
    with pytest.raises(ValueError):
        rx.const([1.0]).data[0] = 2


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", "<>")
def test_constant_data_is_what_a_kernel_reads_from_its_address(order: Any, byte_order: str) -> None:
    given = np.asarray(np.arange(6).reshape(2, 3), f"{byte_order}f4", order=order)
    for constant in (rx.Constant(given), rx.const(given), rx.const(given[::-1, ::2][::-1])):
        assert constant.data.flags.c_contiguous and constant.data.dtype.isnative
    np.testing.assert_array_equal(rx.const(given).data, given)
    shared = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.shares_memory(rx.const(shared).data, shared)  # gigabytes of weights are not copied


def test_shape_and_prim_value() -> None:
    n = tir.Var("n", "int64")
    shape = rx.ShapeExpr([n, 2])
    assert shape.struct_info == rx.ShapeStructInfo((n, 2)) and shape[0] is n and len(shape) == 2
    assert rx.PrimValue(3).struct_info == rx.PrimStructInfo(value=3)
    assert rx.PrimValue(True).value.dtype == "bool"
    assert rx.PrimValue(1.5).value.dtype == "float64"


def test_tuples() -> None:
    x = rx.Var("x", T((2,)))
    pair = rx.Tuple([x, rx.const(1)])
    assert pair.struct_info == rx.TupleStructInfo([T((2,)), T((), "int32")])
    assert rx.TupleGetItem(pair, 1).struct_info == T((), "int32")
    a, b = rx.Var("p", pair.struct_info)
    assert isinstance(a, rx.TupleGetItem) and b.index == 1
    with pytest.raises(ir.IRValueError, match="out of range"):
        rx.TupleGetItem(pair, 2)
    with pytest.raises(ir.IRTypeError, match="only tuples"):
        x[0]


def test_operators_build_calls() -> None:
    x = rx.Var("x", T((2,)))
    for call, name in [
        (x + x, "add"),
        (x - 1.0, "subtract"),
        (2.0 * x, "multiply"),
        (x / x, "divide"),
        (-x, "negative"),
        (x < x, "less"),
        (x >= 1.0, "greater_equal"),
        (x**2.0, "power"),
        (x // x, "floor_divide"),
        (x % x, "floor_mod"),
    ]:
        assert call.op.name == f"relax.{name}"
    assert (1.0 - x).args[1] is x
    assert x.astype("int32").attrs.dtype == "int32"
    with pytest.raises(ir.IRTypeError, match="number"):
        x + "a"


def test_struct_info_is_set_once() -> None:
    x = rx.Var("x", T((2,)))
    call = rx.op.abs(x)
    with pytest.raises(ir.IRValueError, match="normalize"):
        _ = call.struct_info
    rx.update_struct_info(call, T((2,)))
    rx.update_struct_info(call, T((2,)))
    with pytest.raises(ir.IRValueError, match="already"):
        rx.update_struct_info(call, T((3,)))
    assert call.replace(args=(rx.Var("y", T((3,))),)).struct_info_ is None


def test_function_derives_its_result() -> None:
    f = example()
    n = f.params[0].struct_info.shape.values[0]
    assert f.ret_struct_info == T((n * 4,))
    assert f.struct_info.params == (f.params[0].struct_info,)
    with pytest.raises(ir.IRTypeError, match="struct info"):
        rx.Function([rx.Var("x")], rx.Tuple([]))


def test_result_of_unknown_extent_is_erased() -> None:
    x, m = rx.Var("x", T(ndim=1)), tir.Var("m", "int64")
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.match_cast(x, T((m,)))
        bb.emit_func_output(bb.emit(rx.op.abs(y)))
    assert bb.finalize()["main"].ret_struct_info == T(ndim=1)


def test_extern_and_calls_of_functions() -> None:
    x = rx.Var("x", T((2,)))
    f = rx.extern("my_func")
    assert f(x).op.global_symbol == "my_func" and f.struct_info.is_opaque()
    assert rx.GlobalVar("g")(x).op.name_hint == "g"


def test_with_args_keeps_all_but_the_inferred_struct_info() -> None:
    x, y = rx.Var("x", T((2, 3))), rx.Var("y", T((2, 4)))
    span = ir.Span(ir.SourceName("model"), 1, 2, 3, 4)
    call = rx.Call(ir.Op.get("relax.sum"), (x,), {"axis": (1,), "keepdims": False}, (T((2,)),), span, T((2,)))
    other = call.with_args((y,))
    assert other.args == (y,) and other.op is call.op
    assert other.attrs is call.attrs and other.sinfo_args is call.sinfo_args and other.span is span
    assert other.struct_info_ is None and call.struct_info_ == T((2,))
    assert call.with_args([x]) is call
    assert call.with_args(()).args == ()


def test_is_call_to() -> None:
    x = rx.Var("x", T((2,)))
    assert is_call_to(rx.op.exp(x), "relax.log", "relax.exp")
    assert not is_call_to(rx.op.exp(x), "relax.log")
    assert not is_call_to(x, "relax.exp") and not is_call_to(rx.Call(x, ()), "x")


def test_get_shape_of() -> None:
    x = rx.Var("x", T((2, 3)))
    assert rx.get_shape_of(x) == x.struct_info.shape
    assert rx.get_shape_of(rx.Var("y", T(ndim=2))).op.name == "relax.shape_of"


def test_te_tensor() -> None:
    n = tir.Var("n", "int64")
    tensor = rx.te_tensor(rx.Var("x", T((n, 3))), {n: tir.const(5, "int64")})
    assert [int(dim.value) for dim in tensor.shape] == [5, 3] and tensor.dtype == "float32"


def test_module_from_expression() -> None:
    x = rx.Var("x", T((2,)))
    mod = ir.IRModule.from_expr(rx.op.abs(x))
    assert mod["main"].params == (x,)


def test_bind_params_and_symbolic_vars() -> None:
    f = example()
    static = f.bind_symbolic_vars({"n": 3})
    assert static.params[0].struct_info == T((3, 4)) and static.ret_struct_info == T((12,))
    assert rx.analysis.well_formed(static)
    bound = f.bind_params({"x": np.zeros((2, 4), "float32")})
    assert bound.params == () and bound.ret_struct_info == T((8,))
    assert rx.analysis.well_formed(bound)
    with pytest.raises(ir.IRValueError, match="'y'"):
        f.bind_params({"y": np.zeros(1)})
    with pytest.raises(ir.IRValueError, match="no symbolic variable"):
        f.bind_symbolic_vars({"k": 1})


def test_inline_functions() -> None:
    x = rx.Var("x", T((2, 4)))
    bb = rx.BlockBuilder()
    helper = bb.add_func(example().without_attr("global_symbol"), "helper")
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(rx.Call(helper, [x])))
    main = bb.finalize()["main"]
    inlined = main.inline_functions({"helper": example()})
    assert rx.analysis.called_global_vars(inlined) == []
    assert rx.analysis.well_formed(inlined) and inlined.ret_struct_info == T((8,))


def test_copy_with_new_vars() -> None:
    n = tir.Var("n", "int64")
    x, c = rx.Var("x", T((n, 2))), rx.Var("c", T((), "bool"))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, c]):
        out = bb.emit(rx.If(c, rx.op.abs(x), x))
        bb.emit_func_output(out)
    func = bb.finalize()["main"]
    copy = rx.copy_with_new_vars(func)
    ir.assert_structural_equal(func, copy)
    assert rx.analysis.well_formed(copy)
    old, new = (
        set(rx.analysis.all_vars(f)) | set(rx.analysis.defined_symbolic_vars(f)) for f in (func, copy)
    )
    assert not old & new


def test_virtual_devices() -> None:
    device = ir.VDevice(None, 1, "global")
    info = T((2,), "float32", device)
    assert info.vdevice == ir.VDevice(None, 1, "global") and info != T((2,))
    assert ir.VDevice(None, 0) != ir.VDevice(None, 1)


def test_a_packed_call_returns_what_it_says() -> None:
    x, info = rx.Var("x", rx.TensorStructInfo([4], "float32")), rx.TensorStructInfo([4], "float32")
    bb = rx.BlockBuilder()
    with bb.function("main", [x], pure=False):
        bb.emit_func_output(bb.emit(rx.Call(rx.ExternFunc("f"), [x], sinfo_args=[info])))
    assert bb.get()["main"].ret_struct_info == info


def test_constant_data_stays_the_array_that_it_is() -> None:
    """Expressions are merged by it; arrays beside the bounds of their elements are copied."""
    data = rx.const(np.arange(100, dtype="float32")).data
    assert rx.Constant(data).data is data and rx.const(data).data is data
    beside = np.frombuffer(bytes(17), "float32", offset=1)
    assert not beside.flags.aligned and rx.Constant(beside).data.flags.aligned
    assert type(rx.Constant(np.ones(2).view(np.recarray)).data) is np.ndarray


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int64", "bool"])
def test_tensors_of_torch_are_constants(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype)).T
    if dtype == "float32":
        tensor.requires_grad_()
    expected = [[bool(x) if dtype == "bool" else x for x in row] for row in [[0, 3], [1, 4], [2, 5]]]
    for constant in (rx.Constant(tensor), rx.const(tensor, dtype)):
        assert constant.struct_info == T((3, 2), dtype) and constant.data.tolist() == expected
    x = rx.Var("x", T((3, 2), dtype))
    bound = rx.transform.BindParams("main", {"x": tensor})(
        ir.IRModule({"main": rx.Function([x], x, T((3, 2), dtype))})
    )
    assert not bound["main"].params
