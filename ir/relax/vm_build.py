"""``build``: from a Relax module to an executable.

    executable = relax.build(mod, "llvm", params={"w": array})
    vm = runners.VirtualMachine(executable, runners.cpu())
    y = vm["main"](x)

The passes of :mod:`ir.relax.pipeline` bring the module down to kernels, explicit memory and calls of the runtime. What comes out
of a function with static shapes is one native function that calls all its kernels with addresses fixed at build time; the
others become instructions for the virtual machine.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from typing import Any

from ..codegen.build import LOADING
from ..codegen.c_words import c_words
from ..codegen.llvm.compile import (
    MachineOptions,
    emit_object,
    optimize,
    options_of,
    require_processor,
    required_features,
)
from ..codegen.llvm.loaded_object import LoadedObject
from ..codegen.llvm.runtime import runtime
from ..codegen.model_driver import QUEUE, model_text
from ..error import IRError, IRTypeError, IRValueError
from ..expr import GlobalVar
from ..external import external
from ..module import IRModule
from ..target.host import host_info
from ..target.target import Target
from ..tir.function import PrimFunc
from ..transform import Pass, PassContext, Sequential
from .analysis.binding import all_global_vars
from .function import Function
from .function_names import is_entry
from .pipeline import get_pipeline, graph_passes, lowering_passes, scheduling_passes, weight_passes
from .transform.bind_params import BindParams
from .vm.bytecode import compile_bytecode
from .vm.device_kernels import DeviceKernels, compile_device_kernels
from .vm.kernels import CompiledKernels, compile_kernels
from .vm.native import ConstantTable, NativePlan, NotNative, plan_native


class BuildError(IRError):
    """A module cannot be built."""


def _target_facts(target: Target, host: Target, features: Collection[str]) -> dict[str, Any]:
    """What a machine must have to run the code, as plain data; ``host`` is what the processor's code is for."""
    options = options_of(host)
    native = not options.triple and options.cpu in ("", host_info().cpu)
    if native and host_info().flags:
        flags = [item[1:] for item in host_info().flags.split(",") if item.startswith("+")]
    else:
        flags = [*required_features(options, host.vector_bits), *features]
    return {
        "text": str(target),
        "machine": options.triple.split("-")[0] or platform.machine().lower(),
        "cpu": options.cpu or host_info().cpu,
        "features": sorted(set(flags)),
    }


def build(
    mod: IRModule | Function,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    pipeline: str | Pass | None = "default",
    exec_mode: str = "bytecode",
    *,
    system_lib: bool | None = None,
    relax_pipeline: str | Pass | None = None,
    tir_pipeline: str | Pass | None = "default",
) -> Any:
    """Compile a Relax module for a processor or a CUDA device.

    Args:
        mod: the module; functions with a ``global_symbol`` (or called ``main``) can be called in the result. A function
            alone is a module of that function, by its ``global_symbol`` or as ``main``.
        target: a target or its text; the host's processor when None. For one of kind ``cuda`` kernels are compiled for its architecture
            (no device is needed for that), and everything else for its host.
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
        IRTypeError: ``mod`` is neither a module nor a Relax function.
        BuildError: a function cannot be compiled; the message names the construct.
        CodegenError: no code is generated for the target, or a kernel has no form there.
        CudaToolkitError: the target is of kind ``cuda``, and there is no NVRTC.
    """
    if system_lib:
        raise IRValueError("build: there is no system library; export_library writes a shared one")
    if exec_mode not in ("bytecode", "compiled"):
        raise IRValueError(f"exec_mode must be 'bytecode' or 'compiled', got {exec_mode!r}")
    mod = _as_module(mod)
    if target is None:
        target = Target.current(allow_none=True) or Target("llvm")
    target = target if isinstance(target, Target) else Target(target)
    require_buildable(target)
    host = _host_of(target)
    if params:
        mod = BindParams("main", params)(mod)
    chosen = pipeline if relax_pipeline is None else relax_pipeline
    above = [*_graph_passes(chosen), *_kernel_passes(tir_pipeline, chosen is not None), *weight_passes()]
    with target:
        mod = Sequential(above, name="kernels")(mod, PassContext.current())
        public = {var.name_hint for var, func in mod.functions.items() if is_entry(var, func)}
        mod = Sequential(lowering_passes(target), name="lower")(mod, PassContext.current())
    constants = ConstantTable()
    with target:
        plans, others, used = _plan_functions(mod, constants)
    kernels: CompiledKernels | DeviceKernels
    kernels = (
        compile_device_kernels(mod, used, target) if target.is_gpu else compile_kernels(mod, used, target)
    )
    functions: dict[str, Any] = {}
    drivers: dict[str, Any] = {}
    words = c_words([plan.name for plan in plans])
    for plan in plans:
        symbol = f"loopsmith.native.{words[plan.name]}"  # no word of C: what C calls has other names
        functions[plan.name], calls = _native_entry(plan, symbol, kernels)
        drivers[functions[plan.name]["symbol"]] = calls
    exported: dict[str, None] = {}
    for name, func in others.items():
        with target:
            functions[name] = compile_bytecode(mod, name, func, constants, kernels)
        exported.update(dict.fromkeys(functions[name].pop("kernels")))
        functions[name]["public"] = name in public
    metadata = {
        "target": _target_facts(target, host, kernels.features),
        "functions": functions,
        "kernels": list(exported),
    }
    if kernels.python_functions:
        metadata["python_functions"] = kernels.python_functions
    objects = kernels.objects
    options = options_of(host)
    device = None
    if target.is_gpu:
        metadata["device"] = "cuda"
        device = kernels.device if isinstance(kernels, DeviceKernels) else None
    if drivers:
        objects = [*objects, emit_object(optimize(model_text(drivers), options), options)]
    return external("Executable")(
        metadata,
        _library(kernels, objects, options),
        constants.arrays,
        objects,
        device_code=None if device is None else external("DeviceCode")(**device),
    )


