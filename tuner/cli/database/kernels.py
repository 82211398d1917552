"""Kernels and records as users name them: by numbers and names that ``db ls`` shows, and by the beginnings of their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from database import Database, DatabaseError, TuningRecord, Workload, by_speed, has_static_arguments, standing
from database.damage import FAULTS
from database.workload import WorkloadSummary, entry_function
from ir import IRModule
from ir.error import did_you_mean
from schedules.population import flops_of

from ...error import TunerError
from ...names import kernel_names, shapes_text, target_text

ID_CHARACTERS = 8
"""Of a record's digest, as lists show it."""


@dataclass(frozen=True)
class Kernel:
    """A workload as users see it: the number in its database, its name, and its records.

    Its records are read when they are asked for, and kept; :func:`one_by_one` goes through a large database.
    """

    number: int
    name: str
    workload: Workload
    store: Database = field(repr=False, compare=False)

    @cached_property
    def records(self) -> list[TuningRecord]:
        """All of them, of every target, in the order in which they came."""
        return self.store.records_of(self.workload)

    @cached_property
    def trials(self) -> list[TuningRecord]:
        """A record of each trial: the first, or the second measurement where a pruned export left only that."""
        first = [item for item in self.records if not item.remeasured]
        known = {item.candidate for item in first}
        again = {item.candidate: item for item in self.records if item.remeasured}
        return first + [item for key, item in again.items() if key not in known]

    @cached_property
    def failed(self) -> int:
        """How many of the trials failed."""
        return sum(not item.is_valid() for item in self.trials)

    @cached_property
    def ranked(self) -> list[TuningRecord]:
        """The records that ran and stand, best first, of all targets."""
        return by_speed(self.records)

    @property
    def best_secs(self) -> float | None:
        """The time of the best record; None where no candidate ran."""
        return self.ranked[0].secs if self.ranked else None

    @cached_property
    def flops(self) -> float | None:
        """Floating-point operations of one call; None where the program cannot be read."""
        try:
            func = entry_function(self.workload.mod)[1]
            return flops_of(func) if has_static_arguments(func) else None
        except FAULTS:
            return None

    @property
    def gflops(self) -> float | None:
        """Billions of operations per second of the best record."""
        return None if self.best_secs is None or self.flops is None else self.flops / self.best_secs / 1e9

    @cached_property
    def shapes(self) -> str:
        """Of the tensors, as ``1x3x224x224, 64x3x7x7``."""
        return shapes_text(summary_of(self.workload))

    @cached_property
    def targets(self) -> list[str]:
        """Of the records, as lists name them."""
        return sorted({target_text(item.target) for item in self.records})


def summary_of(workload: Workload) -> WorkloadSummary:
    """The summary of a workload, of its program itself where that can be read: what is stored beside it may be an older version's."""
    try:
        return WorkloadSummary.of(workload.mod)
    except DatabaseError:
        try:
            return workload.summary
        except DatabaseError:
            return WorkloadSummary(f"unreadable program {workload.shash}", (), ())


def kernels_of(store: Database) -> list[Kernel]:
    """The workloads of a database, by the names that they had in the model that was tuned last."""
    named = kernel_names(store.get_sessions())
    return [
        Kernel(number, named.get(item.shash) or summary_of(item.unparsed()).described, item, store)
        for number, item in enumerate(store.get_workloads())
    ]


