"""CopyWrittenConstants, and what else in-place calls may overwrite: constants never, the caller's arrays where the program says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
import runners
from ir import IRModule, relax
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ArgumentError


def machine(mod: IRModule) -> runners.VirtualMachine:
    return runners.VirtualMachine(relax.build(mod, "llvm", tir_pipeline=None), runners.cpu())


@I.ir_module
class Adding:
    """Kernels and functions that add their second argument to their first."""

    @T.prim_func(private=True)
    def add_to(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                a[vi] = a[vi] + b[vi]

    @R.function(private=True)
    def through(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Adding
        gv = R.call_tir_inplace(cls.add_to, (a, b), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0])
        return gv


def program(target: str) -> IRModule:
    """``main(x)``, which adds its argument to something that every call finds as it was: 0, or 1, 2, 3, 4."""
    builder = relax.BlockBuilder(Adding)
    info = relax.TensorStructInfo((4,), "float32")
    x, condition = relax.Var("x", info), relax.Var("c", relax.TensorStructInfo((), "bool"))
    add_to, through = (builder.get().get_global_var(name) for name in ("add_to", "through"))
    constant = relax.const(np.float32([1, 2, 3, 4]))
    params = [x, condition] if target == "branch" else [x]
    with builder.function("main", params):
        if target == "zeros":
            start: Any = builder.emit(relax.op.zeros((4,), "float32"))
        elif target == "folded":
            start = builder.emit(relax.op.add(relax.const(np.float32([0, 1, 2, 3])), relax.const(1.0)))
        elif target == "view":
            start = builder.emit(relax.op.reshape(relax.const(np.float32([[1, 2], [3, 4]])), (4,)))
        elif target == "bound":
            start = builder.emit(constant)
        else:
            start = constant
        if target == "branch":
            branches = []
            for value in (constant, x):
                var = relax.Var("v", info)
                block = relax.BindingBlock([relax.VarBinding(var, relax.op.negative(value))])
                branches.append(relax.SeqExpr([block], var) if value is x else relax.SeqExpr([], constant))
            start = builder.emit(relax.If(condition, *branches))
        if target == "function":
            out = builder.emit(relax.Call(through, (start, x)))
        else:
            out = builder.emit(relax.op.call_tir_inplace(add_to, (start, x), 0, info))
        builder.emit_func_output(out)
    return builder.finalize()


@pytest.mark.parametrize("target", ["zeros", "folded", "view", "bound", "direct", "function", "branch"])
@pytest.mark.parametrize("prepare", [None, transform.FoldConstant, transform.CanonicalizeBindings])
def test_what_every_call_begins_with_is_not_overwritten(target: str, prepare: Any) -> None:
    mod = program(target)
    if prepare is not None:
        mod = prepare()(mod)
    built = machine(mod)
    x = np.float32([10, 20, 30, 40])
    begin = np.zeros(4) if target == "zeros" else np.float32([1, 2, 3, 4])
    for _ in range(3):
        args = (x, np.array(True)) if target == "branch" else (x,)
        np.testing.assert_array_equal(evaluate(mod, *args), begin + x)
        np.testing.assert_array_equal(built["main"](*args).numpy(), begin + x)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_parameter_that_the_program_overwrites(symbolic: bool) -> None:
    """The caller's array is what changes and what comes back; one that may only be read is refused."""

    @T.prim_func(private=True)
    def add_to(a: T.handle, b: T.handle):
        n = T.int64()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                vi = T.axis.remap("S", [i])
                A[vi] = A[vi] + B[vi]

    from ir.tir import Var

    info = relax.TensorStructInfo((Var("n", "int64") if symbolic else 4,), "float32")
    builder = relax.BlockBuilder()
    kernel = builder.add_func(add_to if symbolic else Adding["add_to"], "add_to")
    x, y = relax.Var("x", info), relax.Var("y", relax.TupleStructInfo([info]))
    with builder.function("main", [x, y]):
        field = builder.emit(relax.TupleGetItem(y, 0))
        out = builder.emit(relax.op.call_tir_inplace(kernel, (field, x), 0, info))
        builder.emit_func_output(out)
    built = machine(builder.finalize())
    x = np.float32([1, 2, 3, 4])
    given = np.zeros(4, "float32")
    result = built["main"](x, (given,))
    np.testing.assert_array_equal(given, x)
    assert np.shares_memory(result.data, given)
    passed = runners.array(np.zeros(4, "float32"))
    assert built["main"](runners.array(x), (passed,)) is passed
    np.testing.assert_array_equal(passed.numpy(), x)
    given.setflags(write=False)
    with pytest.raises(ArgumentError, match=r"argument y\[0\] is overwritten, but the array is read-only"):
        built["main"](x, (given,))
    with pytest.raises(
        ArgumentError, match=r"argument y\[0\] is overwritten, but the array is not contiguous"
    ):
        built["main"](x, (np.zeros(8, "float32")[::2],))
    x.setflags(write=False)
    built["main"](x, (np.zeros(4, "float32"),))  # what is read may be read-only


@pytest.mark.parametrize("operator", ["call_pure_packed", "call_packed", "call_dps_packed"])
def test_what_an_unknown_function_is_given_may_be_read_only(operator: str) -> None:
    """Nothing is known to be written, so that arrays that may only be read, or that lie elsewhere, are welcome."""

    def twice(x: Any, out: Any = None) -> Any:
        if out is None:
            return np.asarray(x) * 2
        np.asarray(out)[...] = np.asarray(x) * 2
        return None

    ir.register_func("tests.copy.twice", twice, override=True)
    info = relax.TensorStructInfo((4,), "float32")
    builder = relax.BlockBuilder()
    x = relax.Var("x", info)
    with builder.function("main", [x], pure=operator != "call_packed"):
        if operator == "call_packed":
            call: Any = relax.Call(relax.ExternFunc("tests.copy.twice"), [x], None, [info])
        elif operator == "call_dps_packed":
            call = relax.op.call_dps_packed("tests.copy.twice", [x], info)
        else:
            call = relax.op.call_pure_packed("tests.copy.twice", x, sinfo_args=info)
        builder.emit_func_output(builder.emit(call))
    main = machine(builder.finalize())["main"]
    frozen = np.float32([1, 2, 3, 4])
    frozen.setflags(write=False)
    np.testing.assert_array_equal(main(frozen).numpy(), 2 * frozen)
    np.testing.assert_array_equal(main(np.arange(8, dtype="float32")[::2]).numpy(), [0, 4, 8, 12])
