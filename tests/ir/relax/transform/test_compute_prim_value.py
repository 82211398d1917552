"""ComputePrimValue: numbers that are computed from symbolic variables come from kernels, which are pure."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.error import DiagnosticError
from ir.relax import transform
from ir.relax.struct_info import callee_struct_info
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ArgumentError

from .conftest import verify


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tuple(
        R.Prim("int64"), R.Prim("int64"), R.Prim("int64")
    ):
        n, m = T.int64(), T.int64()
        a = R.prim_value(n * n)
        b = R.prim_value(n + m)
        c = R.prim_value(m * m)
        return (a, b, c)


@I.ir_module
class Expected:
    @T.prim_func(private=True)
    def compute_symbolic_expr(n: T.int64) -> T.int64:
        T.func_attr({"tir.is_host_func": True})
        T.ret(n * n)

    @T.prim_func(private=True)
    def compute_symbolic_expr1(n: T.int64, m: T.int64) -> T.int64:
        T.func_attr({"tir.is_host_func": True})
        T.ret(n + m)

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tuple(
        R.Prim("int64"), R.Prim("int64"), R.Prim("int64")
    ):
        n, m = T.int64(), T.int64()
        cls = Expected
        gv = cls.compute_symbolic_expr(R.prim_value(n))
        a = gv
        gv1 = cls.compute_symbolic_expr1(R.prim_value(n), R.prim_value(m))
        b = gv1
        gv2 = cls.compute_symbolic_expr(R.prim_value(m))
        c = gv2
        return (a, b, c)


def test_each_expression_has_a_kernel_of_its_own_variables():
    after = transform.ComputePrimValue()(Before)
    verify(after, Expected)
    assert from_source(after.script()).script() == after.script()


def test_the_kernels_compute():
    for mod in (Before, transform.ComputePrimValue()(Before)):
        vm = runners.VirtualMachine(relax.build(mod, "llvm", pipeline=None), runners.cpu())
        assert vm["main"](np.zeros((5, 3), "float32")) == (25, 8, 9)


@pytest.mark.meaning("relax-agree")
def test_a_scalar_that_divides_by_zero_is_an_error():
    @I.ir_module
    class Quotient:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Prim("int64"):
            n, m = T.int64(), T.int64()
            a = R.prim_value(n // m)
            return a

    main = runners.VirtualMachine(relax.build(Quotient, "llvm"))["main"]
    assert main(np.zeros((5, 2), "float32")) == 2
    with pytest.raises(ArgumentError, match="n // m divides by m, which is 0"):
        main(np.zeros((5, 0), "float32"))


def test_variables_and_constants_are_there_already():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Prim("int64"), R.Prim("int64")):
            n = T.int64()
            a = R.prim_value(n)
            b = R.prim_value(7)
            return (a, b)

    assert transform.ComputePrimValue()(Module) is Module


@pytest.mark.parametrize(
    "statements",
    [
        ["y = R.strided_slice(x, axes=[0], begin=[0], end=[n // 2])"],
        ["a = R.prim_value(n // 2)", "y = R.strided_slice(x, axes=[0], begin=[0], end=[a])"],
        ["a = (R.prim_value(n // 2),)", "y = R.strided_slice(x, axes=(0,), begin=(0,), end=a)"],
        ["a = R.prim_value(n // 2)", "y = R.take(x, a, axis=0)"],
    ],
)
def test_operators_that_are_to_be_legalized_keep_what_is_known_of_their_operands(statements):
    """Their shapes follow from the values, which are not known of a scalar that a kernel returns."""
    body = "".join(f"        {statement}\n" for statement in statements)
    before = from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main(x: R.Tensor(('n', 4), 'float32')):\n        n = T.int64()\n{body}        return y\n"
    )
    after = transform.ComputePrimValue()(before)
    assert from_source(after.script()).script() == after.script()
    assert after["main"].ret_struct_info == before["main"].ret_struct_info
    x = np.arange(20, dtype="float32").reshape(5, 4)
    expected, found = (
        runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())["main"](x).numpy()
        for mod in (before, after)
    )
    np.testing.assert_array_equal(found, expected)


def _calling(pure: bool, statement: str) -> str:
    return f"""
from ir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @R.function(pure={pure})
    def main(x: R.Tensor(("n",), "float32")) -> R.Prim("int64"):
        n = T.int64()
        cls = Module
        y: R.Prim("int64") = cls.kernel(R.prim_value(n))
        return y

    @T.prim_func(private=True)
    def kernel(n: T.int64) -> T.int64:
        {statement}
        T.ret(n * n)
"""


@pytest.mark.parametrize(("statement", "pure"), [("T.evaluate(0)", True), ('T.call_packed("f", n)', False)])
def test_a_kernel_is_pure_when_it_only_computes(statement, pure):
    """What is known of a kernel that returns a number decides whether pure functions may call it."""
    mod = from_source(_calling(pure, statement))
    assert [var.name_hint for var in mod.functions] == ["main", "kernel"]
    info = callee_struct_info(mod["kernel"])
    assert info.purity is pure and info.ret == relax.PrimStructInfo("int64")
    assert info == mod.get_global_var("kernel").struct_info
    if not pure:
        with pytest.raises(DiagnosticError, match="impure call in a function that claims to be pure"):
            from_source(_calling(True, statement))


def test_a_kernel_that_returns_nothing_writes_into_its_arguments():
    @T.prim_func
    def nothing(a: T.handle):
        T.evaluate(0)

    info = callee_struct_info(nothing)
    assert info.is_opaque and not info.purity
