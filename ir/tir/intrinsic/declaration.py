"""One declaration per intrinsic: arity, type of the result, effect, meaning on arrays, lanes, and lowering per target kind.

``@intrinsic(...)`` on the function that builds the calls makes the record. The builder, its form in scripts (``T.name``),
the interpreter, the evaluator, the vectorizer and :class:`ir.tir.transform.LowerIntrin` all follow from it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any, TypeVar

from ... import dtype as dt
from ...error import IRTypeError, IRValueError, did_you_mean
from ...expr import GlobalVar
from ...kinds import modules_of
from ...node import post_order_visit
from ...op import register_op
from ...span import Span
from ...target.kind import list_kinds
from ..expr import Call, PrimExpr, as_call_args

_Builder = TypeVar("_Builder", bound=Callable[..., Any])

ResultRule = str | Callable[[Sequence[PrimExpr]], str] | None
"""The dtype of a call: always the same (per lane), found from the arguments, or, as None, given by the caller."""

Lowering = Callable[[Call], PrimExpr]
"""A call as an expression in simpler intrinsics; see :func:`primitive`."""


class CallEffectKind(IntEnum):
    """What a call may do beside computing its value: the attribute ``TCallEffectKind`` of an intrinsic."""

    EXPR_ANNOTATION = 0
    PURE = 1
    READ_STATE = 2
    UPDATE_STATE = 3
    SPECIAL_CALL_ARG = 4
    EMBED_INFO = 5
    CONTROL_JUMP = 6
    # The names of the Python interface of other systems.
    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


def primitive(call: Call) -> PrimExpr:
    """The lowering of what needs none: the target's emitter prints the call as it is."""
    return call


def first(args: Sequence[PrimExpr]) -> str:
    """Result rule: the dtype of the first argument."""
    return args[0].dtype


def second(args: Sequence[PrimExpr]) -> str:
    """Result rule: the dtype of the second argument."""
    return args[1].dtype


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """All that is known of one intrinsic."""

    name: str
    """Its name without the prefix ``tir.`` that its :class:`ir.op.Op` has."""
    arity: tuple[int, int | None]
    """The least and the greatest number of arguments; None is any number."""
    result: ResultRule
    effect: CallEffectKind
    meaning: Callable[..., Any] | None
    """The value for numpy scalars or arrays as arguments, before it is rounded to the call's dtype.

    Where the dtype is given by the caller, it is the first argument. None for what is no function of values."""
    elementwise: bool
    """Whether a call on vectors means the call on each lane."""
    lowering: Mapping[str, Lowering]
    """By target kind; ``default`` holds for the kinds that are not named."""
    exact: bool
    """Whether small whole numbers as arguments, floats too, give a whole number of about their size."""
    transparent: bool
    """Whether a call is its argument, marked for passes: what holds of the argument where it stands holds of the call."""
    rounds: bool
    """Whether a call is its argument rounded to a whole number: a small difference before may be a large one behind."""
    costly: bool
    """Whether a call takes as long as many additions, so that a value that is used often is not computed again each time."""
    foreign: bool
    """Whether a call runs a function that the program does not hold, with effects that nothing tells."""
    check: Callable[[str, Sequence[PrimExpr]], None] | None
    """Raises IRTypeError for a dtype of the result, or arguments, that a call cannot have."""
    build: Callable[..., Any]
    """The function that programs call to build an expression; its name is the one in scripts."""

    @property
    def op_name(self) -> str:
        """The name of the operator of its calls."""
        return f"tir.{self.name}"

    @property
    def script_name(self) -> str:
        """Its name in scripts."""
        return self.build.__name__

    @property
    def dtype_first(self) -> bool:
        """Whether scripts and :attr:`meaning` take the dtype of the result as first argument: nothing else tells it."""
        return self.result is None

    def call(self, args: Sequence[Any], dtype: str | None = None, span: Span | None = None) -> Call:
        """A call on these arguments.

        Args:
            args: expressions, numbers or strings.
            dtype: of the result, where the record does not say it.

        Raises:
            IRTypeError: a wrong number of arguments, a dtype is missing, or they do not fit.
        """
        self.check_arity(len(args))
        found = as_call_args(args)
        result = self.result_of(found) if dtype is None else dtype
        if self.check is not None:
            self.check(result, found)
        return Call(result, self.op_name, found, span)

    def result_of(self, args: Sequence[PrimExpr]) -> str:
        """The dtype of a call on these arguments; raises IRTypeError where only the caller knows it."""
        if self.result is None:
            raise IRTypeError(f"{self.op_name}: the dtype of the result must be given")
        if callable(self.result):
            return self.result(args)
        return dt.with_lanes(self.result, dt.lanes(args[0].dtype)) if self.elementwise else self.result

    def check_arity(self, given: int) -> None:
        """Raise IRTypeError for a wrong number of arguments."""
        least, most = self.arity
        if given >= least and (most is None or given <= most):
            return
        wanted = (
            str(least) if least == most else f"{least} to {most}" if most is not None else f"at least {least}"
        )
        raise IRTypeError(
            f"{self.op_name} takes {wanted} argument{'' if wanted == '1' else 's'}, got {given}"
        )

    def lowering_for(self, kind: str) -> Lowering | None:
        """How a target kind lowers calls; None where it has no form for them."""
        return self.lowering.get(kind, self.lowering.get("default"))


