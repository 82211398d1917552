"""VMShapeLower: the calls that it makes, and that the virtual machine runs them."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.transform.vm_shape_lower import MakeShapeCode, MatchShapeCode
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir import PrimFunc
from runners.program import ArgumentError


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", 4), "float32")) -> R.Shape(ndim=2):
        n, m = T.int64(), T.int64()
        s: R.Shape([n * 2, m]) = R.shape([n * 2, m])
        return s


def _packed(mod, name):
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            op = getattr(binding.value, "op", None)
            if isinstance(op, relax.ExternFunc) and op.global_symbol == name:
                found.append([getattr(arg, "value", None) for arg in binding.value.args])
    return found


def test_structure():
    after = transform.VMShapeLower(emit_err_ctx=False)(Module)
    assert len(_packed(after, "vm.builtin.check_tensor_info")) == 2
    first, second = _packed(after, "vm.builtin.match_shape")
    store, same, exact = (
        MatchShapeCode.STORE_TO_HEAP,
        MatchShapeCode.ASSERT_EQUAL_TO_LOAD,
        MatchShapeCode.ASSERT_EQUAL_TO_IMM,
    )
    assert [int(v.value) for v in first[3:-1]] == [store, 0, store, 1]
    assert [int(v.value) for v in second[3:-1]] == [same, 0, exact, 4]
    (made,) = _packed(after, "vm.builtin.make_shape")
    load = MakeShapeCode.LOAD_SHAPE
    assert [int(v.value) for v in made[2:]] == [load, 2, load, 1]
    assert after["main"].attrs["relax.force_pure"] and after["main"].is_pure
    (computed,) = [func for func in after.functions.values() if isinstance(func, PrimFunc)]
    assert computed.attrs["tir.is_host_func"]


def test_runs_and_checks():
    after = transform.VMShapeLower()(Module)
    vm = runners.VirtualMachine(relax.build(after, "llvm", pipeline=None), runners.cpu())
    assert vm["main"](np.zeros((3, 5), "float32"), np.zeros((3, 4), "float32")) == (6, 5)
    with pytest.raises(ArgumentError):
        vm["main"](np.zeros((3, 5), "float32"), np.zeros((2, 4), "float32"))


def test_a_whole_lowered_network():
    @I.ir_module
    class Network:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            ("n * 4",), "float32"
        ):
            n = T.int64()
            with R.dataflow():
                lv = R.matmul(x, w)
                lv1 = R.nn.relu(lv)
                gv = R.reshape(lv1, (n * 4,))
                R.output(gv)
            return gv

    lowered = transform.VMShapeLower()(relax.get_pipeline("default")(Network))
    vm = runners.VirtualMachine(relax.build(lowered, "llvm", pipeline=None), runners.cpu())
    for rows in (1, 3):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype("float32")
        w = np.eye(4, dtype="float32") * 2
        np.testing.assert_allclose(vm["main"](x, w).numpy(), np.maximum(2 * x, 0).reshape(-1), rtol=1e-6)


@I.ir_module
class Symbolic:
    @R.function
    def main(
        x: R.Tensor(("n", "m"), "float32"), t: R.Tuple(R.Tensor(("n * 2",), "float32"), R.Object)
    ) -> R.Shape(["n * 2", "n * m"]):
        n = T.int64()
        m = T.int64()
        a = R.call_pure_packed("f", R.shape([n * 2, m]), sinfo_args=(R.Tensor(ndim=1, dtype="float32"),))
        b = R.match_cast(a, R.Tensor((m,), "float32"))
        c = R.call_pure_packed("g", b, sinfo_args=(R.Object,))
        return R.shape([n * 2, n * m])


def _arguments(mod, name):
    return [
        [arg.value.value if isinstance(arg, relax.PrimValue) else arg for arg in b.value.args]
        for b in mod["main"].body.blocks[0].bindings
        if isinstance(b.value, relax.Call) and getattr(b.value.op, "global_symbol", "") == name
    ]


def test_every_expression_has_its_place_before_anything_runs():
    after = transform.VMShapeLower(emit_err_ctx=False)(Symbolic)
    (kernel,) = [var for var in after.functions if var.name_hint.startswith("shape_func")]
    assert len(after[kernel].body.seq) == 2  # n * 2 and n * m at once, behind the parameters
    matches = [args[2:-1] for args in _arguments(after, "vm.builtin.match_shape")]
    assert matches == [
        [2, 1, 0, 1, 1],  # x: n and m are stored
        [1, 2, 0],  # t[0]: n * 2 is not known yet
        [1, 3, 2],  # t[0] again
        [1, 3, 1],  # match_cast
        [2, 3, 2, 3, 3],  # the result
    ]
    assert [type(b).__name__ for b in after["main"].body.blocks[0].bindings].count("MatchCast") == 1


def test_failing_checks_say_where():
    after = transform.VMShapeLower()(Symbolic)
    texts = [args[-1].value for args in _arguments(after, "vm.builtin.match_shape")]
    assert texts[0] == (
        'ErrorContext(fn=main, loc=param[0], param=x, annotation=R.Tensor((n, m), dtype="float32")) '
    )
    assert texts[3] == 'ErrorContext(match_cast, var=b, struct_info=R.Tensor((m,), dtype="float32")) '
    assert texts[4].startswith("ErrorContext(fn=main, loc=return, annotation=")


def test_without_symbols_there_is_no_table():
    @I.ir_module
    class Static:
        @R.function
        def main(x: R.Tensor((8,), "float32"), c: R.Tensor((), "float32")):
            return x

    after = transform.VMShapeLower()(Static)
    bindings = after["main"].body.blocks[0].bindings
    assert bindings[0].value.op.name == "relax.null_value"
    ((_, heap, *_),) = _arguments(after, "vm.builtin.match_shape")  # none for the scalar
    assert heap is bindings[0].var


def test_a_function_with_effects_says_so_already():
    @I.ir_module
    class Impure:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            _ = R.print(x, format="{}")
            return x

    main = transform.VMShapeLower()(Impure)["main"]
    assert not main.is_pure and "relax.force_pure" not in main.attrs


@I.ir_module
class Branches:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32"), s: R.Shape(["k"])) -> R.Shape(ndim=1):
        n, k = T.int64(), T.int64()
        if c:
            r: R.Shape(ndim=1) = R.shape([n // k])
        else:
            r = R.shape([n + k])
        return r


def test_an_extent_that_nobody_asks_for_harms_nobody():
    vm = runners.VirtualMachine(relax.build(Branches, "llvm"))
    x = np.zeros(6, "float32")
    assert vm["main"](True, x, (2,)) == (3,)
    assert vm["main"](False, x, (0,)) == (6,)  # n // 0 is not what this branch returns


@pytest.mark.meaning("relax-agree")
def test_an_extent_that_divides_by_zero_is_an_error_where_it_is_used():
    vm = runners.VirtualMachine(relax.build(Branches, "llvm"))
    with pytest.raises(ArgumentError, match="n // k divides by k, which is 0"):
        vm["main"](True, np.zeros(6, "float32"), (0,))


def test_each_branch_binds_its_own_extents():
    @I.ir_module
    class Module:
        @R.function
        def main(
            c: R.Tensor((), "bool"),
            x: R.Tensor(dtype="float32", ndim=1),
            y: R.Tensor(dtype="float32", ndim=1),
        ) -> R.Shape(ndim=1):
            m = T.int64()
            if c:
                a = R.match_cast(x, R.Tensor((m,), "float32"))
                r: R.Shape(ndim=1) = R.shape([m + 1])
            else:
                b = R.match_cast(y, R.Tensor((m,), "float32"))
                r = R.shape([m + 1])
            return r

    vm = runners.VirtualMachine(relax.build(Module, "llvm"))
    x, y = np.zeros(3, "float32"), np.zeros(7, "float32")
    assert vm["main"](True, x, y) == (4,) and vm["main"](False, x, y) == (8,)


def test_shapes_are_lowered_once():
    once = transform.VMShapeLower()(Branches)
    assert transform.VMShapeLower()(once)["main"] is once["main"]


def test_local_functions_are_lifted_before():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()

            @R.function
            def inner(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                z = R.exp(y)
                return z

            r = inner(x)
            return r

    with pytest.raises(
        IRValueError, match="VMShapeLower: function main holds a local function; run LambdaLift"
    ):
        transform.VMShapeLower()(Before)
