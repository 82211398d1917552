"""Passes that change signatures and functions: private functions, closures, weights, names."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


def test_expand_tuple_arguments(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.func((a, b))
            return y

        @R.function(private=True)
        def func(args: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32"))) -> R.Tensor(
            (8,), "float32"
        ):
            x = args[0]
            y = args[1]
            z = R.add(x, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Expected
            y: R.Tensor((8,), "float32") = cls.func(a, b)
            return y

        @R.function(private=True)
        def func(args_0: R.Tensor((8,), "float32"), args_1: R.Tensor((8,), "float32")) -> R.Tensor(
            (8,), "float32"
        ):
            args = (args_0, args_1)
            x = args[0]
            y = args[1]
            z = R.add(x, y)
            return z

    after = transform.ExpandTupleArguments()(Before)
    verify(after, Expected)
    same_numbers(Before, after, [(8,), (8,)])


def test_remove_unused_parameters():
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.func(a, b)
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32"), unused: R.Tensor((8,), "float32")) -> R.Tensor(
            (8,), "float32"
        ):
            z = R.exp(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Expected
            y: R.Tensor((8,), "float32") = cls.func(a)
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.exp(x)
            return z

    verify(transform.RemoveUnusedParameters()(Before), Expected)


def test_remove_unused_outputs(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = (
                cls.func(x)
            )
            y = pair[2]
            z = pair[0]
            r = R.add(y, z)
            return r

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            a = R.exp(x)
            b = R.log(x)
            c = R.negative(x)
            return (a, b, c)

    after = transform.RemoveUnusedOutputs()(Before)
    assert len(after["func"].ret_struct_info.fields) == 2
    same_numbers(Before, after, [(8,)])
    shorter = transform.DeadCodeElimination()(after)
    assert len(shorter["func"].body.blocks[0].bindings) == 2


def test_inline_private_functions():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.double(x)
            return y

        @R.function(private=True)
        def double(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.add(x, x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.add(x, x)
            y = z
            return y

    verify(
        transform.CanonicalizeBindings()(transform.InlinePrivateFunctions()(Before)),
        transform.CanonicalizeBindings()(Expected),
    )


def test_lambda_lift_runs(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            @R.function
            def inner(z: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                w = R.add(x, z)
                return w

            r = inner(y)
            return r

    after = transform.LambdaLift()(Before)
    assert sorted(var.name_hint for var in after.functions) == ["main", "main_inner"]
    assert [b.value.op.name for b in after["main"].body.blocks[0].bindings] == [
        "relax.make_closure",
        "relax.invoke_pure_closure",
    ]
    same_numbers(Before, after, [(8,), (8,)])


def test_closures_with_effects_keep_them(capsys):
    """A lifted closure is as pure as the local function was: its calls are neither removed nor merged."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function(pure=False)
            def inner(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                _ = R.print(x, format="x is {}")
                w = R.add(x, z)
                return w

            a = inner(y)
            b = inner(y)
            return b

    after = transform.LambdaLift()(Before)
    assert [b.value.op.name for b in after["main"].body.blocks[0].bindings] == [
        "relax.make_closure",
        "relax.invoke_closure",
        "relax.invoke_closure",
    ]
    after = transform.DeadCodeElimination()(transform.EliminateCommonSubexpr()(after))
    x, y = np.ones(2, "float32"), np.zeros(2, "float32")
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    capsys.readouterr()  # what checks of the passes have printed
    np.testing.assert_array_equal(vm["main"](x, y).numpy(), x + y)
    assert capsys.readouterr().out.count("x is") == 2


def test_bundle_model_params():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
        ) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv = R.matmul(x, w)
                gv = R.add(lv, b)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((2, 4), "float32"),
            model_params: R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4,), "float32")),
        ) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                w = model_params[0]
                lv = R.matmul(x, w)
                b = model_params[1]
                gv = R.add(lv, b)
                R.output(gv)
            return gv

    after = transform.BundleModelParams()(Before)
    verify(after, Expected)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (4, 4), (4,)))
    np.testing.assert_array_equal(evaluate(after, x, (w, b)), evaluate(Before, x, w, b))


@I.ir_module
class _Weights:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")
    ) -> R.Tensor((2, 3), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w, axes=[1, 0])
            scaled = R.multiply(wt, wt)
            lv = R.matmul(x, scaled)
            gv = R.add(lv, b)
            R.output(gv)
        return gv


