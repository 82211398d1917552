"""Small names that the field's programs use and nothing here does: each does what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ir
import runners
from ir import relax, te, tir, topi
from ir.arith import Analyzer, ConstIntBound
from ir.relax.dpl import is_op, wildcard
from ir.script import relax as R
from ir.script.ir_builder import IRBuilder
from ir.script.ir_builder import tir as B
from ir.span import SourceName, Span
from ir.target import Target

HERE = Span(SourceName("a.py"), 1, 1, 1, 1)


def test_arith_knows_what_is_bound() -> None:
    analyzer, var = Analyzer(), tir.Var("n", "int32")
    assert not analyzer.const_int_bound_is_bound(var)
    analyzer.update(var, ConstIntBound(0, 3))
    assert analyzer.const_int_bound_is_bound(var)


def test_attributes_of_operators_can_be_removed() -> None:
    op = ir.Op.get("relax.add")
    op.set_attr("TTest", 1)
    assert op.get_attr("TTest") == 1
    op.reset_attr("TTest")
    assert op.get_attr("TTest") is None


def test_results_with_a_te_gradient_are_emitted() -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", R.Tensor((4,), "float32"))
    with builder.function("main", [x]):
        var = builder.emit_te_with_grad(topi.abs, x, te_grad_name="abs_grad", name_hint="y")
        builder.emit_func_output(var)
    assert var.name_hint == "y" and builder.get()["main"].body.blocks[0].bindings[0].value.op.name.endswith(
        "with_grad"
    )


@pytest.mark.parametrize(("shape", "matches"), [((2, 3), True), ((3,), False)])
def test_patterns_ask_for_equal_shapes(shape: tuple[int, ...], matches: bool) -> None:
    x, y = relax.Var("x", R.Tensor((2, 3), "float32")), relax.Var("y", R.Tensor(shape, "float32"))
    left = wildcard()
    right = wildcard().same_shape_as(left)
    builder = relax.BlockBuilder()
    assert is_op("relax.add")(left, right).match(builder.normalize(relax.op.add(x, y))) is matches


def test_mutators_tell_what_a_variable_becomes() -> None:
    mutator, x, y = relax.ExprMutator(), relax.Var("x", R.Tensor((2,), "float32")), relax.Var("y", R.Object())
    mutator.set_var_remap(x.vid, y)
    assert mutator.get_var_remap(x.vid) is y
    with pytest.raises(KeyError):
        mutator.get_var_remap(y.vid)


def test_a_function_may_be_declared_without_a_body() -> None:
    info = R.Tensor((2,), "float32")
    func = relax.Function.create_empty([relax.Var("x", info)], info)
    assert func.body.blocks == () and ir.structural_equal(func.ret_struct_info, info)


def test_builders_are_in_scope_while_they_are_open() -> None:
    closed = []
    assert not IRBuilder.is_in_scope()
    with IRBuilder():
        assert IRBuilder.is_in_scope()
        with B.prim_func() as frame:
            B.func_name("main")
            with B.serial(4) as _, B.serial(4):
                pass
            frame = IRBuilder.current().frames[-1]
            frame.add_callback(lambda: closed.append(len(IRBuilder.current().frames)))
            B.evaluate(0)
    assert len(closed) == 1


def test_kinds_of_targets_have_defaults() -> None:
    assert Target("cuda -arch=sm_80").get_kind_attr("thread_warp_size") == 32
    assert Target("llvm").get_kind_attr("num-cores") is None


def test_a_device_can_be_waited_for_and_an_executable_read() -> None:
    runners.cpu().sync()

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.add(x, x)

    executable = relax.build(ir.IRModule({"main": main}), "llvm")
    assert json.loads(executable.as_text())["main"]["kind"] == "native"
    np.testing.assert_array_equal(
        runners.VirtualMachine(executable)["main"](np.ones(4, "float32")).numpy(), 2
    )


@pytest.mark.parametrize(
    "make",
    [
        *[
            getattr(tir, name)
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
        ],
        tir.ceildiv,
        lambda x, y, span: tir.bitwise_not(x, span),
        lambda x, y, span: tir.all(x < y, y < x, span=span),
        lambda x, y, span: tir.any(x < y, y < x, span=span),
        lambda x, y, span: tir.min_value("int8", span),
        lambda x, y, span: tir.max_value("int8", span),
    ],
)
def test_expressions_have_the_given_place(make) -> None:  # type: ignore[no-untyped-def]
    x, y = te.var("x"), te.var("y")
    assert make(x, y, span=HERE).span == HERE


def test_there_are_pipelines_for_processors_and_cuda_devices() -> None:
    assert relax.get_default_pipeline("llvm").passes
    assert relax.get_default_pipeline("cuda -arch=sm_80").passes
    with pytest.raises(ir.IRValueError, match="there is no default pipeline for opencl"):
        relax.get_default_pipeline("opencl")
