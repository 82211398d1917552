"""Walking and rewriting Relax programs: a visitor, the mutator that passes derive from, and decorators for subclasses.

A subclass overrides ``visit_<kind>_`` methods and calls ``super().visit_<kind>_`` (or ``visit_expr`` on the parts) to go on.
A mutator rebuilds functions through a :class:`~ir.relax.block_builder.BlockBuilder`, so that an override may emit bindings
with ``self.builder_.emit`` and always gets normalized expressions with struct info.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, ClassVar

from ..error import IRTypeError
from ..expr import GlobalVar, RelaxExpr
from ..module import IRModule
from ..tir.expr import PrimExpr
from .block_builder import BlockBuilder
from .expr import (
    BindingBlock,
    Call,
    DataflowVar,
    Id,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    update_struct_info,
)
from .expr_dispatch import ExprFunctor
from .expr_substitution import ExprMutatorBase, inherits, mentions_relax_vars
from .function import Function
from .normalizer import LEAF_CLASSES, is_leaf, merged_blocks
from .struct_info import StructInfo


class ExprVisitor(ExprFunctor):
    """Visits every expression of a program; variables are visited where they are used and where they are bound.

    An expression that several others share (by identity) is visited for each of them.
    """

    def _visit_leaf(self, expr: Any) -> None:
        """Nothing below."""

    visit_constant_ = _visit_leaf
    visit_var_ = _visit_leaf
    visit_dataflow_var_: Callable[[Any, Any], None]
    visit_extern_func_ = _visit_leaf
    visit_global_var_ = _visit_leaf
    visit_prim_func_ = _visit_leaf
    visit_op_ = _visit_leaf
    visit_string_imm_ = _visit_leaf
    visit_data_type_imm_ = _visit_leaf

    def visit_dataflow_var_(self, var: Any) -> None:  # type: ignore[no-redef]
        """A use of a dataflow variable: as of a variable."""
        self.visit_var_(var)

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        """A TIR expression inside a shape or scalar value."""

    def visit_struct_info(self, info: StructInfo) -> None:
        """A struct info given as argument, as that of a bound variable, or of a parameter."""

    visit_expr_dep_struct_info_field = visit_struct_info

    def visit_span(self, span: Any) -> None:
        """A place in a source."""

    def visit_tuple_(self, expr: Any) -> None:
        """The fields."""
        for item in expr.fields:
            self.visit_expr(item)

    def visit_shape_expr_(self, expr: Any) -> None:
        """The extents."""
        for value in expr.values:
            self.visit_prim_expr(value)

    def visit_prim_value_(self, expr: Any) -> None:
        """The TIR expression."""
        self.visit_prim_expr(expr.value)

    def visit_call_(self, expr: Any) -> None:
        """The callee, the struct info arguments and the arguments."""
        self.visit_expr(expr.op)
        for info in expr.sinfo_args:
            self.visit_struct_info(info)
        for arg in expr.args:
            self.visit_expr(arg)

    def visit_tuple_getitem_(self, expr: Any) -> None:
        """The tuple."""
        self.visit_expr(expr.tuple_value)

    def visit_if_(self, expr: Any) -> None:
        """The condition and both branches."""
        self.visit_expr(expr.cond)
        self.visit_expr(expr.true_branch)
        self.visit_expr(expr.false_branch)

    def visit_seq_expr_(self, expr: Any) -> None:
        """The blocks, then the body."""
        for block in expr.blocks:
            self.visit_binding_block(block)
        self.visit_expr(expr.body)

    def visit_function_(self, expr: Any) -> None:
        """The parameters as definitions, then the body."""
        for param in expr.params:
            self.visit_var_def(param)
        self.visit_expr(expr.body)

    def visit_var_binding_(self, binding: Any) -> None:
        """The value, then the definition."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: Any) -> None:
        """The value, the struct info, then the definition."""
        self.visit_expr(binding.value)
        self.visit_struct_info(binding.struct_info)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: Any) -> None:
        """The bindings in order."""
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: Any) -> None:
        """As any block."""
        self.visit_binding_block_(block)

    def visit_var_def_(self, var: Any) -> None:
        """The struct info."""
        if var.struct_info_ is not None:
            self.visit_struct_info(var.struct_info_)

    def visit_dataflow_var_def_(self, var: Any) -> None:
        """As any variable."""
        self.visit_var_def_(var)


_VARIABLES = frozenset({Var, DataflowVar})

_OF_EVERY_BINDING = (
    "visit_expr",
    "visit_binding",
    "visit_var_binding_",
    "reemit_binding",
    "visit_tuple_",
    "visit_var_def",
)
"""Methods whose overrides are to see every binding, whatever it is of."""


