"""Every need that a lower module of ``ir`` has of an upper one, or of a package above ``ir``, on one page.

Layers import downwards only. What a lower one asks of an upper one (a node prints itself, a documented name stands for a
class of the tuner's) is found through these tables by name, when it is first used; nothing else reaches upwards.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .error import IRError

EXTERNAL = {
    "Executable": "runners.executable",
    "Library": "runners.executable",
    "DeviceCode": "runners.device_code",
    "device": "runners.device",
    "VirtualMachine": "runners.virtual_machine",
    "DefaultGPUSchedule": "schedules.dlight.default_gpu_schedule",
    "MetaScheduleApplyDatabase": "database.meta_schedule_apply_database",
    "MetaScheduleTuneIRMod": "tuner.passes.meta_schedule_tune_ir_mod",
    "MetaScheduleTuneTIR": "tuner.passes.meta_schedule_tune_tir",
    "FewShotTuning": "tuner.passes.few_shot_tuning",
}
"""Documented names of ``ir`` that a package above it defines, with the defining module."""

UPWARD = {
    # every node: text and JSON
    "repr_node": "ir.script.printer.entry",
    "script": "ir.script.printer.entry",
    "save_json": "ir.json_format",
    "load_json": "ir.json_format",
    # functions and modules: what they are as expressions, and whether they are well-formed
    "call_global_var": "ir.relax.function",
    "function_of": "ir.relax.analysis.binding",
    "kernel_struct_info": "ir.relax.struct_info",
    "PrimFunc": "ir.tir.function",
    "assert_well_formed": "ir.tir.analysis.verify_well_formed",
    "check_well_formed": "ir.relax.analysis.well_formed",
    # patterns: the context that they are written in, and matching
    "PatternContext": "ir.relax.dpl.context",
    "extract_matched_expr": "ir.relax.dpl.matcher",
    # struct infos: shapes are expressions; calls of Relax functions
    "ShapeExpr": "ir.relax.expr",
    "is_base_of": "ir.relax.struct_info_lattice",
    "bind_params": "ir.relax.bind",
    "bind_symbolic_vars": "ir.relax.bind",
    "inline_functions": "ir.relax.bind",
    # buffers and index maps: statements, and what arithmetic knows of indices
    "BufferRegion": "ir.tir.stmt",
    "BufferStore": "ir.tir.stmt",
    "Analyzer": "ir.arith.analyzer",
    "eval_set": "ir.arith.int_set.evaluation",
    "interval": "ir.arith.int_set.interval_set",
    "invert_index_map": "ir.arith.iter_map_inverse",
    # tensors of tensor expressions: Python's operators on them
    "broadcast_binary": "ir.topi.broadcast",
}
"""What a lower module of ``ir`` asks of an upper one, with the defining module."""

_DECLARED_BY = {"relax": "ir.relax", "tir": "ir.tir"}
"""The package that declares the nodes and operators whose names begin so (``relax.matmul``, ``tir.exp``)."""

_PASSES_OF = {"relax": "ir.relax.transform", "tir": "ir.tir.transform"}
"""The package with the passes whose options begin so (``tir.UnrollLoop``, ``relax.FuseOps.max_depth``)."""


@cache
def external(name: str) -> Any:
    """What ``name`` stands for in one of the tables above.

    Raises:
        IRError: the package that defines it is not installed.
    """
    module = EXTERNAL.get(name) or UPWARD[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise  # the package is there; what it needs is missing, and the error says what
        raise IRError(f"{name} needs the package {module.split('.')[0]!r}, which is not installed") from error


def declare(name: str) -> None:
    """Imports the package that declares the node or operator called ``name``, if one is known to."""
    package = _DECLARED_BY.get(name.split(".")[0])
    if package is not None:
        import_module(package)


def declare_option(name: str) -> None:
    """Imports the file of the pass that an option is named after, if there is one: options are registered where they are read."""
    prefix, _, rest = name.partition(".")
    package = _PASSES_OF.get(prefix)
    if package is not None and rest:
        getattr(import_module(package), rest.partition(".")[0], None)