def require_buildable(target: Target) -> None:
    """Refuse targets that no model is built for.

    Raises:
        CodegenError: the target is neither a processor nor a CUDA device, or its host is none that code is generated for.
    """
    if target.kind_name != "cuda":
        require_processor(target)
    elif target.host is not None:
        require_processor(target.host)


def _host_of(target: Target) -> Target:
    """The processor that a model's own code is for."""
    if not target.is_gpu:
        return target
    return target.host if target.host is not None else Target("llvm")


def _as_module(mod: Any) -> IRModule:
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, Function):
        return IRModule.from_expr(mod)
    fix = "; ir.codegen.build builds a PrimFunc" if isinstance(mod, PrimFunc) else ""
    raise IRTypeError(f"relax.build takes an IRModule or a Relax function, got {type(mod).__name__}{fix}")


def _graph_passes(chosen: str | Pass | None) -> list[Pass]:
    if chosen is None:
        return []
    if isinstance(chosen, str):
        return graph_passes() if chosen == "default" else [get_pipeline(chosen)]
    return [chosen]


def _kernel_passes(chosen: str | Pass | None, has_graph_passes: bool) -> list[Pass]:
    if chosen == "default":
        return scheduling_passes() if has_graph_passes else []
    if chosen is None:
        return []
    return [get_pipeline(chosen) if isinstance(chosen, str) else chosen]


def _plan_functions(
    mod: IRModule, constants: ConstantTable
) -> tuple[list[NativePlan], dict[str, Function], list[GlobalVar]]:
    """Native plans where they are possible, the other functions, and the kernels that either use."""
    plans: list[NativePlan] = []
    others: dict[str, Function] = {}
    used: dict[GlobalVar, None] = {}
    kernels = {var.name_hint: var for var, func in mod.functions.items() if isinstance(func, PrimFunc)}
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
        for kernel in all_global_vars(func.body):
            if kernel.name_hint in kernels:
                used.setdefault(kernels[kernel.name_hint])
    return plans, others, list(used)


def _native_entry(plan: NativePlan, symbol: str, kernels: CompiledKernels) -> tuple[dict[str, Any], Any]:
    calls = [
        (
            kernels.symbol_of(call.kernel),
            [*([QUEUE] if kernels.launches(call.kernel) else ()), *[tensor.place for tensor in call.buffers]],
            call.scalars,
        )
        for call in plan.calls
    ]
    entry = {
        "kind": "native",
        "symbol": symbol,
        "params": plan.params,
        "inputs": plan.inputs,
        "outputs": plan.outputs,
        "result": plan.result,
        "workspace_bytes": plan.workspace_bytes,
        "memory": plan.memory,
        "calls": [call.kernel.name_hint for call in plan.calls],
        **({"apart": plan.apart} if plan.apart else {}),
    }
    return entry, calls


def _library(kernels: CompiledKernels, objects: list[bytes], options: MachineOptions) -> Any:
    """The code loaded into this process when it is first called."""
    loaded: list[LoadedObject] = []
    with_python = kernels.with_python

    def address_of(symbol: str) -> int:
        for module in with_python:
            if symbol in module.signatures:
                return module.entry_pointer(symbol)
        with LOADING:
            if not loaded:
                runtime()  # before the objects, which link against it
                loaded.append(LoadedObject(*objects, options=options, features=kernels.features))
        return loaded[0].address(symbol)

    return external("Library")(address_of, lambda: runtime().last_error(), (loaded, with_python))