def test_lift_transform_params_keeps_the_numbers():
    after = transform.LiftTransformParams()(_Weights)
    main = after["main"]
    assert [param.name_hint for param in main.params] == ["x", "transformed_param_0", "b"]
    assert [b.value.op.name for b in main.body.blocks[0].bindings] == ["relax.matmul", "relax.add"]
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (3, 4), (3,)))
    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    transformed = vm["main_transform_params"]((w, b))
    result = vm["main"](x, *transformed).numpy()
    np.testing.assert_allclose(result, x @ (w.T * w.T) + b, rtol=1e-5, atol=1e-5)


def test_lift_transform_params_shared():
    both = ir.IRModule(
        {
            "first": _Weights["main"].with_attr("global_symbol", "first"),
            "second": relax.copy_with_new_vars(_Weights["main"]).with_attr("global_symbol", "second"),
        }
    )
    after = transform.LiftTransformParams(shared_transform=True)(both)
    assert sorted(var.name_hint for var in after.functions) == ["first", "second", "transform_params"]
    assert len(after["first"].params) == len(after["second"].params) == 3


def test_lazy_get_input():
    after = transform.LazyGetInput()(_Weights)
    assert [param.name_hint for param in after["main"].params] == ["x", "fget_param"]
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (3, 4), (3,)))
    asked = []

    def fetch(index, name):
        asked.append((int(index), name))
        return runners.array([w, b][int(index)])

    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    np.testing.assert_allclose(vm["main"](x, fetch).numpy(), x @ (w.T * w.T) + b, rtol=1e-5, atol=1e-5)
    assert asked == [(0, "w"), (1, "b")]


def test_lazy_set_output():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
        ):
            a = R.add(x, x)
            b = R.negative(a)
            return (a, b)

    got = {}
    vm = runners.VirtualMachine(relax.build(transform.LazySetOutput()(Before), "llvm"), runners.cpu())
    assert vm["main"](np.ones(4, "float32"), lambda i, v: got.__setitem__(int(i), v.numpy())) == ()
    np.testing.assert_array_equal(got[0], np.full(4, 2))
    np.testing.assert_array_equal(got[1], np.full(4, -2))


def test_lazy_transform_params():
    lifted = transform.LiftTransformParams()(_Weights)
    name = "main_transform_params"
    only = ir.IRModule({name: lifted[name]})
    mod = transform.LazyTransformParams("test.lazy_get", "test.lazy_set")(
        transform.RemovePurityChecking()(transform.ToNonDataflow()(only))
    )
    weights = [np.arange(12, dtype="float32").reshape(3, 4), np.ones(3, "float32")]
    stored = {}
    ir.register_func("test.lazy_get", lambda index: runners.array(weights[int(index)]), override=True)
    ir.register_func(
        "test.lazy_set", lambda index, value: stored.__setitem__(int(index), value.numpy()), override=True
    )
    runners.VirtualMachine(relax.build(mod, "llvm"), runners.cpu())[name]()
    np.testing.assert_allclose(stored[0], weights[0].T ** 2)
    np.testing.assert_allclose(stored[1], weights[1])


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


def test_attach_global_symbol_and_normalize_global_var():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("copy"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi]

        @R.function(private=True)
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return y

    after = transform.AttachGlobalSymbol()(Before)
    assert (
        after["kernel"].attrs["global_symbol"] == "kernel" and after["main"].attrs["global_symbol"] == "main"
    )
    prefixed = transform.AttachGlobalSymbol()(Before.with_attr("system_lib_prefix", "lib_"))
    assert sorted(var.name_hint for var in prefixed.functions) == ["lib_kernel", "main"]
    renamed = transform.NormalizeGlobalVar()(
        ir.IRModule({"f": after["kernel"].with_attr("global_symbol", "g")})
    )
    assert [var.name_hint for var in renamed.functions] == ["g"]
    with pytest.raises(IRValueError, match="two public functions"):
        transform.NormalizeGlobalVar()(ir.IRModule({"a": after["kernel"], "b": after["kernel"]}))


