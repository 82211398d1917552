"""Iterator maps: which indices are sums of splits of the iterations, so that they are known to be bijective.

A loop nest's indices are affine in pieces of its iterators, ``(fuse(i, j) // lower) % extent * scale``. Detection writes each
index as an :class:`~ir.arith.iter_map_expr.IterSumExpr` of such pieces and checks that the pieces do not overlap and,
for a bijection, that they use every iterator up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..tir import expr as E
from ..tir import operators
from ..tir.conjunction import conjuncts
from ..tir.expr import IntImm, PrimExpr, Range
from . import build
from .analyzer import Analyzer as _Analyzer
from .iter_map_detector import Detector, NotAffine
from .iter_map_expr import (
    IterMapError,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    depth_of,
    normalize_iter_map_to_expr,
    one,
    source_expr,
    variables_of,
)

if TYPE_CHECKING:
    from .analyzer import Analyzer


def _predicate_parts(predicate: Any) -> list[tuple[Any, Any, Any]] | None:
    """Conjuncts as (expression, lower bound or None, upper bound or None), the upper one excluded; None if not so."""
    parts: list[tuple[Any, Any, Any]] = []
    for item in conjuncts(predicate):
        if not isinstance(item, E.LT | E.LE | E.GT | E.GE):
            return None
        a, b = (item.a, item.b) if isinstance(item, E.LT | E.LE) else (item.b, item.a)
        parts.append((a, b, isinstance(item, E.LE | E.GE)))
    return parts


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Write indices as sums of splits of the iterators, and check how they cover.

    Args:
        indices: integer expressions.
        input_iters: the iterators with their ranges.
        predicate: a condition on the iterations, of the form ``fused sum of iterators < constant`` and conjunctions.
        check_level: see :class:`IterMapLevel`.
        analyzer: what is known of the other variables.
        simplify_trivial_iterators: iterators of extent 1 are replaced by their value.

    Returns:
        The map; ``indices`` is empty and ``errors`` says why when the indices are not as asked.
    """
    level = level_of(check_level)
    analyzer = _Analyzer() if analyzer is None else analyzer
    with Iterators(analyzer, input_iters):
        found = detect(
            list(indices), dict(input_iters), predicate, level, analyzer, simplify_trivial_iterators
        )
    # Simplified where the iterators' ranges are unknown: within them there is no padding.
    found.padding_predicate = analyzer.simplify(found.padding_predicate)
    return found


def level_of(level: IterMapLevel | str | int) -> IterMapLevel:
    if isinstance(level, str):
        names = {name.lower(): member for name, member in IterMapLevel.__members__.items()}
        if level.lower() not in names:
            raise IterMapError(f"check_level is one of {sorted(names)}, got {level!r}")
        return names[level.lower()]
    return IterMapLevel(level)


class Iterators:
    """A scope in which the analyzer knows the ranges of the iterators."""

    def __init__(self, analyzer: Analyzer, input_iters: Mapping[Any, Range]) -> None:
        self._analyzer, self._iters = analyzer, input_iters
        self._saved: Any = None

    def __enter__(self) -> None:
        a = self._analyzer
        self._saved = a._knowledge.enter()
        for var, domain in self._iters.items():
            a._rewrite.substitutions.pop(var, None)
            if not build.is_const(domain.extent, 1):
                a._bind_range(var, domain)

    def __exit__(self, *exc: Any) -> None:
        self._analyzer._knowledge.leave(self._saved)


def detect(
    indices: list[Any],
    input_iters: dict[Any, Range],
    predicate: Any,
    level: IterMapLevel,
    analyzer: Analyzer,
    simplify_trivial: bool,
) -> IterMapResult:
    parts = _predicate_parts(analyzer.simplify(operators.convert(predicate)))
    false = build.boolean(False)
    if parts is None:
        return IterMapResult(
            (), (f"the predicate {predicate!r} is no conjunction of bounds on sums of iterators",), false
        )
    parts.sort(key=lambda part: len(variables_of(part[0])) + len(variables_of(part[1])))
    problem: Any = None
    for terms_apart in (False, True):
        detector = Detector(analyzer, input_iters, simplify_trivial, level)
        detector.terms_apart = terms_apart
        sums = _sums_of(detector, indices, parts)
        if not isinstance(sums, str) and any(item.needed for item in detector.paddings):
            collected = detector.paddings
            detector = Detector(analyzer, input_iters, simplify_trivial, level)
            detector.terms_apart, detector.collecting, detector.paddings = terms_apart, False, collected
            sums = _sums_of(detector, indices, parts)
        if isinstance(sums, str):
            problem = problem or sums
            continue
        found = None if level == IterMapLevel.NoCheck else _check_mapping(detector, sums, input_iters, level)
        if found is None:
            return IterMapResult(sums, (), detector.padding)
        problem = problem or found
    return IterMapResult((), (problem,), false)


