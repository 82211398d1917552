"""What calls do to memory, and which values may share it: the one place that passes and planners ask.

The answers come from the declarations of operators and external functions (:mod:`ir.relax.op.memory_effect`), from the
kernels that a call names, and from the functions of the module that it calls:

    is_pure(call), is_removable(call)
    analysis = MemoryAnalysis(mod)
    analysis.effect_of(call)  # what the call views, writes, releases
    analysis.is_repeatable(call)  # may two such calls become one
    aliases = analysis.aliases(func)
    aliases.may_alias(x, y), aliases.roots(x), aliases.sharing(x)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.analysis.written_params import written_params
from ...tir.function import PrimFunc
from ..expr import BindingBlock, Call, Constant, Expr, If, SeqExpr, Tuple, TupleGetItem, Var, is_call_to
from ..function import ExternFunc, Function
from ..op.declaration import declaration_of, memory_of
from ..op.memory_effect import EFFECT, OPAQUE, UNKNOWN, MemoryEffect, Path, View, external_memory
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from .binding import free_vars


class Root(NamedTuple):
    """A piece of memory: what the parameter or binding ``owner`` made, at ``path`` when that is a tuple.

    ``owner`` is None for constants, which belong to the module.
    """

    owner: Var | None
    path: Path


Roots = frozenset[Root]
Place = Any
"""Where a value may be: its :data:`Roots`, or for a tuple a tuple of one place per field."""

_CONSTANT: Roots = frozenset({Root(None, ())})


def is_pure(call: Call) -> bool:
    """Whether a call has no effect that can be seen besides its result: as the operator, or the callee's signature, says."""
    callee = call.op
    if isinstance(callee, Op):
        return memory_of(callee).pure
    if isinstance(callee, GlobalVar) and callee.struct_info_ is None:
        return True
    return _by_struct_info(callee.struct_info_).pure


def is_removable(call: Call) -> bool:
    """Whether a call may be left out when nobody uses its result."""
    return is_pure(call) and not returns_nothing(call)


def returns_nothing(call: Call) -> bool:
    """Whether the result of a call is the empty tuple: such a call is there for what it does."""
    info = call.struct_info_
    return isinstance(info, TupleStructInfo) and not info.fields


