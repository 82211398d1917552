"""FuseOpsByPattern: group what patterns match into composite functions, for external code generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...error import IRTypeError
from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import used_vars
from ..analysis.memory import Aliases, MemoryAnalysis
from ..dpl.pattern import CallPattern, DFPattern, TupleGetItemPattern
from ..expr import BindingBlock, Call, DataflowBlock, Expr, If, SeqExpr, TupleGetItem, Var, VarBinding
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from .grouping import Group, GroupRewriter, NameTable


@dataclass(frozen=True)
class PatternCheckContext:
    """What :attr:`FusionPattern.check` is asked about.

    Attributes:
        matched_expr: the expression that the pattern matched.
        annotated_expr: what the patterns in ``annotation_patterns`` matched, by name.
        matched_bindings: the bindings that would be fused.
        var_usages: the variables that use each variable of the function.
        value_to_bound_var: the variable that a value is bound to.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern with what fusing by it needs.

    Args:
        name: usually begins with the backend's: ``"cutlass.matmul"``.
        pattern: what to match.
        annotation_patterns: parts of ``pattern`` by name, for ``check`` and ``attrs_getter``.
        check: whether a match is accepted.
        attrs_getter: attributes of the composite function, from the annotated expressions.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] | None = None
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[dict[str, Expr]], dict[str, str]] | None = None


def _as_pattern(item: Any) -> FusionPattern:
    if isinstance(item, FusionPattern):
        return item
    if isinstance(item, tuple):
        return FusionPattern(*item)
    raise IRTypeError(f"FuseOpsByPattern takes FusionPattern or tuples for it, got {type(item).__name__}")


@dataclass
class _Function:
    """A function as the matcher sees it."""

    aliases: Aliases
    values: dict[Var, Expr] = field(default_factory=dict)
    bound_to: dict[Expr, Var] = field(default_factory=dict)
    usages: dict[Var, list[Var]] = field(default_factory=dict)
    order: dict[Var, int] = field(default_factory=dict)
    home: dict[Var, BindingBlock] = field(default_factory=dict)
    bindings: dict[Var, VarBinding] = field(default_factory=dict)