def _sums_of(
    detector: Detector, indices: list[Any], parts: list[tuple[Any, Any, Any]]
) -> list[IterSumExpr] | str:
    """The sum of each index under the predicate, or what is wrong."""
    for low, high, inclusive in parts:
        problem = _apply_bound(detector, low, high, inclusive)
        if problem is not None and detector.check_level != IterMapLevel.NoCheck:
            return problem
    sums = []
    for index in indices:
        try:
            sums.append(detector.normalized(detector.convert(index)))
        except NotAffine as reason:
            return f"index {index!r}: {reason}"
    return sums


def _apply_bound(detector: Detector, left: Any, right: Any, inclusive: bool) -> str | None:
    """Use ``left < right`` (or ``<=``) to limit a fused iterator; says what is wrong when it cannot."""
    analyzer = detector.analyzer
    if analyzer.can_prove(build.le(left, right) if inclusive else build.lt(left, right)):
        return None
    try:
        total = detector.add(detector.convert(left), detector.convert(right), -1)
    except NotAffine as reason:
        return f"predicate: {reason}"
    # total + base < 0: an upper bound where all scales are positive, a lower bound where all are negative
    if not total.args:
        known = total.base.__class__ is IntImm and total.base.value >= (1 if inclusive else 0)
        return "the predicate holds nowhere" if known else None
    zero, unit = build.const(0, total.dtype), one(total.dtype)
    negative = [i for i in total.args if not analyzer._prove_ge(i.scale, 0)]
    if not negative:
        high = build.sub(unit if inclusive else zero, total.base)
        used = detector.constrain(IterSumExpr(total.args, zero), None, analyzer.simplify(high))
    elif len(negative) == len(total.args):
        flipped = [
            IterSplitExpr(i.source, i.lower_factor, i.extent, analyzer.simplify(build.sub(zero, i.scale)))
            for i in total.args
        ]
        low = total.base if inclusive else analyzer.simplify(build.add(total.base, unit))
        used = detector.constrain(IterSumExpr(flipped, zero), low, None)
    else:
        return "the predicate compares iterators with one another"
    return None if used else "the predicate bounds a sum of iterators that is not one fused iterator"


def _check_mapping(
    detector: Detector, sums: Sequence[IterSumExpr], input_iters: Mapping[Any, Range], level: IterMapLevel
) -> str | None:
    """What is wrong with the coverage; None when the map is as the level asks."""
    pieces: list[IterSplitExpr] = []
    for total in sums:
        if len(total.args) > 1:
            return "the terms of an index overlap or leave gaps"
        pieces += total.args
    problem = _check_disjoint(detector, pieces, level)
    if problem is not None:
        return problem
    reached: set[int] = set()
    pending = [item.source for item in pieces]
    while pending:
        mark = pending.pop()
        reached.add(id(mark))
        if isinstance(mark.source, IterSumExpr):
            pending += [item.source for item in mark.source.args]
    if any(id(mark) not in reached for mark in detector.bounded_marks()):
        return "the predicate bounds a sum of iterators that no index consists of"
    if level == IterMapLevel.Bijective:
        used: set[Any] = set()
        for item in pieces:
            used |= set(variables_of(source_expr(item.source)))
        for var in input_iters:
            total = detector.sums[var]
            if total.args and var not in used and not build.is_const(total.args[0].extent, 1):
                return f"iterator {var.name} is used by no index"
    return None