def test_fuse_ops_by_pattern_and_merge():
    from ir.relax.dpl import is_op, wildcard

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((4, 4, 3, 3), "float32")) -> R.Tensor(
            (1, 4, 8, 8), "float32"
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, padding=1)
                lv1 = R.nn.relu(lv)
                lv2 = R.nn.conv2d(lv1, w, padding=1)
                lv3 = R.nn.relu(lv2)
                gv = R.add(lv3, x)
                R.output(gv)
            return gv

    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = transform.FusionPattern("dnnl.conv2d_relu", is_op("relax.nn.relu")(conv), {"conv": conv})
    after = transform.FuseOpsByPattern([pattern])(Before)
    composite = after["fused_relax_nn_conv2d_relax_nn_relu"]
    assert composite.attrs["Composite"] == "dnnl.conv2d_relu"
    assert [type(b.value.op).__name__ for b in after["main"].body.blocks[0].bindings] == [
        "GlobalVar",
        "GlobalVar",
        "Op",
    ]
    merged = transform.MergeCompositeFunctions()(after)
    regions = [func for func in merged.functions.values() if func.attrs.get("Codegen") == "dnnl"]
    assert len(regions) == 1 and len(merged["main"].body.blocks[0].bindings) == 2
    annotated = transform.FuseOpsByPattern([pattern], annotate_codegen=True)(Before)
    assert sum(func.attrs.get("Codegen") == "dnnl" for func in annotated.functions.values()) == 1
    refused = transform.FuseOpsByPattern(
        [("dnnl.no", is_op("relax.nn.relu")(conv), {"conv": conv}, lambda context: False)]
    )
    verify(refused(Before), Before)


def test_run_codegen_calls_the_backend():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.exp(x)
                gv = R.negative(lv)
                R.output(gv)
            return gv

    from ir.relax.dpl import is_op, wildcard
    from ir.transform import PassError

    offloaded = transform.FuseOpsByPattern(
        [("mine.exp", is_op("relax.exp")(wildcard()))], annotate_codegen=True
    )(Before)
    with pytest.raises(PassError, match="no backend 'mine'"):
        transform.RunCodegen()(offloaded)

    def compute(x, out):
        np.exp(np.asarray(x), out=out.data)

    def register(functions, options, constant_names):
        for func in functions:
            ir.register_func(func.attrs["global_symbol"], compute, override=True)
        return ["module"]

    ir.register_func("relax.ext.mine", register, override=True)
    after = transform.RunCodegen()(offloaded)
    assert after.attrs["external_mods"] == ("module",)
    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    x = np.linspace(0, 1, 8, dtype="float32")
    np.testing.assert_allclose(vm["main"](x).numpy(), -np.exp(x), rtol=1e-6)