def _survey(func: Function, aliases: Aliases) -> _Function:
    survey = _Function(aliases)

    def walk(seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                value: Expr = binding.value  # type: ignore[attr-defined]
                if isinstance(value, If):
                    walk(value.true_branch)
                    walk(value.false_branch)
                elif isinstance(value, Function):
                    walk(value.body)
                # Behind what is inside of it: it uses what its branches use, and where they do.
                survey.order[binding.var] = len(survey.order)
                survey.home[binding.var] = block
                for used in used_vars(value):
                    survey.usages.setdefault(used, []).append(binding.var)
                if isinstance(binding, VarBinding):
                    survey.values[binding.var] = value
                    survey.bound_to.setdefault(value, binding.var)
                    survey.bindings[binding.var] = binding

    walk(func.body)
    return survey


def _op_label(value: Expr) -> str:
    if isinstance(value, Call):
        name = getattr(value.op, "name", "") or getattr(value.op, "name_hint", "call")
        return str(name).replace(".", "_")
    return "tuple_get_item"


@dataclass(frozen=True)
class _Match:
    """Bindings that a pattern describes, in order, and what its annotated parts stand for."""

    members: list[Var]
    annotated: dict[str, Expr]


class _Partitioner:
    """Finds the groups of one pattern in one function; what other patterns have taken stays theirs."""

    def __init__(
        self, survey: _Function, pattern: FusionPattern, bind_constants: bool, taken: set[Var]
    ) -> None:
        self._survey = survey
        self._pattern = pattern
        self._bind_constants = bind_constants
        self._taken = taken

    def groups(self) -> list[Group]:
        """Where matches overlap, the largest one counts, of equally large ones the first."""
        found: list[_Match] = []
        for var, value in self._survey.values.items():
            if isinstance(value, Var):
                continue  # another name of what is looked at where it is bound
            if isinstance(self._survey.home[var], DataflowBlock) and var not in self._taken:
                match = self._match(var, value)
                if match is not None:
                    found.append(match)
        chosen: list[_Match] = []
        for match in sorted(found, key=lambda item: -len(item.members)):
            if self._taken.isdisjoint(match.members):
                self._taken.update(match.members)
                chosen.append(match)
        chosen.sort(key=lambda item: self._survey.order[item.members[-1]])
        return [self._group(match) for match in chosen]

    def _match(self, var: Var, value: Expr) -> _Match | None:
        """What the pattern matches at a binding, if it may be a group."""
        matches = self._pattern.pattern.extract_matched_expr(value, self._survey.values)
        if matches is None:
            return None
        members = {var}
        for pattern, expr in matches.items():
            if isinstance(pattern, CallPattern | TupleGetItemPattern):
                bound = expr if isinstance(expr, Var) else self._survey.bound_to.get(expr)
                while bound in self._survey.values:  # by way of other names to what the pattern matched
                    members.add(bound)
                    value_of = self._survey.values[bound]
                    bound = value_of if isinstance(value_of, Var) else None
        if members & self._taken or any(self._survey.home[m] is not self._survey.home[var] for m in members):
            return None
        annotated = {
            name: self._value(matches[part])
            for name, part in (self._pattern.annotation_patterns or {}).items()
            if part in matches
        }
        if self._pattern.check is not None:
            context = PatternCheckContext(
                value,
                annotated,
                {member: self._survey.values[member] for member in members},
                self._survey.usages,
                {expr: bound for expr, bound in self._survey.bound_to.items() if bound is not var},
            )
            if not self._pattern.check(context):
                return None
        ordered = sorted(members, key=self._survey.order.__getitem__)
        return _Match(ordered, annotated) if self._can_move(ordered) else None

    def _group(self, match: _Match) -> Group:
        attrs: dict[str, Any] = {"Composite": self._pattern.name, "Primitive": True}
        if self._pattern.attrs_getter is not None:
            attrs |= self._pattern.attrs_getter(match.annotated)
        labels = "_".join(
            _op_label(self._survey.values[m])
            for m in match.members
            if not isinstance(self._survey.values[m], TupleGetItem)
        )
        bindings = [self._survey.bindings[member] for member in match.members]
        return Group(bindings, f"fused_{labels}", attrs, lift_constants=not self._bind_constants)

    def _value(self, expr: Expr) -> Expr:
        """Annotations name values, as ``value_to_bound_var`` does, not the variables that they are bound to."""
        return self._survey.values.get(expr, expr) if isinstance(expr, Var) else expr

    def _can_move(self, ordered: list[Var]) -> bool:
        """The group is computed where its last binding is: nothing else may need a part of it, or write what it reads, before."""
        if len(ordered) > 1 and any(
            self._survey.aliases.is_written(*used_vars(self._survey.values[member])) for member in ordered
        ):
            return False
        last = self._survey.order[ordered[-1]]
        inside = set(ordered)
        return all(
            user in inside or self._survey.order[user] > last
            for member in ordered
            for user in self._survey.usages.get(member, ())
        )


def _annotated(names: NameTable, composite: GlobalVar, func: Function) -> SignatureChange:
    """A function around a composite one, which an external code generator takes as a whole."""
    backend = str(func.attrs["Composite"]).split(".")[0]
    func = func.without_attr("Primitive")  # the code generator owns it: it is no kernel to be
    name = names.fresh(f"{composite.name_hint}_{backend}")
    params = [Var(param.name_hint, param.struct_info_) for param in func.params]
    local = Var("local_func", func.struct_info_)
    result = Var("output", func.ret_struct_info)
    call = Call(local, params, None, None, None, func.ret_struct_info)
    block = BindingBlock([VarBinding(local, func), VarBinding(result, call)])
    body = SeqExpr((block,), result, result.struct_info_)
    outer = Function(params, body, func.ret_struct_info, True, {"Codegen": backend, "global_symbol": name})
    return SignatureChange(outer, name=name)


@dataclass(frozen=True)
class FuseOpsByPattern(ModulePass):
    """Move what patterns match in dataflow blocks into new functions with the attribute ``Composite``.

    Before::

        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            gv = R.nn.relu(lv)
            R.output(gv)

    After ``FuseOpsByPattern([("dnnl.conv2d_relu", conv2d_relu_pattern)])``::

        with R.dataflow():
            gv = cls.fused_relax_nn_conv2d_relax_nn_relu(x, w)
            R.output(gv)

        @R.function(private=True)
        def fused_relax_nn_conv2d_relax_nn_relu(x, w):
            R.func_attr({"Composite": "dnnl.conv2d_relu", "Primitive": True})
            ...

    Args:
        patterns: :class:`FusionPattern` objects or tuples of their arguments; those that come first take precedence.
        bind_constants: keep constants inside the new functions instead of passing them.
        annotate_codegen: put each composite function into one with the attributes ``Codegen`` and ``global_symbol``.
        entry_functions: functions to look at; None means all that are not composite or external.
    """

    patterns: Sequence[Any]
    bind_constants: bool = True
    annotate_codegen: bool = False
    entry_functions: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with composite functions."""
        patterns = [_as_pattern(item) for item in self.patterns]
        result = mod.clone()
        names = NameTable(mod)
        before = set(mod.functions)
        memory = MemoryAnalysis(mod)
        for var, func in list(mod.functions.items()):
            if not isinstance(func, Function) or {"Composite", "Codegen", "Primitive"} & set(func.attrs):
                continue
            if self.entry_functions and var.name_hint not in self.entry_functions:
                continue
            survey = _survey(func, memory.aliases(func))
            taken: set[Var] = set()
            groups: list[Group] = []
            for pattern in patterns:
                groups += _Partitioner(survey, pattern, self.bind_constants, taken).groups()
            if groups:
                result.functions[var] = GroupRewriter(result, groups, func, names).visit_expr(func)
        if self.annotate_codegen:
            return annotate_composites(result, {var for var in result.functions if var not in before}, names)
        return result if len(result.functions) != len(before) else mod


def annotate_composites(mod: IRModule, composites: set[GlobalVar], names: NameTable) -> IRModule:
    """The module with each composite function inside a function for its code generator, and calls redirected."""
    return change_signatures(
        mod,
        {
            var: _annotated(names, var, func)
            for var, func in mod.functions.items()
            if var in composites and isinstance(func, Function)
        },
    )
