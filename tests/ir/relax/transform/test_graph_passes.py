"""Passes that keep a graph's operators: canonical form, dead code, common subexpressions, blocks, order."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners import VirtualMachine

from .conftest import verify


def test_canonicalize_renames_and_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                lv1 = lv0
                gv = lv1
                R.output(gv)
            z = gv
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                gv = R.add(x, x)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_tuples_and_unused_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                a = pair[0]
                b = R.add(a, y)
                gv = R.multiply(b, b)
                R.output(b, gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                b = R.add(x, y)
                gv = R.multiply(b, b)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_trivial_match_cast_and_known_symbols():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, 4), "float32"))
            z = R.add(y, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            z = R.add(x, x)
            return z

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_dead_code_elimination():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                unused = R.exp(x)
                also_unused = R.log(unused)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

        @R.function(private=True)
        def never_called(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return x

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

    verify(transform.DeadCodeElimination()(Before), Expected)
    with pytest.raises(IRValueError, match="entry function 'other'"):
        transform.DeadCodeElimination(["other"])(Before)


def test_dead_code_elimination_keeps_effects():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            _ = R.print(y, format="{}")
            z = R.exp(x)
            return x

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            _ = R.print(y, format="{}")
            return x

    verify(transform.DeadCodeElimination()(Before), Expected)


def test_eliminate_common_subexpr():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            with R.dataflow():
                lv0 = R.add(x, y)
                lv1 = R.add(x, y)
                lv2 = R.add(y, x)
                lv3 = R.multiply(lv0, lv1)
                gv = R.subtract(lv3, lv2)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            with R.dataflow():
                lv0 = R.add(x, y)
                lv1 = lv0
                lv2 = R.add(y, x)
                lv3 = R.multiply(lv0, lv0)
                gv = R.subtract(lv3, lv2)
                R.output(gv)
            return gv

    verify(transform.EliminateCommonSubexpr()(Before), Expected)


def test_what_is_overwritten_between_two_equal_calls_is_not_one():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def increment(A: T.Buffer((4, 6), "float32")):
            for i, j in T.grid(4, 6):
                with T.block("increment"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = A[vi, vj] + T.float32(1)

        @R.function
        def main(x: R.Tensor((4, 6), "float32")):
            cls = Before
            a = R.exp(x)
            b = R.call_tir_inplace(
                cls.increment, (a,), inplace_indices=[0], out_sinfo=R.Tensor((4, 6), "float32")
            )
            c = R.exp(x)
            d = R.exp(x)
            return R.add(b, R.multiply(c, d))

    after = transform.EliminateCommonSubexpr()(Before)
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    expected = np.exp(x) + 1 + np.exp(x) ** 2
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-6)
    vm = VirtualMachine(relax.build(Before, "llvm"))
    np.testing.assert_allclose(vm["main"](x).numpy(), expected, rtol=1e-6)


def test_common_subexpr_of_a_branch_is_not_known_behind_it():
    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            if c:
                a = R.exp(x)
                r = R.add(a, a)
            else:
                r = x
            b = R.exp(x)
            z = R.add(r, b)
            return z

    after = transform.EliminateCommonSubexpr()(Before)
    verify(after, Before)


def test_normalize_flattens():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    func = relax.Function([x], relax.op.add(relax.op.exp(x), x), relax.TensorStructInfo((2,), "float32"))
    after = transform.Normalize()(IRModule({"main": func.with_attr("global_symbol", "main")}))
    kinds = [type(b.value).__name__ for block in after["main"].body.blocks for b in block.bindings]
    assert kinds == ["Call", "Call"]


def test_to_non_dataflow_and_back():
    @I.ir_module
    class Dataflow:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    @I.ir_module
    class Plain:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            lv = R.add(x, x)
            gv = R.exp(lv)
            return gv

    verify(transform.ToNonDataflow()(Dataflow), Plain)
    verify(transform.ConvertToDataflow()(Plain), Dataflow)
    verify(transform.ConvertToDataflow(min_size=3)(Plain), Plain)


def test_convert_to_dataflow_stops_at_effects():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            a = R.add(x, x)
            b = R.exp(a)
            _ = R.print(b, format="{}")
            c = R.exp(b)
            d = R.add(c, a)
            return d

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                b = R.exp(a)
                R.output(a, b)
            _ = R.print(b, format="{}")
            with R.dataflow():
                c = R.exp(b)
                d = R.add(c, a)
                R.output(d)
            return d

    verify(transform.ConvertToDataflow()(Before), Expected)


def test_remove_purity_checking_needs_plain_blocks():
    @I.ir_module
    class Dataflow:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            return gv

    with pytest.raises(IRValueError, match="ToNonDataflow"):
        transform.RemovePurityChecking()(Dataflow)
    after = transform.RemovePurityChecking()(transform.ToNonDataflow()(Dataflow))
    assert after["main"].attrs["relax.force_pure"]


@pytest.mark.parametrize(
    ("order", "direction", "expected"),
    [
        ("depth-first", "from-inputs", ["a", "c", "b", "d", "e"]),
        ("breadth-first", "from-inputs", ["a", "b", "c", "d", "e"]),
        ("depth-first", "from-outputs", ["a", "c", "b", "d", "e"]),
        ("breadth-first", "from-outputs", ["b", "a", "d", "c", "e"]),
    ],
)
def test_topological_sort(order, direction, expected, same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(y)
                c = R.negative(a)
                d = R.negative(b)
                e = R.add(c, d)
                R.output(e)
            return e

    after = transform.TopologicalSort(order, direction)(Before)
    assert [b.var.name_hint for b in after["main"].body.blocks[0].bindings] == expected
    same_numbers(Before, after, [(8,), (8,)])


def test_topological_sort_rejects():
    with pytest.raises(IRValueError, match="order must be"):
        transform.TopologicalSort("random")
    with pytest.raises(IRValueError, match="direction must be"):
        transform.TopologicalSort("depth-first", "sideways")


def test_decorated_passes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    seen = []

    @transform.dataflowblock_pass(opt_level=2)
    def look(block, mod, ctx):
        seen.append(len(block.bindings))
        return block

    @transform.function_pass(opt_level=1)
    class Rename:
        def __init__(self, key):
            self.key = key

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.key, 1)

    assert isinstance(look, transform.DataflowBlockPass) and look.info.opt_level == 2
    verify(look(Module), Module)
    assert seen == [2]
    assert Rename("mark")(Module)["main"].attrs["mark"] == 1


def test_bind_params_and_symbolic_vars():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(
            ("n", "m"), "float32"
        ):
            n, m = T.int64(), T.int64()
            with R.dataflow():
                gv = R.matmul(x, w)
                R.output(gv)
            return gv

    weight = np.ones((4, 3), "float32")
    bound = transform.BindParams("main", {"w": weight})(Module)
    fixed = transform.BindSymbolicVars({"n": 2})(bound)
    assert len(fixed["main"].params) == 1
    x = np.arange(8, dtype="float32").reshape(2, 4)
    for mod in (bound, fixed):
        np.testing.assert_array_equal(evaluate(mod, x), evaluate(Module, x, weight))
    assert str(fixed["main"].ret_struct_info.shape_values) == str(relax.TensorStructInfo((2, 3)).shape_values)
    with pytest.raises(IRValueError, match="no function has the symbolic variable k"):
        transform.BindSymbolicVars({"k": 2})(Module)
    with pytest.raises(IRValueError, match="'v'"):
        transform.BindParams("main", {"v": weight})(Module)


def test_remove_redundant_reshape():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                lv = R.reshape(x, (12,))
                lv1 = R.reshape(lv, (3, 4))
                lv2 = R.exp(lv1)
                lv3 = R.reshape(lv2, (12,))
                gv = R.reshape(lv3, (2, 6))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                lv1 = R.reshape(x, (3, 4))
                lv2 = R.exp(lv1)
                gv = R.reshape(lv2, (2, 6))
                R.output(gv)
            return gv

    verify(transform.RemoveRedundantReshape()(Before), Expected)


def test_topological_sort_of_several_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            with R.dataflow():
                b = R.exp(y)
                f = R.sin(b)
                a = R.exp(x)
                e = R.add(a, b)
                R.output(e, f)
            return (e, f)

    after = transform.TopologicalSort("depth-first", "from-outputs")(Before)
    names = [b.var.name_hint for b in after["main"].body.blocks[0].bindings]
    assert names == ["a", "b", "e", "f"]  # taken backwards from the last result on


def test_blocks_that_are_there_already_keep_their_own_variables():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                R.output(a)
            with R.dataflow():
                b = R.exp(a)
                R.output(b)
            return b

    first, second = transform.ConvertToDataflow()(Before)["main"].body.blocks[0].bindings
    assert isinstance(first.var, relax.DataflowVar) and not isinstance(second.var, relax.DataflowVar)
