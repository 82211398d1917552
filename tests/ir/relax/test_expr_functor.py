"""Visitors and mutators of Relax programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import tir, topi
from ir.relax.expr import is_call_to
from ir.relax.expr_functor import ExprMutator, PyExprMutator, PyExprVisitor, mutator, visitor
from ir.relax.testing import evaluate

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


def chain(n: Any = 3) -> tuple[rx.Var, ir.IRModule]:
    """``main`` computes exp, abs, exp of its parameter in a dataflow block."""
    x = rx.Var("x", T((n,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(rx.op.exp(x))
            z = bb.emit(rx.op.abs(y))
            out = bb.emit_output(rx.op.exp(z))
        bb.emit_func_output(out)
    return x, bb.finalize()


def names_of(func: Any) -> list[list[str]]:
    return [
        [binding.value.op.name.removeprefix("relax.") for binding in block.bindings]
        for block in func.body.blocks
    ]


def test_unchanged_parts_are_shared() -> None:
    """A change in one branch leaves the other branch, and what comes before, as it was."""

    class InBranch(ExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            return rx.op.negative(call.args[0]) if is_call_to(call, "relax.abs") else call

    func = example()
    new = InBranch().visit_expr(func)
    assert new is not func and rx.analysis.well_formed(new)
    assert new.body.blocks[0] is func.body.blocks[0]
    before, after = func.body.blocks[1].bindings[0], new.body.blocks[1].bindings[0]
    assert after.value.true_branch is not before.value.true_branch
    assert after.value.false_branch is before.value.false_branch
    assert after.var is before.var


def test_bindings_and_results_may_be_rewritten_as_a_whole() -> None:
    class Reverse(ExprMutator):
        """Emits something before each block's last binding and another thing before the result."""

        def visit_bindings(self, block: Any) -> None:
            for binding in block.bindings[:-1]:
                self.visit_binding(binding)
            self.builder_.emit(rx.op.sqrt(self.visit_expr(block.bindings[0].var)))
            self.visit_binding(block.bindings[-1])

        def visit_result(self, body: Any) -> Any:
            return self.builder_.emit(rx.op.negative(super().visit_result(body)))

    _, mod = chain()
    new = Reverse().visit_expr(mod["main"])
    assert rx.analysis.well_formed(new)
    assert names_of(new) == [["exp", "abs", "sqrt", "exp"], ["negative"]]
    assert [type(block) for block in new.body.blocks] == [rx.DataflowBlock, rx.BindingBlock]
    values = np.array([0.5, -1.0, 2.0], "float32")
    np.testing.assert_allclose(evaluate(new, values), -np.exp(np.exp(values)), rtol=1e-6)


def test_an_override_of_all_bindings_sees_each() -> None:
    class Announce(ExprMutator):
        def visit_binding(self, binding: Any) -> None:
            super().visit_binding(binding)
            seen.append(binding.var.name_hint)

    seen: list[str] = []
    func = example()
    assert Announce().visit_expr(func) is func
    assert seen == ["lv", "gv", "gv1", "gv2"]


class AbsOnly(ExprMutator):
    """Writes ``abs`` as ``sign(x) * x``."""

    def __init__(self) -> None:
        super().__init__()
        self.visited: list[str] = []

    def looks_at(self, callee: Any) -> bool:
        return callee is ir.Op.get("relax.abs")

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        self.visited.append(call.op.name.removeprefix("relax."))
        if not is_call_to(call, "relax.abs"):
            return call
        return rx.op.multiply(self.builder_.emit(rx.op.sign(call.args[0])), call.args[0])


def test_calls_that_a_mutator_does_not_look_at_are_passed_over() -> None:
    _, mod = chain()
    mutator = AbsOnly()
    new = mutator.visit_expr(mod["main"])
    assert names_of(new) == [["exp", "sign", "multiply", "exp"]] and rx.analysis.well_formed(new)
    assert mutator.visited == ["abs"]
    assert new.body.blocks[0].bindings[0] is mod["main"].body.blocks[0].bindings[0]


@pytest.mark.parametrize("in_tuple", [False, True])
def test_calls_that_are_passed_over_follow_their_operands(in_tuple: bool) -> None:
    """``concat`` and ``exp`` read what became half as long, though nobody looks at them."""

    class Halve(ExprMutator):
        def looks_at(self, callee: Any) -> bool:
            return callee is ir.Op.get("relax.abs")

        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            return rx.op.strided_slice(call, [0], [0], [2]) if is_call_to(call, "relax.abs") else call

    x = rx.Var("x", T((4,)))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(rx.op.abs(x))
        z = bb.emit(rx.op.concat([y, x]) if in_tuple else rx.op.exp(y))
        bb.emit_func_output(z)
    new = Halve().visit_expr(bb.finalize()["main"])
    assert rx.analysis.well_formed(new)
    ir.assert_structural_equal(new.ret_struct_info, T((6 if in_tuple else 2,)))


