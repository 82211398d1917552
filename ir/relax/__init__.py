"""Relax: the graph-level IR; functions over tensors with symbolic shapes, bindings in blocks, operators and external calls."""

from typing import TYPE_CHECKING

from ..expr import GlobalVar
from ..external import external as _external
from .expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExprWithOp,
    Id,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    convert_to_expr,
    get_shape_of,
    prim_value,
    update_struct_info,
)
from .te_conversion import te_tensor
from .function import ExternFunc, Function, extern
from .struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from . import analysis, expr_functor, op
from .analysis.binding import function_of
from .dataflow_block_rewrite import DataflowBlockRewrite
from .bind import bind_params, bind_symbolic_vars, copy_with_new_vars
from .block_builder import BlockBuilder
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor, PyExprMutator, PyExprVisitor
from .op.base import call_dps_packed, call_pure_packed, call_tir, call_tir_inplace, call_tir_with_grad
from .op.base import print as print_

if TYPE_CHECKING:
    from .pipeline import get_default_pipeline, get_pipeline, register_pipeline
    from .vm_build import build

_LAZY = {
    "build": ".vm_build",
    "get_pipeline": ".pipeline",
    "get_default_pipeline": ".pipeline",
    "register_pipeline": ".pipeline",
}
"""What needs code generation, loaded when it is first asked for."""


def __getattr__(name: str) -> object:
    """Load passes, building, and (from the packages above) executables on first use."""
    from importlib import import_module

    if name in ("transform", "dpl", "frontend", "testing", "vm"):
        return import_module(f".{name}", __name__)
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    if name in ("Executable", "VirtualMachine"):
        return _external(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
