"""Linear arithmetic: coefficients of an expression, clipping conditions, systems of equations and inequalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..error import IRTypeError
from ..node import Node, field
from ..tir import expr as E
from ..tir import operators
from ..tir.expr import IntImm, PrimExpr, Range
from ..tir.stmt_functor import substitute, variables_in
from . import build
from .analyzer import Analyzer
from .deep_equal import expr_deep_equal


def _uses_any(expr: Any, variables: Sequence[Any]) -> bool:
    if any(expr is var for var in variables):
        return True
    found: list[bool] = []
    expr._visit_children(lambda child: found.append(_uses_any(child, variables)))
    return any(found)


def _linear(expr: Any, variables: Sequence[Any]) -> list[Any] | None:
    """Coefficients of the variables and the constant term behind them; None where the expression is not linear."""
    zero = build.const(0, expr.dtype)
    for position, var in enumerate(variables):
        if expr is var:
            result = [zero] * (len(variables) + 1)
            result[position] = build.const(1, expr.dtype)
            return result
    cls = expr.__class__
    if cls in (E.Add, E.Sub):
        a, b = _linear(expr.a, variables), _linear(expr.b, variables)
        if a is None or b is None:
            return None
        join = build.add if cls is E.Add else build.sub
        return [
            join(x, y) if not (build.is_const(x, 0) and build.is_const(y, 0)) else zero for x, y in zip(a, b)
        ]
    if cls is E.Mul:
        a, b = _linear(expr.a, variables), _linear(expr.b, variables)
        if a is None or b is None:
            return None
        for left, right in ((a, b), (b, a)):
            if all(build.is_const(item, 0) for item in right[:-1]):
                return [build.mul(item, right[-1]) for item in left]
        return None
    if _uses_any(expr, variables):
        return None
    return [zero] * len(variables) + [expr]


def detect_linear_equation(expr: PrimExpr, var_list: Sequence[E.Var]) -> list[PrimExpr]:
    """Coefficients ``[c0, c1, ..., base]`` with ``expr == sum(ci * vari) + base``; an empty list where there are none.

    >>> from ir.tir import Var
    >>> x = Var("x")
    >>> [item.value for item in detect_linear_equation(x * 3 + 2, [x])]
    [3, 2]
    """
    found = _linear(expr, list(var_list))
    if found is None:
        return []
    analyzer = Analyzer()
    return [analyzer.simplify(item) for item in found]


def detect_clip_bound(expr: PrimExpr, var_list: Sequence[E.Var]) -> list[PrimExpr | None]:
    """``[min0, max0, min1, max1, ...]``: what a conjunction of linear comparisons says of each variable, None for nothing.

    An empty list is returned where the condition has another form.
    """
    analyzer = Analyzer()
    bounds: list[PrimExpr | None] = [None] * (2 * len(var_list))
    stack = [expr]
    while stack:
        item: Any = stack.pop()
        if item.__class__ is E.And:
            stack += [item.b, item.a]
            continue
        if not _clip(item, list(var_list), bounds, analyzer):
            return []
    return bounds


def _clip(condition: Any, variables: list[Any], bounds: list[Any], analyzer: Analyzer) -> bool:
    cls = condition.__class__
    if cls not in (E.LT, E.LE, E.GT, E.GE, E.EQ):
        return False
    a, b = (condition.b, condition.a) if cls in (E.GT, E.GE) else (condition.a, condition.b)
    strict = cls in (E.LT, E.GT)
    used = [position for position, var in enumerate(variables) if _uses_any(condition, [var])]
    if len(used) != 1:
        return False
    position = used[0]
    # a <= b is a - b <= 0: coefficient * var + base <= 0
    linear = _linear(build.sub(a, b), [variables[position]])
    if linear is None:
        return False
    coefficient, base = (analyzer.simplify(item) for item in linear)
    if strict:
        base = analyzer.simplify(build.add(base, build.const(1, base.dtype)))
    if coefficient.__class__ is not IntImm or coefficient.value not in (1, -1):
        return False
    below = coefficient.value == 1
    limit = analyzer.simplify(build.sub(build.const(0, base.dtype), base)) if below else base
    for is_max in (True, False) if cls is E.EQ else (below,):
        value = limit
        slot = 2 * position + (1 if is_max else 0)
        known = bounds[slot]
        if known is not None:
            value = analyzer.simplify(operators.min(known, value) if is_max else operators.max(known, value))
        bounds[slot] = value
    return True


# ---- systems ----------------------------------------------------------------------------------------------------


class IntConstraints(Node, type_key="arith.IntConstraints"):
    """Conditions (``relations``) on ``variables``, whose ``ranges`` are known in part."""

    variables: tuple[E.Var, ...] = field(kind="seq")
    ranges: dict[E.Var, Range] = field(kind="leaf")
    relations: tuple[PrimExpr, ...] = field(kind="seq")


class IntConstraintsTransform(Node, type_key="arith.IntConstraintsTransform"):
    """Two sets of constraints with the same solutions, and the substitutions from one to the other."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: dict[E.Var, PrimExpr] = field(kind="leaf")
    dst_to_src: dict[E.Var, PrimExpr] = field(kind="leaf")


