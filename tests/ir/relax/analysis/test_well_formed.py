"""Every rule of well-formedness, with its message."""

from __future__ import annotations

from typing import Any

import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.analysis import WellFormedError, check_well_formed, well_formed

T = rx.TensorStructInfo
x, y = rx.Var("x", T((2, 3))), rx.Var("y", T((2, 3)))
n = tir.Var("n", "int64")


def call(op: Any, *args: Any, info: Any = None) -> rx.Call:
    made = op(*args)
    rx.update_struct_info(made, info if info is not None else T((2, 3)))
    return made


def seq(blocks: list[rx.BindingBlock], body: Any) -> rx.SeqExpr:
    made = rx.SeqExpr(blocks, body)
    rx.update_struct_info(made, body.struct_info_)
    return made


def func(
    bindings: list[Any],
    body: Any,
    params: Any = (x,),
    dataflow: bool = False,
    pure: bool = True,
    ret: Any = None,
) -> rx.Function:
    block = (rx.DataflowBlock if dataflow else rx.BindingBlock)(bindings)
    return rx.Function(params, seq([block], body), ret or T((2, 3)), pure)


def rejected(program: Any, message: str) -> None:
    assert not well_formed(program)
    with pytest.raises(WellFormedError, match=message):
        check_well_formed(program)


def test_a_good_program() -> None:
    v = rx.Var("v", T((2, 3)))
    good = func([rx.VarBinding(v, call(rx.op.abs, x))], v)
    assert well_formed(good) and well_formed(ir.IRModule({"main": good}))


def test_undefined_variable() -> None:
    v = rx.Var("v", T((2, 3)))
    rejected(func([rx.VarBinding(v, call(rx.op.abs, y))], v), "variable y is used before or without")


def test_defined_twice() -> None:
    v = rx.Var("v", T((2, 3)))
    binding = rx.VarBinding(v, call(rx.op.abs, x))
    rejected(func([binding, binding], v), "variable v is defined twice")


def test_dataflow_variables_stay_in_their_block() -> None:
    v = rx.DataflowVar("v", T((2, 3)))
    rejected(func([rx.VarBinding(v, call(rx.op.abs, x))], v, dataflow=True), "outside its dataflow block")
    rejected(func([rx.VarBinding(v, call(rx.op.abs, x))], x), "bound outside a dataflow block")


def test_a_normal_form() -> None:
    v = rx.Var("v", T((2, 3)))
    nested = call(rx.op.abs, call(rx.op.exp, x))
    rejected(func([rx.VarBinding(v, nested)], v), "A-normal form")
    rejected(func([], call(rx.op.abs, x)), "result of a sequence")


def test_struct_info_is_there() -> None:
    v = rx.Var("v", T((2, 3)))
    program = func([rx.VarBinding(v, rx.op.abs(x))], v)
    rejected(program, "Call without struct info")
    assert well_formed(program, check_struct_info=False)


def test_struct_info_does_not_contradict_inference() -> None:
    v = rx.Var("v", T((2, 4)))
    rejected(
        func([rx.VarBinding(v, call(rx.op.abs, x, info=T((2, 4))))], v, ret=T((2, 4))), "its arguments give"
    )
    w = rx.Var("w", T((2, 4)))
    rejected(func([rx.VarBinding(w, call(rx.op.abs, x))], w, ret=T((2, 4))), "variable w has struct info")


def test_arguments_are_accepted() -> None:
    v, z = rx.Var("v", T((2, 3))), rx.Var("z", T((5,)))
    rejected(func([rx.VarBinding(v, call(rx.op.add, x, z))], v, params=(x, z)), "cannot be broadcast")


def test_calls_are_in_the_normal_form_of_their_operator() -> None:
    t = rx.Var("t", rx.TupleStructInfo([T((2, 3))]))
    v = rx.Var("v", T((2, 3)))
    made = rx.Call(
        "relax.call_dps_packed", [rx.ExternFunc("f"), t], None, [T((2, 3))], struct_info_=T((2, 3))
    )
    rejected(
        func([rx.VarBinding(v, made)], v, params=(t,)), "not in the normal form of relax.call_dps_packed"
    )
    bb = rx.BlockBuilder()
    with bb.function("main", [t]):
        bb.emit_func_output(bb.emit(rx.op.call_dps_packed("f", t, T((2, 3)))))
    assert well_formed(bb.finalize())


def test_symbolic_variables_are_defined() -> None:
    v = rx.Var("v", T((n,)))
    made = call(lambda: rx.op.zeros((n,), "float32"), info=T((n,)))
    rejected(func([rx.VarBinding(v, made)], v, ret=T(ndim=1)), "symbolic variable n")
    bb = rx.BlockBuilder()
    with bb.function("main", [rx.Var("s", rx.ShapeStructInfo((n,)))]):
        bb.emit_func_output(bb.emit(rx.op.zeros((n,), "float32")))
    assert well_formed(bb.finalize())


def test_purity() -> None:
    v = rx.Var("v", rx.TupleStructInfo([]))
    effect = call(rx.op.print, x, info=rx.TupleStructInfo([]))
    unit = rx.TupleStructInfo([])
    rejected(func([rx.VarBinding(v, effect)], v, ret=unit), "claims to be pure")
    assert well_formed(func([rx.VarBinding(v, effect)], v, pure=False, ret=unit))
    forced = func([rx.VarBinding(v, effect)], v, ret=unit).with_attr("relax.force_pure", True)
    assert well_formed(forced)
    rejected(
        func([rx.VarBinding(v, effect)], v, pure=False, dataflow=True, ret=unit),
        "impure call in a dataflow block",
    )


def test_control_flow_is_outside_dataflow() -> None:
    c = rx.Var("c", T((), "bool"))
    v = rx.Var("v", T((2, 3)))
    choice = rx.If(c, seq([], x), seq([], x))
    rx.update_struct_info(choice, T((2, 3)))
    assert well_formed(func([rx.VarBinding(v, choice)], v, params=(c, x)))
    rejected(
        func([rx.VarBinding(v, choice)], v, params=(c, x), dataflow=True), "control flow in a dataflow block"
    )


def test_references_to_functions() -> None:
    v = rx.Var("v", T((2, 3)))
    gv = rx.GlobalVar("missing", rx.FuncStructInfo([T((2, 3))], T((2, 3))))
    made = rx.Call(gv, [x])
    rx.update_struct_info(made, T((2, 3)))
    rejected(ir.IRModule({"main": func([rx.VarBinding(v, made)], v)}), "'missing'.* not in the module")


def test_global_symbol_matches_the_name() -> None:
    rejected(
        ir.IRModule({"main": func([], x).with_attr("global_symbol", "other")}),
        "global_symbol attribute is 'other'",
    )


def test_messages_name_the_function_and_are_bounded() -> None:
    v = rx.Var("v", T((2, 3)))
    bad = func([rx.VarBinding(v, call(rx.op.abs, y)) for _ in range(40)], v)
    with pytest.raises(WellFormedError) as caught:
        check_well_formed(ir.IRModule({"main": bad}))
    message = str(caught.value)
    assert "function main" in message and "more" in message and len(message) < 8000