def _check_disjoint(detector: Detector, pieces: Sequence[IterSplitExpr], level: IterMapLevel) -> str | None:
    """Pieces of one mark must partition it (surjective: must not overlap).

    Marks of fused sums come first, the outermost before those inside; a fused mark stands for the pieces in its sum.
    """
    pending = list(pieces)
    while pending:
        depth = max(depth_of(item.source) for item in pending)
        current = [item for item in pending if depth_of(item.source) == depth]
        pending = [item for item in pending if depth_of(item.source) != depth]
        groups: list[tuple[IterMark, list[IterSplitExpr]]] = []
        for item in current:
            for mark, members in groups:
                if detector.same_mark(mark, item.source):
                    members.append(item)
                    break
            else:
                groups.append((item.source, [item]))
        for mark, members in groups:
            problem = _check_partition(detector, mark, members, level)
            if problem is not None:
                return problem
            if isinstance(mark.source, IterSumExpr):
                pending += mark.source.args
        if depth == 0:
            taken: set[Any] = set()
            for mark, _ in groups:
                names = set(variables_of(mark.source)) & detector.sums.keys()
                if names & taken:
                    return "an iterator is used by two indices"
                taken |= names
    return None


def _check_partition(
    detector: Detector, mark: IterMark, members: list[IterSplitExpr], level: IterMapLevel
) -> str | None:
    remaining = list(members)
    expected: Any = one(mark.source.dtype)
    while remaining:
        matching = [item for item in remaining if detector.equal(item.lower_factor, expected)]
        if not matching:
            if level == IterMapLevel.Bijective:
                return "some values of an iterator are used by no index"
            # A gap below: surjective maps may leave iterators unused; the next piece must start at a multiple.
            constants = [item for item in remaining if item.lower_factor.__class__ is IntImm]
            candidates = constants or remaining
            matching = [
                min(
                    candidates,
                    key=lambda i: i.lower_factor.value if i.lower_factor.__class__ is IntImm else 0,
                )
            ]
            if not detector.divides(expected, matching[0].lower_factor):
                return "pieces of an iterator overlap"
        item = next((each for each in matching if build.is_const(each.extent, 1)), matching[0])
        remaining.remove(item)
        expected = detector.simplify(build.mul(item.lower_factor, item.extent))
    if level == IterMapLevel.Bijective and not detector.equal(expected, mark.extent):
        return "some values of an iterator are used by no index"
    if not detector.equal(expected, mark.extent) and not detector.divides(expected, mark.extent):
        if not detector.analyzer.can_prove(build.le(expected, mark.extent)):
            return "pieces of an iterator overlap or reach beyond it"
    return None


def normalize_to_iter_sum(
    index: PrimExpr, input_iters: Mapping[E.Var, Range], analyzer: Analyzer | None = None
) -> IterSumExpr:
    """An index as a sum of splits, without any check; what is no affine map of the iterators goes into the base."""
    analyzer = _Analyzer() if analyzer is None else analyzer
    with Iterators(analyzer, input_iters):
        detector = Detector(analyzer, input_iters, True, IterMapLevel.NoCheck)
        try:
            total = detector.convert(index)
        except NotAffine:
            return IterSumExpr((), index)
        order = sorted(
            range(len(total.args)),
            key=lambda i: -total.args[i].scale.value if total.args[i].scale.__class__ is IntImm else 0,  # type: ignore[attr-defined]
        )
        return IterSumExpr([total.args[i] for i in order], total.base)


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[Any]:
    """Indices simplified through their iterator map; plain simplification where they have none."""
    analyzer = _Analyzer() if analyzer is None else analyzer
    result = detect_iter_map(
        indices, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer
    )
    with Iterators(analyzer, input_iters):
        if not result.indices:
            if len(indices) > 1:
                # Indices that overlap may still be maps one by one.
                single = [
                    detect_iter_map(
                        [item], input_iters, predicate, check_level, simplify_trivial_iterators, analyzer
                    ).indices
                    for item in indices
                ]
                return [
                    analyzer.simplify(normalize_iter_map_to_expr(found[0]) if found else item)
                    for found, item in zip(single, indices)
                ]
            return [analyzer.simplify(item) for item in indices]
        return [analyzer.simplify(normalize_iter_map_to_expr(item)) for item in result.indices]
