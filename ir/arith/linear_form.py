"""The form behind all index arithmetic: a sum of integer multiples, as a dict from a term to its coefficient other than 0.

What a term is depends on who asks, and on nothing else do the forms differ:

- an atom of one kernel, beside a constant: :class:`.index_simplifier.Linear`, for thousands of indices in microseconds;
- a product of atoms: :mod:`.polynomial` (equal atoms have one number) and :mod:`schedules.affine` (atoms are compared by
  identity, and products keep the order of appearance), for symbolic extents;
- a piece ``index % upper // lower`` of an atom: :class:`.canonical_form.Sum`, a list, because pieces of one index are merged
  with their neighbours.

:class:`.iter_map_expr.IterSumExpr` is a node of programs whose scales may be expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Term = TypeVar("Term", bound=Hashable)


def combined(a: Mapping[Term, int], b: Mapping[Term, int], factor: int = 1) -> dict[Term, int]:
    """``a + factor * b``.

    >>> combined({"i": 4, "j": 1}, {"i": 2, "k": 1}, -2)
    {'j': 1, 'k': -2}
    """
    result = dict(a)
    for term, coefficient in b.items():
        total = result.get(term, 0) + factor * coefficient
        if total:
            result[term] = total
        else:
            result.pop(term, None)
    return result


def scaled(a: Mapping[Term, int], factor: int) -> dict[Term, int]:
    """``factor * a``."""
    return {term: coefficient * factor for term, coefficient in a.items()} if factor else {}


def multiplied(
    a: Mapping[Term, int], b: Mapping[Term, int], product: Callable[[Term, Term], Term]
) -> dict[Term, int]:
    """``a * b``, term by term; ``product`` joins two terms.

    >>> multiplied({"i": 2, "": 1}, {"i": 1, "": -1}, lambda x, y: x + y)
    {'ii': 2, 'i': -1, '': -1}
    """
    result: dict[Term, int] = {}
    for left, x in a.items():
        for right, y in b.items():
            term = product(left, right)
            total = result.get(term, 0) + x * y
            if total:
                result[term] = total
            else:
                result.pop(term, None)
    return result