class MemoryAnalysis:
    """Answers for the calls in the functions of one module.

    Args:
        mod: where called functions and kernels are looked up; None takes calls of them for what their struct info says.
        suspicious: whether functions of which nothing is known count as writing all that they are given, as whoever rewrites a program
            must assume; False finds what is written for sure.
    """

    def __init__(self, mod: IRModule | None = None, suspicious: bool = True) -> None:
        self._mod = mod
        self.suspicious = suspicious
        self._functions: dict[str, MemoryEffect] = {}
        self._assumed: dict[str, MemoryEffect] = {}
        """What functions that are being looked into are taken to do where they call themselves."""
        self._asked: set[str] = set()
        """Whose assumed effects the function that is being looked into has asked for."""
        self._rests_on: dict[str, set[str]] = {}
        """The assumptions, not yet settled, that the effect found for a function follows from."""

    # ---- one call -------------------------------------------------------------------------------------------

    def effect_of(self, call: Call) -> MemoryEffect:
        """What a call does to memory; paths count its arguments."""
        callee = call.op
        if isinstance(callee, Op):
            effect = memory_of(callee).of(call)
            return self._exact_writes(call, effect) if effect.writes else effect
        if isinstance(callee, ExternFunc):
            effect = external_memory(callee.global_symbol)
            if effect is OPAQUE and returns_nothing(call) and self.suspicious:
                effect = EFFECT | _all_written(call)
            return effect if effect is not OPAQUE else _by_struct_info(callee.struct_info_)
        if isinstance(callee, GlobalVar):
            return self.effect_of_function(callee)
        return _by_struct_info(callee.struct_info_)

    def is_declared(self, call: Call) -> bool:
        """Whether somebody has said what a call of an external function does to memory; else it may keep what it is given."""
        return isinstance(call.op, ExternFunc) and external_memory(call.op.global_symbol) is not OPAQUE

    def is_repeatable(self, call: Call) -> bool:
        """Whether two calls with the same arguments may become one: same values, and no object that is changed later."""
        if not is_pure(call):
            return False
        effect = self.effect_of(call)
        return effect.repeatable and not (effect.unknown and _holds_object(call.struct_info_))

    # ---- called functions -----------------------------------------------------------------------------------

    def _exact_writes(self, call: Call, effect: MemoryEffect) -> MemoryEffect:
        """A kernel that is in the module tells which of the tensors that it is given it writes."""
        kernel = self.called_function(call)
        if not isinstance(kernel, PrimFunc) or effect.writes != ((1,),):
            return effect
        return replace(effect, writes=tuple([(1, number) for number in written_params(kernel)]))

    def called_function(self, call: Call) -> Any:
        """The module's function that a call calls, itself or through an operator such as ``call_tir``; None where there is none."""
        if isinstance(call.op, GlobalVar):
            return self._callee(call.op)
        declared = declaration_of(call.op)
        callee = call.args[declared.callee] if declared is not None and declared.callee is not None else None
        return self._callee(callee) if isinstance(callee, GlobalVar) else None

    def _callee(self, var: GlobalVar) -> Any:
        if self._mod is None:
            return None
        found = self._mod.functions.get(var)
        if found is None and self._mod.contains(var.name_hint):  # another reference of the same name
            found = self._mod[var.name_hint]
        return found

    def effect_of_function(self, var: GlobalVar) -> MemoryEffect:
        """What a call of one of the module's functions does to memory; paths count its parameters."""
        name = var.name_hint
        found = self._functions.get(name)
        if found is not None:
            self._asked |= self._rests_on.get(name, set())
            return found
        func = self._callee(var)
        if isinstance(func, PrimFunc):
            made = MemoryEffect(writes=tuple([(number,) for number in written_params(func)]), effect=True)
        elif isinstance(func, ExternFunc):
            made = external_memory(func.global_symbol)
        elif not isinstance(func, Function):
            return UNKNOWN if var.struct_info_ is None else _by_struct_info(var.struct_info_)
        elif name in self._assumed:
            self._asked.add(name)
            return self._assumed[name]
        else:
            made = self._fixed_point(name, func)
        self._functions[name] = made
        return made

    def _fixed_point(self, name: str, func: Function) -> MemoryEffect:
        """The effect of a function, which may call itself: the least one that follows from assuming it for those calls.

        A function that does not ask for its own effect is looked into once; what others were found to do is forgotten between
        two turns only where it follows from the assumption that has changed.
        """
        assumed = MemoryEffect(effect=not func.is_pure)
        asked_around = self._asked
        while True:
            self._assumed[name], self._asked = assumed, set()
            made = self.summary(func)
            if made == assumed or name not in self._asked:
                break
            assumed = made
            for other in [other for other, rests_on in self._rests_on.items() if name in rests_on]:
                del self._functions[other], self._rests_on[other]
        del self._assumed[name]
        self._settle(name)
        self._asked |= asked_around
        return made

    def _settle(self, name: str) -> None:
        """The assumption about a function has proved right: what followed from it follows from what the function itself asked."""
        own = self._asked - {name}
        for rests_on in self._rests_on.values():
            if name in rests_on:
                rests_on.remove(name)
                rests_on |= own
        self._rests_on[name] = own
        self._asked = set(own)

    def summary(self, func: Function) -> MemoryEffect:
        """What a call of the function does to memory; paths count its parameters."""
        return _summary(func, self.aliases(func))

    # ---- values ---------------------------------------------------------------------------------------------

    def aliases(self, func: Function | SeqExpr) -> Aliases:
        """Which values of a function may share memory."""
        return Aliases(self, func)


def _holds_object(info: StructInfo | None) -> bool:
    """Whether a value is no plain tensor or number: what it is may change."""
    if isinstance(info, TupleStructInfo):
        return any(map(_holds_object, info.fields))
    return type(info) is ObjectStructInfo


def _all_written(call: Call) -> MemoryEffect:
    return MemoryEffect(writes=tuple([(number,) for number in range(len(call.args))]))


def _by_struct_info(info: StructInfo | None) -> MemoryEffect:
    """A callee of which only the signature is known."""
    return UNKNOWN if isinstance(info, FuncStructInfo) and info.purity else OPAQUE