def one_by_one(kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """The kernels of a database in turn, none of which keeps the records that are read of it, or its program."""
    for item in kernels:
        yield replace(item, workload=item.workload.unparsed())


def decisions_text(record: TuningRecord) -> str:
    """What a candidate decided; of one without decisions its steps, by which it differs from others."""
    try:
        steps, decisions = record.trace_json
        if decisions:
            return str([value for _, value in decisions])
        names = dict.fromkeys(step[0] for step in steps if not step[0].startswith(("Get", "EnterPostproc")))
    except (TypeError, ValueError, AttributeError, IndexError, KeyError):
        return "cannot be read"
    return f"none; {', '.join(names) if names else 'the loops as they were given'}"


def trace_text(record: TuningRecord) -> str:
    """The trace as Python."""
    trace = record.readable_trace
    try:
        return "this version cannot read it; update loopsmith" if trace is None else str(trace)
    except FAULTS as error:
        return f"it cannot be shown: {type(error).__name__}: {error}"


def program_text(make: Callable[[], IRModule]) -> str:
    """The script of a program, or why there is none."""
    try:
        return make().script()
    except FAULTS as error:
        return str(error)


def chosen_kernel(kernels: list[Kernel], asked: str) -> Kernel:
    """The kernel that a number or a name means.

    Raises:
        TunerError: there is none, or the name is that of several.
    """
    if not kernels:
        raise TunerError("the database has no kernel yet")
    found = [item for item in kernels if asked in (str(item.number), item.name)]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(item.number) for item in found)
        raise TunerError(f"{len(found)} kernels are called {asked!r}; take one of their numbers: {numbers}")
    names = [item.name for item in kernels]
    raise TunerError(
        f"the database has no kernel {asked!r}; it has 0 to {len(kernels) - 1}, which `loopsmith db ls` names{did_you_mean(asked, names)}"
    )


def chosen_records(
    store: Database, kernels: list[Kernel], asked: Sequence[str]
) -> list[tuple[Kernel, TuningRecord]]:
    """The records whose digests begin so, or the best ones of the kernels that numbers or names mean.

    Raises:
        TunerError: there is none, or there are several.
    """
    begun = _by_digest(store, asked)
    by_hash = {item.workload.shash: item for item in kernels}
    chosen = []
    for text in asked:
        found = begun[text]
        if len(found) > 1:
            ids = ", ".join(list(found)[:5])
            raise TunerError(f"{len(found)} records begin with {text!r}; write more of one: {ids}")
        record = next(iter(found.values()), None)
        kernel = None if record is None else by_hash.get(record.workload.shash)
        if record is None or kernel is None:
            chosen.append(_best_of(kernels, text))
        else:  # as it stands among the kernel's, each of which is an object of its own
            chosen += [(kernel, item) for item in kernel.records if item.digest == record.digest][:1]
    return chosen


def _by_digest(store: Database, asked: Sequence[str]) -> dict[str, dict[str, TuningRecord]]:
    """The records whose digests begin as each of some texts, by their digests."""
    found: dict[str, dict[str, TuningRecord]] = {text: {} for text in asked}
    begins = {
        text: text.lower()
        for text in asked
        if len(text) >= _LEAST_CHARACTERS and set(text.lower()) <= _DIGITS
    }
    for record in store.stream_records() if begins else ():
        digest = record.digest
        for text, begin in begins.items():
            if digest.startswith(begin):
                found[text][digest] = record
    return found


def _best_of(kernels: list[Kernel], asked: str) -> tuple[Kernel, TuningRecord]:
    if asked not in [name for item in kernels for name in (str(item.number), item.name)]:
        if len(asked) < _LEAST_CHARACTERS:
            raise TunerError(
                f"the database has no kernel {asked!r}, and the beginning of a record's id has {_LEAST_CHARACTERS} characters at least;"
                " `loopsmith db top` shows the ids of records, `loopsmith db ls` the kernels"
            )
        raise TunerError(
            f"the database has neither a record whose id begins with {asked!r} nor a kernel of that number or name; `loopsmith db top`"
            " shows the ids of records, `loopsmith db ls` the kernels"
        )
    kernel = chosen_kernel(kernels, asked)
    ranked = [*kernel.ranked, *standing(kernel.records)]
    if not ranked:
        raise TunerError(f"#{kernel.number} {kernel.name} has no records yet")
    return kernel, ranked[0]


_DIGITS = frozenset("0123456789abcdef")
_LEAST_CHARACTERS = 4
"""Of a digest, so that the number of a kernel is none."""
