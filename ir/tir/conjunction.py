"""Conditions as the clauses that ``and`` joins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from .expr import And, Call, IntImm, Not, Or, PrimExpr
from .intrinsic.declaration import is_transparent


def conjuncts(condition: Any) -> list[PrimExpr]:
    """The clauses of a condition, in order: all of them hold where it does. Marks such as ``likely`` are looked through, what is
    always true is left out.

    >>> from ir.tir import Var, likely
    >>> i = Var("i")
    >>> [str(clause) for clause in conjuncts(likely(And(i < 4, i > 0)))]
    ['i < 4', 'i > 0']
    """
    if condition.__class__ is And:
        return conjuncts(condition.a) + conjuncts(condition.b)
    if condition.__class__ is Call and is_transparent(condition):
        return conjuncts(condition.args[0])
    return [] if condition.__class__ is IntImm and condition.value else [condition]


def marked_conjuncts(condition: Any) -> list[PrimExpr]:
    """The same clauses, each in the marks that it stands in: where a condition is taken apart and put together again.

    >>> from ir.tir import Var, likely
    >>> i = Var("i")
    >>> [str(clause) for clause in marked_conjuncts(likely(And(i < 4, i > 0)))]
    ['T.likely(i < 4)', 'T.likely(i > 0)']
    """
    if condition.__class__ is And:
        return marked_conjuncts(condition.a) + marked_conjuncts(condition.b)
    if condition.__class__ is Call and is_transparent(condition):
        return [condition.replace(args=(clause,)) for clause in marked_conjuncts(condition.args[0])]
    return conjuncts(condition)


def comparisons(condition: Any) -> list[PrimExpr]:
    """What a condition is made of by ``and``, ``or`` and ``not``, in order: it changes only where one of these does.

    >>> from ir.tir import Var, likely
    >>> i = Var("i")
    >>> [str(part) for part in comparisons(likely(Not(Or(i < 4, i > 9))))]
    ['i < 4', 'i > 9']
    """
    if isinstance(condition, And | Or):
        return comparisons(condition.a) + comparisons(condition.b)
    if isinstance(condition, Not):
        return comparisons(condition.a)
    if isinstance(condition, Call) and is_transparent(condition):
        return comparisons(condition.args[0])
    return [condition]


def conjunction(clauses: Iterable[PrimExpr]) -> PrimExpr | None:
    """The clauses joined by ``and``; None for no clause."""
    joined = list(clauses)
    return reduce(And, joined) if joined else None