class Aliases:
    """Which values of one function may share memory.

    A value's *roots* are the pieces of memory that it may be in: parameters, what bindings made, constants.

    Attributes:
        result: where the function's result may be.
        written: the roots that calls of the function write.
        released: the roots whose life ends in the function.
        has_identity: whether a call in the function makes an object that is changed later.
    """

    def __init__(self, analysis: MemoryAnalysis, func: Function | SeqExpr) -> None:
        self._analysis = analysis
        self._places: dict[Var, Place] = {}
        self._names: dict[Root, set[Var]] = {}
        self._parameters: set[Var] = set()
        self._local: dict[Var, _LocalFunction] = {}
        self.written: set[Root] = set()
        self.released: set[Root] = set()
        self.has_identity = False
        if isinstance(func, Function):
            self._parameters.update(func.params)
            for param in func.params:
                self._put(param, _own(param, param.struct_info_))
        self.result: Place = self._visit(func.body if isinstance(func, Function) else func)

    # ---- questions ------------------------------------------------------------------------------------------

    def place(self, expr: Expr) -> Place:
        """The roots of a value, per field where it is a tuple whose fields are told apart."""
        if isinstance(expr, Var):
            return self._places.get(expr, frozenset({Root(expr, ())}))
        if isinstance(expr, Tuple):
            return tuple([self.place(field) for field in expr.fields])
        if isinstance(expr, TupleGetItem):
            return _field(self.place(expr.tuple_value), expr.index)
        if isinstance(expr, Constant):
            return _CONSTANT
        return frozenset()

    def roots(self, expr: Expr) -> Roots:
        """The pieces of memory that a value, or any field of it, may be in."""
        return _leaves(self.place(expr))

    def may_alias(self, a: Expr, b: Expr) -> bool:
        """Whether two values may share memory; a caller may give the same tensor for two parameters."""
        first, second = self.roots(a), self.roots(b)
        if not first.isdisjoint(second):
            return True
        return all(any(root.owner in self._parameters for root in roots) for roots in (first, second))

    def sharing(self, expr: Expr) -> set[Var]:
        """The variables that may be in the same memory as a value."""
        return {var for root in self.roots(expr) for var in self._names.get(root, ())}

    def is_written(self, *values: Expr) -> bool:
        """Whether the function may write the memory of one of these values: they must then be read where the program does."""
        return bool(self.written) and any(not self.written.isdisjoint(self.roots(value)) for value in values)

    def changed_by(self, value: Expr) -> Roots:
        """The memory that computing a value writes or ends the life of."""
        if not isinstance(value, Call):
            return frozenset()
        effect = self._analysis.effect_of(value)
        changed = self._at(value, (*effect.writes, *effect.releases))
        local = self._called_here(value)
        if local is not None:
            changed |= self._at(value, (*local.effect.writes, *local.effect.releases)) | local.captured
        return changed | self._arguments(value) if effect.opaque else changed

    def may_be_constant(self, expr: Expr) -> bool:
        """Whether a value may be in the memory of a constant."""
        return not _CONSTANT.isdisjoint(self.roots(expr))

    @property
    def writes_constants(self) -> bool:
        """Whether a call of the function may write a constant."""
        return not _CONSTANT.isdisjoint(self.written)

    def belongs_to_caller(self, expr: Expr) -> bool:
        """Whether a value may be memory of a parameter, of a constant, or of what a local function captures."""
        return any(root.owner is None or self.is_seen_outside(root) for root in self.roots(expr))

    def is_seen_outside(self, root: Root) -> bool:
        """Whether memory is that of a parameter, or of a variable that is bound outside of what was looked into."""
        return root.owner in self._parameters or (root.owner is not None and root.owner not in self._places)

    # ---- the walk -------------------------------------------------------------------------------------------

    def _put(self, var: Var, place: Place) -> None:
        self._places[var] = place
        for root in _leaves(place):
            self._names.setdefault(root, set()).add(var)

    def _visit(self, expr: Any) -> Place:
        if isinstance(expr, SeqExpr):
            for block in expr.blocks:
                self._block(block)
            return self._visit(expr.body)
        return self.place(expr)

    def _block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self._put(binding.var, self._value(binding.var, binding.value))  # type: ignore[attr-defined]

    def _value(self, var: Var, value: Expr) -> Place:
        if isinstance(value, If):
            return _union(self._visit(value.true_branch), self._visit(value.false_branch))
        if isinstance(value, Function):
            inner = Aliases(self._analysis, value)
            changed = {root for item in inner.written | inner.released for root in self._outside(item)}
            self.written |= changed
            self._local[var] = _LocalFunction(_summary(value, inner), frozenset(changed))
            captured: Roots = frozenset()
            for item in free_vars(value):
                captured |= self.roots(item)
            return captured | {Root(var, ())}
        if isinstance(value, Call):
            return self._call(var, value)
        return self.place(value)

    def _outside(self, root: Root) -> Roots:
        """A root of a local function, seen from the function around it."""
        if root.owner is None or root.owner not in self._places:
            return frozenset({root})
        return self.roots(root.owner)

    def _call(self, var: Var, call: Call) -> Place:
        effect = self._analysis.effect_of(call)
        self.has_identity |= effect.identity
        self.written |= self._at(call, effect.writes)
        self.released |= self._at(call, effect.releases)
        if is_call_to(call, "relax.make_closure"):
            self._note_closure(var, call)
        local = self._called_here(call)
        if local is not None:
            self.written |= self._at(call, local.effect.writes) | local.captured
        if effect.opaque and self._analysis.suspicious:
            self.written |= self._arguments(call)
        own = _own(var, call.struct_info_ if call.struct_info_ is not None else var.struct_info_)
        if effect.unknown:
            return _everywhere(own, self._arguments(call))
        place = own
        for view in effect.views:
            place = _viewed(place, own, view.at, self._argument(call, view.of))
        return place

    def _note_closure(self, var: Var, call: Call) -> None:
        """Remember what a function does that a closure is made of: its first parameters are what is captured."""
        callee, captured = call.args
        if not isinstance(callee, GlobalVar) or not isinstance(captured, Tuple):
            return
        effect, count = self._analysis.effect_of_function(callee), len(captured.fields)
        changed: Roots = frozenset()
        for path in (*effect.writes, *effect.releases):
            if path[0] < count:
                changed |= self.roots(captured.fields[path[0]])
        given = [[path for path in paths if path[0] >= count] for paths in (effect.writes, effect.releases)]
        shifted = MemoryEffect(writes=tuple(given[0]), releases=tuple(given[1])).among((), -count)
        self._local[var] = _LocalFunction(shifted, changed)

    def _called_here(self, call: Call) -> _LocalFunction | None:
        """The function, bound in this one, that a call calls; paths count the call's arguments."""
        if isinstance(call.op, Var):
            return self._local.get(call.op)
        if is_call_to(call, "relax.invoke_closure", "relax.invoke_pure_closure"):
            found = self._local.get(call.args[0])  # type: ignore[call-overload]
            return None if found is None else _LocalFunction(found.effect.among((1,)), found.captured)
        return None

    def _argument(self, call: Call, path: Path) -> Place:
        if path[0] >= len(call.args):
            return frozenset()
        place = self.place(call.args[path[0]])
        for index in path[1:]:
            place = _field(place, index)
        return place

    def _at(self, call: Call, paths: Iterable[Path]) -> Roots:
        found: Roots = frozenset()
        for path in paths:
            found |= _leaves(self._argument(call, path))
        return found

    def _arguments(self, call: Call) -> Roots:
        """Whatever a call can reach: its arguments, and what a local function has captured."""
        found: Roots = self.roots(call.op) if isinstance(call.op, Var) else frozenset()
        for arg in call.args:
            found |= self.roots(arg)
        return found


