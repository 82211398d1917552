"""Expressions as Python closures over the variables: ``value(env)``, or ``lanes(env, active)`` for vectors.

``active`` says which lanes are needed: the others are not computed, so that what is lazy is lazy lane by lane, and hold None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from .. import expr as E
from ..intrinsic.declaration import is_transparent
from .access import Accesses
from .arithmetic import COMPARISONS, data_operation, exact_operation, index_operation
from .calls import INTRINSIC_FORMS, call_by_meaning
from .error import InterpreterError, refusal
from .kernels import Kernel
from .lanes import Closure, lifted, spread
from .numbers import conversion, number, rounding, wrapping
from .position import Position, has_index_type, is_choice, is_index_arithmetic
from .protocol import Machine


class Expressions:
    """Translates the expressions of one function; each statement's anew, for a variable may be bound again in another place."""

    def __init__(self, machine: Machine, note_use: Callable[[E.Var], None] | None = None) -> None:
        self.machine = machine
        self.note_use = note_use or (lambda data: None)
        """Is told of each address that is used."""
        self.accesses = Accesses(self)
        self.data_variables: set[E.Var] = set()
        """Let variables whose values are data."""
        self.kernel = Kernel()
        self._memo: dict[tuple[int, Position], Closure] = {}

    # -- by position -----------------------------------------------------------------------------------------------
    def index(self, node: E.PrimExpr) -> Closure:
        """An expression in an index position."""
        return self.translate(node, Position.INDEX)

    def end_of_region(self, node: E.PrimExpr) -> Closure:
        """An expression in a region that a block states."""
        return self.translate(node, Position.REGION)

    def condition(self, node: E.PrimExpr) -> Closure:
        """A condition."""
        return self.translate(node, Position.CONDITION)

    def data(self, node: E.PrimExpr) -> Closure:
        """A value that is stored, passed, or bound by let."""
        return self.translate(node, Position.DATA)

    def bound(self, var: E.Var, value: E.PrimExpr) -> Closure:
        """The value of a let, whose variable is an index variable if the value is index arithmetic."""
        is_index = is_index_arithmetic(value, self.data_variables)
        found = self.index(value) if is_index else self.data(value)
        if is_index:
            self.data_variables.discard(var)
        else:
            self.data_variables.add(var)
        return found

    def statement(self) -> None:
        """Forget what was translated: a new statement begins."""
        self._memo.clear()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is translated inside shares nothing with the statement."""
        memo, self._memo = self._memo, {}
        yield
        self._memo = memo

    def translate(self, node: Any, position: Position) -> Closure:
        """The closure of an expression."""
        key = (id(node), position)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._method(type(node))(self, node, position)
        return found

    def _method(self, kind: type) -> Callable[[Expressions, Any, Position], Closure]:
        for base in kind.__mro__:
            if base in _FORMS:
                return _FORMS[base]
        return Expressions._unknown

    def _unknown(self, node: Any, position: Position) -> Closure:
        def refuse(*_: Any) -> Any:
            raise InterpreterError(f"the interpreter does not know {type(node).__name__}")

        return refuse

    # -- leaves ----------------------------------------------------------------------------------------------------
    def _variable(self, node: E.Var, position: Position) -> Closure:
        if node.dtype == "handle":
            self.note_use(node)

        def value(env: dict[Any, Any], active: Any = None) -> Any:
            try:
                return env[node]
            except KeyError:
                raise InterpreterError(f"variable {node.name} has no value here") from None

        return value

    def _literal(self, node: Any, position: Position) -> Closure:
        value = number(node.value, node.dtype)
        return lambda env: value

    def _text(self, node: E.StringImm, position: Position) -> Closure:
        return lambda env: node.value

    # -- arithmetic ------------------------------------------------------------------------------------------------
    def _applied(
        self, node: Any, operation: Callable[..., Any], operands: Sequence[Any], position: Position
    ) -> Closure:
        return lifted(
            operation,
            [self.translate(item, position) for item in operands],
            [dt.lanes(item.dtype) for item in operands],
            dt.lanes(node.dtype),
        )

    def _binary(self, node: E.BinaryOpExpr, position: Position) -> Closure:
        operation_on_indices = _ON_INDICES.get(position)
        if operation_on_indices is not None and has_index_type(node):
            return self._applied(node, operation_on_indices(node), (node.a, node.b), position)
        return self._applied(node, data_operation(node), (node.a, node.b), Position.DATA)

    def _comparison(self, node: E.CmpExpr, position: Position) -> Closure:
        is_index = position is Position.CONDITION and all(
            is_index_arithmetic(side, self.data_variables) for side in (node.a, node.b)
        )
        where = Position.INDEX if is_index else Position.DATA
        return self._applied(node, COMPARISONS[type(node)], (node.a, node.b), where)

    def _not(self, node: E.Not, position: Position) -> Closure:
        return self._applied(node, lambda value: not value, (node.a,), position)

    def _connective(self, node: E.LogicalExpr, position: Position) -> Closure:
        a, b = self.translate(node.a, position), self.translate(node.b, position)
        decides = isinstance(node, E.Or)
        if dt.lanes(node.dtype) == 1:
            return (lambda env: bool(a(env) or b(env))) if decides else (lambda env: bool(a(env) and b(env)))

        def each_lane(env: dict[Any, Any], active: Sequence[bool]) -> list[Any]:
            left = a(env, active)
            open_lanes = [is_on and bool(lane) != decides for is_on, lane in zip(active, left)]
            if not any(open_lanes):
                return left  # type: ignore[no-any-return]
            right = b(env, open_lanes)
            return [r if is_open else lane for is_open, lane, r in zip(open_lanes, left, right)]

        return each_lane

    def _cast(self, node: E.Cast, position: Position) -> Closure:
        if position in _ON_INDICES and is_index_arithmetic(node, self.data_variables):
            fit = _fitting(node) if position is Position.INDEX else int
            return self._applied(node, fit, (node.value,), position)
        convert = conversion(node.value.dtype, node.dtype)
        return self._applied(node, convert, (node.value,), Position.DATA)

    # -- choices ---------------------------------------------------------------------------------------------------
    def _select(self, node: E.Select, position: Position) -> Closure:
        return self._choice(node.condition, node.true_value, node.false_value, position, False)

    def _choice(self, condition: Any, yes: Any, no: Any, position: Position, is_lazy: bool) -> Closure:
        chosen = self.condition(condition)
        yes, no = self.translate(yes, position), self.translate(no, position)
        if dt.lanes(condition.dtype) == 1:
            return _whole_choice(chosen, yes, no, is_lazy)

        def each_lane(env: dict[Any, Any], active: Sequence[bool]) -> list[Any]:
            where = [is_on and bool(lane) for is_on, lane in zip(active, chosen(env, active))]
            elsewhere = [is_on and not lane for is_on, lane in zip(active, where)]
            nothing = [None] * len(where)
            if is_lazy:
                left = yes(env, where) if any(where) else nothing
                right = no(env, elsewhere) if any(elsewhere) else nothing
            else:
                left, right = yes(env, active), no(env, active)
            return [a if lane else b for lane, a, b in zip(where, left, right)]

        return each_lane

    # -- vectors ---------------------------------------------------------------------------------------------------
    def _ramp(self, node: E.Ramp, position: Position) -> Closure:
        base, stride = self.translate(node.base, position), self.translate(node.stride, position)
        steps = range(node.lanes)
        fit = _lane_fit(node, position)
        return lambda env, active: _ramp_lanes(base(env), stride(env), steps, fit, active)

    def _broadcast(self, node: E.Broadcast, position: Position) -> Closure:
        value, lanes = self.translate(node.value, position), node.lanes
        if (width := dt.lanes(node.value.dtype)) > 1:
            return lambda env, active: value(env, (True,) * width) * lanes
        return spread(value, lanes)

    def _shuffle(self, node: E.Shuffle, position: Position) -> Closure:
        vectors = [self.translate(item, position) for item in node.vectors]
        widths = [dt.lanes(item.dtype) for item in node.vectors]
        indices = [int(item.value) for item in node.indices]  # type: ignore[attr-defined]

        def lanes(env: dict[Any, Any], active: Sequence[bool] = (True,) * len(indices)) -> Any:
            needed = {place for place, is_on in zip(indices, active) if is_on}
            joined: list[Any] = []
            for vector, width in zip(vectors, widths):
                start = len(joined)
                mask = [start + lane in needed for lane in range(width)]
                if not any(mask):
                    joined += [None] * width
                elif width == 1:
                    joined.append(vector(env))
                else:
                    joined += vector(env, mask)
            return [joined[place] if is_on else None for place, is_on in zip(indices, active)]

        return lanes if len(indices) > 1 else lambda env: lanes(env)[0]

    # -- binding, memory, calls --------------------------------------------------------------------------------------
    def _let(self, node: E.Let, position: Position) -> Closure:
        value = self.bound(node.var, node.value)
        body, var = self.translate(node.body, position), node.var

        lanes = dt.lanes(node.value.dtype)
        every_lane = (True,) * lanes
        same_lanes = lanes == dt.lanes(node.dtype)

        def run(env: dict[Any, Any], *active: Any) -> Any:
            env[var] = value(env) if lanes == 1 else value(env, *(active if same_lanes else (every_lane,)))
            return body(env, *active)

        return run

    def _load(self, node: E.BufferLoad, position: Position) -> Closure:
        return self.accesses.load(node)

    def _call(self, node: E.Call, position: Position) -> Closure:
        if isinstance(node.op, GlobalVar):
            return self._function_call(node)
        if is_choice(node):
            condition, yes, no = node.args
            return self._choice(condition, yes, no, position, True)
        if is_transparent(node):
            return self.translate(node.args[0], position)
        form = INTRINSIC_FORMS.get(node.op.name)
        return call_by_meaning(self, node) if form is None else form(self, node)

    def _function_call(self, node: E.Call) -> Closure:
        args, machine = [self.data(arg) for arg in node.args], self.machine

        def call(env: dict[Any, Any]) -> Any:
            value = machine.call_by_name(node.op, [arg(env) for arg in args])
            if value is None and node.dtype != "void":
                raise refusal("call", f"{node.op.name_hint} ended without returning a {node.dtype}", node)
            return value

        return call


def _whole_choice(chosen: Closure, yes: Closure, no: Closure, is_lazy: bool) -> Closure:
    """A choice between values by one condition; the values may be vectors."""
    if is_lazy:
        return lambda env, *active: (yes if chosen(env) else no)(env, *active)

    def both(env: dict[Any, Any], *active: Any) -> Any:
        condition, a, b = chosen(env), yes(env, *active), no(env, *active)
        return a if condition else b

    return both


def _fitting(node: E.PrimExpr) -> Callable[[int], int]:
    """The check that an index number fits the type of an expression."""
    low, high = dt.integer_range(dt.element_of(node.dtype))

    def check(value: int) -> int:
        if not low <= value <= high:
            raise refusal("index-cast", f"index arithmetic gives {value}, which is no {node.dtype}", node)
        return value

    return check


def _lane_fit(node: E.Ramp, position: Position) -> Callable[[int], int]:
    """What each lane of a ramp is made to fit its type by."""
    if position is Position.INDEX and has_index_type(node):
        return _fitting(node)
    element = dt.element_of(node.dtype)
    return rounding(element) if dt.is_float(element) else wrapping(element)


_ON_INDICES = {Position.INDEX: index_operation, Position.REGION: exact_operation}
"""What operations on integers are in the positions of index arithmetic."""


def _ramp_lanes(
    base: Any, stride: Any, steps: range, fit: Callable[[Any], Any], active: Sequence[bool]
) -> list[Any]:
    return [fit(base + stride * step) if is_on else None for step, is_on in zip(steps, active)]


_FORMS: dict[type, Callable[[Expressions, Any, Position], Closure]] = {
    E.Var: Expressions._variable,
    E.IntImm: Expressions._literal,
    E.FloatImm: Expressions._literal,
    E.StringImm: Expressions._text,
    E.BinaryOpExpr: Expressions._binary,
    E.CmpExpr: Expressions._comparison,
    E.LogicalExpr: Expressions._connective,
    E.Not: Expressions._not,
    E.Cast: Expressions._cast,
    E.Select: Expressions._select,
    E.Ramp: Expressions._ramp,
    E.Broadcast: Expressions._broadcast,
    E.Shuffle: Expressions._shuffle,
    E.Let: Expressions._let,
    E.BufferLoad: Expressions._load,
    E.Call: Expressions._call,
}
