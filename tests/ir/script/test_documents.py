"""The programs that the reference documents print, read and printed back."""

from __future__ import annotations

import ir
from ir import tir
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.ir.script.roundtrip import check


def test_gradient_example() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tensor(
            (), dtype="float32"
        ):
            with R.dataflow():
                lv1: R.Tensor((3, 3), dtype="float32") = R.add(x, y)
                # use R.sum to reduce the tensor to a scalar
                lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)
                R.output(lv2)
            return lv2

    text = check(Module)
    assert 'lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)' in text


def test_adjoint_example() -> None:
    @I.ir_module
    class After:
        @R.function
        def main_adjoint(
            x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")
        ) -> R.Tuple(
            R.Tensor((), dtype="float32"),
            R.Tuple(R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32")),
        ):
            with R.dataflow():
                # original bindings
                lv1: R.Tensor((3, 3), dtype="float32") = R.add(x, y)
                lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)
                # bindings w.r.t. intermediate variables
                lv2_adjoint: R.Tensor((), dtype="float32") = R.ones((), dtype="float32")
                lv1_adjoint: R.Tensor((3, 3), dtype="float32") = R.broadcast_to(lv2_adjoint, (3, 3))
                # bindings w.r.t. parameters
                x_adjoint: R.Tensor((3, 3), dtype="float32") = lv1_adjoint
                y_adjoint: R.Tensor((3, 3), dtype="float32") = lv1_adjoint
                R.output(lv2, x_adjoint, y_adjoint)
            # return value: (orig_return_values, tuple(adjoints))
            return (lv2, (x_adjoint, y_adjoint))

    check(After)


def test_parameters_by_callback() -> None:
    @R.function
    def before(A: R.Tensor([16, 32], "float32")):
        return A

    @R.function(pure=False)
    def after(fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object, False)):
        A_untyped = fget_param(R.prim_value(0), R.str("A"))
        A = R.match_cast(A_untyped, R.Tensor([16, 32], "float32"))
        return A

    check(before)
    text = check(after)
    assert 'A_untyped: R.Object = fget_param(R.prim_value(0), R.str("A"))' in text


def test_output_callback_takes_plain_values() -> None:
    @R.function(pure=False)
    def after(
        A: R.Tensor([16], "float32"), fset_param: R.Callable([R.Prim("int64"), R.Object], purity=False)
    ):
        fset_param(0, A)
        return R.tuple()

    text = check(after)
    assert "_: R.Object = fset_param(R.prim_value(0), A)" in text


def test_legalization_example_with_the_older_call_tir() -> None:
    @ir.script.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            z = R.call_tir(add, (y, x), (2, 3), dtype="float32")
            r = R.call_tir(multiply, (y, z), (2, 3), dtype="float32")
            return r

        @T.prim_func
        def add(
            A: T.Buffer((2, 3), "float32"),
            B: T.Buffer((2, 3), "float32"),
            T_add: T.Buffer((2, 3), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for ax0, ax1 in T.grid(2, 3):
                with T.block("T_add"):
                    v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(A[v_ax0, v_ax1], B[v_ax0, v_ax1])
                    T.writes(T_add[v_ax0, v_ax1])
                    T_add[v_ax0, v_ax1] = A[v_ax0, v_ax1] + B[v_ax0, v_ax1]

        @T.prim_func
        def multiply(
            A: T.Buffer((2, 3), "float32"),
            B: T.Buffer((2, 3), "float32"),
            T_multiply: T.Buffer((2, 3), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for ax0, ax1 in T.grid(2, 3):
                with T.block("T_multiply"):
                    v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(A[v_ax0, v_ax1], B[v_ax0, v_ax1])
                    T.writes(T_multiply[v_ax0, v_ax1])
                    T_multiply[v_ax0, v_ax1] = A[v_ax0, v_ax1] * B[v_ax0, v_ax1]

    text = check(Module)
    assert 'z = R.call_tir(cls.add, (y, x), out_sinfo=R.Tensor((2, 3), dtype="float32"))' in text
    assert "T_add[v_ax0, v_ax1] = A[v_ax0, v_ax1] + B[v_ax0, v_ax1]" in text


def test_upper_bounds_of_symbolic_variables() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        R.func_attr({"tir_var_upper_bound": {"n": 1024}})
        return x

    assert 'R.func_attr({"tir_var_upper_bound": {"n": 1024}})' in check(main)


def test_older_names_of_struct_infos() -> None:
    m, n = tir.Var("m", "int64"), tir.Var("n", "int64")
    text = """
@I.ir_module
class InputMod:
    @R.function
    def f1(x: Tensor[(m, n), "float32"]):
        with relax.dataflow():
            lv0 = relax.multiply(x, x)
            gv0 = relax.add(x, x)
            relax.output(gv0)
        return gv0
"""
    mod = from_source(text, {"Tensor": R.Tensor, "m": m, "n": n})
    assert 'gv0: R.Tensor((m, n), dtype="float32") = R.add(x, x)' in mod.script()
