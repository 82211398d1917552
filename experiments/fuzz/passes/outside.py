"""Passes that need something from outside of the module: a backend that compiles functions, other kernels, devices, CUDA graphs.

Each is made a pass that leaves a program of the same meaning: the backend evaluates its functions, the other kernels are the module's own
with their axes reversed, the devices are all the processor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ir.global_info import VDevice
from ir.module import IRModule
from ir.registry import register_func
from ir.relax import transform as T
from ir.relax.dpl import is_op, wildcard
from ir.relax.function import Function
from ir.relax.struct_info import TensorStructInfo
from ir.relax.testing import evaluate
from ir.tir import IndexMap
from ir.tir.expr import IntImm
from ir.tir.function import PrimFunc
from ir.transform import Pass, PassContext, Sequential, module_pass
from schedules import Schedule, ScheduleError

_BACKEND = "fuzz"


# -- RunCodegen -------------------------------------------------------------------------------------
def _compiled(functions: Sequence[Function], options: Any, constants: Any) -> list[Any]:
    """A backend: functions of the runtime that evaluate what they are made of."""
    for func in functions:
        register_func(str(func.attrs["global_symbol"]), _evaluating(func), override=True)
    return []


def _evaluating(func: Function) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        count = len(func.params)
        result = evaluate(func, *[np.array(arg) for arg in args[:count]])
        if len(args) == count:
            return result
        for place, value in zip(
            args[count:], result if isinstance(result, tuple) else (result,), strict=True
        ):
            place[...] = value
        return None

    return run


register_func(f"relax.ext.{_BACKEND}", _compiled, override=True)


def run_codegen(generator: random.Random) -> Pass:
    """Pairs of operators are computed by another backend."""
    first = is_op(generator.choice(["relax.matmul", "relax.add", "relax.multiply"]))(wildcard(), wildcard())
    pattern = is_op(generator.choice(["relax.add", "relax.maximum"]))(first, wildcard())
    marked = T.FuseOpsByPattern([(f"{_BACKEND}.pair", pattern)], bind_constants=False, annotate_codegen=True)
    return Sequential([marked, T.RunCodegen()], name="RunCodegen")


# -- AlterOpImpl --------------------------------------------------------------------------------------
def alter_kernels() -> Pass:
    """Kernels of static shape are replaced by ones whose buffers have their axes reversed."""

    def alter(mod: IRModule, context: PassContext) -> IRModule:
        implementations: dict[str, PrimFunc] = {}
        functions = dict(mod.functions)
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc) and (other := _reversed(func)) is not None:
                kind = f"fuzz.{var.name_hint}"
                implementations[kind] = other
                functions[var] = func.with_attr("operator_name", kind)
        reverse = {
            kind: [_reverse(len(func.buffer_map[param].shape)) for param in func.params]
            for kind, func in implementations.items()
        }
        return T.AlterOpImpl(implementations, reverse, {}, {})(mod.replace(functions=functions), context)

    return module_pass(alter, opt_level=0, name="AlterOpImpl")


def _reverse(ndim: int) -> Any:
    return IndexMap.from_func(lambda *indices: tuple(reversed(indices)), ndim)


def _reversed(func: PrimFunc) -> PrimFunc | None:
    """A kernel of one block that reads and writes buffers of static shape, all of them with reversed axes; None for any other."""
    buffers = [func.buffer_map.get(param) for param in func.params]
    if any(item is None or not all(isinstance(dim, IntImm) for dim in item.shape) for item in buffers):
        return None
    if any(item is None or len(item.shape) < 2 for item in buffers):
        return None
    schedule = Schedule(
        IRModule({"main": func.with_attr("global_symbol", "main")}), error_render_level="none"
    )
    try:
        (block,) = schedule.get_child_blocks(schedule.get_block("root"))
        made = schedule.get(block)
        if len({region.buffer for region in (*made.reads, *made.writes)}) != len(buffers):
            return None  # of nothing a block reads nothing: a buffer that it does not name keeps its axes
        turned = set()  # a buffer that a block reads and writes is turned once
        for kind, regions in (("read", made.reads), ("write", made.writes)):
            for number, region in enumerate(regions):
                if region.buffer not in turned:
                    turned.add(region.buffer)
                    schedule.transform_layout(block, (kind, number), _reverse(len(region.buffer.shape)))
    except (ScheduleError, ValueError, AttributeError):
        return None
    found = schedule.mod["main"]
    assert isinstance(found, PrimFunc)
    return found.without_attr("global_symbol")


# -- devices ---------------------------------------------------------------------------------------------
def update_vdevice() -> Pass:
    """All parameters are on one device, which becomes another one."""
    old, new = VDevice("llvm", 0, "global"), VDevice("llvm", 1, "global")

    def placed(mod: IRModule, context: PassContext) -> IRModule:
        def on_device(param: Any) -> Any:
            info = param.struct_info
            if not isinstance(info, TensorStructInfo):
                return None
            return TensorStructInfo(info.shape, info.dtype, old, info.ndim)

        mod = mod.clone()
        mod.update_global_info("vdevice", [old])
        return T.UpdateVDevice(new, 0)(T.UpdateParamStructInfo(on_device)(mod, context), context)

    return module_pass(placed, opt_level=0, name="UpdateVDevice")


# -- CUDA graphs and training --------------------------------------------------------------------------------
def rewrite_cuda_graph() -> Pass:
    """RewriteCUDAGraph where the context asks for it."""

    def rewrite(mod: IRModule, context: PassContext) -> IRModule:
        with PassContext(config={"relax.backend.use_cuda_graph": True}) as asking:
            return T.RewriteCUDAGraph()(mod, asking)

    return module_pass(rewrite, opt_level=0, name="RewriteCUDAGraph")


def decompose_for_training() -> Pass:
    """DecomposeOpsForTraining where no batch normalization says that it is not trained."""

    def decompose(mod: IRModule, context: PassContext) -> IRModule:
        inference = "training=False" in mod.script()
        return mod if inference else T.DecomposeOpsForTraining()(mod, context)

    return module_pass(decompose, opt_level=0, name="DecomposeOpsForTraining")