INTRINSICS: dict[str, Intrinsic] = {}
"""All records by the name of their operator (``"tir.exp"``)."""


def intrinsic(
    *,
    arity: int | tuple[int, int | None],
    result: ResultRule,
    effect: CallEffectKind = CallEffectKind.PURE,
    meaning: Callable[..., Any] | None = None,
    elementwise: bool = False,
    lowering: Mapping[str, Lowering] | None = None,
    exact: bool = False,
    transparent: bool = False,
    rounds: bool = False,
    costly: bool = False,
    foreign: bool = False,
    check: Callable[[str, Sequence[PrimExpr]], None] | None = None,
    name: str | None = None,
) -> Callable[[_Builder], _Builder]:
    """Declare the intrinsic whose calls the decorated function builds; see :class:`Intrinsic` for the parameters.

    Args:
        arity: the number of arguments of a call, or the least and the greatest.
        name: the function's name by default.

    Raises:
        IRTypeError: ``result`` is no dtype.
        IRValueError: an intrinsic of this name is there already, or a lowering is for no kind of target.
    """

    def declare(build: _Builder) -> _Builder:
        label = name or build.__name__
        if isinstance(result, str):
            try:
                dt.checked(result)
            except IRTypeError as error:
                raise IRTypeError(f"intrinsic {label}: result: {error}") from None
        for kind in lowering or {}:
            if kind != "default" and kind not in list_kinds():
                near = did_you_mean(kind, ["default", *list_kinds()])
                raise IRValueError(f"intrinsic {label}: lowering: there is no target kind {kind!r}{near}")
        record = Intrinsic(
            name=label,
            arity=arity if isinstance(arity, tuple) else (arity, arity),
            result=result,
            effect=effect,
            meaning=meaning,
            elementwise=elementwise,
            lowering=dict(lowering or {}),
            exact=exact,
            transparent=transparent,
            rounds=rounds,
            costly=costly,
            foreign=foreign,
            check=check,
            build=build,
        )
        if record.op_name in INTRINSICS:
            raise IRValueError(f"intrinsic {record.op_name} is declared twice")
        INTRINSICS[record.op_name] = record
        register_op(record.op_name).set_attr("TCallEffectKind", effect)
        return build

    return declare


def call(name: str, *args: Any, dtype: str | None = None, span: Span | None = None) -> Call:
    """A call of the intrinsic of this name, as its builder needs it; see :meth:`Intrinsic.call`.

    Raises:
        IRValueError: no intrinsic of this name is declared.
    """
    record = INTRINSICS.get(f"tir.{name}")
    if record is None:
        near = did_you_mean(name, [item.name for item in INTRINSICS.values()])
        raise IRValueError(f"no intrinsic {name!r} is declared{near}")
    return record.call(args, dtype, span)


def find(node: Any) -> Intrinsic | None:
    """The record of a call's intrinsic; None for other nodes, calls of functions and operators without a record."""
    return INTRINSICS.get(getattr(getattr(node, "op", None), "name", ""))


def is_transparent(node: Any) -> bool:
    """Whether a node is a call that is its argument, marked for passes (:attr:`Intrinsic.transparent`)."""
    record = find(node)
    return record is not None and record.transparent


def calls_costly(node: Any) -> bool:
    """Whether a statement or an expression calls what takes as long as many additions, most of which wait for each other.

    One vector of it leaves much of a processor idle: two at a time run beside each other.
    """
    found = False

    def check(item: Any) -> None:
        nonlocal found
        record = find(item)
        found = found or (record is not None and record.costly)

    post_order_visit(node, check)
    return found


def effect_of(node: Call) -> CallEffectKind:
    """The effect of a call; calls of module functions and unknown operators may update state."""
    if isinstance(node.op, GlobalVar):
        return CallEffectKind.UPDATE_STATE
    found = node.op.get_attr("TCallEffectKind")
    return CallEffectKind.UPDATE_STATE if found is None else found


def gather() -> dict[str, Callable[..., Any]]:
    """The public functions of all families: of every file of this package that declares an intrinsic."""
    for module in modules_of(__package__):
        import_module(f"{__package__}.{module}")
    families = {record.build.__module__ for record in INTRINSICS.values()}
    return {
        name: item
        for module in sorted(families)
        if module.startswith(f"{__package__}.")
        for name, item in vars(sys.modules[module]).items()
        if not name.startswith("_") and inspect.isfunction(item) and item.__module__ == module
    }
