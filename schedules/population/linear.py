"""How far an index moves per step of each loop, for all candidates at once.

Indices are affine in the loop variables with coefficients that are decisions, so one walk over the expression gives all steps.
Where a division, remainder or minimum of loop variables remains, the expression is probed instead. What depends on data has no
value here: see :func:`is_arithmetic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ir import tir
from ir.node import Visitor
from ir.tir.evaluate import Evaluator, evaluate
from ir.tir.intrinsic.declaration import find
from ir.tir.stmt_functor import variables_in

from ..affine import mentions
from ..random_variable import DecisionVar

Steps = dict[Any, Any]
"""Loop variable to the distance per step: an int or int64 [N]."""


class Values:
    """Values of variables where all loops begin, and what follows from them: the indices of a nest share most terms."""

    def __init__(self, begins: Mapping[Any, Any], extents: Mapping[Any, Any]) -> None:
        """
        Args:
            begins: values of all variables, with loop variables where their loops begin.
            extents: loop extents, for probing.
        """
        self.begins = begins
        self.extents = extents
        self.of = Evaluator(begins).visit
        self.steps: dict[int, Steps] = {}


def steps_of(index: Any, loops: frozenset[Any]) -> IndexSteps:
    """The steps of an index; structures of one program share most of their indices, which are looked at once."""
    if not isinstance(index, tir.PrimExpr):
        return IndexSteps(index, loops)
    return _known_steps(index, loops.intersection(variables_in(index)))


@lru_cache(maxsize=8192)
def _known_steps(index: tir.PrimExpr, used: frozenset[Any]) -> IndexSteps:
    return IndexSteps(index, used)


class IndexSteps:
    """The steps of one index expression.

    Args:
        index: the expression over loop variables and decisions.
        loops: the loop variables that may occur.
    """

    def __init__(self, index: Any, loops: frozenset[Any]) -> None:
        self.index = index
        self._loops = loops
        self._used: dict[int, frozenset[Any]] = {}
        self.used = self._collect(index)
        self.is_gather = not is_arithmetic(index, loops)

    def _collect(self, node: Any) -> frozenset[Any]:
        """Loop variables below a node, remembered for every node that evaluation asks about."""
        found: set[Any] = set()
        tir.post_order_visit(node, lambda item: found.add(item) if item in self._loops else None)
        result = frozenset(found)
        self._used[id(node)] = result
        return result

    def _loops_in(self, node: Any) -> frozenset[Any]:
        known = self._used.get(id(node))
        return self._collect(node) if known is None else known

    def evaluate(self, values: Values) -> Steps:
        """Steps of the loops that move the index."""
        if self.is_gather:
            # Data may be anything: any loop behind the index may move it.
            return dict.fromkeys(self.used, 1)
        return self._steps(self.index, values)

    def _steps(self, node: Any, values: Values) -> Steps:
        known = values.steps.get(id(node))
        if known is None:
            known = values.steps[id(node)] = self._new_steps(node, values)
        return known

    def _new_steps(self, node: Any, values: Values) -> Steps:
        if node in self._loops:
            return {node: 1}
        if not self._loops_in(node):
            return {}
        if isinstance(node, tir.Add | tir.Sub):
            left, right = self._steps(node.a, values), self._steps(node.b, values)
            sign = 1 if isinstance(node, tir.Add) else -1
            result = dict(left)
            for var, step in right.items():
                result[var] = result[var] + sign * step if var in result else sign * step
            return result
        if isinstance(node, tir.Mul):
            for factor, other in ((node.a, node.b), (node.b, node.a)):
                if not self._loops_in(factor):
                    scale = values.of(factor)
                    return {var: step * scale for var, step in self._steps(other, values).items()}
        if isinstance(node, tir.Cast):
            return self._steps(node.value, values)
        return self._probe(node, values)

    def _probe(self, node: Any, values: Values) -> Steps:
        """The larger of the first step and the mean step over the loop's range."""
        base = np.asarray(values.of(node), dtype=np.int64)
        result: Steps = {}
        for var in self._loops_in(node):
            begin = values.begins[var]
            last = np.maximum(np.asarray(values.extents[var]) - 1, 1)
            first = np.asarray(evaluate(node, {**values.begins, var: begin + np.minimum(last, 1)})) - base
            whole = np.asarray(evaluate(node, {**values.begins, var: begin + last})) - base
            mean = np.sign(whole) * -(-np.abs(whole) // last)
            result[var] = np.where(np.abs(mean) > np.abs(first), mean, first)
        return result


def is_arithmetic(expr: Any, loops: frozenset[Any]) -> bool:
    """Whether an expression has a value for every candidate and iteration: it reads nothing, and divides by no loop variable."""
    return bool(_Arithmetic(loops).visit(expr))


class _Arithmetic(Visitor):
    """Decisions, loops and numbers, under operators that can be evaluated anywhere."""

    def __init__(self, loops: frozenset[Any]) -> None:
        super().__init__()
        self._loops = loops

    def visit_Var(self, node: tir.Var) -> bool:
        return node in self._loops or isinstance(node, DecisionVar)

    def visit_IntImm(self, node: tir.IntImm | tir.FloatImm) -> bool:
        return True

    visit_FloatImm = visit_IntImm

    def _operands(self, node: Any) -> bool:
        return bool(self.visit(node.a) and self.visit(node.b))

    visit_BinaryOpExpr = visit_CmpExpr = visit_LogicalExpr = _operands

    def _division(self, node: Any) -> bool:
        """A divisor of loops may be zero where a guard keeps the program from it; one of decisions is none."""
        is_zero = isinstance(node.b, tir.IntImm) and node.b.value == 0
        return self._operands(node) and not is_zero and not mentions(node.b, self._loops)

    visit_FloorDiv = visit_FloorMod = visit_Div = visit_Mod = _division

    def visit_Not(self, node: tir.Not) -> bool:
        return bool(self.visit(node.a))

    def visit_Select(self, node: tir.Select) -> bool:
        return all(map(self.visit, (node.condition, node.true_value, node.false_value)))

    def visit_Cast(self, node: tir.Cast) -> bool:
        return bool(self.visit(node.value))

    def visit_Call(self, node: tir.Call) -> bool:
        record = find(node)
        return record is not None and record.meaning is not None and all(map(self.visit, node.args))

    def generic_visit(self, node: Any) -> bool:
        return False
