"""Expressions as sums of scaled splits, and back: the common ground of the canonical simplifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from .. import dtype as dt
from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .canonical_form import Split, Sum, recombined
from .domain import INDEX_TYPES
from .parts import AnalyzerParts
from .polynomial import Atoms, Polynomial, TooLarge, plus


class CanonicalSums(ABC):
    """Forms of expressions for one analyzer: a Sum, a Split or an expression that is neither, and what they print as."""

    _table: ClassVar[Mapping[type, Callable[[Any, Any], Any]]]
    """The method that makes the form of each kind of node."""

    def __init__(self, parent: AnalyzerParts) -> None:
        self._parent = parent
        self.memo: dict[int, tuple[Any, Any]] = {}

    def __call__(self, expr: Any) -> Any:
        return self.visit(expr)

    def visit(self, e: Any) -> Any:
        """The canonical expression."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if (cls is E.Var or cls is E.SizeVar) and not self._parent._rewrite.substitutions:
            return e
        try:
            return self._normalized(self._form(e))
        except build.DoesNotFit:
            return self._parts(e)

    def _parts(self, e: Any) -> Any:
        """An expression whose canonical form has constants that its type does not hold: its operands are canonical."""
        return e._map_children(self._child)

    @abstractmethod
    def _child(self, e: Any) -> Any:
        """An operand in canonical form."""

    # ---- forms --------------------------------------------------------------------------------------------------

    def _form(self, e: Any) -> Any:
        """A Sum, a Split or an expression that is neither."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if cls is E.Var or cls is E.SizeVar:
            return self._parent._rewrite.visit(e)
        found = self.memo.get(id(e))
        if found is not None:
            return found[1]
        method = self._table.get(cls)
        try:
            result = method(self, e) if method is not None and e.dtype in INDEX_TYPES else self._other(e)
        except build.DoesNotFit:
            result = self._parts(e)
        self.memo[id(e)] = (e, result)
        return result

    def _normalized(self, form: Any) -> Any:
        cls = form.__class__
        if cls is Split:
            if form.expr is None:
                form.expr = form.normalized()
            return form.expr
        if cls is Sum:
            if form.expr is None:
                form.expr = self._normalized_sum(form)
            return form.expr
        return form

    def _normalized_sum(self, form: Sum) -> Any:
        dtype = form.dtype
        if not form.args:
            return build.number(form.base, dtype)
        args, base = recombined(form.args), form.base
        if any(item.index.__class__ in _SUMS and item.is_plain() for item in args):
            # Recombination has made a sum whole again: its terms may meet others.
            flat = Sum(dtype, [], base)
            for item in args:
                part = self._form(item.index) if item.index.__class__ in _SUMS and item.is_plain() else None
                flat = (
                    flat.plus(item, 1) if part is None else flat.plus(self._as_sum(part, dtype), item.scale)
                )
            args, base = recombined(flat.args), flat.base
        if len(args) > 1 or base:
            args, base = self._cancelled(args, base, dtype)
        low = -(1 << (dt.bits(dtype) - 1))
        result: Any = None
        for item in args:
            if item.scale > 0:
                term = item.normalized()
                result = term if result is None else build.add(result, term)
        if base > 0 or base == low:
            result = (
                build.number(base, dtype) if result is None else build.add(result, build.number(base, dtype))
            )
        if result is None:
            result = build.number(0, dtype)
        for item in args:
            if item.scale < 0:
                result = build.sub(result, item.normalized(-1))
        return build.sub(result, build.number(-base, dtype)) if base < 0 and base != low else result

    def _cancelled(self, args: list[Split], base: int, dtype: str) -> tuple[list[Split], int]:
        """Products are multiplied out where that makes terms cancel or merge, and left as they are elsewhere."""
        if not any(item.index.__class__ is E.Mul and item.is_plain() for item in args):
            return args, base
        atoms = Atoms()
        total: Polynomial = {(): base} if base else {}
        separate = 1 if base else 0
        others = []
        try:
            for item in args:
                if item.is_plain():
                    poly = atoms.expand(item.index)
                    separate += len(poly)
                    total = plus(total, poly, item.scale)
                else:
                    others.append(item)
        except TooLarge:
            return args, base
        if len(total) >= separate:
            return args, base
        merged = [
            Split(atoms.product(monomial, 1, dtype), scale=coeff)
            for monomial, coeff in total.items()
            if monomial
        ]
        before = sum(_size(item.index) + (item.scale not in (1, -1)) for item in args if item.is_plain())
        if sum(_size(item.index) + (item.scale not in (1, -1)) for item in merged) > before:
            return args, base  # written out, the sum is longer although some terms met
        return recombined(merged + others), total.get((), 0)

    def _as_split(self, form: Any) -> Split:
        if form.__class__ is Split:
            return form  # type: ignore[no-any-return]
        if form.__class__ is Sum:
            if form.base == 0 and len(form.args) == 1:
                return form.args[0]  # type: ignore[no-any-return]
            form = self._normalized(form)
        return Split(form)

    def _as_sum(self, form: Any, dtype: str) -> Sum:
        cls = form.__class__
        if cls is Sum:
            return form  # type: ignore[no-any-return]
        if cls is IntImm:
            return Sum(dtype, [], form.value)
        return Sum(dtype, [form if cls is Split else Split(form)], 0)

    # ---- sums and products --------------------------------------------------------------------------------------

    def _add(self, e: Any, factor: int = 1) -> Any:
        a, b = self._form(e.a), self._form(e.b)
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return build.number(a.value + factor * b.value, e.dtype)
        if b.__class__ is IntImm and b.value == 0:
            return a
        right = b.value if b.__class__ is IntImm else b if b.__class__ in (Sum, Split) else Split(b)
        return self._as_sum(a, e.dtype).plus(right, factor)

    def _sub(self, e: Any) -> Any:
        return self._add(e, -1)

    def _mul(self, e: Any) -> Any:
        a, b = self._form(e.a), self._form(e.b)
        if a.__class__ is IntImm:
            a, b = b, a
        if b.__class__ is IntImm:
            if a.__class__ is IntImm:
                return build.number(a.value * b.value, e.dtype)
            return a.scaled(b.value) if a.__class__ is Sum else self._as_split(a).scaled(b.value)
        # Constant factors of both sides come outside, so that multiples of one product are seen as such.
        a, left = self._without_factor(a)
        b, right = self._without_factor(b)
        product = self._ordered_product(e, a, b)
        return Split(product, scale=left * right)

    def _without_factor(self, form: Any) -> tuple[Any, int]:
        if form.__class__ is Split or (form.__class__ is Sum and form.base == 0 and len(form.args) == 1):
            split = self._as_split(form)
            return Split(split.index, split.lower, split.upper, 1, split.mode).normalized(), split.scale
        return self._normalized(form), 1

    def _ordered_product(self, e: Any, a: Any, b: Any) -> Any:
        return e if a is e.a and b is e.b else build.mul(a, b)

    def _separate(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """The terms that the divisor divides, and the others."""
        yes = Sum(form.dtype, [], 0)
        no = Sum(form.dtype, [], 0)
        for item in form.args:
            (yes if item.scale % divisor == 0 else no).args.append(item)
        if form.base % divisor == 0:
            yes.base = form.base
        else:
            no.base = form.base
        return yes, no

    def _prepared(self, form: Any) -> Any:
        """A sum with its splits recombined, so that divisibility is seen."""
        if form.__class__ is Sum and len(form.args) > 1:
            args = recombined(form.args)
            return Sum(form.dtype, args, form.base) if len(args) != len(form.args) else form
        return form

    def _rebuilt(self, e: Any, a: Any, b: Any) -> Any:
        return e if a is e.a and b is e.b else type(e)(a, b)

    def _by_rules(self, e: Any, a: Any, b: Any) -> Any:
        """What the rewrite rules make of the node with canonical operands."""
        result = self._parent._rewrite.combine(e.__class__, a, b)
        return self._rebuilt(e, a, b) if result is None else result

    @abstractmethod
    def _other(self, e: Any) -> Any:
        """A node without a canonical form of its own: children canonical, then the rewrite rules."""


_SUMS = frozenset((E.Add, E.Sub))
_ARITHMETIC = frozenset((E.Add, E.Sub, E.Mul))


def _size(expr: Any) -> int:
    """The operands of sums and products in an expression."""
    return _size(expr.a) + _size(expr.b) if expr.__class__ in _ARITHMETIC else 1
