"""Patterns: descriptions of expressions, composed with calls, operators and constraints.

>>> from ir.relax.dpl import is_op, wildcard
>>> x, w, b = wildcard(), wildcard(), wildcard()
>>> conv = is_op("relax.nn.conv2d")(x, w)
>>> pattern = is_op("relax.nn.relu")(is_op("relax.add")(conv, b) | conv)

A pattern is identified by the object: one that appears twice matches the same expression at both places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import RelaxExpr
from ...external import external
from ...op import Op
from ...tir.expr import PrimExpr
from ..struct_info import StructInfo, as_dims


class DFPattern:
    """Base of the patterns."""

    __slots__ = ()

    def __call__(
        self, *args: Any, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """The pattern of a call of what this matches.

        Args:
            args: patterns of the arguments; ``None`` alone stands for any arguments.
            varg_default_wildcard: allow more arguments than there are patterns.
            add_constraint: inside a PatternContext, require that the arguments are used by the call.
        """
        if len(args) == 1 and args[0] is None:
            return CallPattern(self, None, varg_default_wildcard)
        pattern = CallPattern(self, args, varg_default_wildcard)
        if add_constraint:
            context = external("PatternContext").current()
            if context is not None:
                for index, arg in enumerate(pattern.args or ()):
                    context.add_constraint(arg, pattern, index)
        return pattern

    def __or__(self, other: Any) -> OrPattern:
        return OrPattern(self, as_pattern(other))

    def __and__(self, other: Any) -> AndPattern:
        return AndPattern(self, as_pattern(other))

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def __add__(self, other: Any) -> CallPattern:
        return _call_of("relax.add", self, other)

    def __sub__(self, other: Any) -> CallPattern:
        return _call_of("relax.subtract", self, other)

    def __mul__(self, other: Any) -> CallPattern:
        return _call_of("relax.multiply", self, other)

    def __truediv__(self, other: Any) -> CallPattern:
        return _call_of("relax.divide", self, other)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Also require attributes of the call, operator or function."""
        return AttrPattern(self, attrs)

    def has_struct_info(self, struct_info: StructInfo) -> StructInfoPattern:
        """Also require a struct info: that of the expression, or a more general one."""
        return StructInfoPattern(self, struct_info)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Also require a dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """Also require a shape, provably equal to this one."""
        return ShapePattern(self, shape)

    def same_shape_as(self, *args: DFPattern) -> DFPattern:
        """This pattern, constrained to have one shape with all of the others."""
        result: DFPattern = self
        for other in args:
            result = SameShapePattern(result, other)
        return result

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> OrPattern:
        """What the function makes of this pattern, or this pattern alone."""
        return option_constructor(self) | self

    def match(self, expr: RelaxExpr, var2val: Mapping[Any, RelaxExpr] | None = None) -> bool:
        """Whether the pattern describes the expression; ``var2val`` lets it look through variables."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: RelaxExpr, var2val: Mapping[Any, RelaxExpr] | None = None
    ) -> dict[DFPattern, RelaxExpr] | None:
        """What each part of the pattern matched, or None when the pattern does not describe the expression."""
        return external("extract_matched_expr")(self, expr, var2val)

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Require that what this matches is an argument (number ``index``, -1 any) of what ``other`` matches."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """As :meth:`used_by`, and nothing else uses it."""
        return PatternSeq([self]).only_used_by(other, index)

    def fork_to(self, *args: DFPattern | PatternSeq) -> None:
        """Require that every one of the others uses what this matches."""
        for other in args:
            self.used_by(other)

    def dup(self) -> DFPattern:
        """A copy that matches independently of this pattern."""
        return _copy(self)

    def parts(self) -> Sequence[DFPattern]:
        """The patterns that this one is made of."""
        return ()

    def __repr__(self) -> str:
        slots: tuple[str, ...] = self.__slots__
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in slots)
        return f"{type(self).__name__}({fields})"


def _copy(pattern: DFPattern) -> DFPattern:
    new = object.__new__(type(pattern))
    for cls in type(pattern).__mro__:
        slots: tuple[str, ...] = getattr(cls, "__slots__", ())
        for name in slots:
            value = getattr(pattern, name)
            if isinstance(value, DFPattern):
                value = _copy(value)
            elif isinstance(value, tuple):
                value = tuple(_copy(item) if isinstance(item, DFPattern) else item for item in value)
            setattr(new, name, value)
    return new


def _call_of(op_name: str, *args: Any) -> CallPattern:
    return ExprPattern(Op.get(op_name))(*args)


def as_pattern(value: Any) -> DFPattern:
    """A pattern, or the pattern of exactly an expression."""
    if isinstance(value, DFPattern):
        return value
    if isinstance(value, RelaxExpr):
        return ExprPattern(value)
    raise IRTypeError(f"expected a pattern, got {type(value).__name__}")


class WildcardPattern(DFPattern):
    """Any expression."""

    __slots__ = ()


class ExprPattern(DFPattern):
    """Exactly an expression, up to structural equality."""

    __slots__ = ("expr",)

    def __init__(self, expr: RelaxExpr) -> None:
        self.expr = expr


class VarPattern(DFPattern):
    """A variable, of a name unless that is ""."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    @property
    def name_hint(self) -> str:
        """The name to match, "" for any."""
        return self.name


class DataflowVarPattern(VarPattern):
    """A dataflow variable."""

    __slots__ = ()


class GlobalVarPattern(VarPattern):
    """A reference to a function of the module."""

    __slots__ = ()


class ExternFuncPattern(DFPattern):
    """An external function, of a name unless that is ""."""

    __slots__ = ("global_symbol",)

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol


