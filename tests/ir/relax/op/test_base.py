"""Calls of functions, effects, shapes, devices, memory, inspection and collectives: inference, lowering, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.op.memory_effect import MemoryEffect
from ir.relax.testing import evaluate

R, T, S, P = rx.op, rx.TensorStructInfo, rx.ShapeStructInfo, rx.PrimStructInfo
n = tir.Var("n", "int64")
x = rx.Var("x", T((n, 4)))


def infer(call: rx.Call) -> Any:
    bb = rx.BlockBuilder()
    with bb.testing_scope([n]):
        return bb.normalize(call).struct_info


def legalized(call: rx.Call) -> Any:
    bb = rx.BlockBuilder()
    with bb.testing_scope([n]):
        call = bb.normalize(call)
        return bb.normalize(call.op.get_attr("FLegalize")(bb, call))


def test_call_tir() -> None:
    gv = rx.GlobalVar("f")
    call = R.call_tir(gv, [x], T((n, 2)))
    assert infer(call) == T((n, 2)) and isinstance(call.args[1], rx.Tuple)
    assert infer(R.call_tir(gv, x, [T((n,)), T((4,))])) == rx.TupleStructInfo([T((n,)), T((4,))])
    assert R.call_tir(gv, [x], T((n,)), tir_vars=[n]).args[2].values == (n,)
    with pytest.raises(ir.IRTypeError, match="out_sinfo"):
        R.call_tir(gv, [x], (1, 2))  # a shape alone says no dtype
    with pytest.raises(ir.IRTypeError, match="GlobalVar"):
        infer(rx.Call("relax.call_tir", [x, rx.Tuple([x])], sinfo_args=[T((1,))]))


def test_call_tir_inplace() -> None:
    gv = rx.GlobalVar("f")
    assert infer(R.call_tir_inplace(gv, [x], 0, T((n, 4)))) == T((n, 4))
    for indices, message in (([-1], "at least one"), ([3], "out of range"), ([0, 0], "for 1 outputs")):
        with pytest.raises(ir.IRValueError, match=message):
            infer(R.call_tir_inplace(gv, [x], indices, T((n, 4))))


def test_packed_calls() -> None:
    assert infer(R.call_dps_packed("f", [x], T((n,)))) == T((n,))
    call = R.call_pure_packed("f", x, sinfo_args=T((n,)))
    assert infer(call) == T((n,)) and call.args[0].global_symbol == "f"
    assert isinstance(infer(R.call_pure_packed("f", x)), rx.ObjectStructInfo)
    assert R.call_inplace_packed("f", x, inplace_indices=0, sinfo_args=T((n, 4))).attrs[
        "inplace_indices"
    ] == (0,)
    assert not rx.analysis.contains_impure_call(call)
    closure = rx.Var("c", rx.ObjectStructInfo())
    assert infer(R.invoke_closure(closure, (x,), T((n,)))) == T((n,))
    assert infer(R.make_closure(rx.GlobalVar("g"), (x,))) == rx.ObjectStructInfo()
    assert rx.analysis.contains_impure_call(R.invoke_closure(closure, (x,), T((n,))))
    assert not rx.analysis.contains_impure_call(R.invoke_pure_closure(closure, (x,), T((n,))))


def test_shapes() -> None:
    assert infer(R.shape_of(x)) == S((n, 4))
    assert infer(R.shape_of(rx.Var("y", T(ndim=3)))) == S(ndim=3)
    assert infer(R.shape_to_tensor(rx.ShapeExpr((n, 4)))) == T((2,), "int64")
    assert infer(R.tensor_to_shape(rx.Var("t", T((3,), "int64")))) == S(ndim=3)
    with pytest.raises(ir.IRTypeError, match="int64"):
        infer(R.tensor_to_shape(rx.Var("t", T((3,), "int32"))))


def test_tensor_to_shape_names_the_extents() -> None:
    t = rx.Var("t", T((2,), "int64"))
    bb = rx.BlockBuilder()
    with bb.function("main", [t]):
        call = bb.normalize(R.tensor_to_shape(t))
        shape = call.op.get_attr("FLegalize")(bb, call)
        bb.emit_func_output(bb.emit(R.zeros(shape, "float32")))
    assert rx.analysis.well_formed(bb.finalize())
    assert evaluate(bb.finalize(), np.asarray([2, 3], "int64")).shape == (2, 3)


def test_print_and_assert(capsys: pytest.CaptureFixture[str]) -> None:
    assert R.print(x, format="value {}").args[0].value == "value {}"
    assert infer(R.print(x)) == rx.TupleStructInfo([])
    ir.get_global_func("relax.run.print")("{} and {}", np.asarray([1]), (2,))
    assert capsys.readouterr().out == "[1] and (2,)\n"
    check = ir.get_global_func("relax.run.assert_op")
    check(np.asarray(True), "")
    with pytest.raises(AssertionError, match="Assertion Failed: got 3"):
        check(np.asarray(False), "got {}", 3)
    assert infer(R.assert_op(rx.PrimValue(True), x, "message")) == rx.TupleStructInfo([])
    with pytest.raises(ir.IRTypeError, match="bool"):
        infer(R.assert_op(x))


def test_devices() -> None:
    gpu, host = ir.VDevice(None, 1), ir.VDevice(None, 0)
    assert infer(R.to_vdevice(x, gpu)).vdevice == gpu
    a, b = rx.Var("a", T((2,), "float32", gpu)), rx.Var("b", T((2,), "float32", host))
    assert infer(R.add(a, a)).vdevice == gpu
    with pytest.raises(ir.IRTypeError, match="different devices"):
        infer(R.add(a, b))


def test_memory() -> None:
    storage = R.memory.alloc_storage([1024], 0, "global", "uint8")
    assert infer(storage) == rx.ObjectStructInfo()
    s = rx.Var("s", rx.ObjectStructInfo())
    assert infer(R.memory.alloc_tensor(s, 0, (n, 4), "float16")) == T((n, 4), "float16")
    assert infer(R.vm.alloc_tensor(s, 0, (2,), "int8")) == T((2,), "int8")
    assert infer(R.builtin.alloc_tensor((n, 4), "float32", 0)) == T((n, 4))
    for kill in (R.memory.kill_storage, R.memory.kill_tensor, R.vm.kill_object):
        assert infer(kill(s)) == rx.TupleStructInfo([])
        assert rx.analysis.contains_impure_call(kill(s))


@pytest.mark.parametrize(
    ("shape", "dtype", "offset", "result"),
    [
        ((2, 6), None, None, T((2, 6))),
        (None, "int32", None, T((12,), "int32")),
        (None, "float16", None, T((24,), "float16")),
        ((2,), "int64", 8, T((2,), "int64")),
    ],
)
def test_view(shape: Any, dtype: Any, offset: Any, result: Any) -> None:
    y = rx.Var("y", T((12,)))
    assert infer(R.memory.view(y, shape, dtype, offset)) == result
    lowered = legalized(R.memory.view(y, shape, dtype, offset))
    assert lowered.struct_info == result
    data = np.arange(12, dtype="float32")
    bb = rx.BlockBuilder()
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(lowered))
    got = evaluate(bb.finalize(), data)
    raw = data.tobytes()[offset or 0 :]
    want = np.frombuffer(raw, result.dtype)[: got.size].reshape(got.shape)
    np.testing.assert_array_equal(got, want)
    assert (lowered.op.name == "relax.memory.view") == (dtype is None)


def test_views_stay_inside() -> None:
    y = rx.Var("y", T((12,)))
    with pytest.raises(ir.IRValueError, match="52 bytes"):
        infer(R.memory.view(y, (13,)))
    with pytest.raises(ir.IRValueError, match="needs a shape"):
        infer(R.memory.view(y, None, None, 4))


def test_inspection() -> None:
    assert infer(R.inspect.tensor_shape_i(x, 0)) == P(value=n)
    assert infer(R.inspect.tensor_stride_i(x, 0)) == P(value=4)
    assert infer(R.inspect.tensor_ndim(x)) == P(value=tir.IntImm("int32", 2))
    assert infer(R.inspect.tensor_dtype_bits(x)) == P(value=tir.IntImm("uint8", 32))
    assert infer(R.inspect.tensor_dtype_code(rx.Var("u", T(dtype="")))) == P("uint8")
    assert legalized(R.inspect.tensor_shape_i(x, 0)).value is n
    run = {
        name: ir.get_global_func(f"relax.run.{name}")
        for name in ("tensor_shape_i", "tensor_stride_i", "tensor_ndim")
    }
    array = np.zeros((2, 3, 4), "float32")
    assert (run["tensor_shape_i"](array, 1), run["tensor_stride_i"](array, 0), run["tensor_ndim"](array)) == (
        3,
        12,
        3,
    )
    assert ir.get_global_func("relax.run.tensor_dtype_bits")(array) == 32
    with pytest.raises(ir.IRValueError, match="axis 2"):
        infer(R.inspect.tensor_shape_i(x, 2))


def test_collectives() -> None:
    y = rx.Var("y", T((8, 4)))
    assert infer(R.ccl.allreduce(y, "avg")) == T((8, 4))
    assert infer(R.ccl.allgather(y, 2)) == T((16, 4))
    assert infer(R.ccl.broadcast_from_worker0(y)) == T((8, 4))
    assert infer(R.ccl.scatter_from_worker0(y, 2, 1)) == T((8, 2))
    with pytest.raises(ir.IRValueError, match="op_type"):
        R.ccl.allreduce(y, "xor")
    with pytest.raises(ir.IRValueError, match="3 workers"):
        infer(R.ccl.scatter_from_worker0(y, 3, 1))
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        call = bb.normalize(R.ccl.scatter_from_worker0(y, 2, 1))
        lowered = bb.normalize(call.op.get_attr("FLegalize")(bb, call))
    assert lowered.args[0].global_symbol == "runtime.disco.scatter_from_worker0"
    assert lowered.args[1].fields[0].struct_info == T((2, 8, 2))


def test_every_operator_declares_its_policy() -> None:
    for name in R.OPERATORS:
        op = ir.Op.get(name)
        assert op.get_attr("TMixedPrecisionPolicy") in (0, 1, 2)
        assert op.get_attr("FPurity") in (True, False)
    assert ir.Op.get("relax.matmul").get_attr("TMixedPrecisionPolicy") == 0
    assert ir.Op.get("relax.add").get_attr("TMixedPrecisionPolicy") == 1
    assert ir.Op.get("relax.nn.softmax").get_attr("TMixedPrecisionPolicy") == 2


def test_void_stands_for_an_open_dtype() -> None:
    a, b = R.matmul(x, x, out_dtype="void"), R.matmul(x, x)
    ir.assert_structural_equal(a, b)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x: rx.op.collapse_sum_to(x((3,)), rx.ShapeExpr((2, 3))),
            "cannot be summed to the larger shape",
        ),
        (lambda x: rx.op.collapse_sum_to(x((2, 3)), rx.ShapeExpr((2,))), "cannot be summed|broadcast"),
        (lambda x: rx.op.nn.max_pool2d(x((1, 1, 2, 2)), (3, 3)), "window of 3 exceeds the padded extent"),
        (lambda x: rx.Call(ir.Op.get("relax.unique"), [x((3,))]), "expected 5 or 6 arguments, got 1"),
    ],
)
def test_operators_refuse_what_does_not_fit(make: Any, message: str) -> None:
    with pytest.raises(ir.IRValueError, match=message):
        rx.BlockBuilder().normalize(make(lambda shape: rx.Var("x", rx.TensorStructInfo(shape))))


def test_repeats_of_unknown_and_of_no_dimensions() -> None:
    def info(x: rx.TensorStructInfo, axis: int | None) -> rx.TensorStructInfo:
        return rx.BlockBuilder().normalize(rx.op.repeat(rx.Var("x", x), 2, axis)).struct_info

    unknown = rx.TensorStructInfo(dtype="float32")
    assert ir.structural_equal(info(unknown, 1), unknown)
    assert info(unknown, None).ndim == 1
    assert ir.structural_equal(info(rx.TensorStructInfo(()), None), rx.TensorStructInfo((2,)))


def test_elements_are_replaced_unless_they_are_to_be_added() -> None:
    x = rx.Var("x", rx.TensorStructInfo((4,)))
    index, values = rx.Var("i", rx.TensorStructInfo((2,), "int64")), rx.Var("v", rx.TensorStructInfo((2,)))
    call = rx.op.index_put(x, [index], values)
    assert not call.attrs["accumulate"] and rx.op.index_put(x, [index], values, True).attrs["accumulate"]


def test_paths_below_an_argument_move_with_it() -> None:
    effect = MemoryEffect(writes=((2, 5, 6),))
    assert effect.among((1,), 3).writes == ((1, 5, 5, 6),)
