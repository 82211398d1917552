"""The documented passes: their names, parameters, order and defaults, and the documents' examples."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import ir
from ir import relax, tir
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

DOCUMENTED = """
AdjustMatmulOrder()
AllocateWorkspace()
AlterOpImpl(op_impl_map, op_buffer_transforms, op_buffer_axis_separators, op_buffer_input_axis_separators)
AnnotateTIROpPattern()
AttachAttrLayoutFreeBuffers()
AttachGlobalSymbol()
BindParams(func_name, params)
BindSymbolicVars(binding_map, func_name=None)
BundleModelParams(param_tuple_name=None)
CallTIRRewrite()
CanonicalizeBindings()
CombineParallelMatmul(check=None)
ComputePrimValue()
ConvertLayout(desired_layouts)
ConvertToDataflow(min_size=2)
DataflowUseInplaceCalls()
DeadCodeElimination(entry_functions=None)
DecomposeOpsForInference(func_name=None)
DecomposeOpsForTraining(func_name=None)
EliminateCommonSubexpr(call_only=False)
ExpandMatmulOfSum()
ExpandTupleArguments()
FewShotTuning(valid_count=1, benchmark=False)
FoldConstant()
FuseOps(fuse_opt_level=-1)
FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False, entry_functions=None)
FuseTIR()
FusionPattern(name, pattern, annotation_patterns=None, check=None, attrs_getter=None)
Gradient(func_name, require_grads=None, target_index=0)
InlinePrivateFunctions()
KillAfterLastUse()
LambdaLift()
LazyGetInput()
LazySetOutput()
LegalizeOps(customize_legalize_map=None, enable_warning=False)
LiftTransformParams(shared_transform=False)
LowerAllocTensor()
LowerRuntimeBuiltin()
MergeCompositeFunctions()
MetaScheduleApplyDatabase(work_dir=None, enable_warning=False)
MetaScheduleTuneIRMod(params, work_dir, max_trials_global, max_trials_per_task=None, op_names=None)
MetaScheduleTuneTIR(work_dir, max_trials_global)
Normalize()
NormalizeGlobalVar()
RealizeVDevice()
RemovePurityChecking()
RemoveUnusedOutputs()
RemoveUnusedParameters()
ReorderPermuteDimsAfterConcat()
ReorderTakeAfterMatmul()
RewriteCUDAGraph()
RewriteDataflowReshape()
RunCodegen(target_options=None, entry_functions=None)
SplitCallTIRByPattern(patterns, fcodegen)
SplitLayoutRewritePreproc()
StaticPlanBlockMemory()
ToMixedPrecision(out_dtype='float32', fp16_input_names=None)
ToNonDataflow()
TopologicalSort(order='depth-first', direction='from-inputs')
UpdateParamStructInfo(sinfo_func)
UpdateVDevice(new_vdevice, index)
VMBuiltinLower()
VMShapeLower(emit_err_ctx=True)
dataflowblock_pass(pass_func=None, opt_level=None, name=None, required=None, traceable=False)
function_pass(pass_func=None, opt_level=None, name=None, required=None, traceable=False)
AttachExternModules(extern_modules)
FastMathTransform()
FuseTransposeMatmul()
IPCAllReduceRewrite(allreduce_strategy)
LazyTransformParams(fget_item='get_item', fset_item='set_item', extra_get_item_params=None, extra_set_item_params=None)
LowerGPUIPCAllocStorage()
OptimizeLayoutTransform()
FoldBatchnormToConv2D()
RemoveRedundantReshape()
"""


def _documented(line: str) -> tuple[str, list[tuple[str, str | None]]]:
    name, _, rest = line.partition("(")
    params = [item.split("=") for item in rest.rstrip(")").split(", ") if item]
    return name, [(item[0], item[1] if len(item) > 1 else None) for item in params]


@pytest.mark.parametrize("line", DOCUMENTED.split("\n")[1:-1], ids=lambda line: line.partition("(")[0])
def test_signature(line: str) -> None:
    name, wanted = _documented(line)
    found = list(inspect.signature(getattr(transform, name)).parameters.values())
    shown = [
        (item.name, None if item.default is item.empty else repr(item.default))
        for item in found
        if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]
    assert [name for name, _ in shown[: len(wanted)]] == [name for name, _ in wanted]
    for (param, given), (_, default) in zip(shown, wanted, strict=False):
        assert default is None or given == default, param  # what must be given may have a default here
    assert all(default is not None for _, default in shown[len(wanted) :]), (
        "more than is documented is optional"
    )


@pytest.mark.parametrize("name", ["DataflowBlockPass", "FunctionPass", "PatternCheckContext"])
def test_class(name: str) -> None:
    assert inspect.isclass(getattr(transform, name))


def test_shape_lowering_takes_its_option_by_name() -> None:
    with pytest.raises(TypeError):
        transform.VMShapeLower(False)  # type: ignore[misc]


def _equal(actual: ir.IRModule, expected: ir.IRModule) -> None:
    ir.assert_structural_equal(actual, expected)


def test_legalize_with_a_map_of_one_s_own() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            z: R.Tensor((2, 3), "float32") = R.add(x, y)
            r: R.Tensor((2, 3), "float32") = R.multiply(y, z)
            return r

    def swapped(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        from ir import topi

        return bb.call_te(topi.add, call.args[1], call.args[0])

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            cls = Expected
            z = R.call_tir(cls.add, (y, x), out_sinfo=R.Tensor((2, 3), dtype="float32"))
            r = R.call_tir(cls.multiply, (y, z), out_sinfo=R.Tensor((2, 3), dtype="float32"))
            return r

        @T.prim_func(private=True)
        def add(
            A: T.Buffer((T.int64(2), T.int64(3)), "float32"),
            B: T.Buffer((T.int64(2), T.int64(3)), "float32"),
            T_add: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for ax0, ax1 in T.grid(T.int64(2), T.int64(3)):
                with T.block("T_add"):
                    v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(A[v_ax0, v_ax1], B[v_ax0, v_ax1])
                    T.writes(T_add[v_ax0, v_ax1])
                    T_add[v_ax0, v_ax1] = A[v_ax0, v_ax1] + B[v_ax0, v_ax1]

        @T.prim_func(private=True)
        def multiply(
            A: T.Buffer((T.int64(2), T.int64(3)), "float32"),
            B: T.Buffer((T.int64(2), T.int64(3)), "float32"),
            T_multiply: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for ax0, ax1 in T.grid(T.int64(2), T.int64(3)):
                with T.block("T_multiply"):
                    v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                    T.reads(A[v_ax0, v_ax1], B[v_ax0, v_ax1])
                    T.writes(T_multiply[v_ax0, v_ax1])
                    T_multiply[v_ax0, v_ax1] = A[v_ax0, v_ax1] * B[v_ax0, v_ax1]

    _equal(transform.LegalizeOps({"relax.add": swapped})(Before), Expected)


def test_gradient_of_a_sum() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")) -> R.Tensor((), "float32"):
            with R.dataflow():
                lv1: R.Tensor((3, 3), "float32") = R.add(x, y)
                lv2: R.Tensor((), "float32") = R.sum(lv1, axis=None, keepdims=False)
                R.output(lv2)
            return lv2

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")) -> R.Tensor((), "float32"):
            with R.dataflow():
                lv1: R.Tensor((3, 3), "float32") = R.add(x, y)
                lv2: R.Tensor((), "float32") = R.sum(lv1, axis=None, keepdims=False)
                R.output(lv2)
            return lv2

        @R.function
        def main_adjoint(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")) -> R.Tuple(
            R.Tensor((), "float32"), R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3, 3), "float32"))
        ):
            with R.dataflow():
                lv1: R.Tensor((3, 3), "float32") = R.add(x, y)
                lv2: R.Tensor((), "float32") = R.sum(lv1, axis=None, keepdims=False)
                lv2_adjoint: R.Tensor((), "float32") = R.ones((), dtype="float32")
                lv1_adjoint: R.Tensor((3, 3), "float32") = R.broadcast_to(lv2_adjoint, (3, 3))
                x_adjoint: R.Tensor((3, 3), "float32") = lv1_adjoint
                y_adjoint: R.Tensor((3, 3), "float32") = lv1_adjoint
                R.output(lv2, x_adjoint, y_adjoint)
            return (lv2, (x_adjoint, y_adjoint))

    _equal(transform.Gradient("main")(Before), Expected)


def test_gradient_of_a_chosen_result() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv1: R.Tensor((), "float32") = R.sum(x, axis=None, keepdims=False)
                lv2: R.Tensor((), "float32") = R.sum(y, axis=None, keepdims=False)
                R.output(lv1, lv2)
            return (lv1, lv2)

    @I.ir_module
    class Expected:
        @R.function
        def main_adjoint(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv1: R.Tensor((), "float32") = R.sum(x, axis=None, keepdims=False)
                lv2: R.Tensor((), "float32") = R.sum(y, axis=None, keepdims=False)
                lv2_adjoint: R.Tensor((), "float32") = R.ones((), dtype="float32")
                x_adjoint: R.Tensor((3, 3), "float32") = R.zeros((3, 3), dtype="float32")
                y_adjoint: R.Tensor((3, 3), "float32") = R.broadcast_to(lv2_adjoint, (3, 3))
                R.output(lv1, lv2, x_adjoint, y_adjoint)
            return ((lv1, lv2), (x_adjoint, y_adjoint))

    after = transform.Gradient("main", target_index=1)(Before)
    ir.assert_structural_equal(after["main_adjoint"], Expected["main_adjoint"])
    ir.assert_structural_equal(after["main"], Before["main"])


@I.ir_module
class Input:
    @R.function
    def f(x: R.Tensor(("m", "n"), "float32")):
        with R.dataflow():
            lv0 = R.multiply(x, x)
            gv0 = R.add(x, x)
            R.output(gv0)
        return gv0


@pytest.mark.ill_formed("the example binds a variable whose extents nothing defines")
def test_dataflow_block_pass_from_a_class() -> None:
    @transform.dataflowblock_pass(opt_level=1)
    class ReplaceFirst:
        def __init__(self) -> None:
            m, n = tir.Var("m", "int64"), tir.Var("n", "int64")
            lv0 = relax.DataflowVar("lv1", relax.TensorStructInfo([m, n], "float32"))
            self.binding = relax.VarBinding(lv0, relax.const(np.random.rand(24, 56)))

        def transform_dataflowblock(self, block, mod, ctx):
            return relax.DataflowBlock([self.binding, block.bindings[1]], block.span)

    block_pass = ReplaceFirst()
    assert isinstance(block_pass, transform.DataflowBlockPass)
    first, second = block_pass(Input)["f"].body.blocks[0].bindings
    assert isinstance(first.value, relax.Constant) and second.value.op.name == "relax.add"


def test_dataflow_block_pass_from_a_function() -> None:
    @transform.dataflowblock_pass(opt_level=2)
    def unchanged(block, mod, ctx):
        return block

    assert isinstance(unchanged, transform.DataflowBlockPass)
    assert unchanged.info.opt_level == 2 and unchanged.info.name == "unchanged"
    _equal(unchanged(Input), Input)


@pytest.mark.ill_formed("the example puts a function under the name of another")
def test_function_pass_from_a_class() -> None:
    @transform.function_pass(opt_level=1)
    class Replace:
        def __init__(self, new: relax.Function) -> None:
            self.new = new

        def transform_function(self, func, mod, ctx):
            return self.new

    @R.function
    def identity(x: R.Tensor(("m", "n"), "float32")):
        return x

    after = Replace(identity)(Input)
    assert not after["f"].body.blocks and isinstance(after["f"].body.body, relax.Var)


def test_function_pass_from_a_function() -> None:
    @transform.function_pass(opt_level=2)
    def unchanged(func, mod, ctx):
        return func

    assert isinstance(unchanged, transform.FunctionPass)
    assert unchanged.info.opt_level == 2
    _equal(unchanged(Input), Input)
