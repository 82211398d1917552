"""Every kind of Relax node and struct info, printed and read back."""

from __future__ import annotations

import numpy as np
import pytest

import ir
from ir import IRModule, relax, tir
from ir.global_info import DummyGlobalInfo, VDevice
from ir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    ExternFunc,
    FuncStructInfo,
    Function,
    GlobalVar,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VarBinding,
)
from ir.relax.expr import DataTypeImm, If
from ir.script import from_source
from ir.script import relax as R
from tests.ir.script.roundtrip import check

N, M = tir.Var("n", "int64"), tir.Var("m", "int64")
F32 = TensorStructInfo((2, 3), "float32")


def function_of(value: relax.Expr, *params: Var, pure: bool = True) -> Function:
    """A function that binds ``value`` and returns it, struct infos filled in."""
    bb = relax.BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        gv = bb.emit(value)
        bb.emit_func_output(gv)
    return bb.finalize()["main"]


def of_value(value: relax.Expr, *params: Var, pure: bool = True) -> str:
    """The text of a value's binding after checking the function around it."""
    text = check(function_of(value, *params, pure=pure))
    line = next(line for line in text.split("\n") if line.strip().startswith("gv"))
    return line.split(" = ", 1)[1]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (ObjectStructInfo(), "R.Object"),
        (PrimStructInfo("int64"), 'R.Prim("int64")'),
        (PrimStructInfo("float32"), 'R.Prim("float32")'),
        (PrimStructInfo(value=N), 'R.Prim(value="n")'),
        (PrimStructInfo(value=tir.const(3, "int64")), "R.Prim(value=3)"),
        (PrimStructInfo(value=tir.const(3, "int32")), "R.Prim(value=T.int32(3))"),
        (ShapeStructInfo(), "R.Shape(ndim=-1)"),
        (ShapeStructInfo(ndim=2), "R.Shape(ndim=2)"),
        (ShapeStructInfo([N, 2, N * M]), 'R.Shape(["n", 2, "n * m"])'),
        (ShapeStructInfo([]), "R.Shape([])"),
        (TensorStructInfo(None, ""), "R.Tensor"),
        (TensorStructInfo(None, "float16"), 'R.Tensor(dtype="float16")'),
        (TensorStructInfo(None, "", ndim=2), "R.Tensor(ndim=2)"),
        (TensorStructInfo(None, "float32", ndim=2), 'R.Tensor(dtype="float32", ndim=2)'),
        (TensorStructInfo((), "int32"), 'R.Tensor((), dtype="int32")'),
        (TensorStructInfo((N, 128), "float32"), 'R.Tensor(("n", 128), dtype="float32")'),
        (TensorStructInfo((N // 2 + 1,), ""), 'R.Tensor(("n // 2 + 1",))'),
        (TensorStructInfo((2, 3), ""), "R.Tensor((2, 3))"),
        (TensorStructInfo((2,), "float32", VDevice("llvm")), "R.Tensor"),
        (TupleStructInfo([]), "R.Tuple"),
        (TupleStructInfo([F32]), 'R.Tuple(R.Tensor((2, 3), dtype="float32"))'),
        (TupleStructInfo([F32, TupleStructInfo([ObjectStructInfo()])]), "R.Tuple"),
        (FuncStructInfo.opaque_func(), "R.Callable"),
        (
            FuncStructInfo.opaque_func(ret=F32, purity=True),
            'R.Callable(ret=R.Tensor((2, 3), dtype="float32"), purity=True)',
        ),
        (FuncStructInfo([F32], ObjectStructInfo(), False), "R.Callable((R.Tensor((2, 3)"),
        (FuncStructInfo([], F32), "R.Callable((), R.Tensor"),
        (
            FuncStructInfo([TensorStructInfo((M,), "int8")], TensorStructInfo((M,), "int8")),
            'R.Callable((R.Tensor(("m",)',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_struct_info(info: relax.StructInfo, text: str) -> None:
    x = Var("x", info)
    func = Function([x], SeqExpr([], x), info)
    printed = check(func)
    assert f"x: {text}" in printed


X = Var("x", F32)
COND = Var("c", TensorStructInfo((), "bool"))
PAIR = Var("p", TupleStructInfo([F32, F32]))
SHAPED = Var("s", TensorStructInfo((N, M), "float32"))


@pytest.mark.parametrize(
    ("value", "params", "text"),
    [
        (R.const(1), (), 'R.const(1, "int32")'),
        (R.const(1.5), (), 'R.const(1.5, "float32")'),
        (R.const(True, "bool"), (), 'R.const(True, "bool")'),
        (R.const(float("inf"), "float16"), (), 'R.const(float("inf"), "float16")'),
        (Constant(np.arange(6, dtype="float32").reshape(2, 3)), (), 'metadata["relax.expr.Constant"][0]'),
        (ShapeExpr([2, 3]), (), "R.shape([2, 3])"),
        (ShapeExpr([N * 2, N + M]), (SHAPED,), "R.shape([n * 2, n + m])"),
        (PrimValue(3), (), "R.prim_value(3)"),
        (PrimValue(True), (), "R.prim_value(True)"),
        (PrimValue(0.5), (), "R.prim_value(0.5)"),
        (PrimValue(tir.const(3, "int32")), (), "R.prim_value(T.int32(3))"),
        (PrimValue(tir.const(1.5, "float16")), (), "R.prim_value(T.float16(1.5))"),
        (PrimValue(N * M), (SHAPED,), "R.prim_value(n * m)"),
        (PrimValue(tir.Min(N, tir.const(4, "int64"))), (SHAPED,), "R.prim_value(T.min(n, T.int64(4)))"),
        (StringImm("text"), (), 'R.str("text")'),
        (DataTypeImm("float16"), (), 'R.dtype("float16")'),
        (Tuple([X, X]), (X,), "(x, x)"),
        (Tuple([X]), (X,), "(x,)"),
        (Tuple([]), (), "R.tuple()"),
        (TupleGetItem(PAIR, 1), (PAIR,), "p[1]"),
        (ExternFunc("name"), (), 'R.ExternFunc("name")'),
        (X, (X,), "x"),
        (relax.op.add(X, X), (X,), "R.add(x, x)"),
        (relax.op.add(X, R.const(1, "float32")), (X,), 'R.add(x, R.const(1.0, "float32"))'),
        (relax.op.sum(X, axis=[1], keepdims=True), (X,), "R.sum(x, axis=[1], keepdims=True)"),
        (relax.op.permute_dims(X), (X,), "R.permute_dims(x, axes=None)"),
        (relax.op.reshape(X, (3, 2)), (X,), "R.reshape(x, R.shape([3, 2]))"),
        (relax.op.concat([X, X], axis=0), (X,), "R.concat((x, x), axis=0)"),
        (relax.op.astype(X, "float16"), (X,), 'R.astype(x, dtype="float16")'),
        (
            R.call_pure_packed("f", X, sinfo_args=F32),
            (X,),
            'R.call_pure_packed("f", x, sinfo_args=(R.Tensor((2, 3), dtype="float32"),))',
        ),
        (
            R.call_dps_packed("f", (X,), out_sinfo=F32),
            (X,),
            'R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((2, 3), dtype="float32"))',
        ),
        (
            R.call_dps_packed("f", (X,), out_sinfo=[F32, F32]),
            (X,),
            'R.call_dps_packed("f", (x,), out_sinfo=[R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32")])',
        ),
        (relax.op.null_value(), (), "R.null_value()"),
        (relax.op.shape_of(X), (X,), "R.shape_of(x)"),
        (relax.op.to_vdevice(X, VDevice("llvm")), (X,), "R.to_vdevice(x, dst_vdevice=I.vdevice({"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_value(value: relax.Expr, params: tuple[Var, ...], text: str) -> None:
    assert of_value(value, *params).startswith(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (R.call_packed("f", X, sinfo_args=R.Object), 'R.call_packed("f", x, sinfo_args=(R.Object,))'),
        (
            R.call_packed("f", X, sinfo_args=R.Tuple, key=1),
            'R.call_packed("f", x, key=1, sinfo_args=(R.Tuple,))',
        ),
        (R.print(X, format="x = {}"), 'R.print(x, format=R.str("x = {}"))'),
        (
            R.assert_op(R.const(True, "bool"), [X], format="bad {}"),
            'R.assert_op(R.const(True, "bool"), format_args=[x], format=R.str("bad {}"))',
        ),
        (R.invoke_closure(Var("q", ObjectStructInfo()), (X,), F32), "R.invoke_closure(q, (x,), sinfo_args="),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_impure_value(value: relax.Call, text: str) -> None:
    free = [item for item in value.args if isinstance(item, Var)]
    assert of_value(value, *dict.fromkeys([X, *free]), pure=False).startswith(text)


def test_call_that_no_function_makes() -> None:
    odd = Call("relax.add", [X, X], {"unknown": 1})
    assert of_value(odd, X) == 'R.Call("relax.add", (x, x), attrs={"unknown": 1})'


def test_dataflow_block_and_outputs() -> None:
    lv, gv, unused = DataflowVar("lv", F32), Var("gv", F32), Var("gv", F32)
    block = DataflowBlock(
        [VarBinding(lv, relax.op.add(X, X)), VarBinding(gv, relax.op.multiply(lv, X)), VarBinding(unused, lv)]
    )
    tail = Var("gv", F32)
    func = Function([X], SeqExpr([block, BindingBlock([VarBinding(tail, relax.op.negative(gv))])], tail), F32)
    text = check(func)
    assert "        R.output(gv, gv_1)\n    gv_2: " in text
    assert 'lv: R.Tensor((2, 3), dtype="float32") = R.add(x, x)' in text


def test_rebinding_a_name_in_a_dataflow_block() -> None:
    func = from_source(
        """
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                y = R.add(x, x)
                y = R.add(y, x)
                R.output(y)
            return y
        """
    )
    first, second = func.body.blocks[0].bindings
    assert isinstance(first.var, DataflowVar) and not isinstance(second.var, DataflowVar)
    check(func)


def test_match_cast() -> None:
    y = Var("y", TensorStructInfo((N, M), "float32"))
    x = Var("x", TensorStructInfo(None, "float32", ndim=2))
    block = BindingBlock([MatchCast(y, x, TensorStructInfo((N, M), "float32"))])
    func = Function([x], SeqExpr([block], y), TensorStructInfo(None, "float32", ndim=2))
    text = check(func)
    assert "n = T.int64()" in text
    assert 'y: R.Tensor((n, m), dtype="float32") = R.match_cast(x, R.Tensor((n, m), dtype="float32"))' in text


def test_if() -> None:
    yes, no = Var("yes", F32), Var("no", F32)
    choice = If(
        COND,
        SeqExpr([BindingBlock([VarBinding(yes, relax.op.add(X, X))])], yes),
        SeqExpr([BindingBlock([VarBinding(no, relax.op.multiply(X, X))])], no),
    )
    text = check(function_of(choice, COND, X))
    assert "    if c:\n        yes: " in text
    assert "\n    else:\n        no: " in text
    assert text.count("gv: R.Tensor") == 2


def test_local_function_and_recursion() -> None:
    func = from_source(
        """
        @R.function
        def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            @R.function
            def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
                more: R.Tensor((), "bool") = R.less(i, R.const(10, "int32"))
                if more:
                    j: R.Tensor((), "int32") = R.add(i, R.const(1, "int32"))
                    out: R.Tensor((), "int32") = loop(j)
                else:
                    out: R.Tensor((), "int32") = i
                return out

            result: R.Tensor((), "int32") = loop(x)
            return result
        """
    )
    assert isinstance(func.body.blocks[0].bindings[0].value, Function)
    check(func)


def test_module_with_calls_devices_and_attributes() -> None:
    bb = relax.BlockBuilder()
    with bb.function("main", [X]):
        with bb.dataflow():
            from ir import topi

            out = bb.emit_output(bb.call_te(topi.add, X, X))
        bb.emit_func_output(out)
    mod = bb.finalize().with_attr("key", [1, "two", {"three": 3.5}])
    mod.update_global_info("vdevice", [VDevice("llvm"), VDevice("cuda", 1, "shared")])
    mod.update_global_info("dummy", [DummyGlobalInfo()])
    mod["ext"] = ExternFunc("symbol")
    text = check(mod)
    assert 'R.call_tir(cls.add, (x, x), out_sinfo=R.Tensor((2, 3), dtype="float32"))' in text
    assert "        cls = Module\n" in text
    assert 'ext = R.ExternFunc("symbol")' in text


def test_device_references() -> None:
    devices = [VDevice("llvm"), VDevice("cuda"), VDevice("cuda", 1, "shared")]
    x = Var("x", TensorStructInfo((2,), "float32", devices[2]))
    mod = IRModule(
        {GlobalVar("main"): Function([x], SeqExpr([], x), x.struct_info, attrs={"global_symbol": "main"})},
        global_infos={"vdevice": tuple(devices)},
    )
    text = check(mod)
    assert 'x: R.Tensor((2,), dtype="float32", vdevice="cuda:1:shared")' in text


def test_function_options() -> None:
    func = Function([X], SeqExpr([], X), F32, False, {"num_input": 1, "flag": True})
    text = check(func)
    assert "@R.function(private=True, pure=False)" in text
    assert 'R.func_attr({"flag": True, "num_input": 1})' in text


def test_struct_infos_can_be_left_out() -> None:
    func = function_of(relax.op.add(X, X), X)
    text = func.script(show_all_struct_info=False)
    assert "gv = R.add(x, x)" in text
    ir.assert_structural_equal(from_source(text), func)


def test_repr() -> None:
    assert repr(F32) == 'R.Tensor((2, 3), dtype="float32")'
    assert repr(relax.op.add(X, X)) == "R.add(x, x)"
    assert repr(X) == "x"
    assert repr(GlobalVar("f")) == "f"


def test_hint_on_device() -> None:
    text = of_value(relax.op.hint_on_device(X, VDevice("llvm")), X)
    assert text.startswith("R.hint_on_device(x, device_type=")