def test_of_leaves_that_a_mutator_changes_only_some_are_visited() -> None:
    class Double(ExprMutator):
        """Doubles extents of four."""

        visited = 0

        def changes_leaf(self, leaf: Any) -> bool:
            return isinstance(leaf, rx.ShapeExpr) and leaf.values[0].value == 4

        def visit_shape_expr_(self, shape: Any) -> Any:
            self.visited += 1
            return rx.ShapeExpr([8, *shape.values[1:]]) if self.changes_leaf(shape) else shape

    bb = rx.BlockBuilder()
    with bb.function("main", []):
        first = bb.emit(rx.op.zeros([4], "float32"))
        second = bb.emit(rx.op.zeros([5], "float32"))
        bb.emit_func_output(rx.Tuple([first, second]))
    mutator = Double()
    new = mutator.visit_expr(bb.finalize()["main"])
    ir.assert_structural_equal(new.ret_struct_info, rx.TupleStructInfo([T((8,)), T((5,))]))
    assert mutator.visited == 1


def test_overrides_of_definitions_and_bindings_see_what_nobody_looks_at() -> None:
    class Retype(ExprMutator):
        def looks_at(self, callee: Any) -> bool:
            return False

        def visit_dataflow_var_def_(self, var: Any) -> Any:
            seen.append(var.name_hint)
            return var

    seen: list[str] = []
    _, mod = chain()
    assert Retype().visit_expr(mod["main"]) is mod["main"]
    assert seen == ["lv", "lv1"]


def test_reemitting_retypes_what_follows() -> None:
    class Narrow(ExprMutator):
        def visit_var_binding_(self, binding: Any) -> None:
            value = self.visit_expr(binding.value)
            if is_call_to(value, "relax.abs"):
                value = rx.op.astype(value.args[0], "float16")  # not normalized yet
            var = self.reemit_binding(binding, value)
            assert self.lookup_binding(var).struct_info == var.struct_info

    _, mod = chain()
    func = mod["main"]
    new = Narrow().visit_expr(func)
    assert rx.analysis.well_formed(new)
    assert [binding.var.struct_info.dtype for binding in new.body.blocks[0].bindings] == [
        "float32",
        "float16",
        "float16",
    ]
    assert new.ret_struct_info.dtype == "float16"
    assert [a.var.vid for a in new.body.blocks[0].bindings] == [
        b.var.vid for b in func.body.blocks[0].bindings
    ]


def test_sequences_as_values_are_spliced_in() -> None:
    class Inline(ExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            if not is_call_to(call, "relax.abs"):
                return call
            bb = rx.BlockBuilder()
            param = call.args[0]
            with bb.function("f", [param]):
                with bb.dataflow():
                    out = bb.emit_output(rx.op.negative(bb.emit(rx.op.sqrt(param))))
                bb.emit_func_output(out)
            return bb.finalize()["f"].body

    _, mod = chain()
    new = Inline().visit_expr(mod["main"])
    assert rx.analysis.well_formed(new)
    assert [binding.value for binding in new.body.blocks[0].bindings][2] is not None
    kinds = [getattr(getattr(b.value, "op", None), "name", "var") for b in new.body.blocks[0].bindings]
    assert kinds == ["relax.exp", "relax.sqrt", "relax.negative", "var", "relax.exp"]


def test_modules_are_rewritten_with_the_functions_that_overrides_add() -> None:
    class ToKernels(ExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            return self.builder_.call_te(topi.exp, call.args[0]) if is_call_to(call, "relax.exp") else call

    _, mod = chain()
    new = ToKernels(mod).rewrite_module(mod)
    assert sorted(var.name_hint for var in new.functions) == ["exp", "main"]
    assert names_of(new["main"]) == [["call_tir", "abs", "call_tir"]]
    assert list(mod.functions) == [mod.get_global_var("main")]
    assert ToKernels(mod).rewrite_module(mod, lambda var, func: False) is mod
    values = np.array([0.5, -1.0, 2.0], "float32")
    np.testing.assert_allclose(evaluate(new, values), evaluate(mod, values), rtol=1e-6)


def test_symbols_of_a_sequence_do_not_leave_it() -> None:
    """A result whose shape a match_cast of the body defines is known by its rank only."""
    n = tir.Var("n", "int64")
    x = rx.Var("x", T(None, ndim=1))
    bb = rx.BlockBuilder()
    with bb.function("main", [x]):
        known = bb.match_cast(x, T((n,)))
        bb.emit_func_output(bb.emit(rx.op.exp(known)))
    func = bb.finalize()["main"]

    class Negate(ExprMutator):
        def visit_call_(self, call: Any) -> Any:
            return rx.op.negative(self.visit_expr_post_order(call).args[0])

    new = Negate().visit_expr(func)
    assert rx.analysis.well_formed(new)
    assert new.body.body.struct_info.shape is not None
    assert new.body.struct_info == new.ret_struct_info == T(None, ndim=1)
