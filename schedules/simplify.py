"""Simplification of block bindings under the ranges of the loops around them."""

from __future__ import annotations

from ir import tir

from .affine import polynomial
from .tree import BlockNode, TreeNode, loops_around


def simplify_binding(block: TreeNode, value: tir.PrimExpr) -> tir.PrimExpr:
    """A binding in canonical form: a polynomial collects like terms; divisions simplify under the loops' ranges."""
    poly = polynomial(value)
    if poly.is_polynomial():
        return poly.to_expr()
    from ir.arith import Analyzer

    analyzer = Analyzer()
    for loop in loops_around(block):
        analyzer.bind(loop.var, loop.range())
    return analyzer.simplify(value)


def simplify_bindings(block: BlockNode) -> None:
    """Simplify all bindings of a block in place."""
    values = tuple(simplify_binding(block, value) for value in block.iter_values)
    if any(a is not b for a, b in zip(values, block.iter_values, strict=True)):
        block.change(iter_values=values)
