"""The IRs of loopsmith and everything that turns one program into another: TIR loops, Relax graphs, passes, code generation."""

import sys

from .attrs import Attrs, DictAttrs
from .error import DiagnosticError, IRError, IRTypeError, IRValueError
from .expr import BaseExpr, GlobalVar, RelaxExpr
from .function import BaseFunc, CallingConv
from .global_info import DummyGlobalInfo, GlobalInfo, VDevice
from .json_format import load_json, save_json
from .module import IRModule
from .node import Mutator, Node, Visitor, children, map_children, post_order_visit, visit_children
from .op import Op, register_op, register_op_attr
from .registry import get_global_func, list_global_func_names, register_func, remove_global_func
from .span import SourceName, Span
from .structural import (
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from .tir.expr import PrimExpr, Range
from .type import FuncType, PointerType, PrimType, TupleType, Type
from . import instrument, target, transform  # isort: skip  they use the names above

# Walks recurse once per level of nesting, and sums of a thousand terms nest a thousand levels deep.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 50_000))

_LAZY_PACKAGES = ("arith", "relax", "script", "te", "topi")


def __getattr__(name: str) -> object:
    """``build`` and ``compile`` load code generation (and with it LLVM) only when somebody compiles; so do packages."""
    if name in ("build", "compile"):
        from .compile_module import compile_module

        return compile_module
    if name in _LAZY_PACKAGES:
        import importlib

        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
