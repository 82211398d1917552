"""Rewriting what patterns match: single expressions, graphs of bindings, and rewriters that compose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import RelaxExpr
from ...module import IRModule
from ..analysis.binding import used_vars
from ..analysis.memory import Aliases, MemoryAnalysis
from ..analysis.remove_unused import remove_all_unused
from ..bind import inlined_body
from ..expr import Call, DataflowBlock, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info_lattice import erase_to_well_defined
from .context import PatternContext
from .matcher import Matcher
from .pattern import CallPattern, DFPattern, ExprPattern, TupleGetItemPattern, TuplePattern, WildcardPattern

Rewriter = Callable[[RelaxExpr, dict[DFPattern, RelaxExpr]], RelaxExpr]
LookingRewriter = Callable[
    [RelaxExpr, dict[DFPattern, RelaxExpr], Callable[[RelaxExpr], RelaxExpr]], RelaxExpr
]

_MAX_ROUNDS = 1000
"""Rounds of rewriting after which a rewriter that always finds something counts as one that never ends."""


class _CallRewriter(ExprMutator):
    """One walk: every binding's value that the pattern matches is replaced.

    What a match has looked into is read again where its last part is, so memory that the function writes is left alone.
    """

    def __init__(self, pattern: DFPattern, rewriter: LookingRewriter) -> None:
        super().__init__()
        self._pattern, self._rewriter = pattern, rewriter
        self._bound: dict[Var, RelaxExpr] = {}
        self._aliases: Aliases | None = None
        self.changed = False

    def visit_function_(self, func: Any) -> Any:
        outer, self._aliases = self._aliases, MemoryAnalysis().aliases(func)
        try:
            return super().visit_function_(func)
        finally:
            self._aliases = outer

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        if not isinstance(value, Function):
            new = self._rewritten(value)
            if new is not value:
                self.changed = True
                value = self.builder_.normalize(new)
        self._bound[self.reemit_binding(binding, value)] = value

    def value_of(self, expr: RelaxExpr) -> RelaxExpr:
        """What a variable is bound to, also by way of others; other expressions are what they are."""
        while isinstance(expr, Var) and expr in self._bound:
            expr = self._bound[expr]
        return expr

    def _rewritten(self, value: RelaxExpr) -> RelaxExpr:
        if isinstance(value, Var) and value in self._bound:
            return value  # another name of what was looked at where it is bound
        matches = self._pattern.extract_matched_expr(value, self._bound)
        if matches is None:
            return value
        if self._aliases is not None and self._aliases.is_written(*matches.values()):
            return value
        new = self._rewriter(value, matches, self.value_of)
        if new is None:
            return value
        if not isinstance(new, RelaxExpr):
            raise IRTypeError(f"a rewriter must return a Relax expression, got {type(new).__name__}")
        return new


def rewrite_call(pattern: DFPattern, rewriter: Rewriter, func: Function) -> Function:
    """Replace every expression that the pattern matches, until none is left; unused bindings are removed.

    Args:
        pattern: what to look for.
        rewriter: ``(expression, what each part of the pattern matched) -> new expression``; it returns the expression itself
            to leave it.
        func: the function to rewrite.
    """
    return rewrite_call_with_values(pattern, lambda expr, found, value_of: rewriter(expr, found), func)


def rewrite_call_with_values(pattern: DFPattern, rewriter: LookingRewriter, func: Function) -> Function:
    """As :func:`rewrite_call`; the rewriter is also given a function from a matched variable to the value bound to it."""
    for _ in range(_MAX_ROUNDS):
        walk = _CallRewriter(pattern, rewriter)
        new = walk.visit_expr(func)
        if not walk.changed:
            return func
        func = remove_all_unused(new)
    raise IRValueError(
        f"rewrite_call: the rewriter still finds matches after {_MAX_ROUNDS} rounds; does its result match again?"
    )


class _BlockRewriter(ExprMutator):
    """Replaces matched graphs in the dataflow blocks of a function."""

    def __init__(self, ctx: PatternContext, rewriter: Callable[..., Mapping[Var, RelaxExpr]]) -> None:
        super().__init__()
        self._ctx, self._rewriter = ctx, rewriter
        self._aliases: Aliases | None = None

    def visit_function_(self, func: Any) -> Any:
        outer, self._aliases = self._aliases, MemoryAnalysis().aliases(func)
        try:
            return super().visit_function_(func)
        finally:
            self._aliases = outer

    def visit_dataflow_block_(self, block: Any) -> Any:
        for _ in range(_MAX_ROUNDS):
            matched = self._ctx.match_dfb(block)
            if matched is None:
                return super().visit_dataflow_block_(block)
            if self._aliases is not None and self._aliases.is_written(*matched.values()):
                return super().visit_dataflow_block_(block)
            values = {item.var: item.value for item in block.bindings if not isinstance(item, MatchCast)}
            replacements = self._rewriter(matched, values)
            if not replacements:
                return super().visit_dataflow_block_(block)
            block = self._replaced(block, replacements)
        raise IRValueError(
            f"rewrite_bindings: the rewriter still finds matches after {_MAX_ROUNDS} rounds; does its result match again?"
        )

    def _replaced(self, block: DataflowBlock, replacements: Mapping[Var, RelaxExpr]) -> DataflowBlock:
        """The block with new values; what they need is moved before them, expressions that they share are bound once."""
        builder = self.builder_
        pending = {binding.var.vid: binding for binding in block.bindings}
        new_values = {var.vid: value for var, value in replacements.items()}
        shared: dict[int, Any] = {}
        builder._begin_dataflow_block()

        def bind_nested(expr: Any, top: bool) -> Any:
            if isinstance(expr, Tuple):
                return Tuple([bind_nested(item, False) for item in expr.fields])
            if not isinstance(expr, Call | TupleGetItem):
                return expr
            if not top and id(expr) in shared:
                return shared[id(expr)]
            if isinstance(expr, Call):
                new: Any = expr.replace(args=tuple(bind_nested(arg, False) for arg in expr.args))
            else:
                new = TupleGetItem(bind_nested(expr.tuple_value, False), expr.index)
            if top:
                return new
            shared[id(expr)] = builder.emit(new)
            return shared[id(expr)]

        def emit(binding: Any) -> None:
            if pending.pop(binding.var.vid, None) is None:
                return
            value = new_values.get(binding.var.vid, binding.value)
            for var in used_vars(value):
                if var.vid in pending:
                    emit(pending[var.vid])
            if value is not binding.value:
                value = builder.normalize(bind_nested(value, id(value) not in shared))
                builder.emit_normalized(VarBinding(binding.var, value))
            else:
                builder.emit_normalized(binding)

        for binding in block.bindings:
            emit(binding)
        new_block = builder._end_block()
        return remove_all_unused(new_block)


def rewrite_bindings(
    ctx: PatternContext,
    rewriter: Callable[[dict[DFPattern, Var], dict[Var, RelaxExpr]], Mapping[Var, RelaxExpr]],
    func: Function,
) -> Function:
    """Replace the values of variables in matched graphs, until no match is left (or the rewriter returns nothing).

    Args:
        ctx: the patterns and their constraints.
        rewriter: ``(variables matched by each pattern, values of the block's variables) -> new values of variables``. New
            values may share sub-expressions; those are bound once.
        func: the function to rewrite.
    """
    return remove_all_unused(_BlockRewriter(ctx, rewriter).visit_expr(func))


class PatternMatchingRewriter:
    """A rewrite of functions and modules; ``a | b`` tries ``b`` where ``a`` does not match."""

    @staticmethod
    def from_pattern(pattern: DFPattern, func: Rewriter) -> PatternMatchingRewriter:
        """The rewriter that replaces what a pattern matches by what a function makes of it."""
        return ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """The rewriter given by a module of two functions, ``pattern`` and ``replacement``, with the same parameters.

        Parameters of ``pattern`` match anything of their struct info; a returned tuple matches several bindings.
        """
        return _rewriter_of_module(mod)

    def rewrite(self, func: Function) -> Function:
        """The rewritten function."""
        raise IRTypeError(f"{type(self).__name__} does not define how to rewrite a function")

    def __call__(self, obj: Any) -> Any:
        if isinstance(obj, Function):
            return self.rewrite(obj)
        if isinstance(obj, IRModule):
            new = obj.clone()
            for var, func in obj.functions.items():
                if isinstance(func, Function):
                    new.functions[var] = self.rewrite(func)
            return new
        raise IRTypeError(f"a rewriter applies to a Function or an IRModule, got {type(obj).__name__}")

    def __or__(self, other: PatternMatchingRewriter) -> OrRewriter:
        return OrRewriter(self, other)


class ExprPatternRewriter(PatternMatchingRewriter):
    """Replaces what a pattern matches."""

    def __init__(self, pattern: DFPattern, func: Rewriter) -> None:
        self.pattern, self.func = pattern, func

    def rewrite(self, func: Function) -> Function:
        return rewrite_call(self.pattern, self.func, func)


class OrRewriter(PatternMatchingRewriter):
    """Applies one rewriter, then another, until neither changes anything."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        self.lhs, self.rhs = lhs, rhs

    def rewrite(self, func: Function) -> Function:
        for _ in range(_MAX_ROUNDS):
            new = self.rhs.rewrite(self.lhs.rewrite(func))
            if new is func:
                return func
            func = new
        raise IRValueError(f"the rewriters still change the function after {_MAX_ROUNDS} rounds")


class TupleRewriter(PatternMatchingRewriter):
    """Replaces several expressions that match together: one pattern each, with parts in common."""

    def __init__(
        self,
        patterns: Sequence[DFPattern],
        func: Callable[[dict[DFPattern, RelaxExpr]], Sequence[RelaxExpr]],
    ) -> None:
        self.patterns, self.func = tuple(patterns), func

    def rewrite(self, func: Function) -> Function:
        for _ in range(_MAX_ROUNDS):
            walk = _TupleWalk(self)
            new = walk.visit_expr(func)
            if not walk.changed:
                return func
            func = remove_all_unused(new)
        raise IRValueError(
            f"the rewriter still finds matches after {_MAX_ROUNDS} rounds; does its result match again?"
        )


class _TupleWalk(_BlockRewriter):
    def __init__(self, owner: TupleRewriter) -> None:
        super().__init__(PatternContext(), lambda matched, values: {})
        self._owner = owner
        self.changed = False

    def visit_dataflow_block_(self, block: Any) -> Any:
        found = None if self.changed else self._find(block)
        if found is not None:
            self.changed = True
            block = self._replaced(block, found)
        return ExprMutator.visit_dataflow_block_(self, block)

    def _find(self, block: DataflowBlock) -> dict[Var, RelaxExpr] | None:
        values = {item.var: item.value for item in block.bindings if not isinstance(item, MatchCast)}
        matcher = Matcher(values)
        chosen: list[Var] = []

        def search(position: int) -> bool:
            if position == len(self._owner.patterns):
                return True
            for var in values:
                if var in chosen:
                    continue
                mark = len(matcher.memo)
                if matcher.match(self._owner.patterns[position], var):
                    chosen.append(var)
                    if search(position + 1):
                        return True
                    chosen.pop()
                matcher.restore(mark)
            return False

        if not search(0):
            return None
        return dict(zip(chosen, self._owner.func(dict(matcher.memo)), strict=True))


def _rewriter_of_module(mod: IRModule) -> PatternMatchingRewriter:
    names = {var.name_hint for var in mod.functions}
    if not {"pattern", "replacement"} <= names:
        raise IRValueError(
            f"a rewriter module needs functions 'pattern' and 'replacement', it has {sorted(names)}"
        )
    before, after = mod["pattern"], mod["replacement"]
    assert isinstance(before, Function) and isinstance(after, Function)
    if len(before.params) != len(after.params):
        raise IRValueError(
            f"'pattern' has {len(before.params)} parameters, 'replacement' {len(after.params)}"
        )
    if before.struct_info_ != after.struct_info_ and before.ret_struct_info != after.ret_struct_info:
        raise IRValueError("'pattern' and 'replacement' must take and return the same struct infos")
    table: dict[Any, DFPattern] = {}
    params: list[DFPattern] = []
    for param in before.params:
        table[param.vid] = WildcardPattern().has_struct_info(_open(param.struct_info))
        params.append(table[param.vid])
    for block in before.body.blocks:
        for binding in block.bindings:
            table[binding.var.vid] = _pattern_of(binding.value, table)
    body = before.body.body
    outputs = _pattern_of(body, table)

    def replaced(matches: dict[DFPattern, RelaxExpr]) -> RelaxExpr:
        seq = inlined_body(after, tuple(matches[param] for param in params))
        return _inline_bindings(seq if isinstance(seq, SeqExpr) else SeqExpr((), seq))

    if isinstance(outputs, TuplePattern):

        def several(matches: dict[DFPattern, RelaxExpr]) -> Sequence[RelaxExpr]:
            value = replaced(matches)
            assert isinstance(value, Tuple)
            return value.fields

        return TupleRewriter(outputs.fields, several)
    return ExprPatternRewriter(outputs, lambda expr, matches: replaced(matches))


def _open(info: Any) -> Any:
    """A parameter's struct info without symbolic extents: those match anything."""
    return erase_to_well_defined(info)


def _pattern_of(expr: Any, table: dict[Any, DFPattern]) -> DFPattern:
    """The pattern of an expression over parameters and earlier bindings."""
    if isinstance(expr, Var):
        return table[expr.vid]
    if isinstance(expr, Tuple):
        return TuplePattern([_pattern_of(item, table) for item in expr.fields])
    if isinstance(expr, TupleGetItem):
        return TupleGetItemPattern(_pattern_of(expr.tuple_value, table), expr.index)
    if isinstance(expr, Call):
        pattern: DFPattern = CallPattern(ExprPattern(expr.op), [_pattern_of(arg, table) for arg in expr.args])
        return pattern.has_attr(expr.attrs.dict) if expr.attrs else pattern
    return ExprPattern(expr)


def _inline_bindings(seq: Any) -> RelaxExpr:
    """The result of a sequence as one nested expression; sub-expressions used twice are shared objects."""
    values: dict[Any, RelaxExpr] = {}

    def expand(expr: Any) -> Any:
        if isinstance(expr, Var):
            return values.get(expr.vid, expr)
        if isinstance(expr, Tuple):
            return Tuple([expand(item) for item in expr.fields])
        if isinstance(expr, TupleGetItem):
            return TupleGetItem(expand(expr.tuple_value), expr.index)
        if isinstance(expr, Call):
            return expr.replace(args=tuple(expand(arg) for arg in expr.args))
        return expr

    for block in seq.blocks:
        for binding in block.bindings:
            values[binding.var.vid] = expand(binding.value)
    return expand(seq.body)
