"""What the unscheduled program gives on each kind of inputs, and whether a candidate gives the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.tir import interpreter

from ..error import ProgramError
from ..ndarray import numpy_dtype
from .compare import Bounds, bounds_of
from .expressions import Unanalysable
from .facts import KernelFacts, Param, entry, facts_of
from .guards import Guarded
from .inputs import TINY, base_values, poison, small_constants
from .instances import instances_of
from .kinds import KINDS, Kind
from .repetitions import changed, fill
from .rounding import format_of, growth, most_telling
from .shadow import ShadowProgram, shadow_of

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], object]
MakeRun = Callable[[Any], Run]
"""From a module to a function that calls it with its arguments in order."""

_KEPT_BYTES = 64 << 20
"""Inputs of all kinds stay in memory up to this; larger ones are made again for each kind in the same place."""
_BOUND_BYTES = 256 << 20
"""Bounds of outputs may take this much; beyond it the last kinds of inputs are left out."""
_SLOW_SECS = 10.0
"""A reference that takes longer than this is not computed for the later kinds."""
_INTERPRETED_STORES = 1 << 13
"""Programs that store so often take the interpreter some hundredths of a second."""
_ESSENTIAL = 3
_FEW_TERMS = 64
"""Sums of more numbers of every exponent are hardly ever finite."""


@dataclass(slots=True)
class Case:
    """One kind of inputs with the bounds of all outputs."""

    kind: Kind
    number: int
    outputs: list[Bounds]

    @property
    def name(self) -> str:
        """The name of its kind."""
        return self.kind.name

    @property
    def nbytes(self) -> int:
        """Memory of the bounds."""
        return sum(item.nbytes for item in self.outputs)


class Arguments:
    """Guarded memory for the arguments of a kernel, in one order of parameters, filled for one case at a time."""

    def __init__(self, params: Sequence[Param]) -> None:
        self._params = params
        self.memory = [Guarded(param.shape, param.dtype) for param in params]
        self._base: dict[int, list[Array | None]] = {}
        self._filled: int | None = None
        """The case that the inputs were filled for; None when they have to be filled again."""

    @property
    def arrays(self) -> list[Array]:
        """The arrays in the order of the parameters."""
        return [item.array for item in self.memory]

    def prepare(self, facts: KernelFacts, kind: Kind, number: int) -> None:
        """Inputs of a kind, outputs that hold no result, zones that hold a pattern."""
        if number not in self._base:
            self._base[number] = [
                base_values(param, kind, facts, _rank(facts, position)) if param.given else None
                for position, param in enumerate(self._params)
            ]
        if self._filled != number:
            for memory, values in zip(self.memory, self._base[number]):
                if values is not None:
                    fill(memory.array.reshape(-1), values)
            self._filled = number
        self.arm()

    def arm(self) -> None:
        """Outputs that hold no result, or what is to be updated, and zones that hold a pattern."""
        assert self._filled is not None
        for param, memory, values in zip(self._params, self.memory, self._base[self._filled]):
            if param.output and values is not None:
                fill(memory.array.reshape(-1), values)
            elif param.output:
                poison(memory.array, self._filled % 2)
            memory.arm(self._filled)

    def spoiled(self) -> str | None:
        """What was written to that should not have been, in one sentence; None when nothing was."""
        assert self._filled is not None
        for param, memory, values in zip(self._params, self.memory, self._base[self._filled]):
            breach = memory.breach()
            if breach is not None:
                self._filled = None
                return f"memory beside tensor {param.name} was written to, {breach}"
            first = None if param.output or values is None else changed(memory.array.reshape(-1), values)
            if first is not None:
                self._filled = None
                where = tuple(int(i) for i in np.unravel_index(first, param.shape or (1,)))
                return f"input {param.name} was written to, first at {where}"
        return None


def _rank(facts: KernelFacts, position: int) -> int:
    """Which of the inputs of floats, or of the others, a parameter is."""
    floats = dt.is_float(facts.params[position].dtype)
    return sum(item.given and dt.is_float(item.dtype) == floats for item in facts.params[:position])


@dataclass(slots=True)
class Reference:
    """The bounds of the outputs for all cases, and the time that one run of the reference took."""

    facts: KernelFacts
    cases: list[Case]
    secs: float
    rooms: dict[int, Guarded] = field(default_factory=dict)
    """Memory for parameters in other layouts, by position."""
    once: bool = False
    """Each case is asked for once: all take the same memory, since new pages cost more than to fill it again."""
    _arguments: dict[int, Arguments] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Memory that arguments, bounds and packed copies take."""
        copies = len(self.cases) if self._separate else 1
        rooms = sum(room.capacity for room in self.rooms.values())
        return self.facts.nbytes * copies + sum(case.nbytes for case in self.cases) + rooms

    @property
    def _separate(self) -> bool:
        return not self.once and self.facts.nbytes * len(self.cases) <= _KEPT_BYTES

    @property
    def timed(self) -> Case:
        """The case that candidates are timed on."""
        return self.cases[min(1, len(self.cases) - 1)]

    def prepare(self, case: Case) -> Arguments:
        """Arguments for a call on a case."""
        place = case.number if self._separate else 0
        found = self._arguments.get(place)
        if found is None:
            found = self._arguments[place] = Arguments(self.facts.params)
        found.prepare(self.facts, case.kind, case.number)
        return found

    def room(self, position: int, shape: Sequence[int], dtype: Any) -> Array:
        """Memory for a parameter in another layout; all cases and candidates use the same, since new pages are slow."""
        n_bytes = math.prod(shape) * numpy_dtype(dtype).itemsize
        memory = self.rooms.get(position)
        if memory is None or memory.capacity < n_bytes:
            memory = self.rooms[position] = Guarded(shape, dtype)
        found = memory.view(shape, dtype)
        memory.arm(0)
        return found

    def wrong(self, case: Case, arrays: Sequence[Array]) -> str | None:
        """What is wrong with the outputs among ``arrays``, in one sentence; None when they are right."""
        outputs = [(param, array) for param, array in zip(self.facts.params, arrays) if param.output]
        for (param, got), bounds in zip(outputs, case.outputs, strict=True):
            bad = bounds.violated(got)
            if bad is not None:
                return _difference(param, case, bounds, got, bad)
        return None

    def spoiled(self, arguments: Arguments) -> str | None:
        """What a call wrote to beside its outputs; None when nothing."""
        found = arguments.spoiled()
        if found is not None:
            return found
        for position, memory in self.rooms.items():
            breach = memory.breach()
            if breach is not None:
                name = self.facts.params[position].name
                return f"memory beside the packed tensor {name} was written to, {breach}"
        return None


