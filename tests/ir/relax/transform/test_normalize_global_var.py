"""NormalizeGlobalVar: public functions have the names of their symbols, and no two functions share one."""

from __future__ import annotations

import pytest

import ir
from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


@I.ir_module
class Module:
    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y

    @R.function
    def entry(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y: R.Tensor((4,), "float32") = cls.main(x)
        return y


def _symbol(mod, name, symbol):
    """The module with another symbol for a function; its name stays."""
    functions = dict(mod.functions)
    var = mod.get_global_var(name)
    functions[var] = functions[var].with_attr("global_symbol", symbol)
    return mod.replace(functions=functions)


def test_a_public_function_takes_its_name_from_a_private_one():
    @I.ir_module
    class Expected:
        @R.function(private=True)
        def main_1(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            y: R.Tensor((4,), "float32") = cls.main_1(x)
            return y

    verify(transform.NormalizeGlobalVar()(_symbol(Module, "entry", "main")), Expected)


def test_names_that_fit_are_left_alone():
    assert transform.NormalizeGlobalVar()(Module) is Module


def test_two_functions_of_one_symbol_are_refused():
    func = Module["main"].with_attr("global_symbol", "same")
    with pytest.raises(IRValueError, match="two public functions"):
        transform.NormalizeGlobalVar()(ir.IRModule({"a": func, "b": func}))
