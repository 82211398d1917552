"""Sums of multiples of variables, which nearly all indices are: read at once, and written in their canonical form."""

from __future__ import annotations

from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr
from ..tir.operators import const
from .index_simplifier import Linear

_MOST_STEPS = 48
"""Nodes that are read at most: what shares subexpressions would unfold to a tree that is not worth it."""
_LIMIT = 1 << 31
"""No coefficient or constant beyond this is read: it might not fit into its type."""


def affine_form(expr: Any) -> Linear | None:
    """The sum that an integer expression is; None when it is anything but small sums, differences and multiples of variables.

    >>> from ir.tir import Var
    >>> i, j = Var("i"), Var("j")
    >>> form = affine_form((i * 4 + j) * 2 - i + 3)
    >>> form.terms == {i: 7, j: 2}, form.const
    (True, 3)
    >>> affine_form(i // 4) is None
    True
    """
    terms: dict[PrimExpr, int] = {}
    constant = 0
    pending = [(expr, 1)]
    steps = 0
    while pending:
        steps += 1
        if steps > _MOST_STEPS:
            return None
        node, factor = pending.pop()
        kind = node.__class__
        if kind is E.Var or kind is E.SizeVar:
            terms[node] = terms.get(node, 0) + factor
        elif kind is IntImm:
            constant += factor * node.value
        elif kind is E.Add:
            pending += ((node.b, factor), (node.a, factor))
        elif kind is E.Sub:
            pending += ((node.b, -factor), (node.a, factor))
        elif kind is E.Mul and node.b.__class__ is IntImm:
            pending.append((node.a, factor * node.b.value))
        elif kind is E.Mul and node.a.__class__ is IntImm:
            pending.append((node.b, factor * node.a.value))
        else:
            return None
    if not -_LIMIT < constant < _LIMIT or any(not -_LIMIT < factor < _LIMIT for factor in terms.values()):
        return None
    return Linear({var: factor for var, factor in terms.items() if factor}, constant)


def canonical_sum(form: Linear, dtype: str) -> PrimExpr | None:
    """The canonical form of a sum: largest multiples first, what is subtracted last.

    None where no term is positive, one has another type, or the type does not hold a number.

    >>> from ir.tir import Var
    >>> i, j = Var("i"), Var("j")
    >>> canonical_sum(affine_form(3 + i - j * 2 + j * 10), "int32")
    j * 8 + i + 3
    """
    terms = form.terms
    if any(term.dtype != dtype for term in terms) or not form.fits(dtype):
        return None
    if not terms:
        return const(form.const, dtype)
    result: PrimExpr | None = None
    constant = form.const
    for var, factor in sorted(terms.items(), key=_by_factor) if len(terms) > 1 else terms.items():
        if factor > 0:
            term = var if factor == 1 else E.Mul(var, const(factor, dtype))
            result = term if result is None else E.Add(result, term)
            continue
        if result is None:
            return None
        if constant > 0:
            result, constant = E.Add(result, const(constant, dtype)), 0
        result = E.Sub(result, var if factor == -1 else E.Mul(var, const(-factor, dtype)))
    assert result is not None
    if constant > 0:
        return E.Add(result, const(constant, dtype))
    return E.Sub(result, const(-constant, dtype)) if constant else result


def _by_factor(term: tuple[PrimExpr, int]) -> int:
    return -term[1]