class ExprMutator(ExprMutatorBase):
    """Rewrites programs through a block builder; the base of every pass over Relax.

    What an override returns is normalized: its parts are bound where they must be, and struct info is inferred. Overrides may
    emit bindings before the current one with ``self.builder_.emit``. What does not change stays the same object, up to the
    whole function; when a binding's value changes its struct info, the variable gets a successor of the same identity, and
    all later uses refer to it.

    An override looks at operands that are rewritten already when it begins with ``self.visit_expr_post_order(expr)``::

        class _Double(ExprMutator):
            def visit_call_(self, call):
                call = self.visit_expr_post_order(call)
                if is_call_to(call, "relax.exp"):
                    once = self.builder_.emit(call)
                    return op.add(once, once)
                return call

    ``visit_var_binding_`` sees the variable too (and emits by :meth:`reemit_binding`), :meth:`visit_bindings` all bindings of a
    block, :meth:`visit_result` what a function or branch returns. A pass that looks at the calls of a few operators only says so in
    :meth:`looks_at`; bindings of other calls are then passed over unless an operand changes.

    Args:
        mod: the module whose functions are rewritten; functions that overrides add are added to ``builder_``'s copy of it.
    """

    _keeps_blocks: ClassVar[bool] = True
    """Whether blocks come from the builder, normalized, and not from an override."""
    _keeps_definitions: ClassVar[bool] = True
    """Whether definitions only change with the variables in their struct info."""
    _kept_until_remap: ClassVar[frozenset[type]] = frozenset()
    """Kinds of leaves that do not change as long as no variable is replaced."""
    _passes_over: ClassVar[bool] = False
    """Whether bindings of calls whose callee and operands stay need no visit."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not inherits(cls, ExprMutator, "visit_expr"):
            cls._kept = cls._kept_until_remap = frozenset()
        elif inherits(cls, ExprMutator, "visit_var_", "visit_dataflow_var_"):
            cls._kept_until_remap = cls._kept | _VARIABLES
        else:
            cls._kept_until_remap = cls._kept
        cls._keeps_blocks = inherits(
            cls, ExprMutator, "visit_binding_block", "visit_binding_block_"
        ) and cls.visit_dataflow_block_ in (
            ExprMutator.visit_dataflow_block_,
            ExprMutator.visit_binding_block_,
        )
        cls._keeps_definitions = not cls._maps_struct_infos and inherits(
            cls,
            ExprMutator,
            "visit_struct_info",
            "visit_expr_dep_struct_info_field",
            "visit_var_def_",
            "visit_dataflow_var_def_",
        )
        cls._passes_over = (
            cls._keeps_definitions
            and (inherits(cls, ExprMutator, "visit_call_") or not inherits(cls, ExprMutator, "looks_at"))
            and inherits(cls, ExprMutator, *_OF_EVERY_BINDING)
        )

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._normalize = self.builder_._normalizer.normalize
        self._var_remap: dict[Id, RelaxExpr] = {}
        self._has_sequences = False
        """Whether a value of the current sequence is a sequence itself, which normalization will splice in."""
        self._passed_over: dict[RelaxExpr, bool] = {}
        """Whether calls of a callee only change with their operands."""

    def rewrite_module(
        self, mod: IRModule, select: Callable[[GlobalVar, Function], bool] | None = None
    ) -> IRModule:
        """The module that the mutator was made for, with its functions rewritten and those that overrides have added.

        Args:
            select: which Relax functions to rewrite, all by default.

        Returns:
            ``mod`` itself when no function changes.
        """
        result = self.builder_.get_context_ir_module()
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, Function) and (select is None or select(var, func)):
                new = self.visit_expr(func)
                if new is not func:
                    result.functions[var] = new
                    changed = True
        return self.builder_.finalize() if changed else mod

    def looks_at(self, callee: RelaxExpr) -> bool:
        """Whether ``visit_call_`` does anything with calls of an operator, a function of the module or an external one.

        It is asked once for each. What changes other calls is the rewriting of their operands alone.
        """
        return not inherits(type(self), ExprMutator, "visit_call_")

    def changes_leaf(self, leaf: RelaxExpr) -> bool:
        """Whether a leaf may change that is of a kind of which the class changes some."""
        return True

    # ---- what overrides call ----------------------------------------------------------------------------------

    def visit_expr(self, expr: Any) -> Any:
        """Rewrite an expression and normalize the result."""
        method = self._table.get(expr.__class__)
        new = self._dispatch(expr) if method is None else method(self, expr)
        if new.__class__ in LEAF_CLASSES or (
            expr.__class__ in _SCOPED_CLASSES and new.struct_info_ is not None
        ):
            return new
        return self._normalize(new)

    def visit_expr_post_order(self, expr: Any) -> Any:
        """Rewrite the parts of an expression as the base class does, without an override for the expression itself."""
        return self.builder_.normalize(ExprMutator._dispatch_as_base(self, expr))

    def _dispatch_as_base(self, expr: Any) -> Any:
        method = ExprMutator._table.get(expr.__class__)
        if method is None:
            method = ExprMutator._table[expr.__class__] = ExprMutator._method_for(expr.__class__)
        return method(self, expr)

    def set_var_remap(self, vid: Id, var: RelaxExpr) -> None:
        """From here on uses of the variable with identity ``vid`` become ``var`` (a variable or another leaf)."""
        self._var_remap[vid] = var

    def get_var_remap(self, vid: Id) -> RelaxExpr:
        """What uses of the variable become; KeyError when it is not replaced."""
        return self._var_remap[vid]

    def lookup_binding(self, var: RelaxExpr) -> RelaxExpr | None:
        """The value that the rewritten program binds to ``var``, or None for parameters and what is no variable."""
        return self.builder_.lookup_binding(var) if isinstance(var, Var) else None

    def with_struct_info(self, var: Var, struct_info: StructInfo) -> Var:
        """``var``, or a variable of the same identity with another struct info when it differs."""
        if var.struct_info_ is struct_info or (
            var.struct_info_ is not None and var.struct_info_ == struct_info
        ):
            return var
        return type(var)(var.vid, struct_info, var.span)

    def reemit_binding(self, binding: VarBinding, value: RelaxExpr) -> Var:
        """Emit a binding with another value; the variable that it binds then, with the value's struct info."""
        var = binding.var
        if not self._keeps_definitions or (self._var_remap and mentions_relax_vars(var.struct_info_)):
            var = self.visit_var_def(var)
        if value is binding.value and value.struct_info_ is not None and var is binding.var:
            self.builder_.emit_normalized(binding)
            return var
        if value.struct_info_ is None:
            value = self.builder_.normalize(value)
        var = self.with_struct_info(var, value.struct_info)
        if var is not binding.var:
            self._var_remap[binding.var.vid] = var
        if value.__class__ is SeqExpr:
            self._has_sequences = True
        self.builder_.emit_normalized(VarBinding(var, value, binding.span))
        return var

    # ---- the walk ---------------------------------------------------------------------------------------------

    def visit_var_(self, var: Any) -> Any:
        """What the variable was replaced by."""
        return self._var_remap.get(var.vid, var)

    def _map_exprs(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._var_remap and self._kept_until_remap.issuperset(map(type, items)):
            return items
        return self._map(items, self.visit_expr)

    def visit_var_def_(self, var: Any) -> Any:
        """A definition; a changed struct info makes a new variable, which replaces the old one."""
        new = super().visit_var_def_(var)
        if new is not var:
            self._var_remap[var.vid] = new
        return new

    def visit_with_new_scope(self, expr: Any, params: tuple[Var, ...] | None = None) -> SeqExpr:
        """Rewrite the body of a function or branch in a scope of its own; the result is a normalized SeqExpr."""
        builder = self.builder_
        if params is None:
            builder.begin_inner_scope()
        else:
            builder.begin_scope(params)
        try:
            body: SeqExpr = self.visit_expr(expr)
        finally:
            builder.end_scope()
        return body

    def visit_function_(self, expr: Any) -> Any:
        """Parameters, then the body in a scope of its own; the result is inferred again when the body's has changed."""
        params = expr.params
        if self._var_remap or not self._keeps_definitions:
            params = self._map(params, self.visit_var_def)
        body = self.visit_with_new_scope(expr.body, params)
        if params is expr.params and body is expr.body:
            return expr
        ret = expr.ret_struct_info
        if ret is not None:
            ret = self.visit_struct_info(ret)
            info = body.body.struct_info_
            if info is not expr.body.body.struct_info_ and info != expr.body.body.struct_info_:
                ret = None
        return Function(params, body, ret, expr.is_pure, expr.attrs, expr.span)

    def visit_if_(self, expr: Any) -> Any:
        """The condition, and each branch in a scope of its own."""
        cond = self.visit_expr(expr.cond)
        yes = self.visit_with_new_scope(expr.true_branch)
        no = self.visit_with_new_scope(expr.false_branch)
        if cond is expr.cond and yes is expr.true_branch and no is expr.false_branch:
            return expr
        return If(cond, yes, no, None, expr.span)

    def visit_seq_expr_(self, expr: Any) -> Any:
        """The blocks; what the result needs comes in a block of its own at the end."""
        builder = self.builder_
        outer, self._has_sequences = self._has_sequences, False
        blocks = [self.visit_binding_block(block) for block in expr.blocks]
        builder._begin_binding_block()
        body = self.visit_result(expr.body)
        prologue = builder._end_block()
        is_normal = self._keeps_blocks and not self._has_sequences and is_leaf(body)
        self._has_sequences = outer
        if (
            body is expr.body
            and not prologue.bindings
            and expr.struct_info_ is not None
            and all(map(is_, blocks, expr.blocks))
            and all(block.bindings for block in blocks)
        ):
            return expr
        if prologue.bindings:
            blocks.append(prologue)
        new = SeqExpr(merged_blocks(blocks), body, None, expr.span)
        if is_normal:
            update_struct_info(new, builder.visible_outside(new))
        return new

    def visit_result(self, body: Any) -> Any:
        """The value of a function's body or a branch; it may emit bindings behind the last block."""
        return self.visit_expr(body)

    def visit_bindings(self, block: BindingBlock) -> None:
        """The bindings of a block in order, emitted into a new block of its kind."""
        if not self._passes_over:
            for binding in block.bindings:
                self.visit_binding(binding)
            return
        emit = self.builder_.emit_normalized
        for binding in block.bindings:
            if binding.__class__ is VarBinding and self._stays(binding):
                emit(binding)
            else:
                self.visit_binding(binding)

    def _stays(self, binding: Any) -> bool:
        """Whether a binding is of a normalized call that nothing in this class changes."""
        call = binding.value
        if call.__class__ is not Call or call.struct_info_ is None:
            return False
        callee = call.op
        passed_over = self._passed_over.get(callee)
        if passed_over is None:
            passed_over = callee.__class__ in self._kept and not self.looks_at(callee)
            self._passed_over[callee] = passed_over
        if not passed_over or not self._operands_stay(call.args):
            return False
        return not self._var_remap or not (
            mentions_relax_vars(binding.var.struct_info_) or any(map(mentions_relax_vars, call.sinfo_args))
        )

    def _operands_stay(self, operands: tuple[Any, ...]) -> bool:
        """Whether operands are leaves, or tuples of leaves, that nothing in this class changes."""
        kept, remap = self._kept_until_remap, self._var_remap
        for operand in operands:
            kind = operand.__class__
            if kind in kept:
                if remap and kind in _VARIABLES and operand.vid in remap:
                    return False
            elif kind is Tuple:
                if operand.struct_info_ is None or not self._operands_stay(operand.fields):
                    return False
            elif kind not in LEAF_CLASSES or kind in _VARIABLES or self.changes_leaf(operand):
                return False
        return True

    def _end_block(self, block: Any) -> Any:
        new = self.builder_._end_block()
        same = len(new.bindings) == len(block.bindings) and type(new) is type(block)
        return block if same and all(map(is_, new.bindings, block.bindings)) else new

    def visit_binding_block_(self, block: Any) -> Any:
        """The bindings in order, emitted into a new block."""
        self.builder_._begin_binding_block()
        self.visit_bindings(block)
        return self._end_block(block)

    def visit_dataflow_block_(self, block: Any) -> Any:
        """The bindings in order, emitted into a new dataflow block."""
        self.builder_._begin_dataflow_block()
        self.visit_bindings(block)
        return self._end_block(block)

    def visit_var_binding_(self, binding: Any) -> None:
        """Rewrite the value and emit the binding again."""
        self.reemit_binding(binding, self.visit_expr(binding.value))

    def visit_match_cast_(self, binding: Any) -> None:
        """Rewrite the value and the struct info and emit the match cast again."""
        value = self.visit_expr(binding.value)
        info = self.visit_struct_info(binding.struct_info)
        var = self.with_struct_info(self.visit_var_def(binding.var), info)
        if var is not binding.var:
            self._var_remap[binding.var.vid] = var
        if var is binding.var and value is binding.value and info is binding.struct_info:
            self.builder_.emit_normalized(binding)
        else:
            self.builder_.emit_normalized(MatchCast(var, value, info, binding.span))


_SCOPED_CLASSES = frozenset({SeqExpr, Function})
"""Expressions whose visit returns them normalized as a whole, unless they have no struct info yet."""


class PyExprVisitor(ExprVisitor):
    """The visitor to derive from, decorated with :func:`visitor`."""


class PyExprMutator(ExprMutator):
    """The mutator to derive from, decorated with :func:`mutator`."""


def visitor(visitor_cls: type) -> type:
    """Class decorator of visitors; raises IRTypeError unless the class derives from PyExprVisitor."""
    if not issubclass(visitor_cls, ExprVisitor):
        raise IRTypeError(f"@visitor: {visitor_cls.__name__} must derive from PyExprVisitor")
    return visitor_cls


def mutator(mutator_cls: type) -> type:
    """Class decorator of mutators; raises IRTypeError unless the class derives from PyExprMutator."""
    if not issubclass(mutator_cls, ExprMutator):
        raise IRTypeError(f"@mutator: {mutator_cls.__name__} must derive from PyExprMutator")
    return mutator_cls


__all__ = [
    "ExprFunctor",
    "ExprMutator",
    "ExprMutatorBase",
    "ExprVisitor",
    "PyExprMutator",
    "PyExprVisitor",
    "mutator",
    "visitor",
]
