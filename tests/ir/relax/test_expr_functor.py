"""Visitors and mutators of Relax programs."""

from __future__ import annotations

from typing import Any

import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor

T = rx.TensorStructInfo


def example() -> rx.Function:
    n = tir.Var("n", "int64")
    x, c = rx.Var("x", T((n, 4))), rx.Var("c", T((), "bool"))
    bb = rx.BlockBuilder()
    with bb.function("main", [x, c]):
        with bb.dataflow():
            a = bb.emit(rx.op.add(x, rx.const(1.0)))
            b = bb.emit_output(rx.op.reshape(a, (4, n)))
        d = bb.emit(rx.If(c, rx.op.abs(b), b))
        bb.emit_func_output(rx.Tuple([d, rx.PrimValue(n)]))
    return bb.finalize()["main"]


def test_visitor_sees_every_kind() -> None:
    seen: list[str] = []

    @visitor
    class Collect(PyExprVisitor):
        def visit_call_(self, call: Any) -> None:
            seen.append(call.op.name)
            super().visit_call_(call)

        def visit_var_(self, var: Any) -> None:
            seen.append(f"use {var.name_hint}")

        def visit_var_def_(self, var: Any) -> None:
            seen.append(f"def {var.name_hint}")

        def visit_constant_(self, const: Any) -> None:
            seen.append("const")

        def visit_shape_expr_(self, shape: Any) -> None:
            seen.append("shape")
            super().visit_shape_expr_(shape)

        def visit_prim_expr(self, expr: Any) -> None:
            seen.append("tir")

        def visit_if_(self, expr: Any) -> None:
            seen.append("if")
            super().visit_if_(expr)

        def visit_dataflow_block_(self, block: Any) -> None:
            seen.append("dataflow")
            super().visit_dataflow_block_(block)

    Collect().visit_expr(example())
    assert seen == [
        "def x",
        "def c",
        "dataflow",
        "relax.add",
        "use x",
        "const",
        "def lv",
        "relax.reshape",
        "use lv",
        "shape",
        "tir",
        "tir",
        "def gv",
        "if",
        "use c",
        "relax.abs",
        "use gv",
        "def gv1",
        "use gv1",
        "use gv",
        "def gv2",
        "use gv2",
        "tir",
    ]


def test_mutator_without_overrides_changes_nothing() -> None:
    func = example()
    assert PyExprMutator().visit_expr(func) is func


def test_mutator_emits_and_retypes() -> None:
    @mutator
    class AddToStack(PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            if call.op is ir.Op.get("relax.add"):
                doubled = self.builder_.emit(rx.op.multiply(call.args[0], rx.const(2.0)))
                return rx.op.astype(doubled, "float16")
            return call

    func = example()
    new = AddToStack().visit_expr(func)
    assert rx.analysis.well_formed(new)
    names = [b.value.op.name for b in new.body.blocks[0].bindings]
    assert names == ["relax.multiply", "relax.astype", "relax.reshape"]
    assert new.body.blocks[0].bindings[-1].var.struct_info.dtype == "float16"
    assert new.ret_struct_info.fields[0].dtype == "float16"
    assert func.ret_struct_info.fields[0].dtype == "float32"  # the input is not touched


def test_mutator_may_remap_variables_and_look_up_bindings() -> None:
    class Skip(PyExprMutator):
        def visit_var_binding_(self, binding: Any) -> None:
            if isinstance(binding.value, rx.Call) and binding.value.op.name == "relax.abs":
                self.set_var_remap(binding.var.vid, self.visit_expr(binding.value.args[0]))
                return
            super().visit_var_binding_(binding)

        def visit_tuple_(self, expr: Any) -> Any:
            expr = super().visit_tuple_(expr)
            assert self.lookup_binding(expr.fields[0]) is not None
            return expr

    x = rx.Var("x", T((2,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(rx.op.exp(x))
        z = bb.emit(rx.op.abs(y))
        bb.emit_func_output(bb.emit(rx.Tuple([z, z])))
    new = Skip().visit_expr(bb.finalize()["main"])
    assert [type(b.value).__name__ for b in new.body.blocks[0].bindings] == ["Call", "Tuple"]
    assert rx.analysis.well_formed(new)


def test_decorators_check_the_base_class() -> None:
    with pytest.raises(ir.IRTypeError, match="PyExprVisitor"):
        visitor(int)
    with pytest.raises(ir.IRTypeError, match="PyExprMutator"):
        mutator(PyExprVisitor)


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(ir.IRTypeError, match="IntImm"):
        PyExprVisitor().visit_expr(tir.const(1))
