"""A pass is found in the file of its name: those that the documents list, and those that the packages of passes have."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ir.external import EXTERNAL
from ir.kinds import modules_of
from ir.package_door import is_file_of
from ir.relax import transform as relax_transform
from ir.tir import transform as tir_transform
from ir.transform import Pass

ROOT = Path(__file__).parents[2]

DOCUMENTED = """
    AdjustMatmulOrder AllocateWorkspace AlterOpImpl AnnotateTIROpPattern AttachAttrLayoutFreeBuffers AttachExternModules
    AttachGlobalSymbol BindParams BindSymbolicVars BundleModelParams CallTIRRewrite CanonicalizeBindings
    CombineParallelMatmul ComputePrimValue ConvertLayout ConvertToDataflow DataflowBlockPass DataflowUseInplaceCalls
    DeadCodeElimination DecomposeOpsForInference DecomposeOpsForTraining EliminateCommonSubexpr ExpandMatmulOfSum
    ExpandTupleArguments FastMathTransform FewShotTuning FoldBatchnormToConv2D FoldConstant FunctionPass FuseOps
    FuseOpsByPattern FuseTIR FuseTransposeMatmul Gradient IPCAllReduceRewrite InlinePrivateFunctions KillAfterLastUse
    LambdaLift LazyGetInput LazySetOutput LazyTransformParams LegalizeOps LiftTransformParams LowerAllocTensor
    LowerGPUIPCAllocStorage LowerRuntimeBuiltin MergeCompositeFunctions MetaScheduleApplyDatabase MetaScheduleTuneIRMod
    MetaScheduleTuneTIR Normalize NormalizeGlobalVar OptimizeLayoutTransform RealizeVDevice RemovePurityChecking
    RemoveRedundantReshape RemoveUnusedOutputs RemoveUnusedParameters ReorderPermuteDimsAfterConcat
    ReorderTakeAfterMatmul RewriteCUDAGraph RewriteDataflowReshape RunCodegen SplitCallTIRByPattern
    SplitLayoutRewritePreproc StaticPlanBlockMemory ToMixedPrecision ToNonDataflow TopologicalSort UpdateParamStructInfo
    UpdateVDevice VMBuiltinLower VMShapeLower dataflowblock_pass function_pass
""".split()
"""The passes of the reference document of ``relax.transform``, and what it makes passes of."""


def _is_pass(item: Any) -> bool:
    return isinstance(item, type) and issubclass(item, Pass) and item is not Pass


def _passes(package: ModuleType) -> dict[str, type[Pass]]:
    """All passes that a package has: those that its door lists, and those that its files define."""
    modules = [
        package,
        *(import_module(f"{package.__name__}.{name}") for name in modules_of(package.__name__)),
    ]
    listed = {name: item for name, item in vars(package).items() if _is_pass(item)}
    return listed | {
        name: item
        for module in modules
        for name, item in vars(module).items()
        if _is_pass(item) and item.__module__ == module.__name__
    }


EXPORTED = [
    pytest.param(item, id=f"{package.__name__}.{name}")
    for package in (relax_transform, tir_transform)
    for name, item in _passes(package).items()
]


def _is_file_of(name: str, module: str) -> bool:
    return is_file_of(name, module.rsplit(".", 1)[-1])


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_passes(name: str) -> None:
    item = getattr(relax_transform, name)
    assert _is_file_of(name.replace("dataflowblock", "dataflow_block"), item.__module__), item.__module__
    if name in EXTERNAL:
        assert EXTERNAL[name] == item.__module__


@pytest.mark.parametrize("item", EXPORTED)
def test_exported_passes(item: type[Pass]) -> None:
    assert _is_file_of(item.__name__, item.__module__), f"{item.__name__} is defined in {item.__module__}"


TESTED_ELSEWHERE = {
    "prim_func_pass": "tests/ir/test_transform.py",
    "vm_builtin_lower": "tests/ir/relax/transform/test_lower_runtime_builtin.py",
}
"""The base class of passes, and another name of a pass."""


@pytest.mark.parametrize("item", EXPORTED)
def test_each_pass_has_a_test_file_of_its_name(item: type[Pass]) -> None:
    """What a pass makes, what it refuses or leaves alone: in the file where one looks for it."""
    *package, stem = item.__module__.split(".")
    if package[-1] != "transform" or package[0] != "ir":
        pytest.skip("defined in another package, beside what it needs")
    path = ROOT / TESTED_ELSEWHERE.get(stem, "/".join(["tests", *package, f"test_{stem}.py"]))
    assert path.exists() and item.__name__ in path.read_text(), f"{path} does not test {item.__name__}"


def test_every_pass_is_found_in_its_package_under_its_name() -> None:
    assert len(EXPORTED) > 80
    for package in (relax_transform, tir_transform):
        for name, item in _passes(package).items():
            assert item.__name__ == name and getattr(package, name) is item
