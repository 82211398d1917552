"""Passes over Relax modules: one pass a file, named after it; each docstring shows a program before and after.

The few passes that the documents place here but that need the tuner or the database are found through
:data:`EXTERNAL_PASSES` when they are first asked for, so that this package imports nothing above it.
"""

from importlib import import_module
from typing import Any

from .annotate_tir_op_pattern import AnnotateTIROpPattern, op_pattern_kind
from .attach_global_symbol import AttachGlobalSymbol
from .bind_params import BindParams
from .bind_symbolic_vars import BindSymbolicVars
from .canonicalize_bindings import CanonicalizeBindings
from .convert_to_dataflow import ConvertToDataflow
from .dead_code_elimination import DeadCodeElimination
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .function_pass import DataflowBlockPass, FunctionPass, dataflowblock_pass, function_pass
from .fuse_ops import FuseOps
from .fuse_tir import FuseTIR
from .inline_private_functions import InlinePrivateFunctions
from .legalize_ops import LegalizeOps
from .normalize import Normalize
from .normalize_global_var import NormalizeGlobalVar
from .remove_purity_checking import RemovePurityChecking
from .to_non_dataflow import ToNonDataflow

EXTERNAL_PASSES = {
    "MetaScheduleApplyDatabase": "database.apply",
    "MetaScheduleTuneIRMod": "tuner.passes",
    "MetaScheduleTuneTIR": "tuner.passes",
    "FewShotTuning": "tuner.passes",
}
"""Passes that live above this package, and the modules that define them."""


def __getattr__(name: str) -> Any:
    """Find a pass of :data:`EXTERNAL_PASSES` in its module."""
    if name in EXTERNAL_PASSES:
        return getattr(import_module(EXTERNAL_PASSES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
