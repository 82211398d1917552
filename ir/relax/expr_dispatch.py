"""ExprFunctor: one method per kind of Relax expression, binding and block, found by the node's class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..error import IRTypeError
from ..expr import GlobalVar
from ..op import Op
from ..tir.function import PrimFunc
from .expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
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
)
from .function import ExternFunc, Function

_EXPR_METHODS: dict[type, str] = {
    Constant: "visit_constant_",
    Tuple: "visit_tuple_",
    DataflowVar: "visit_dataflow_var_",
    Var: "visit_var_",
    ShapeExpr: "visit_shape_expr_",
    ExternFunc: "visit_extern_func_",
    GlobalVar: "visit_global_var_",
    Function: "visit_function_",
    PrimFunc: "visit_prim_func_",
    Call: "visit_call_",
    SeqExpr: "visit_seq_expr_",
    If: "visit_if_",
    Op: "visit_op_",
    TupleGetItem: "visit_tuple_getitem_",
    PrimValue: "visit_prim_value_",
    StringImm: "visit_string_imm_",
    DataTypeImm: "visit_data_type_imm_",
}
_OTHER_METHODS: dict[type, str] = {
    VarBinding: "visit_var_binding_",
    MatchCast: "visit_match_cast_",
    DataflowBlock: "visit_dataflow_block_",
    BindingBlock: "visit_binding_block_",
}


class ExprFunctor:
    """Dispatches expressions, bindings and blocks to one method per kind."""

    _methods: ClassVar[dict[type, str]] = {**_EXPR_METHODS, **_OTHER_METHODS}
    _table: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {}
    """The method for each class of nodes, filled in as they are met; every functor class has its own."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._table = {}

    def _dispatch(self, node: Any) -> Any:
        method = self._table.get(node.__class__)
        if method is None:
            method = self._table[node.__class__] = self._method_for(node.__class__)
        return method(self, node)

    @classmethod
    def _method_for(cls, kind: type) -> Callable[[Any, Any], Any]:
        for base in kind.__mro__:
            if base in cls._methods:
                method: Callable[[Any, Any], Any] = getattr(cls, cls._methods[base])
                return method
        raise IRTypeError(f"{cls.__name__} cannot visit a {kind.__name__}; expected a Relax expression")

    def visit_expr(self, expr: Any) -> Any:
        """Dispatch on the kind of the expression."""
        return self._dispatch(expr)

    def visit_binding(self, binding: Binding) -> Any:
        """Dispatch on the kind of the binding."""
        method = self._table.get(binding.__class__)
        return self._dispatch(binding) if method is None else method(self, binding)

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Dispatch on the kind of the block."""
        return self._dispatch(block)

    def visit_var_def(self, var: Var) -> Any:
        """A variable where it is bound."""
        return self.visit_dataflow_var_def_(var) if isinstance(var, DataflowVar) else self.visit_var_def_(var)

    def visit_var_def_(self, var: Var) -> Any:
        """A binding occurrence of a variable."""

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Any:
        """A binding occurrence of a dataflow variable."""