class IntGroupBounds(Node, type_key="arith.IntGroupBounds"):
    """``coef * var`` is one of ``equal``, at least each of ``lower`` and at most each of ``upper``."""

    coef: PrimExpr
    lower: tuple[PrimExpr, ...]
    equal: tuple[PrimExpr, ...]
    upper: tuple[PrimExpr, ...]

    def find_best_range(self, ranges_addl: Mapping[E.Var, Range] | None = None) -> Range | None:
        """The tightest Range of the variable by these bounds, coefficients divided out; None without two ends."""
        analyzer = Analyzer()
        for var, domain in (ranges_addl or {}).items():
            analyzer.bind(var, domain)
        coef, one = self.coef, build.const(1, self.coef.dtype)
        lows = [build.floordiv(build.add(x, build.sub(coef, one)), coef) for x in (*self.lower, *self.equal)]
        highs = [build.floordiv(x, coef) for x in (*self.upper, *self.equal)]
        if not lows or not highs:
            return None
        low, high = lows[0], highs[0]
        for item in lows[1:]:
            low = operators.max(low, item)
        for item in highs[1:]:
            high = operators.min(high, item)
        low = analyzer.simplify(low)
        return Range.from_min_extent(low, analyzer.simplify(build.add(build.sub(high, low), one)))


def _constraints(
    equations: Any, variables: Sequence[E.Var] | None, ranges: Mapping[E.Var, Range] | None
) -> IntConstraints:
    if isinstance(equations, IntConstraints):
        return equations
    relations = list(equations) if isinstance(equations, list | tuple) else [equations]
    if variables is None:
        variables = variables_in(*relations)
    return IntConstraints(tuple(variables), dict(ranges or {}), tuple(relations))


def _integer_rows(constraints: IntConstraints) -> tuple[list[list[int]], list[Any], list[Any]]:
    """Rows of integer coefficients with right sides ``A x == b``; what is no linear equation comes back apart."""
    analyzer = Analyzer()
    rows: list[list[int]] = []
    right: list[Any] = []
    other: list[Any] = []
    for relation in constraints.relations:
        if relation.__class__ is not E.EQ:
            other.append(relation)
            continue
        linear = _linear(analyzer.simplify(build.sub(relation.a, relation.b)), constraints.variables)  # type: ignore[attr-defined]
        simplified = None if linear is None else [analyzer.simplify(item) for item in linear]
        if simplified is None or any(item.__class__ is not IntImm for item in simplified[:-1]):
            other.append(relation)
            continue
        rows.append([item.value for item in simplified[:-1]])
        right.append(analyzer.simplify(build.sub(build.const(0, simplified[-1].dtype), simplified[-1])))
    return rows, right, other


