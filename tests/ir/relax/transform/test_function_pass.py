"""FunctionPass and its decorator: passes over one Relax function at a time."""

from __future__ import annotations

import pytest

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.transform import PassError


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(0)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        return x

    @R.function
    def library(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        R.func_attr({"Codegen": "mine"})
        return x


def test_every_relax_function_but_those_of_libraries():
    seen = []

    @transform.function_pass(opt_level=1, name="Mark", required=["Normalize"], traceable=True)
    def mark(func, mod, ctx):
        seen.append(func.attrs["global_symbol"])
        assert mod is Module and ctx is not None
        return func.with_attr("mark", 1)

    after = mark(Module)
    assert seen == ["main"] and after["main"].attrs["mark"] == 1
    assert after["kernel"] is Module["kernel"] and after["library"] is Module["library"]
    info = mark.info
    assert (info.name, info.opt_level, info.required, info.traceable) == ("Mark", 1, ("Normalize",), True)


def test_classes_take_options():
    @transform.function_pass(opt_level=0)
    class Rename:
        def __init__(self, key, value=1):
            self.key, self.value = key, value

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.key, self.value)

    assert Rename("mark", value=3)(Module)["main"].attrs["mark"] == 3
    assert Rename("mark").info.name == "Rename"


def test_a_module_that_nothing_changed_is_the_same():
    @transform.function_pass(opt_level=0)
    def unchanged(func, mod, ctx):
        return func

    assert unchanged(Module) is Module


def test_what_is_no_function_is_refused():
    @transform.function_pass(opt_level=0)
    def broken(func, mod, ctx):
        return func.body

    with pytest.raises(PassError, match="pass broken must return a relax.Function for main, got SeqExpr"):
        broken(Module)
    with pytest.raises(PassError, match="must define transform_function"):
        transform.FunctionPass().transform_function(Module["main"], Module, None)
