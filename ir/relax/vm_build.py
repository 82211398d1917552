"""``build``: from a Relax module to an executable, and the pipelines of passes on the way.

    executable = relax.build(mod, "llvm", params={"w": array})
    vm = runners.VirtualMachine(executable, runners.cpu())
    y = vm["main"](x)

Kernels without a schedule get one without tuning (or that of the enclosing ``with database:``), see ``tir_pipeline``. A function
with static shapes becomes one native function that calls all its kernels with addresses fixed at build time; the others
become instructions for the virtual machine.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

from ..codegen.llvm.compile import LoadedObject, emit_object, optimize, options_of, require_processor
from ..codegen.llvm.runtime import runtime
from ..codegen.model_driver import model_text
from ..error import IRError, IRValueError
from ..expr import GlobalVar
from ..external import external
from ..module import IRModule
from ..node import post_order_visit
from ..target.host import host_info
from ..target.target import Target
from ..tir.function import PrimFunc
from ..transform import Pass, PassContext, Sequential
from . import transform
from .function import Function
from .vm.bytecode import compile_bytecode
from .vm.kernels import CompiledKernels, compile_kernels
from .vm.native import ConstantTable, NativePlan, NotNative, plan_native


class BuildError(IRError):
    """A module cannot be built."""


def optimize_passes() -> list[Pass]:
    """Graph passes from an imported model to fused kernels; tuning and building share them, so that kernels are the same."""
    return [
        transform.CanonicalizeBindings(),
        transform.DecomposeTrainingBatchNorm(),
        transform.FoldBatchnormToConv2D(),
        transform.DecomposeOpsForInference(),
        transform.CanonicalizeBindings(),
        transform.FoldConstant(),
        transform.ChooseLayout(),
        transform.FoldConstant(),
        transform.EliminateCommonSubexpr(),
        transform.CanonicalizeBindings(),
        transform.DeadCodeElimination(),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FoldConstant(),
        transform.DeadCodeElimination(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ]


def zero_pipeline(*, enable_warning: bool = False) -> Sequential:
    """The graph optimizations: everything up to fused kernels, without tuning them."""
    passes = optimize_passes()
    return Sequential(
        [
            transform.LegalizeOps(enable_warning=enable_warning)
            if isinstance(p, transform.LegalizeOps)
            else p
            for p in passes
        ],
        name="zero",
    )


def default_build_pipeline() -> Sequential:
    """The lowering that the virtual machine's instructions can be generated from, with explicit, planned memory."""
    return Sequential(
        [
            transform.RewriteDataflowReshape(),
            transform.ToNonDataflow(),
            transform.RemovePurityChecking(),
            transform.CallTIRRewrite(),
            transform.StaticPlanBlockMemory(),
            transform.LowerAllocTensor(),
            transform.KillAfterLastUse(),
            transform.LowerRuntimeBuiltin(),
            transform.ComputePrimValue(),
            transform.AttachGlobalSymbol(),
        ],
        name="default_build",
    )


def default_pipeline() -> Sequential:
    """``zero``, then ``default_build``."""
    return Sequential([zero_pipeline(), default_build_pipeline()], name="default")


PIPELINES: dict[str, Callable[..., Pass]] = {
    "zero": zero_pipeline,
    "default_build": default_build_pipeline,
    "default": default_pipeline,
}
"""Pipelines by name; :func:`register_pipeline` adds to them."""


