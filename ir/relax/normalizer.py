"""Normalization: expressions into A-normal form, where arguments are leaves or tuples, with struct info inferred.

``f(g(x))`` becomes ``lv = g(x); f(lv)``. Every expression that comes out has its struct info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar, RelaxExpr
from ..op import Op
from ..tir.function import PrimFunc
from .expr import (
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
    update_struct_info,
)
from .function import ExternFunc, Function
from .struct_info import FuncStructInfo, ObjectStructInfo, StructInfo, TupleStructInfo
from .struct_info_lattice import derive_call_ret_struct_info, erase_to_well_defined, struct_info_lca
from .symbolic_vars import definable_tir_vars_in_struct_info

if TYPE_CHECKING:
    from .block_builder import BlockBuilder

LEAF_CLASSES = frozenset(
    {Var, DataflowVar, Constant, GlobalVar, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc, Op}
)
"""Expressions that may be arguments as they are; tuples of them may too."""


def is_leaf(expr: RelaxExpr) -> bool:
    """Whether an expression may be an argument in A-normal form."""
    if isinstance(expr, Tuple):
        return all(is_leaf(item) for item in expr.fields)
    return type(expr) in LEAF_CLASSES


def infer_call(call: Call, builder: BlockBuilder) -> StructInfo:
    """The struct info of a call whose arguments have theirs; raises when the operator has no inference."""
    if isinstance(call.op, Op):
        infer = call.op.get_attr("FInferStructInfo")
        if infer is None:
            raise IRValueError(
                f"operator {call.op.name!r} has no struct info inference; register its FInferStructInfo attribute"
            )
        return infer(call, builder)
    info = call.op.struct_info_
    if isinstance(info, FuncStructInfo):
        return derive_call_ret_struct_info(info, call, builder)
    if info is None and isinstance(call.op, GlobalVar):
        raise IRValueError(
            f"call of {call.op.name_hint}: the function has no struct info; add it with BlockBuilder.add_func"
        )
    if isinstance(info, ObjectStructInfo):
        return ObjectStructInfo()
    raise IRTypeError(f"call of {call.op}: the callee is no function but has struct info {info}")


class Normalizer:
    """Normalizes expressions into the current block of a builder."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder

    def normalize(self, expr: Any) -> Any:
        """The expression with its parts in A-normal form and its struct info; the same object when it was so already."""
        if expr.__class__ in LEAF_CLASSES:
            if expr.struct_info_ is None and isinstance(expr, Var):
                raise IRValueError(
                    f"variable {expr.name_hint} has no struct info; give it one where it is made"
                )
            return expr
        method = self._METHODS.get(type(expr))
        if method is None:
            if isinstance(expr, PrimFunc | RelaxExpr):
                return expr
            raise IRTypeError(f"cannot normalize a {type(expr).__name__}; expected a Relax expression")
        return method(self, expr)

    def argument(self, expr: Any) -> Any:
        """As :meth:`normalize`, and bound to a variable unless it is a leaf or tuple of leaves."""
        if expr.__class__ in LEAF_CLASSES:
            return expr
        new = self.normalize(expr)
        if new.__class__ in LEAF_CLASSES or isinstance(new, Tuple | PrimFunc):
            return new
        if not self._builder.in_block:
            return new
        return self._builder.emit(new)

    def _arguments(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        for number, item in enumerate(items):
            new = self.argument(item)
            if new is not item:
                return (*items[:number], new, *[self.argument(rest) for rest in items[number + 1 :]])
        return items

    def _tuple(self, expr: Tuple) -> Tuple:
        fields = expr.fields
        if not LEAF_CLASSES.issuperset(map(type, fields)):
            fields = self._arguments(fields)
        if fields is not expr.fields:
            expr = Tuple(fields, None, expr.span)
        if expr.struct_info_ is None:
            update_struct_info(expr, TupleStructInfo([item.struct_info for item in expr.fields]))
        return expr

    def _tuple_getitem(self, expr: TupleGetItem) -> Any:
        value = self.argument(expr.tuple_value)
        if value is not expr.tuple_value:
            expr = TupleGetItem(value, expr.index, None, expr.span)
        if expr.struct_info_ is None:
            info = value.struct_info
            if not isinstance(info, ObjectStructInfo):
                raise IRTypeError(
                    f"field {expr.index} of {value}: only tuples have fields, this has struct info {info}"
                )
            update_struct_info(expr, ObjectStructInfo())
        return expr

    def _call(self, call: Call) -> Call:
        op, args = call.op, call.args
        if op.__class__ not in LEAF_CLASSES:
            op = self.argument(op)
        if not LEAF_CLASSES.issuperset(map(type, args)):
            args = self._arguments(args)
        if op is not call.op or args is not call.args:
            call = Call(op, args, call.attrs, call.sinfo_args, call.span, None)
        if call.struct_info_ is None:
            fixed = op.get_attr("FNormalize") if isinstance(op, Op) else None
            if fixed is not None:
                call = fixed(self._builder, call)
            if call.struct_info_ is None:
                update_struct_info(call, infer_call(call, self._builder))
        return call

    def _if(self, expr: If) -> If:
        cond = self.argument(expr.cond)
        yes, no = self.in_inner_scope(expr.true_branch), self.in_inner_scope(expr.false_branch)
        if cond is not expr.cond or yes is not expr.true_branch or no is not expr.false_branch:
            expr = If(cond, yes, no, None, expr.span)
        if expr.struct_info_ is None:
            update_struct_info(
                expr, struct_info_lca(yes.struct_info, no.struct_info, self._builder.get_analyzer())
            )
        return expr

    def in_inner_scope(self, body: Any) -> SeqExpr:
        """Normalize a branch in a scope of its own."""
        self._builder.begin_inner_scope()
        try:
            return self.normalize(body)
        finally:
            self._builder.end_scope()

    def _function(self, func: Function) -> Function:
        builder = self._builder
        builder.begin_scope(func.params)
        try:
            body = self.normalize(func.body)
        finally:
            builder.end_scope()
        if body is func.body and func.struct_info_ is not None:
            return func
        return Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)

    def _seq(self, seq: SeqExpr) -> SeqExpr:
        if seq.struct_info_ is not None:
            for block in seq.blocks:
                for binding in block.bindings:
                    self._builder.record_binding(binding)
            return seq
        builder = self._builder
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            blocks.extend(self._block(block))
        builder._begin_binding_block()
        body = self.normalize(seq.body)
        while isinstance(body, SeqExpr):
            # a sequence as result of a sequence: its blocks come before what its body needs
            pending = builder._end_block()
            if pending.bindings:
                blocks.append(pending)
            blocks.extend(body.blocks)
            builder._begin_binding_block()
            body = body.body
        if not is_leaf(body):
            body = builder.emit(body)
        last = builder._end_block()
        if last.bindings:
            blocks.append(last)
        blocks = merged_blocks(blocks)
        same = body is seq.body and len(blocks) == len(seq.blocks)
        if not (same and all(a is b for a, b in zip(blocks, seq.blocks, strict=True))):
            seq = SeqExpr(blocks, body, None, seq.span)
        update_struct_info(seq, self.visible_outside(seq))
        return seq

    def visible_outside(self, seq: SeqExpr) -> StructInfo:
        """The body's struct info without the variables that the sequence itself defines."""
        info = seq.body.struct_info
        if not _mentions_variables(info):
            return info
        own: set[Any] = set()
        variables: set[Any] = set()
        for block in seq.blocks:
            for binding in block.bindings:
                variables.add(binding.var.vid)
                if isinstance(binding, MatchCast):
                    own.update(definable_tir_vars_in_struct_info(binding.struct_info))
        own -= self._builder.scope_shape_vars()
        return erase_to_well_defined(
            info, lambda var: None if var in own else var, lambda var: None if var.vid in variables else var
        )

    def _block(self, block: BindingBlock) -> list[BindingBlock]:
        """A block with normalized bindings; values that are sequences are spliced in, which may split the block."""
        builder = self._builder
        is_dataflow = isinstance(block, DataflowBlock)
        done: list[BindingBlock] = []
        builder._begin_block(is_dataflow)
        for binding in block.bindings:
            value = self.normalize(binding.value)
            while isinstance(value, SeqExpr):
                if value.blocks:
                    pending = builder._end_block()
                    if pending.bindings:
                        done.append(pending)
                    done.extend(value.blocks)
                    builder._begin_block(is_dataflow)
                value = value.body
            if (
                isinstance(value, Call | TupleGetItem) is False
                and isinstance(binding, MatchCast)
                and not is_leaf(value)
            ):
                value = builder.emit(value)
            builder.emit_normalized(_rebound(binding, value))
        new = builder._end_block()
        if not done:
            same = len(new.bindings) == len(block.bindings)
            if same and all(a is b for a, b in zip(new.bindings, block.bindings, strict=True)):
                return [block] if block.bindings else []
        if new.bindings:
            done.append(new)
        return done

    _METHODS: ClassVar[dict[type, Any]] = {
        Tuple: _tuple,
        TupleGetItem: _tuple_getitem,
        Call: _call,
        If: _if,
        Function: _function,
        SeqExpr: _seq,
    }


def _mentions_variables(node: Any) -> bool:
    """Whether a struct info mentions any variable, symbolic or of Relax."""
    if node.is_variable:
        return True
    found = False

    def visit(child: Any) -> None:
        nonlocal found
        found = found or _mentions_variables(child)

    node._visit_children(visit)
    return found


def merged_blocks(blocks: list[BindingBlock]) -> list[BindingBlock]:
    """Neighbouring blocks of one kind as one, as a normalized program has them; empty blocks are left out."""
    merged: list[BindingBlock] = []
    for block in blocks:
        if not block.bindings:
            continue
        if merged and type(block) is type(merged[-1]):
            merged[-1] = type(block)((*merged[-1].bindings, *block.bindings))
        else:
            merged.append(block)
    return merged


def _rebound(binding: Any, value: Any) -> Any:
    """The binding with a normalized value and a variable that has a struct info."""
    var = binding.var
    if isinstance(binding, MatchCast):
        if var.struct_info_ is None:
            update_struct_info(var, binding.struct_info)
        return binding if value is binding.value else MatchCast(var, value, binding.struct_info, binding.span)
    if var.struct_info_ is None:
        update_struct_info(var, value.struct_info)
    return binding if value is binding.value else VarBinding(var, value, binding.span)