def smith_normal_form(
    matrix: list[list[int]], right: list[Any]
) -> tuple[list[list[int]], list[Any], list[list[int]]]:
    """Diagonal ``D = U A V`` by integer row and column operations; returns (D, U applied to ``right``, V)."""
    rows, columns = len(matrix), len(matrix[0]) if matrix else 0
    a = [list(row) for row in matrix]
    b = list(right)
    v = [[int(i == j) for j in range(columns)] for i in range(columns)]

    def add_row(target: int, source: int, factor: int) -> None:
        a[target] = [x + factor * y for x, y in zip(a[target], a[source])]
        b[target] = operators.add(b[target], operators.multiply(b[source], factor))

    def add_column(target: int, source: int, factor: int) -> None:
        for row in (*a, *v):
            row[target] += factor * row[source]

    for step in range(min(rows, columns)):
        while True:
            pivots = [
                (abs(a[i][j]), i, j) for i in range(step, rows) for j in range(step, columns) if a[i][j]
            ]
            if not pivots:
                return a, b, v
            _, i, j = min(pivots)
            a[step], a[i] = a[i], a[step]
            b[step], b[i] = b[i], b[step]
            for row in (*a, *v):
                row[step], row[j] = row[j], row[step]
            pivot = a[step][step]
            for i in range(step + 1, rows):
                if a[i][step]:
                    add_row(i, step, -(a[i][step] // pivot))
            for j in range(step + 1, columns):
                if a[step][j]:
                    add_column(j, step, -(a[step][j] // pivot))
            if not any(a[i][step] for i in range(step + 1, rows)) and not any(a[step][step + 1 :]):
                break
        if a[step][step] < 0:
            a[step] = [-x for x in a[step]]
            b[step] = operators.multiply(b[step], -1)
    return a, b, v


def solve_linear_equations(
    equations: Any, variables: Sequence[E.Var] | None = None, ranges: Mapping[E.Var, Range] | None = None
) -> IntConstraintsTransform:
    """Solve linear equations over the integers.

    Args:
        equations: a list of ``==`` comparisons, or IntConstraints.
        variables: the unknowns (default: all variables that occur).
        ranges: what is known of them.

    Returns:
        The transformation to free variables ``n0, n1, ...`` (as many as the solution has dimensions). A system without
        solution has the relation False.
    """
    src = _constraints(equations, variables, ranges)
    analyzer = Analyzer()
    rows, right, other = _integer_rows(src)
    unknowns = list(src.variables)
    if not rows:
        same = {var: var for var in unknowns}
        return IntConstraintsTransform(src, src, dict(same), dict(same))
    diagonal, transformed, v = smith_normal_form(rows, right)
    dtype = unknowns[0].dtype
    relations: list[Any] = []
    solution: list[Any] = [None] * len(unknowns)
    for i, row in enumerate(diagonal):
        value = analyzer.simplify(transformed[i])
        pivot = row[i] if i < len(row) else 0
        if pivot == 0:
            relations.append(analyzer.simplify(operators.compare(E.EQ, value, 0)))
        else:
            if pivot != 1:
                relations.append(
                    analyzer.simplify(operators.compare(E.EQ, operators.floormod(value, pivot), 0))
                )
            solution[i] = analyzer.simplify(operators.floordiv(value, pivot))
    free: list[Any] = []
    for i, item in enumerate(solution):
        if item is None:
            free.append(E.Var(f"n{len(free)}", dtype))
            solution[i] = free[-1]
    relations = [item for item in relations if not (item.__class__ is IntImm and item.value)]
    if any(item.__class__ is IntImm for item in relations):
        false = IntConstraints((), {}, (build.boolean(False),))
        return IntConstraintsTransform(src, false, {}, {})
    src_to_dst: dict[Any, Any] = {}
    for i, var in enumerate(unknowns):
        total: Any = build.const(0, dtype)
        for j, item in enumerate(solution):
            if v[i][j]:
                total = operators.add(total, operators.multiply(item, v[i][j]))
        src_to_dst[var] = analyzer.simplify(total)
    dst_to_src = _solved_for_free(unknowns, src_to_dst, free, analyzer)
    for var, domain in src.ranges.items():
        if var in src_to_dst:
            value = src_to_dst[var]
            relations.append(analyzer.simplify(operators.compare(E.GE, value, domain.min)))
            relations.append(
                analyzer.simplify(operators.compare(E.LT, value, operators.add(domain.min, domain.extent)))
            )
    relations += [substitute(item, src_to_dst) for item in other]
    relations = [item for item in relations if not (item.__class__ is IntImm and item.value)]
    new_ranges, relations = _ranges_from(free, relations, analyzer)
    dst = IntConstraints(tuple(free), new_ranges, tuple(relations))
    return IntConstraintsTransform(src, dst, src_to_dst, dst_to_src)


def _solved_for_free(
    unknowns: list[Any], src_to_dst: Mapping[Any, Any], free: list[Any], analyzer: Analyzer
) -> dict[Any, Any]:
    """Each free variable in terms of the unknowns, from an unknown in which it stands alone with a unit coefficient."""
    result: dict[Any, Any] = {}
    for target in free:
        for var in unknowns:
            linear = _linear(src_to_dst[var], free)
            if linear is None:
                continue
            factors = [analyzer.simplify(item) for item in linear]
            position = next(i for i, item in enumerate(free) if item is target)
            alone = all(build.is_const(item, 0) for i, item in enumerate(factors[:-1]) if i != position)
            if alone and factors[position].__class__ is IntImm and factors[position].value in (1, -1):
                result[target] = analyzer.simplify(
                    operators.multiply(operators.subtract(var, factors[-1]), factors[position].value)
                )
                break
    return result


def _ranges_from(
    variables: list[Any], relations: list[Any], analyzer: Analyzer
) -> tuple[dict[Any, Range], list[Any]]:
    """Ranges of variables with a lower and an upper bound among the relations; the others stay relations."""
    ranges: dict[Any, Range] = {}
    for var in variables:
        mine = [item for item in relations if _uses_any(item, [var])]
        if any(_uses_any(item, [other]) for item in mine for other in variables if other is not var):
            continue
        low, high = None, None
        for item in mine:
            found = detect_clip_bound(item, [var])
            if not found:
                break
            if found[0] is not None:
                low = found[0] if low is None else analyzer.simplify(operators.max(low, found[0]))
            if found[1] is not None:
                high = found[1] if high is None else analyzer.simplify(operators.min(high, found[1]))
        else:
            if low is not None and high is not None:
                ranges[var] = Range.from_min_extent(
                    low, analyzer.simplify(operators.add(operators.subtract(high, low), 1))
                )
                relations = [item for item in relations if item not in mine]
    return ranges, relations


# ---- inequalities -----------------------------------------------------------------------------------------------


def _bounds_by_elimination(
    src: IntConstraints,
) -> tuple[dict[Any, IntGroupBounds], list[Any]]:
    """Fourier-Motzkin elimination: bounds of each variable by those that follow it, and what is left over."""
    analyzer = Analyzer()
    inequalities: list[list[Any]] = []  # coefficients and base of ``sum + base <= 0``
    leftover: list[Any] = []
    variables = list(src.variables)
    for var, domain in src.ranges.items():
        for relation in (
            operators.compare(E.GE, var, domain.min),
            operators.compare(E.LT, var, operators.add(domain.min, domain.extent)),
        ):
            _add_inequality(relation, variables, inequalities, leftover, analyzer)
    for relation in src.relations:
        _add_inequality(relation, variables, inequalities, leftover, analyzer)
    bounds: dict[Any, IntGroupBounds] = {}
    for position, var in enumerate(variables):
        uppers = [row for row in inequalities if row[position] > 0]
        lowers = [row for row in inequalities if row[position] < 0]
        inequalities = [row for row in inequalities if row[position] == 0]
        from math import lcm

        coef = 1
        for row in uppers + lowers:
            coef = lcm(coef, abs(row[position]))
        upper_exprs = [_rest(row, position, variables, -(coef // row[position]), analyzer) for row in uppers]
        lower_exprs = [_rest(row, position, variables, coef // -row[position], analyzer) for row in lowers]
        lower, upper = _distinct(lower_exprs), _distinct(upper_exprs)
        equal = [item for item in lower if any(analyzer.can_prove_equal(item, other) for other in upper)]
        bounds[var] = IntGroupBounds(
            build.const(coef, var.dtype),
            tuple(item for item in lower if not any(item is same for same in equal)),
            tuple(equal),
            tuple(item for item in upper if not any(analyzer.can_prove_equal(item, same) for same in equal)),
        )
        for up in uppers:
            for low in lowers:
                # a x <= -u and -c x <= -l: c u + a l <= 0 without x
                a, c = up[position], -low[position]
                combined: list[Any] = [c * x + a * y for x, y in zip(up[:-1], low[:-1])]
                base = analyzer.simplify(
                    operators.add(operators.multiply(up[-1], c), operators.multiply(low[-1], a))
                )
                row = [*combined, base]
                if any(combined):
                    if not any(_same_row(row, other, analyzer) for other in inequalities):
                        inequalities.append(row)
                else:
                    condition = analyzer.simplify(operators.compare(E.LE, base, 0))
                    if not (condition.__class__ is IntImm and condition.value):
                        leftover.append(condition)
    return bounds, leftover


def _same_row(a: list[Any], b: list[Any], analyzer: Analyzer) -> bool:
    return a[:-1] == b[:-1] and analyzer.can_prove_equal(a[-1], b[-1])


def _distinct(items: list[Any]) -> list[Any]:
    result: list[Any] = []
    for item in items:
        if not any(expr_deep_equal(item, other) for other in result):
            result.append(item)
    return result


def _rest(row: list[Any], position: int, variables: list[Any], factor: int, analyzer: Analyzer) -> Any:
    """``factor * (row without the variable)``."""
    total: Any = operators.multiply(row[-1], factor)
    for i, var in enumerate(variables):
        if i != position and row[i]:
            total = operators.add(total, operators.multiply(var, row[i] * factor))
    return analyzer.simplify(total)


def _add_inequality(
    relation: Any,
    variables: list[Any],
    inequalities: list[list[Any]],
    leftover: list[Any],
    analyzer: Analyzer,
) -> None:
    cls = relation.__class__
    if cls is IntImm:
        if not relation.value:
            leftover.append(relation)
        return
    if cls is E.And:
        _add_inequality(relation.a, variables, inequalities, leftover, analyzer)
        _add_inequality(relation.b, variables, inequalities, leftover, analyzer)
        return
    if cls not in (E.LT, E.LE, E.GT, E.GE, E.EQ):
        leftover.append(relation)
        return
    a, b = (relation.b, relation.a) if cls in (E.GT, E.GE) else (relation.a, relation.b)
    linear = _linear(build.sub(a, b), variables)
    simplified = None if linear is None else [analyzer.simplify(item) for item in linear]
    if simplified is None or any(item.__class__ is not IntImm for item in simplified[:-1]):
        leftover.append(relation)
        return
    row: list[Any] = [item.value for item in simplified[:-1]]
    base = simplified[-1]
    if cls in (E.LT, E.GT):
        base = analyzer.simplify(operators.add(base, 1))
    if not any(row):
        leftover.append(relation)
        return
    inequalities.append([*row, base])
    if cls is E.EQ:
        inequalities.append([*[-x for x in row], analyzer.simplify(operators.multiply(base, -1))])


def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[E.Var] | None = None,
    ranges: Mapping[E.Var, Range] | None = None,
    deskew_range: bool = False,
) -> Any:
    """Solve linear inequalities by Fourier-Motzkin elimination.

    Args:
        equations: a list of comparisons, or IntConstraints.
        variables: the unknowns, eliminated in this order (default: all variables that occur).
        ranges: what is known of them.
        deskew_range: return a transformation to variables whose ranges start at 0.

    Returns:
        IntConstraints whose ranges are the ones deduced and whose relations are the bounds that make no range; with
        ``deskew_range`` an IntConstraintsTransform.
    """
    src = _constraints(equations, variables, ranges)
    if not isinstance(src, IntConstraints):
        raise IRTypeError("solve_linear_inequalities takes comparisons or IntConstraints")
    bounds, leftover = _bounds_by_elimination(src)
    analyzer = Analyzer()
    found: dict[Any, Range] = {}
    relations: list[Any] = []
    for var in reversed(src.variables):
        group = bounds[var]
        best = group.find_best_range(found)
        scaled = operators.multiply(var, group.coef)
        if best is not None:
            found[var] = best
            exact = len(group.lower) + len(group.equal) <= 1 and len(group.upper) + len(group.equal) <= 1
            if exact and build.is_const(group.coef, 1):
                continue
        for item in group.equal:
            relations.append(analyzer.simplify(operators.compare(E.EQ, scaled, item)))
        for item in group.lower:
            relations.append(analyzer.simplify(operators.compare(E.GE, scaled, item)))
        for item in group.upper:
            relations.append(analyzer.simplify(operators.compare(E.LE, scaled, item)))
    kept = [item for item in [*relations, *leftover] if not (item.__class__ is IntImm and item.value)]
    solved = IntConstraints(
        src.variables, {var: found[var] for var in src.variables if var in found}, tuple(kept)
    )
    return _deskewed(solved) if deskew_range else solved


def _deskewed(solved: IntConstraints) -> IntConstraintsTransform:
    """New variables, whose ranges begin at 0, in place of those with a range."""
    analyzer = Analyzer()
    src_to_dst: dict[Any, Any] = {}
    dst_to_src: dict[Any, Any] = {}
    ranges: dict[Any, Range] = {}
    names: list[Any] = []
    for var in reversed(solved.variables):
        domain = solved.ranges.get(var)
        if domain is None:
            src_to_dst[var] = dst_to_src[var] = var
            names.append(var)
            continue
        low = analyzer.simplify(substitute(domain.min, src_to_dst))
        extent = analyzer.simplify(substitute(domain.extent, src_to_dst))
        if build.is_const(extent, 1):
            src_to_dst[var] = low
            continue
        fresh = E.Var(f"{var.name}_shifted", var.dtype)
        names.append(fresh)
        src_to_dst[var] = analyzer.simplify(operators.add(fresh, low))
        dst_to_src[fresh] = analyzer.simplify(operators.subtract(var, domain.min))
        ranges[fresh] = Range.from_min_extent(build.const(0, var.dtype), extent)
    relations = [analyzer.simplify(substitute(item, src_to_dst)) for item in solved.relations]
    kept = tuple(item for item in relations if not (item.__class__ is IntImm and item.value))
    return IntConstraintsTransform(
        solved, IntConstraints(tuple(reversed(names)), ranges, kept), src_to_dst, dst_to_src
    )
