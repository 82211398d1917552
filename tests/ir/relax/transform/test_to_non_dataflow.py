"""ToNonDataflow: dataflow blocks become plain ones, at every depth, and blocks that then meet are one."""

from __future__ import annotations

import pytest

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_blocks_and_variables_become_plain(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, x)
                gv = R.exp(lv)
                R.output(gv)
            y = R.negative(gv)
            if c:
                with R.dataflow():
                    lv1 = R.exp(y)
                    gv1 = R.negative(lv1)
                    R.output(gv1)
                r = gv1
            else:
                r = y
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            lv = R.add(x, x)
            gv = R.exp(lv)
            y = R.negative(gv)
            if c:
                lv1 = R.exp(y)
                gv1 = R.negative(lv1)
                r = gv1
            else:
                r = y
            return r

    verify(transform.ToNonDataflow()(Before), Expected)
    assert len(transform.ToNonDataflow()(Before)["main"].body.blocks) == 1


def test_a_function_without_dataflow_is_left_alone():
    @I.ir_module
    class Plain:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            return y

    assert transform.ToNonDataflow()(Plain) is Plain


@pytest.mark.parametrize("name", ["main", "inner"])
def test_what_a_library_owns_is_left_alone(name):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            with R.dataflow():
                y: R.Tensor((8,), "float32") = cls.inner(x)
                R.output(y)
            return y

        @R.function
        def inner(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"Codegen": "mine"})
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

    after = transform.ToNonDataflow()(Module)
    assert (after[name] is Module[name]) == (name == "inner")
