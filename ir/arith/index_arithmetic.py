"""Which expressions are index arithmetic, made of index variables and constants alone, and which are data or hold data.

``docs/semantics.md`` ([index-condition], [index-atom], [data-wrap]) says what follows from it: comparisons of index arithmetic are
comparisons of numbers of ℤ, any others wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tir import expr as E
from ..tir.intrinsic.declaration import is_transparent
from .domain import is_number


class IndexArithmetic:
    """Answers once for each expression, and from memory afterwards."""

    def __init__(self) -> None:
        self._data: set[Any] = set()
        self._memo: dict[int, tuple[Any, bool]] = {}

    def mark_data(self, var: Any) -> None:
        """A variable holds data: a let has bound it to what is no index arithmetic."""
        if var not in self._data:
            self._data.add(var)
            self._memo.clear()

    def __call__(self, e: Any) -> bool:
        """Whether an expression is index arithmetic, or a condition on such."""
        cls = e.__class__
        if cls is E.IntImm:
            return True
        if cls is E.Var or cls is E.SizeVar:
            return is_number(e.dtype) and e not in self._data
        found = self._memo.get(id(e))
        if found is None:
            method = _TABLE.get(cls)
            found = self._memo[id(e)] = (e, method is not None and method(self, e))
        return found[1]

    def changes_meaning(self, before: Any, after: Any, exact: Callable[[Any], bool]) -> bool:
        """Whether data has become index arithmetic because the atoms that made it data are gone, as those of ``A[i] * 0 + n * 4 < 5``.

        What wrapped would then be a number of ℤ, unless it is ``exact``: cannot wrap. The form before has to stay.
        """
        if self(before):
            return False
        parts: list[Any] = [after]
        while parts:
            part = parts.pop()
            if part.__class__ in _CONNECTIVES:
                part._visit_children(parts.append)
            elif part.is_compound and self(part) and not exact(part):
                return True
        return False

    def _arithmetic(self, e: Any) -> bool:
        return is_number(e.dtype) and self(e.a) and self(e.b)

    def _pair(self, e: Any) -> bool:
        return self(e.a) and self(e.b)

    def _cast(self, e: Any) -> bool:
        return is_number(e.dtype) and is_number(e.value.dtype) and self(e.value)

    def _choice(self, e: Any) -> bool:
        return is_number(e.dtype) and self(e.condition) and self(e.true_value) and self(e.false_value)

    def _call(self, e: Any) -> bool:
        is_operand = getattr(e.op, "name", "") == "tir.if_then_else" or is_transparent(e)
        return is_operand and all([self(item) for item in e.args])

    def _let(self, e: Any) -> bool:
        if is_number(e.value.dtype) and self(e.value):
            return self(e.body)
        self.mark_data(e.var)
        return False


_CONNECTIVES = frozenset((E.And, E.Or, E.Not))
_TABLE: dict[type, Callable[[IndexArithmetic, Any], bool]] = {
    **{
        cls: IndexArithmetic._arithmetic
        for cls in (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
    },
    **{cls: IndexArithmetic._pair for cls in (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or)},
    E.Not: lambda self, e: self(e.a),
    E.Cast: IndexArithmetic._cast,
    E.Select: IndexArithmetic._choice,
    E.Call: IndexArithmetic._call,
    E.Let: IndexArithmetic._let,
    E.Ramp: lambda self, e: self(e.base) and self(e.stride),
    E.Broadcast: lambda self, e: self(e.value),
}
