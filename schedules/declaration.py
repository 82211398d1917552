"""How a primitive is declared: one method of a family, decorated with how its arguments are recorded.

The method says everything about the primitive: its signature and documentation are what users, editors and type checkers see; its
body checks and rewrites; the decorator makes each call a step of the trace, and the kind of instruction that replays it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from ir import IRModule
from ir.tir import PrimFunc
from ir.tir.analysis import verify_well_formed

from .argument import Argument, Decision
from .error import ScheduleError
from .instruction import InstructionKind
from .random_variable import BlockRV, LoopRV
from .rehearsal import require_no_new_conflict
from .state import ScheduleState
from .trace import Trace
from .tree import TreeNode

Method = TypeVar("Method", bound=Callable[..., Any])


class PrimitiveFamily(ScheduleState):
    """Base of the families of primitives: a schedule that records its steps. ``Schedule`` inherits all families.

    A primitive's body works on the loop tree (:mod:`schedules.tree`): ``self._block(rv)`` and ``self._loop(rv)`` are the nodes of
    random variables, ``self._value(item)`` is a number that may be sampled, ``self._new(node)`` is a random variable for what the
    step made. It checks first and changes afterwards, so that a step that raises leaves the schedule as it was.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        super().__init__(mod, seed, error_render_level)
        if not enable_check:
            raise ScheduleError("enable_check: legality is always checked; leave the option out")
        self.trace: Trace | None = Trace()
        self._debug = debug_mask not in ("none", 0)

    def copy(self) -> Self:
        """An independent copy; random variables of this schedule are valid in the copy."""
        new = super().copy()
        new.trace = None if self.trace is None else self.trace.copy()
        return new

    def show(self, **options: Any) -> None:
        """Print the program and the trace."""
        print(self.mod.script(**options))
        if self.trace is not None:
            self.trace.show()

    def _record(self, kind: InstructionKind, given: Mapping[str, Any], outputs: Any) -> None:
        """Make a step part of the trace."""
        if self.trace is not None:
            made = [] if outputs is None else outputs if isinstance(outputs, list) else [outputs]
            decision = None if kind.decision is None else given[kind.decision]
            self.trace.append(kind.record(self, given, made), decision)
        if self._debug:
            self._verify(kind)

    def _verify(self, kind: InstructionKind) -> None:
        for name in self._roots:
            if not verify_well_formed(self._current_function(name), assert_mode=False):
                raise ScheduleError(
                    f"{kind.name} left function {name!r} malformed; this is a defect of the primitive"
                )

    if not TYPE_CHECKING:  # what is declared elsewhere is there, but only a class that inherits it shows it

        def __getattr__(self, name: str) -> Any:
            """A primitive of a family that the class does not inherit."""
            if not name.startswith("_"):
                InstructionKind.kinds.names()  # finds files that nothing has imported yet
                if name in _METHODS:
                    return MethodType(_METHODS[name], self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_METHODS: dict[str, Callable[..., Any]] = {}
"""The primitives by the names of their methods."""


def primitive(
    name: str, /, *, is_pure: bool = False, moves: bool = False, **arguments: Argument | Decision
) -> Callable[[Method], Method]:
    """Declare a primitive: decorates a method of a :class:`PrimitiveFamily`, or a function whose first parameter is a schedule.

    A call of the method settles the arguments (names become blocks, functions index maps, missing decisions are drawn), runs the
    body with them, and appends an instruction to the trace. Replaying that calls the method again.

    Args:
        name: of the instruction, as JSON has it: ``Split``.
        is_pure: it changes nothing, and may be dropped from a trace when its outputs are unused.
        moves: it takes accesses into loops or out of them. Where iterations there run at once, the step is tried on a copy first, and
            refused if they would conflict (:mod:`schedules.rehearsal`).
        arguments: for each parameter of the method, in their order, how it is recorded (:mod:`schedules.argument`). Traces keep the
            inputs and the attributes in this order.

    Raises:
        TypeError: the arguments are not the method's parameters.
    """

    def declare(body: Method) -> Method:
        _, *parameters = inspect.signature(body).parameters.values()
        if [item.name for item in parameters] != list(arguments):
            raise TypeError(
                f"primitive {name}: {body.__name__} takes {[item.name for item in parameters]}, declared are {list(arguments)}"
            )
        variadic = next((item.name for item in parameters if item.kind is item.VAR_POSITIONAL), None)
        decision = next((key for key, item in arguments.items() if isinstance(item, Decision)), None)
        kind = InstructionKind(
            name,
            body.__name__,
            {key: item for key, item in arguments.items() if isinstance(item, Argument)},
            is_pure,
            str(inspect.signature(body).return_annotation).startswith("list"),
            variadic,
            decision,
        )
        bind = _binder(body, parameters, variadic)
        settles = [
            (key, item.draw if isinstance(item, Decision) else item.settle)
            for key, item in arguments.items()
            if isinstance(item, Decision) or type(item).settle is not Argument.settle
        ]

        def call(sch: PrimitiveFamily, given: dict[str, Any]) -> Any:
            if variadic is None:
                return body(sch, **given)
            rest = {key: value for key, value in given.items() if key != variadic}
            return body(sch, *given[variadic], **rest)

        @wraps(body)
        def method(self: PrimitiveFamily, *args: Any, **kwargs: Any) -> Any:
            if not is_pure:
                self._begin_change()
            given = bind(self, args, kwargs)
            outer, self._step = self._step, body.__name__
            try:
                for key, settle in settles:
                    given[key] = settle(self, given[key], given)
                if moves:
                    places = _nodes_of(self, given.values())
                    require_no_new_conflict(self, places, lambda trial: call(trial, given), body.__name__)
                outputs = call(self, given)
            except ScheduleError as error:
                self._explain(error)
                raise
            finally:
                self._step = outer
            self._record(kind, given, outputs)
            return outputs

        InstructionKind.kinds.register(name)(kind)
        _METHODS[body.__name__] = method
        return cast(Method, method)

    return declare


def _nodes_of(sch: ScheduleState, given: Iterable[Any]) -> list[TreeNode]:
    """The blocks and loops among the arguments of a step."""
    found: list[TreeNode] = []
    for item in given:
        if isinstance(item, BlockRV):
            found.append(sch._block(item))
        elif isinstance(item, LoopRV):
            found.append(sch._node(item))
        elif isinstance(item, list | tuple):
            found += _nodes_of(sch, item)
    return [node for node in found if isinstance(node, TreeNode)]


def _binder(
    body: Callable[..., Any], parameters: list[inspect.Parameter], variadic: str | None
) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """What makes a dictionary of all arguments, defaults included; much faster than ``Signature.bind``."""
    names = frozenset(item.name for item in parameters)
    defaults = {item.name: item.default for item in parameters if item.default is not item.empty}
    positional = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]

    def bind(sch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = dict(zip(positional, args)) if variadic is None else {variadic: args}
        is_wrong = variadic is None and len(given) != len(args)
        if kwargs:
            is_wrong = is_wrong or not given.keys().isdisjoint(kwargs) or not kwargs.keys() <= names
            given.update(kwargs)
        if len(given) < len(names):
            given = {**defaults, **given}
        if is_wrong or len(given) != len(names):
            try:
                inspect.signature(body).bind(sch, *args, **kwargs)
            except TypeError as error:  # as Python's, which names the function as well
                raise TypeError(f"{body.__name__}: {error}") from None
        return given

    return bind