def _summary(func: Function, aliases: Aliases) -> MemoryEffect:
    """What a call of a function does to memory, given the aliases of its values; paths count its parameters."""
    numbers = {param: number for number, param in enumerate(func.params)}

    def paths(roots: Iterable[Root]) -> list[Path]:
        return [(numbers[root.owner], *root.path) for root in roots if root.owner in numbers]

    views: list[View] = []

    def collect(place: Place, at: Path) -> None:
        if isinstance(place, tuple):
            for index, item in enumerate(place):
                collect(item, (*at, index))
        else:
            views.extend(View(path, at) for path in sorted(paths(place)))

    collect(aliases.result, ())
    return MemoryEffect(
        tuple(views),
        tuple(sorted(paths(aliases.written))),
        tuple(sorted(paths(aliases.released))),
        identity=aliases.has_identity,
        effect=not func.is_pure,
    )


class _LocalFunction(NamedTuple):
    """What calls of a function that is bound in the function do: to their arguments, and to the memory around them."""

    effect: MemoryEffect
    captured: Roots


def _own(var: Var, info: StructInfo | None, path: Path = ()) -> Place:
    """New memory for a value: one root per tensor or object; shapes and numbers have none."""
    if isinstance(info, TupleStructInfo):
        return tuple([_own(var, field, (*path, index)) for index, field in enumerate(info.fields)])
    if isinstance(info, ShapeStructInfo | PrimStructInfo):
        return frozenset()
    return frozenset({Root(var, path)})


def _leaves(place: Place) -> Roots:
    if isinstance(place, tuple):
        found: Roots = frozenset()
        for item in place:
            found |= _leaves(item)
        return found
    return place  # type: ignore[no-any-return]


def _field(place: Place, index: int) -> Place:
    return place[index] if isinstance(place, tuple) else place


def _union(a: Place, b: Place) -> Place:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple([_union(x, y) for x, y in zip(a, b, strict=True)])
    return _leaves(a) | _leaves(b)


def _everywhere(own: Place, roots: Roots) -> Place:
    """A place of the same form, any tensor of which may be in one of the roots as well."""
    if isinstance(own, tuple):
        return tuple([_everywhere(item, roots) for item in own])
    return own | roots if own else own


def _viewed(place: Place, own: Place, at: Path, source: Place) -> Place:
    """``place`` with its part ``at`` in the memory of ``source`` instead of its own."""
    if at and isinstance(place, tuple) and at[0] < len(place):
        parts = list(place)
        parts[at[0]] = _viewed(parts[at[0]], own[at[0]] if isinstance(own, tuple) else own, at[1:], source)
        return tuple(parts)
    if place == own and not at:
        return source
    return _union(place, source)


__all__ = ["Aliases", "MemoryAnalysis", "Root", "is_pure", "is_removable", "returns_nothing"]