def test_dataflow_use_inplace_calls(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            with R.dataflow():
                lv = R.add(x, y)
                lv1 = R.nn.relu(lv)
                lv2 = R.multiply(lv1, x)
                gv = R.exp(x)
                R.output(lv2, gv)
            return (lv2, gv)

    after = transform.DataflowUseInplaceCalls()(Before)
    ops = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
    assert ops == ["relax.add", "relax.call_tir_inplace", "relax.call_tir_inplace", "relax.exp"]
    same_numbers(Before, after, [(8,), (8,)])


def test_all_reduce_over_shared_memory():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16"):
            storage: R.Object = R.memory.alloc_storage(
                R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float16")
            )
            a: R.Tensor((8,), "float16") = R.memory.alloc_tensor(
                storage, R.prim_value(0), R.shape([8]), R.dtype("float16")
            )
            out: R.Tensor((8,), "float16") = R.builtin.alloc_tensor(
                R.shape([8]), R.dtype("float16"), R.prim_value(0)
            )
            _ = R.call_packed(
                "runtime.disco.allreduce", a, R.shape([0]), R.prim_value(True), out, sinfo_args=R.Tuple()
            )
            return out

    after = transform.IPCAllReduceRewrite(1)(Before)
    bindings = after["main"].body.blocks[0].bindings
    assert bindings[0].value.args[2].value == "ipc_memory"
    assert bindings[3].value.op.global_symbol == "runtime.disco.cuda_ipc.custom_allreduce"
    lowered = transform.LowerGPUIPCAllocStorage()(after)
    assert (
        lowered["main"].body.blocks[0].bindings[0].value.op.global_symbol
        == "runtime.disco.cuda_ipc.alloc_storage"
    )


def test_lambda_lift_of_a_function_that_calls_itself():
    """The lifted function hands on what it captured when it calls itself."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((), "int64"), step: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            @R.function(pure=False)
            def count(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                done = R.greater_equal(i, R.const(10, "int64"))
                if done:
                    r = i
                else:
                    j = R.add(i, step)
                    r = count(j)
                return r

            y = count(x)
            return y

    after = transform.LambdaLift()(Before)
    assert well_formed(after)
    (lifted,) = [func for var, func in after.functions.items() if var.name_hint != "main"]
    assert len(lifted.params) == 2
    assert not any(
        isinstance(binding.value, relax.Function)
        for func in after.functions.values()
        for binding in relax.analysis.all_bindings(func)
    )
    start, step = np.array(1, "int64"), np.array(4, "int64")
    assert evaluate(Before, start, step) == evaluate(after, start, step) == 13


def test_remove_unused_outputs_of_a_result_that_is_a_variable():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = cls.func(x)
            y = pair[1]
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            with R.dataflow():
                parts = R.split(R.concat((x, x), axis=0), 2, axis=0)
                R.output(parts)
            return parts

    after = transform.RemoveUnusedOutputs()(Before)
    assert well_formed(after)
    assert isinstance(after["func"].ret_struct_info, relax.TensorStructInfo)
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(evaluate(after, x), x)


def test_shared_transformed_weights_come_in_the_same_order_for_all_functions():
    @I.ir_module
    class Before:
        @R.function
        def first(
            x: R.Tensor((1, 3), "float32"), w: R.Tensor((3, 1), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((1, 3), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                turned = R.permute_dims(w)
                scaled = R.multiply(x, turned)
                root = R.exp(b)
                gv = R.add(scaled, root)
                R.output(gv)
            return gv

        @R.function
        def second(
            x: R.Tensor((1, 3), "float32"), w: R.Tensor((3, 1), "float32"), b: R.Tensor((3,), "float32")
        ) -> R.Tensor((1, 3), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                root = R.exp(b)
                moved = R.add(x, root)
                turned = R.permute_dims(w)
                gv = R.multiply(moved, turned)
                R.output(gv)
            return gv

    after = transform.LiftTransformParams(shared_transform=True)(Before)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((1, 3), (3, 1), (3,)))
    weights = evaluate(after, (w, b), name="transform_params")
    for name in ("first", "second"):
        np.testing.assert_array_equal(
            evaluate(after, x, *weights, name=name), evaluate(Before, x, w, b, name=name)
        )


def test_groups_of_a_pattern_do_not_overlap():
    from ir.relax.dpl import is_op, wildcard

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.exp(lv)
                lv2 = R.exp(lv1)
                gv = R.exp(lv2)
                R.output(gv)
            return gv

    twice = is_op("relax.exp")(is_op("relax.exp")(wildcard()))
    after = transform.FuseOpsByPattern([("mine.twice", twice)])(Before)
    assert [type(b.value.op).__name__ for b in after["main"].body.blocks[0].bindings] == ["GlobalVar"] * 2
    later = transform.FuseOpsByPattern([("mine.twice", twice), ("mine.once", is_op("relax.exp")(wildcard()))])
    verify(later(Before), after)


def test_remove_unused_outputs_of_a_tuple_that_is_bound(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = cls.func(x)
            y = pair[1]
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            a = R.exp(x)
            b = R.negative(x)
            both = (a, b)
            return both

    after = transform.RemoveUnusedOutputs()(Before)
    body = after["func"].body
    assert body.body is body.blocks[0].bindings[1].var and len(body.blocks) == 1
    same_numbers(Before, after, [(8,)])


def test_groups_get_symbols_that_their_operands_do_not_determine():
    from ir.relax.dpl import is_op, wildcard

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n * 2",), "float32"), s: R.Shape(["n"])) -> R.Tensor(("n * 2",), "float32"):
            n = T.int64()
            with R.dataflow():
                lv = R.exp(x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    twice = is_op("relax.exp")(is_op("relax.exp")(wildcard()))
    after = transform.FuseOpsByPattern([("mine.twice", twice)])(Before)
    fused = after["fused_relax_exp_relax_exp"]
    assert [param.name_hint for param in fused.params] == ["x", "tir_vars"]
    assert well_formed(after)
