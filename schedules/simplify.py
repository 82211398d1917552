"""Simplification of block bindings under the ranges of the loops around them."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.arith import Analyzer, detect_iter_map, normalize_iter_map_to_expr

from .affine import Polynomial, mentions, polynomial, simplify_polynomial
from .tree import BlockNode, loops_around


def simplify_bindings(block: BlockNode, fresh: set[Any], drop_units: bool = False) -> None:
    """Bring the bindings of a block into canonical form, in place, after ``fresh`` loop variables came into them.

    Without a predicate polynomials collect like terms; other bindings become the normal form of iterator maps, such as
    ``f % 64 // 8``, and stay as they are where they have none. ``drop_units`` replaces loops of extent 1 by their only value.
    """
    loops = loops_around(block)
    values = block.iter_values
    if drop_units:
        units = {loop.var: loop.min for loop in loops if _is_one(loop.extent)}
        values = tuple(tir.substitute(value, units) for value in values) if units else values
    polynomials = [polynomial(value) for value in values]
    if _is_one(block.predicate) and all(_is_normal(poly, fresh) for poly in polynomials):
        result = tuple(poly.to_expr() for poly in polynomials)
    else:
        result = _iterator_maps(block, values)
    if any(a is not b for a, b in zip(result, block.iter_values, strict=True)):
        block.change(iter_values=result)


def _is_normal(poly: Polynomial, fresh: set[Any]) -> bool:
    """Whether collecting terms is all there is to do: divisions are old ones, or a single digit of a fresh loop."""
    digits = [
        atom
        for monomial in poly.terms
        for atom in monomial
        if atom.__class__ is not tir.Var and mentions(atom, fresh)
    ]
    return not digits or (len(digits) == 1 and _is_digit(digits[0]))


def _is_digit(atom: Any) -> bool:
    """``f // a``, ``f % b`` or ``f % b // a``."""
    if atom.__class__ is tir.FloorDiv and atom.b.__class__ is tir.IntImm:
        atom = atom.a
    if atom.__class__ is tir.FloorMod and atom.b.__class__ is tir.IntImm:
        atom = atom.a
    return atom.__class__ is tir.Var


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _iterator_maps(block: BlockNode, values: tuple[Any, ...]) -> tuple[Any, ...]:
    loops = loops_around(block)
    ranges = {loop.var: loop.range() for loop in loops}
    analyzer = Analyzer()
    found = detect_iter_map(
        list(values), ranges, block.predicate, simplify_trivial_iterators=False, analyzer=analyzer
    )
    return tuple(simplify_polynomial(normalize_iter_map_to_expr(item)) for item in found.indices) or values