def _difference(param: Param, case: Case, bounds: Bounds, got: Array, bad: Array) -> str:
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape or (1,)))
    place = where if bad.shape else ()
    low = bounds.low[place]
    high = low if bounds.high is None else bounds.high[place]
    wanted = f"{low}" if low == high or low != low else f"a number from {low} to {high}"
    return (
        f"output {param.name} differs from the unscheduled program's on {case.name} in {int(np.count_nonzero(bad))} of "
        f"{bad.size} elements; at {where} it is {got[place]}, expected {wanted}"
    )


# ---- computing it ------------------------------------------------------------------------------------------------


def kinds_for(facts: KernelFacts, longest_sum: float = 0) -> tuple[Kind, ...]:
    """The kinds of inputs that tell different things about a kernel, of which this is the longest sum of floats."""
    inputs = [item for item in facts.params if item.given]
    elements = sum(math.prod(item.shape) for item in facts.params if item.output)
    most = max(_ESSENTIAL, _BOUND_BYTES // max(8 * elements, 1))
    tells_much = any(dt.is_float(item.dtype) or math.prod(item.shape) < TINY for item in inputs)
    always = [kind for kind in KINDS if kind.end or kind.outstanding or kind.seldom]
    kinds = KINDS if tells_much else [*KINDS[:2], *always]
    few = facts.terms <= _FEW_TERMS and not facts.multiplied
    chooses = facts.extremes and facts.terms > 1
    asked = [
        kind
        for kind in kinds
        if (facts.extremes or kind.end is None)
        and (few or not kind.for_few_terms)
        and (not kind.outstanding or (chooses and _tells_choices(kind, facts)))
        and (not kind.seldom or (facts.meets and facts.terms > 1))
        and (small_constants(facts) or not kind.near_nothing)
        and (kind.others is None or hides_terms(facts, longest_sum))
    ]
    return tuple(asked[:most])


def hides_terms(facts: KernelFacts, longest_sum: float) -> bool:
    """Whether the roundings of a sum of all terms hide a single one, so that a sum of few of them tells more."""
    return math.isfinite(facts.narrow) and longest_sum > 2 * most_telling(1 / facts.narrow)


def _tells_choices(kind: Kind, facts: KernelFacts) -> bool:
    """Whether what stands out there may be chosen; where nothing says what is, whether it stands out in the first input."""
    if not facts.chosen:
        return kind.place == 0 and kind.alone is None and not kind.beside
    if kind.beside and not any(dt.is_bool(item.dtype) for item in facts.chosen[1:]):
        return False
    if kind.alone == -1 and not any(dt.is_bool(item.dtype) for item in facts.chosen):
        return False  # of several numbers that stand out the last one does most; all True are alike
    return kind.place < len(facts.chosen) and kind.outstanding in facts.chooses


def compute_reference(mod: Any, make_run: MakeRun, facts: KernelFacts | None = None) -> Reference:
    """Run the unscheduled program in float64 on all kinds of inputs.

    Raises:
        ProgramError: it writes beside its outputs, or is undefined in another way that the interpreter found.
    """
    facts = facts or facts_of(mod)
    require_defined(mod, facts)
    try:
        shadow = shadow_of(mod)
    except Unanalysable:
        results = _as_written(mod, make_run, facts)
    else:
        results = _in_float64(mod, shadow, make_run, facts)
    cases: list[Case] = []
    secs = math.inf
    for case, took in results:
        cases.append(case)
        secs = min(secs, took)
        if took > _SLOW_SECS and len(cases) >= _ESSENTIAL:
            break
    return Reference(facts, cases, secs)


def _in_float64(
    mod: Any, shadow: ShadowProgram, make_run: MakeRun, facts: KernelFacts
) -> Iterator[tuple[Case, float]]:
    long = hides_terms(facts, shadow.longest_sum)
    counting = long and not shadow.whole_sums
    run = make_run(shadow_of(mod, counting=True).mod if counting else shadow.mod)
    exact = not counting  # small integers tell each term
    arguments = Arguments(facts.params)
    for number, kind in enumerate(kinds_for(facts, shadow.longest_sum)):
        if kind.others is not None and exact:
            continue
        if long and not exact and not counting:
            run, counting = make_run(shadow_of(mod, counting=True).mod), True
        case, took, is_exact = case_in_float64(run, shadow, facts, arguments, kind, number)
        if kind.exact:
            exact = exact and is_exact
        yield case, took


def case_in_float64(
    run: Run, shadow: ShadowProgram, facts: KernelFacts, arguments: Arguments, kind: Kind, number: int
) -> tuple[Case, float, bool]:
    """One run of a program in float64: the bounds of its outputs, its seconds, and whether all results are numbers without any error.

    Raises:
        ProgramError: it writes beside its outputs.
    """
    arguments.prepare(facts, kind, number)
    given = arguments.arrays
    rooms: list[Guarded] = []
    errors: list[Array | None] = []
    passed = [given[position] for position in shadow.inputs]
    for position, has_error, dtype in zip(shadow.outputs, shadow.errors, shadow.wide):
        room = Guarded(facts.params[position].shape, dtype)
        room.arm(number)
        np.copyto(room.array, given[position], casting="unsafe")
        rooms.append(room)
        errors.append(np.zeros(facts.params[position].shape) if has_error else None)
        passed += [item for item in (room.array, errors[-1]) if item is not None]
    begin = time.perf_counter()
    run([*passed, np.array([1.0 if kind.exact else 0.0])])
    took = time.perf_counter() - begin
    is_exact = _are_exact(rooms, errors) if kind.exact else False
    _require_in_bounds(arguments, kind, [facts.params[item] for item in shadow.outputs], rooms)
    bounds = [
        bounds_of(room.array, error, facts.params[position].dtype)
        for position, room, error in zip(shadow.outputs, rooms, errors)
    ]
    return Case(kind, number, bounds), took, is_exact


def _are_exact(values: Sequence[Guarded], errors: Sequence[Array | None]) -> bool:
    """Whether all results are numbers, without any error."""
    return not any(error is not None and error.any() for error in errors) and all(
        np.isfinite(room.array).all() for room in values if room.array.dtype.kind == "f"
    )


def require_defined(mod: Any, facts: KernelFacts) -> None:
    """Let the interpreter run a small program, which refuses what ``docs/semantics.md`` leaves undefined."""
    arguments = Arguments(facts.params)
    kind = kinds_for(facts)[0]
    arguments.prepare(facts, kind, 0)
    found = undefined(mod, arguments.arrays)
    if found is not None:
        raise ProgramError(f"on {kind.name}, it is undefined: {found}")


def undefined(mod: Any, arrays: list[Array]) -> str | None:
    """What the interpreter refuses in a call; None where it finds nothing, and for programs for which it takes too long.

    Args:
        mod: a program, or a candidate for it.
        arrays: the arguments, which it overwrites.
    """
    func = entry(mod)
    if sum(item.runs for item in instances_of(func.body)) > _INTERPRETED_STORES:
        return None
    try:
        interpreter.Interpreter(mod).call(func, arrays)
    except interpreter.UndefinedError as error:
        return str(error)
    except interpreter.InterpreterError:
        return None  # it uses what only native code has
    return None


def _require_in_bounds(
    arguments: Arguments, kind: Kind, wide: Sequence[Param] = (), rooms: Sequence[Guarded] = ()
) -> None:
    """Refuse a program that writes where it should not, before any candidate is blamed for that; ``rooms`` are its wide outputs."""
    wrong = arguments.spoiled()
    for param, room in zip(wide, rooms):
        breach = room.breach()
        if breach is not None:
            wrong = f"memory beside tensor {param.name} was written to, {breach}"
    if wrong is not None:
        raise ProgramError(f"on {kind.name}, {wrong}")


def _as_written(mod: Any, make_run: MakeRun, facts: KernelFacts) -> Iterator[tuple[Case, float]]:
    """The program as it is, for one whose roundings are not known: a bound from its longest sum and the largest output."""
    run = make_run(mod)
    arguments = Arguments(facts.params)
    for number, kind in enumerate(kinds_for(facts)):
        arguments.prepare(facts, kind, number)
        begin = time.perf_counter()
        run(arguments.arrays)
        took = time.perf_counter() - begin
        _require_in_bounds(arguments, kind)
        bounds = []
        for param, value in zip(facts.params, arguments.arrays):
            if not param.output:
                continue
            if not dt.is_float(param.dtype):
                bounds.append(bounds_of(value.copy(), None, param.dtype))
                continue
            unit = format_of(param.dtype).unit
            wide = value.astype(np.float64)
            finite = np.abs(wide[np.isfinite(wide)])
            scale = float(finite.max()) if finite.size else 0.0
            error = unit * (32.0 + growth(facts.terms, unit)) * (np.abs(wide) + scale)
            bounds.append(bounds_of(wide, error, param.dtype))
        yield Case(kind, number, bounds), took
