"""Structures of a design space: a tree of choices whose leaves are sketches, grown where somebody looks.

Whoever schedules a program (the rules, block by block; a user's function) takes steps. A step with one outcome leads on; one with several
is a branch: the alternatives that a rule offers, the places at which a block may be computed, the values of a number that a user's function
reads. A path of choices names a structure. There may be very many, and most are never made: a search begins with those of few
deviations from the first choices everywhere (limited discrepancy search: Harvey and Ginsberg, IJCAI 1995), and goes on near the good ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..error import RuleError, ScheduleError
from ..population.choices import ALL, Choices, OpenChoice, ReadsDecision
from ..population.decision import CategoricalDecision, Decision
from ..population.sketch import Sketch, SketchSchedule, WouldChange
from ..rule.base import Alternatives
from ..schedule import Schedule
from ..trace import Trace
from .structures import Structures

_LOG = logging.getLogger("schedules.rule")
_TRIALS = 4
"""Candidates on which a step that fails on open decisions is tried, to see whether it wants numbers or does not fit at all."""
_READING = (ScheduleError, TypeError, ValueError, AttributeError, LookupError)
"""How a function fails that takes an open decision for a number."""
_ALL_ROWS, _FIRST_ROWS = 256, 64
"""Candidates that a step looks at one by one are all known where there are at most so many, else the first so many."""
_ATTEMPTS, _LOOKED_THROUGH = 8, 512
"""Random walks for each new structure that is wanted; where they find too few, so many structures are looked through in order."""


@dataclass(frozen=True)
class Step:
    """What is done next to a schedule.

    Attributes:
        offer: from a schedule, which it may change, to one or several.
        then: what is done afterwards, for :data:`NextStep`.
        may_read: whether it may look at sampled numbers; then it fails on open decisions, and gets numbers.
        refused: told of a ScheduleError that the step raises, after which the schedule stays as it was; without it, that is an error.
    """

    offer: Callable[[SketchSchedule], Sequence[Schedule] | Alternatives]
    then: Any = None
    may_read: bool = False
    refused: Callable[[ScheduleError], None] | None = None


NextStep = Callable[[SketchSchedule, Any], Step | None]
"""From a schedule, and what the last step says comes then (None at the beginning), to the next step; None at the end."""


class _Rows:
    """The candidates of what a schedule has become, as something to choose from: for a step that looks at their numbers.

    All of a few; of many those that were drawn so far.
    """

    def __init__(self, schedule: SketchSchedule) -> None:
        self.sketch = Sketch(schedule)
        everything = self.sketch.all_rows(_ALL_ROWS)
        self.is_whole = everything is not None
        if everything is None:
            everything = self.sketch.sample(_FIRST_ROWS, np.random.default_rng(0))
        self.rows: list[np.ndarray] = []
        self._numbers: dict[bytes, int] = {}
        for row in everything:
            self.number_of(row)

    @property
    def size(self) -> int:
        return len(self.rows)

    def number_of(self, row: np.ndarray) -> int:
        """The number of a row, which may be new."""
        number = self._numbers.setdefault(row.tobytes(), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        rows = self.sketch.sample(count, generator)
        known = generator.integers(self.size, size=count - len(rows))  # valid rows may be hard to find
        return np.array([*map(self.number_of, rows), *known], dtype=np.int64)

    def neighbours(self, column: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        rows = self.sketch.mutate(np.stack([self.rows[number] for number in column]), generator)
        valid = self.sketch.valid(rows)
        pairs = zip(rows, valid, column, strict=True)
        return np.array([self.number_of(row) if ok else number for row, ok, number in pairs])

    def numbers_in(self, trace: Trace) -> list[int]:
        """The candidate that a trace begins with."""
        if not _begins(trace, self.sketch.trace):
            return []
        theirs = dict(zip(map(id, self.sketch.trace.insts), trace.insts, strict=False))
        row = self.sketch.row_in(lambda inst: trace.get_decision(theirs[id(inst)]))
        return [] if row is None else [self.number_of(row)]


@dataclass(frozen=True)
class _State:
    """A schedule on its way to a structure.

    Attributes:
        schedule: as the steps so far have left it.
        then: what comes next.
        made, closed: choices of the next step, as :class:`Choices`'.
    """

    schedule: SketchSchedule
    then: Any = None
    made: Mapping[int, int] = field(default_factory=dict)
    closed: frozenset[int] = frozenset()


class _Node:
    """A place in the tree: a branch, or a structure.

    Attributes:
        decision: what there is to choose from at a branch.
        child: where a choice leads; None where it is illegal.
        numbers_in: which choices lead where a trace comes from.
        children: what was looked at.
        sketch: the structure.
        number: of the structure among those known.
    """

    def __init__(
        self,
        decision: Decision | _Rows | None = None,
        child: Callable[[int], _State | None] | None = None,
        numbers_in: Callable[[Trace], Iterable[int]] | None = None,
    ) -> None:
        self.decision, self.child, self.numbers_in = decision, child, numbers_in
        self.children: dict[int, _Node] = {}
        self.sketch: Sketch | None = None
        self.number: int | None = None

    @property
    def size(self) -> int:
        """How many ways lead on, as far as is known; none from a structure."""
        return 0 if self.decision is None else self.decision.size

    @property
    def is_whole(self) -> bool:
        """Whether all ways are known."""
        return not isinstance(self.decision, _Rows) or self.decision.is_whole


Path = tuple[int, ...]


class StructureTree(Structures):
    """The structures of one program.

    Args:
        start: the program, unscheduled.
        next_step: who schedules it.
        first: so many structures are known at the beginning, at most.
        name: begins the names of sketches. The first are numbered; those that are found later are named by what they do, so that all
            sessions name them alike.
    """

    def __init__(self, start: SketchSchedule, next_step: NextStep, first: int, name: str = "sketch") -> None:
        super().__init__()
        self._start, self._next_step, self._name = start, next_step, name
        self.is_complete = False
        self._root: _Node | None = None
        self._numbers: dict[str, int] = {}
        """Of known structures, by what they do."""
        self._paths: dict[int, Path] = {}
        """To known structures, by their numbers."""
        self._failure: ScheduleError | None = None
        """Why the last choices that were looked at make no schedule."""
        self._has_begun = False
        self._begin(first)
        self._has_begun = True

    # ---- looking for structures --------------------------------------------------------------------------------

    def _begin(self, limit: int) -> None:
        """Make the first structures known: all of few."""
        if self._go_through(limit, _ATTEMPTS * limit):
            self._sort()
        elif len(self.known) < limit:  # hardly any has candidates
            self.grow(limit - len(self.known), np.random.default_rng(0))
        if not self.known and self._failure is not None:
            raise self._failure

    def _go_through(self, wanted: int, attempts: int) -> bool:
        """Make structures known until there are so many, those that deviate least from the first choices before others; whether they are
        all. Of those that turn out to be known, or to have no candidates, not more are looked at than ``attempts``."""
        for allowed in itertools.count():
            self._is_cut = False
            for path in self._deviating(allowed):
                if len(self.known) >= wanted or not attempts:
                    return False
                before = len(self.known)
                self._add(path)
                attempts -= len(self.known) == before
            if not self._is_cut:
                self.is_complete = True
                return True
        raise AssertionError("a tree ends")

    def grow(self, count: int, generator: np.random.Generator, near: Sketch | None = None) -> None:
        if self.is_complete:
            return
        wanted = len(self.known) + count
        path = next((self._paths[n] for n, sketch in enumerate(self.known) if sketch is near), None)
        for _ in range(_ATTEMPTS * count):
            if len(self.known) < wanted:
                self._add(self._walk(generator, path))
        if len(self.known) < wanted and near is None:
            self._go_through(wanted, _LOOKED_THROUGH * count)

    def explaining(self, trace: Trace) -> tuple[int, np.ndarray] | None:
        found = super().explaining(trace)
        if found is not None or self.is_complete:
            return found
        for path in self._along(trace):
            self._add(path)
        return super().explaining(trace)

    # ---- paths -------------------------------------------------------------------------------------------------

    def _deviating(self, allowed: int) -> Iterator[Path]:
        """Paths with exactly ``allowed`` choices other than the first; early and late branches take turns."""

        def below(node: _Node, path: Path, left: int) -> Iterator[Path]:
            self._is_cut |= not node.is_whole
            if left == 0 or not node.size:
                self._is_cut |= node.size > 1
                if node.size:
                    yield from below(self._child(node, 0), (*path, 0), 0)
                elif left == 0:
                    yield path
                return
            here = itertools.chain.from_iterable(
                below(self._child(node, number), (*path, number), left - 1) for number in range(1, node.size)
            )
            yield from _by_turns(here, below(self._child(node, 0), (*path, 0), left))

        yield from below(self._top(), (), allowed)

    def _walk(self, generator: np.random.Generator, near: Path | None) -> Path:
        """Random choices; or those of another path with one of them changed."""
        node = self._top()
        path: Path = ()
        changed = int(generator.integers(len(near))) if near else -1
        while node.decision is not None:
            place = len(path)
            if near is None or place >= len(near):
                (number,) = node.decision.draw(1, generator)
            elif place == changed and node.size > 1:
                (number,) = node.decision.neighbours(np.array([near[place] % node.size]), generator)
            else:
                number = near[place] % node.size
            node, path = self._child(node, int(number)), (*path, int(number))
        return path

    def _along(self, trace: Trace) -> Iterator[Path]:
        """Paths to structures that a trace may be a candidate of."""

        def below(node: _Node, path: Path) -> Iterator[Path]:
            if node.numbers_in is None:
                yield path
                return
            for number in node.numbers_in(trace):
                yield from below(self._child(node, number), (*path, number))

        yield from below(self._top(), ())

    # ---- the tree ----------------------------------------------------------------------------------------------

    def _top(self) -> _Node:
        if self._root is None:
            self._root = self._node(_State(self._start))
        return self._root

    def _child(self, node: _Node, number: int) -> _Node:
        if number not in node.children:
            assert node.child is not None
            state = node.child(number)
            node.children[number] = _Node() if state is None else self._node(state)
        return node.children[number]

    def _node(self, state: _State) -> _Node:
        """The next branch or structure that a schedule comes to."""
        while (step := self._next_step(state.schedule, state.then)) is not None:
            offered = self._taken(state, step)
            if isinstance(offered, _Node):
                return offered
            if len(offered) > 1:
                return _alternatives(offered, step)
            schedule = _offered(offered, 0)
            if schedule is None:
                return _Node()
            state = _State(schedule, step.then)
        node = _Node()
        node.sketch = Sketch(state.schedule)
        return node

    def _taken(self, state: _State, step: Step) -> Alternatives | _Node:
        """What a step offers, or the branch that it comes to."""
        while True:
            try:
                return _run(state.schedule, step, Choices(state.made, state.closed))
            except ReadsDecision as reads:
                state = replace(state, closed=state.closed | {reads.place})
            except OpenChoice as choice:
                return _branch(state, choice)
            except _READING as failure:
                found = self._with_numbers(state, step) if step.may_read else None
                if isinstance(found, _Node):
                    return found
                if found is not None:
                    state = found
                elif step.refused is not None and isinstance(failure, ScheduleError):
                    step.refused(failure)
                    return Alternatives.of([state.schedule])
                elif step.may_read and state.made and isinstance(failure, ScheduleError):
                    _LOG.debug("is no schedule: %s", failure)
                    self._failure = failure
                    return _Node()
                else:
                    raise

    def _with_numbers(self, state: _State, step: Step) -> _State | _Node | None:
        """What becomes of a step that failed: with numbers for what it samples itself, or for all; None where it does not fit any."""
        if not self._fits_some(state, step):
            return None
        if state.closed is not ALL and any(
            _fits(state.schedule, step, state.made, n) for n in range(_TRIALS)
        ):
            return replace(state, closed=ALL)
        return self._candidates(state) if state.schedule.columns else None

    def _candidates(self, state: _State) -> _Node:
        """A branch with a way for each candidate of a schedule: what it has left open becomes structure."""
        rows = _Rows(state.schedule)

        def child(number: int) -> _State:
            return _State(self._candidate(rows.sketch, rows.rows[number]), state.then, state.made)

        return _Node(rows, child, rows.numbers_in)

    def _candidate(self, sketch: Sketch, row: np.ndarray) -> SketchSchedule:
        made = self._start.copy()
        sketch.trace_of(row).apply_to_schedule(made, remove_postproc=True)
        return made

    def _fits_some(self, state: _State, step: Step) -> bool:
        """Whether a step that fails on open decisions fits a candidate."""
        before = Sketch(state.schedule)
        rows = before.sample(_TRIALS, np.random.default_rng(0))
        return any(
            _fits(self._candidate(before, row), step, state.made, seed)
            for seed, row in enumerate(itertools.islice(itertools.cycle(rows), _TRIALS))
        )

    # ---- what is known -----------------------------------------------------------------------------------------

    def _add(self, path: Path) -> None:
        """Make the structure at the end of a path known, if it has candidates."""
        node = self._top()
        for number in path:
            node = self._child(node, number)
        if node.sketch is not None and node.number is None and _has_candidates(node.sketch):
            key = _key(node.sketch.trace)
            node.number = self._numbers.setdefault(key, len(self.known))
            if node.number == len(self.known):
                node.sketch.name = self._name + (
                    hashlib.sha256(key.encode()).hexdigest()[:8] if self._has_begun else str(node.number)
                )
                self.known.append(node.sketch)
                self._paths[node.number] = path

    def _sort(self) -> None:
        """Number all structures in the order of the choices that lead to them."""
        order = sorted(self._paths, key=self._paths.__getitem__)
        self.known = [self.known[number] for number in order]
        for number, sketch in enumerate(self.known):
            sketch.name = f"{self._name}{number}"


def _run(schedule: SketchSchedule, step: Step, choices: Choices) -> Alternatives:
    """What a step offers of a schedule, which stays what it is. Most steps change nothing: a copy is made where one does."""
    with suppress(WouldChange), schedule.looked_at():
        return _offer(schedule, step, choices.again())
    return _offer(schedule.copy(), step, choices)


def _offer(schedule: SketchSchedule, step: Step, choices: Choices) -> Alternatives:
    schedule.choices = choices
    try:
        offered = step.offer(schedule)
    finally:
        schedule.choices = None
    if not isinstance(offered, Alternatives):
        offered = Alternatives.of(item for item in offered if isinstance(item, SketchSchedule))
    if not len(offered):
        raise RuleError("a schedule must be the one that was given, or a copy of it")
    return offered


def _offered(offered: Alternatives, number: int) -> SketchSchedule | None:
    """One of the alternatives, of which nobody chooses anything any more."""
    found = offered.at(number)
    if found is None:
        return None
    assert isinstance(found, SketchSchedule)
    found.choices = None
    return found


def _alternatives(offered: Alternatives, step: Step) -> _Node:
    def child(number: int) -> _State | None:
        schedule = _offered(offered, number)
        return None if schedule is None else _State(schedule, step.then)

    def numbers_in(trace: Trace) -> list[int]:
        found = ((number, offered.at(number)) for number in range(len(offered)))
        return [number for number, item in found if item is not None and _begins(trace, item.trace)]

    count = len(offered)
    return _Node(CategoricalDecision.create("alternative", range(count), [1.0] * count), child, numbers_in)


def _fits(schedule: SketchSchedule, step: Step, made: Mapping[int, int], seed: int) -> bool:
    """Whether a step that gets numbers for what it samples itself, random ones where they are not chosen, fits a schedule."""
    with suppress(*_READING):
        _run(schedule, step, Choices(made, ALL, np.random.default_rng(seed)))
        return True
    return False


def _branch(state: _State, choice: OpenChoice) -> _Node:
    def child(number: int) -> _State:
        return replace(state, made={**state.made, choice.place: number})

    def numbers_in(trace: Trace) -> list[int]:
        number = choice.number_in(trace)
        return [] if number is None else [number]

    return _Node(choice.decision, child, numbers_in)


def _begins(trace: Trace, prefix: Trace | None) -> bool:
    """Whether a trace begins with the steps of another one, whose open decisions it has made."""
    assert prefix is not None
    if len(prefix.insts) > len(trace.insts):
        return False
    return all(
        ours.kind is theirs.kind
        and ((decided := prefix.get_decision(ours)) is None or decided == trace.get_decision(theirs))
        for ours, theirs in zip(prefix.insts, trace.insts)
    )


def _has_candidates(sketch: Sketch) -> bool:
    """Whether a structure without open decisions is allowed; one that has some is taken to have candidates."""
    return sketch.n_columns > 0 or bool(sketch.valid(np.zeros((1, 0), dtype=np.int64))[0])


def _key(trace: Trace) -> str:
    """What a structure does; structures with equal keys are the same."""
    return json.dumps(trace.simplified(False).as_json(), sort_keys=True)


def _by_turns(*sources: Iterator[Path]) -> Iterator[Path]:
    left = list(sources)
    while left:
        for source in list(left):
            try:
                yield next(source)
            except StopIteration:
                left.remove(source)
