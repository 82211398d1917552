"""UpdateParamStructInfo: parameters get other types."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import IRError, relax, structural_equal
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_update_param_struct_info():
    def half(var):
        info = var.struct_info
        return relax.TensorStructInfo(info.shape, "float16") if var.name_hint != "n" else None

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, y)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float16"), y: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16"):
            with R.dataflow():
                lv = R.add(x, y)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    verify(transform.UpdateParamStructInfo(half)(Before), Expected)


def test_a_call_is_inferred_by_what_its_callee_has_become():
    """The caller comes first, calls a function by way of another, and a new argument does not fit the former parameter."""

    def half(var):
        return relax.TensorStructInfo(var.struct_info.shape, "float16")

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.between(x)
            return y

        @R.function(private=True)
        def between(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.last(x)
            z: R.Tensor((8,), "float32") = R.add(y, x)
            return z

        @R.function(private=True)
        def last(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y: R.Tensor((8,), "float32") = R.exp(x)
            return y

    after = transform.UpdateParamStructInfo(half)(Before)
    for name in ("main", "between", "last"):
        assert after[name].ret_struct_info == relax.TensorStructInfo((8,), "float16"), name
    assert structural_equal(transform.UpdateParamStructInfo(half)(after), after)


def test_a_function_that_calls_itself_gets_other_parameters():
    def half(var):
        return relax.TensorStructInfo(var.struct_info.shape, "float16") if var.name_hint == "x" else None

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), done: R.Tensor((), "bool")) -> R.Tensor((8,), "float32"):
            cls = Before
            if done:
                y: R.Tensor((8,), "float32") = R.exp(x)
            else:
                y: R.Tensor((8,), "float32") = cls.main(x, R.const(True, "bool"))
            return y

    after = transform.UpdateParamStructInfo(half)(Before)
    assert after["main"].params[0].struct_info.dtype == "float16"
    check_well_formed(after)


def _wider(var):
    info = var.struct_info
    is_float = isinstance(info, relax.TensorStructInfo) and info.dtype == "float32"
    return relax.TensorStructInfo(info.shape, "float64") if is_float else None


@pytest.mark.meaning("relax-callee")
def test_a_call_of_a_closure_says_what_its_function_gives():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z: R.Tensor((4,), "float32") = R.add(x, y)
            return z

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            made: R.Object = R.make_closure(cls.f, (x,))
            held: R.Object = made
            a: R.Tensor((4,), "float32") = R.invoke_pure_closure(
                held, (x,), sinfo_args=R.Tensor((4,), "float32")
            )
            return a

    after = transform.UpdateParamStructInfo(_wider)(Before)
    check_well_formed(after)
    assert after["main"].ret_struct_info == relax.TensorStructInfo((4,), "float64")
    x = np.arange(4.0)
    np.testing.assert_array_equal(evaluate(after, x), 2 * x)


@I.ir_module
class Doubled:
    @R.function(private=True)
    def f(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Doubled
        done: R.Tensor((), "bool") = R.less_equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((4, 4), "float32") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            y: R.Tensor((4, 4), "float32") = R.add(x, x)
            deep: R.Tensor((4, 4), "float32") = cls.f(m, y)
            r: R.Tensor((4, 4), "float32") = R.add(deep, R.subtract(x, x))
        return r

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Doubled
        a: R.Tensor((4, 4), "float32") = cls.f(R.const(3, "int64"), x)
        b: R.Tensor((4, 4), "float32") = R.add(a, x)
        return b


@pytest.mark.parametrize(
    "info", [relax.TensorStructInfo((4, 4), "float64"), relax.TensorStructInfo((2, 4), "float32")]
)
def test_the_result_of_a_recursion_keeps_dtype_and_shape(info):
    """What the branch gives that ends the recursion is assumed, and proves right; by its former result the body does not even fit."""

    def changed(var):
        return info if var.name_hint == "x" else None

    after = transform.UpdateParamStructInfo(changed)(Doubled)
    check_well_formed(after)
    assert after["f"].ret_struct_info == after["main"].ret_struct_info == info
    x = np.ones([int(extent) for extent in info.shape_values], info.dtype)
    machine = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    np.testing.assert_array_equal(machine["main"](x).numpy(), 9 * x)


def test_a_recursion_that_no_result_fits_is_refused():
    def changed(var):
        return relax.TensorStructInfo((4, 4), "bool") if var.name_hint == "x" else None

    with pytest.raises(IRError, match="relax.subtract"):
        transform.UpdateParamStructInfo(changed)(Doubled)


@I.ir_module
class BothEnd:
    @R.function(private=True)
    def f(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = BothEnd
        done: R.Tensor((), "bool") = R.less_equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((4, 4), "float32") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            y: R.Tensor((4, 4), "float32") = R.add(x, x)
            deep: R.Tensor((4, 4), "float32") = cls.g(m, y)
            r: R.Tensor((4, 4), "float32") = R.add(deep, R.subtract(x, x))
        return r

    @R.function(private=True)
    def g(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = BothEnd
        done: R.Tensor((), "bool") = R.less_equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((4, 4), "float32") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            deep: R.Tensor((4, 4), "float32") = cls.f(m, x)
            r: R.Tensor((4, 4), "float32") = R.add(deep, R.subtract(x, x))
        return r

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = BothEnd
        a: R.Tensor((4, 4), "float32") = cls.f(R.const(3, "int64"), x)
        b: R.Tensor((4, 4), "float32") = R.add(a, x)
        return b


@I.ir_module
class FirstEnds:
    @R.function(private=True)
    def f(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = FirstEnds
        done: R.Tensor((), "bool") = R.less_equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((4, 4), "float32") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            r: R.Tensor((4, 4), "float32") = cls.g(m, x)
        return r

    @R.function(private=True)
    def g(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = FirstEnds
        deep: R.Tensor((4, 4), "float32") = cls.f(n, x)
        r: R.Tensor((4, 4), "float32") = R.add(deep, x)
        return r

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = FirstEnds
        a: R.Tensor((4, 4), "float32") = cls.g(R.const(3, "int64"), x)
        return a


@I.ir_module
class LastEnds:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = LastEnds
        a: R.Tensor((4, 4), "float32") = cls.g(R.const(3, "int64"), x)
        return a

    @R.function(private=True)
    def g(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = LastEnds
        deep: R.Tensor((4, 4), "float32") = cls.f(n, x)
        r: R.Tensor((4, 4), "float32") = R.add(deep, x)
        return r

    @R.function(private=True)
    def f(n: R.Tensor((), "int64"), x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = LastEnds
        done: R.Tensor((), "bool") = R.less_equal(n, R.const(0, "int64"))
        if done:
            r: R.Tensor((4, 4), "float32") = x
        else:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            r: R.Tensor((4, 4), "float32") = cls.g(m, x)
        return r


@pytest.mark.parametrize("program", [BothEnd, FirstEnds, LastEnds])
@pytest.mark.parametrize(
    "info", [relax.TensorStructInfo((4, 4), "float64"), relax.TensorStructInfo((2, 4), "float32")]
)
def test_functions_that_call_each_other_keep_dtype_and_shape(program, info):
    """One that ends the recursion says what it gives, and so what the other one gives that calls it."""

    def changed(var):
        return info if var.name_hint == "x" else None

    after = transform.UpdateParamStructInfo(changed)(program)
    check_well_formed(after)
    assert {after[name].ret_struct_info for name in ("f", "g", "main")} == {info}
    x = np.ones([int(extent) for extent in info.shape_values], info.dtype)
    expected = evaluate(program, np.ones((4, 4), "float32"))[: x.shape[0]]
    np.testing.assert_array_equal(evaluate(after, x), expected)


def test_functions_that_call_each_other_and_that_no_result_fits_are_refused():
    def changed(var):
        return relax.TensorStructInfo((4, 4), "bool") if var.name_hint == "x" else None

    with pytest.raises(IRError, match="relax.subtract"):
        transform.UpdateParamStructInfo(changed)(BothEnd)