def get_pipeline(name: str = "zero", **kwargs: Any) -> Pass:
    """The pipeline of that name; keyword arguments are its options.

    Raises:
        IRValueError: the name is unknown.
    """
    if name not in PIPELINES:
        raise IRValueError(f"unknown pipeline {name!r}; expected one of {', '.join(sorted(PIPELINES))}")
    return PIPELINES[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Decorator that makes a function returning a pass known to :func:`get_pipeline` under ``name``."""
    if name in PIPELINES:
        raise IRValueError(f"pipeline {name!r} is registered already")

    def register(factory: Callable[..., Pass]) -> Callable[..., Pass]:
        PIPELINES[name] = factory
        return factory

    return register


def get_default_pipeline(target: Any = None) -> Pass:
    """What :func:`build` applies when it is given no pipeline."""
    return zero_pipeline()


def _final_passes() -> list[Pass]:
    """What every module passes through before code is generated, tuned or not."""
    return [
        transform.SplitLayoutRewritePreproc(),
        transform.FoldConstant(),
        transform.RewriteDataflowReshape(),
        transform.DeadCodeElimination(),
    ]


def _kernels_of(func: Any) -> list[str]:
    found: dict[str, None] = {}
    post_order_visit(
        func.body, lambda node: found.setdefault(node.name_hint) if isinstance(node, GlobalVar) else None
    )
    return list(found)


_X86_FEATURES = {
    256: ("avx", "avx2", "fma"),
    512: ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What code for vectors of at least so many bits uses."""


def _target_facts(target: Target) -> dict[str, Any]:
    """What a machine must have to run the code, as plain data."""
    options = options_of(target)
    native = not options.triple and options.cpu in ("", host_info().cpu)
    if native:
        flags = [item[1:] for item in host_info().flags.split(",") if item.startswith("+")]
    else:
        # LLVM does not tell what a processor's name implies; the width of its vectors does, for what matters most.
        flags = [
            item.lstrip("+") for item in options.features.split(",") if item and not item.startswith("-")
        ]
        if not options.triple or options.triple.startswith("x86_64"):
            flags += [
                name for bits, names in _X86_FEATURES.items() if target.vector_bits >= bits for name in names
            ]
    return {
        "text": str(target),
        "machine": options.triple.split("-")[0] or platform.machine().lower(),
        "cpu": options.cpu or host_info().cpu,
        "features": sorted(set(flags)),
    }


def build(
    mod: IRModule,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    pipeline: str | Pass | None = "default",
    exec_mode: str = "bytecode",
    *,
    system_lib: bool | None = None,
    relax_pipeline: str | Pass | None = None,
    tir_pipeline: str | Pass | None = "default",
) -> Any:
    """Compile a Relax module for a processor.

    Args:
        mod: the module; functions with a ``global_symbol`` (or called ``main``) can be called in the result.
        target: a target or its text; the host's processor when None.
        params: arrays for parameters of ``main``, by name; they become part of the executable.
        pipeline: a pass (or the name of a pipeline) that brings operators down to kernels; ``"default"`` optimizes and
            fuses; None says that the module consists of kernels already.
        exec_mode: ``"bytecode"`` or ``"compiled"``; functions with static shapes are native in both.
        relax_pipeline: the newer name of ``pipeline``.
        tir_pipeline: a pass over the PrimFuncs. ``"default"`` applies the records of the enclosing ``with database:`` and
            schedules the other kernels without tuning (not where ``pipeline`` is None); None leaves all as they are.
        system_lib: must not be True: there is no system library.

    Returns:
        A :class:`runners.executable.Executable`.

    Raises:
        BuildError: a function cannot be compiled; the message names the construct.
        CodegenError: no code is generated for the target, or a kernel has no native form.
    """
    if system_lib:
        raise IRValueError("build: there is no system library; export_library writes a shared one")
    if exec_mode not in ("bytecode", "compiled"):
        raise IRValueError(f"exec_mode must be 'bytecode' or 'compiled', got {exec_mode!r}")
    if target is None:
        target = Target.current(allow_none=True) or Target("llvm")
    target = target if isinstance(target, Target) else Target(target)
    require_processor(target)
    if params:
        mod = transform.BindParams("main", params)(mod)
    chosen = pipeline if relax_pipeline is None else relax_pipeline
    with target:
        if isinstance(chosen, str):
            chosen = get_default_pipeline(target) if chosen == "default" else get_pipeline(chosen)
        if chosen is not None:
            mod = chosen(mod)
        if tir_pipeline == "default":
            if chosen is not None:
                mod = external("MetaScheduleApplyDatabase")()(transform.AttachAttrLayoutFreeBuffers()(mod))
        elif tir_pipeline is not None:
            mod = (get_pipeline(tir_pipeline) if isinstance(tir_pipeline, str) else tir_pipeline)(mod)
        mod = Sequential(_final_passes(), name="finish")(mod, PassContext.current())
    constants = ConstantTable()
    plans, others, used = _plan_functions(mod, constants)
    kernels = compile_kernels(mod, used, target)
    functions: dict[str, Any] = {}
    drivers: dict[str, Any] = {}
    for plan in plans:
        functions[plan.name], calls = _native_entry(plan, kernels)
        drivers[functions[plan.name]["symbol"]] = calls
    exported: dict[str, None] = {}
    for name, func in others.items():
        functions[name] = compile_bytecode(mod, name, func, constants, kernels.symbol_of)
        exported.update(dict.fromkeys(functions[name].pop("kernels")))
        functions[name]["public"] = _is_public(name, func)
    metadata = {
        "target": _target_facts(target),
        "functions": functions,
        "kernels": list(exported),
    }
    objects = kernels.objects
    if drivers:
        options = options_of(target)
        objects = [*objects, emit_object(optimize(model_text(drivers), options), options)]
    return external("Executable")(metadata, _library(kernels, objects), constants.arrays, objects)


def _is_public(name: str, func: Any) -> bool:
    return name == "main" or "global_symbol" in func.attrs


def _plan_functions(
    mod: IRModule, constants: ConstantTable
) -> tuple[list[NativePlan], dict[str, Function], list[GlobalVar]]:
    """Native plans where they are possible, the other functions, and the kernels that either use."""
    plans: list[NativePlan] = []
    others: dict[str, Function] = {}
    used: dict[str, None] = {}
    for var, func in mod.functions.items():
        if not isinstance(func, Function):
            continue
        if "Codegen" in func.attrs:
            raise BuildError(
                f"function {var.name_hint} is marked for the external code generator {func.attrs['Codegen']!r}; run RunCodegen"
            )
        try:
            plans.append(plan_native(mod, var.name_hint, func, constants))
        except NotNative:
            others[var.name_hint] = func
        for name in _kernels_of(func):
            if mod.contains(name) and isinstance(mod[name], PrimFunc):
                used.setdefault(name)
    return plans, others, [mod.get_global_var(name) for name in used]


def _native_entry(plan: NativePlan, kernels: CompiledKernels) -> tuple[dict[str, Any], Any]:
    symbol = f"loopsmith_native_{''.join(c if c.isalnum() else '_' for c in plan.name)}"
    calls = [
        (kernels.symbol_of(call.kernel), [(slot.kind, slot.index) for slot in call.buffers], call.scalars)
        for call in plan.calls
    ]
    entry = {
        "kind": "native",
        "symbol": symbol,
        "params": plan.params,
        "inputs": plan.inputs,
        "outputs": plan.outputs,
        "result": plan.result,
        "workspace_bytes": plan.memory.arena_bytes,
        "memory": plan.memory.report(),
        "n_calls": len(plan.calls),
    }
    return entry, calls


def _library(kernels: CompiledKernels, objects: list[bytes]) -> Any:
    """The code loaded into this process when it is first called."""
    loaded: list[LoadedObject] = []
    with_python = [module for module in kernels.modules.values() if module.packed_sites]

    def address_of(symbol: str) -> int:
        for module in with_python:
            if symbol in module.signatures:
                return module.entry_pointer(symbol)
        if not loaded:
            runtime()  # before the objects, which link against it
            loaded.append(LoadedObject(*objects))
        return loaded[0].address(symbol)

    return external("Library")(address_of, lambda: runtime().last_error(), (loaded, with_python))