class ConstantPattern(DFPattern):
    """A constant tensor."""

    __slots__ = ()


class CallPattern(DFPattern):
    """A call; operands of commutative operators match in either order."""

    __slots__ = ("args", "op", "varg_default_wildcard")

    def __init__(
        self, op: Any, args: Sequence[Any] | None = None, varg_default_wildcard: bool = False
    ) -> None:
        self.op = as_pattern(op)
        self.args = None if args is None else tuple(as_pattern(arg) for arg in args)
        self.varg_default_wildcard = varg_default_wildcard

    def parts(self) -> Sequence[DFPattern]:
        return (self.op, *(self.args or ()))


class FunctionPattern(DFPattern):
    """A function: patterns of its parameters and its body."""

    __slots__ = ("body", "params")

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        self.params = None if params is None else tuple(params)
        self.body = body

    def parts(self) -> Sequence[DFPattern]:
        return (*(self.params or ()), self.body)


class TuplePattern(DFPattern):
    """A tuple of these fields, in order."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(as_pattern(item) for item in fields)

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        if not 0 <= index < len(self.fields):
            raise IndexError(f"tuple pattern index {index} out of range: it has {len(self.fields)} fields")
        return TupleGetItemPattern(self, index)

    def __len__(self) -> int:
        return len(self.fields)

    def parts(self) -> Sequence[DFPattern]:
        return self.fields


class UnorderedTuplePattern(DFPattern):
    """A tuple of these fields, in any order."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(as_pattern(item) for item in fields)

    def __len__(self) -> int:
        return len(self.fields)

    def parts(self) -> Sequence[DFPattern]:
        return self.fields


class TupleGetItemPattern(DFPattern):
    """A field of a tuple; ``index`` None for any."""

    __slots__ = ("index", "tuple")

    def __init__(self, tuple: DFPattern, index: int | None = None) -> None:
        self.tuple = tuple
        self.index = None if index == -1 else index

    def parts(self) -> Sequence[DFPattern]:
        return (self.tuple,)


class OrPattern(DFPattern):
    """One of two; the left one is tried first."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right

    def parts(self) -> Sequence[DFPattern]:
        return (self.left, self.right)


class AndPattern(DFPattern):
    """Both."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right

    def parts(self) -> Sequence[DFPattern]:
        return (self.left, self.right)


class NotPattern(DFPattern):
    """Anything else."""

    __slots__ = ("reject",)

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = to_reject

    def parts(self) -> Sequence[DFPattern]:
        return (self.reject,)


class _Refined(DFPattern):
    """A pattern with one more condition."""

    __slots__ = ("pattern",)

    pattern: DFPattern

    def parts(self) -> Sequence[DFPattern]:
        return (self.pattern,)


class AttrPattern(_Refined):
    """With attributes (of the call, the operator or the function)."""

    __slots__ = ("attrs",)

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs)


class TypePattern(_Refined):
    """With a static type."""

    __slots__ = ("type",)

    def __init__(self, pattern: DFPattern, ttype: Any) -> None:
        self.pattern, self.type = pattern, ttype


class StructInfoPattern(_Refined):
    """With a struct info that this one covers."""

    __slots__ = ("struct_info",)

    def __init__(self, pattern: DFPattern, struct_info: StructInfo) -> None:
        self.pattern, self.struct_info = pattern, struct_info


class DataTypePattern(_Refined):
    """With a dtype."""

    __slots__ = ("dtype",)

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(_Refined):
    """With a shape."""

    __slots__ = ("shape",)

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        self.pattern, self.shape = pattern, as_dims(shape)


class SameShapePattern(_Refined):
    """With the shape of what another pattern matches."""

    __slots__ = ("other",)

    def __init__(self, pattern: DFPattern, other: DFPattern) -> None:
        self.pattern, self.other = pattern, other


class PrimArrPattern(DFPattern):
    """A shape expression of these extents."""

    __slots__ = ("shape",)

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape = as_dims(shape)

    def __getitem__(self, index: int) -> PrimExpr:
        return self.shape[index]

    def __len__(self) -> int:
        return len(self.shape)


class PatternSeq:
    """Patterns in a row, each used by the next."""

    __slots__ = ("links", "patterns")

    def __init__(self, patterns: Sequence[DFPattern], links: Sequence[tuple[int, bool]] = ()) -> None:
        if not patterns:
            raise IRValueError("a PatternSeq needs at least one pattern")
        self.patterns = tuple(patterns)
        self.links = tuple(links) or ((-1, False),) * (len(self.patterns) - 1)
        """Between neighbours: the argument's number (-1 any) and whether it is the only use."""

    def _extended(self, other: DFPattern | PatternSeq, index: int, only: bool) -> PatternSeq:
        rest = other.patterns if isinstance(other, PatternSeq) else (other,)
        context = external("PatternContext").current()
        if context is None:
            raise IRValueError("used_by and only_used_by belong inside `with PatternContext():`")
        context.add_constraint(self.patterns[-1], rest[0], index, only)
        following = other.links if isinstance(other, PatternSeq) else ()
        return PatternSeq([*self.patterns, *rest], [*self.links, (index, only), *following])

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Require that ``other`` uses what the last pattern matches."""
        return self._extended(other, index, False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """Require that only ``other`` uses what the last pattern matches."""
        return self._extended(other, index, True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """A copy that matches independently; the constraints between its patterns are added to the context too."""
        copies = [item.dup() for item in self.patterns]
        context = external("PatternContext").current()
        if context is not None:
            for (index, only), producer, consumer in zip(self.links, copies, copies[1:], strict=False):
                context.add_constraint(producer, consumer, index, only)
        return PatternSeq(copies, self.links)
