"""Calls of a candidate whose outputs are compared with the reference's: few before it is timed, all where it would be the best."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from .kernel import Kernel, pack_arguments
from .sampling import Race
from .verify import Case, Reference, iterations_of, pattern, same_bits, undefined
from .worker import phase

_HOPELESS = 3.0
"""How many times the ratio at which a candidate is cut it may be behind before even the second check is left out."""
_CHECKING_SECS = 3e-3
"""After the first cases a candidate meets more of them until checking took this long; the best one meets all."""
_FIRST_CASES = 2
_REPEATS, _REPEATING_SECS = 6, 0.1
"""How often a candidate is called again on each of the first cases with each number of threads, and until when, to see threads
meet; once with each number in any case."""
_REPEATS_APART = 1
"""How often where it is certain that threads do not meet."""
_COPIED_BYTES = 16 << 20
"""Packed parameters up to this size are copied before a call, to see whether it writes to them."""


def checked(
    kernel: Kernel, reference: Reference, race: Race, limit: float
) -> tuple[float, str | None, CheckedCalls]:
    """Calls on the first cases, and on more while that is cheap; the fastest call, what is wrong, and the last calls.

    One wrong answer is final: whoever is right sometimes is wrong.
    """
    secs, begin = math.inf, time.perf_counter()
    for count, case in enumerate(reference.cases):
        if count >= _FIRST_CASES and time.perf_counter() - begin > _CHECKING_SECS:
            break
        calls = CheckedCalls(kernel.mod, case, reference)
        took, wrong = calls.call(kernel, limit)
        secs = min(secs, took)
        if wrong is not None:
            return secs, wrong, calls
        if case.kind.exact and race.far_behind(secs, factor=_HOPELESS):
            break  # right on integers and never to be chosen: a second slow call would tell nothing
    return secs, None, calls


def confirmed(kernel: Kernel, reference: Reference, limit: float) -> str | None:
    """The whole check: of a parallel candidate the iterations; all cases; on the first ones other numbers of threads, again and again.

    Returns:
        What is wrong, in one sentence; None when nothing is.
    """
    iterations = iterations_of(kernel.mod)
    if iterations.met is not None:
        return iterations.met
    counts = thread_counts() if kernel.parallel else [None]
    repeats = _REPEATS_APART if iterations.followed else _REPEATS
    begin = time.perf_counter()
    for position, case in enumerate(reference.cases):
        calls = CheckedCalls(kernel.mod, case, reference)
        _, wrong = calls.call(kernel, limit)
        if wrong is None and position < _FIRST_CASES and not iterations.followed:
            wrong = iterations_of(kernel.mod, calls.arguments).met or calls.undefined()
        if wrong is not None:
            return wrong
        for count in counts if position < _FIRST_CASES else ():
            again = kernel if count is None else kernel.with_threads(count)
            for repeat in range(repeats):
                if (position or repeat) and time.perf_counter() - begin > _REPEATING_SECS:
                    break
                _, wrong = calls.call(again, limit)
                if wrong is not None:
                    threads = "" if count is None else f" with {count} threads"
                    return f"{wrong}, in call {repeat + 2}{threads}"
    return None


def thread_counts() -> list[int | None]:
    """One, two, an odd number, all."""
    cores = len(os.sched_getaffinity(0))
    return [*sorted({1, 2, 3, cores})]


class CheckedCalls:
    """Calls on one case, each with outputs that hold no result before, and with everything compared afterwards.

    Attributes:
        arguments: the arrays of the calls.
    """

    def __init__(self, mod: Any, case: Case, reference: Reference) -> None:
        phase("preparing inputs", 120.0)
        self.case, self._mod, self._reference = case, mod, reference
        self._given = reference.prepare(case)
        self._fresh = True
        self.arguments = pack_arguments(mod, self._given.arrays, reference.room)
        self._packed = {
            position: array.copy()
            for position, (array, plain) in enumerate(zip(self.arguments, self._given.arrays))
            if array is not plain and array.nbytes <= _COPIED_BYTES
        }

    def arm(self) -> None:
        """Make outputs hold no result."""
        if not self._fresh:
            self._given.arm()

    def call(self, kernel: Kernel, limit: float) -> tuple[float, str | None]:
        """The seconds of one call and what is wrong with it; after a wrong one there may be no other."""
        self.arm()
        self._fresh = False
        phase("first call", limit)
        secs = kernel.timed(self.arguments, pattern(self.case.number))
        return secs, self.wrong()

    def undefined(self) -> str | None:
        """What the interpreter says of a call: of a small program, in which threads seldom meet, it sees iterations that do."""
        phase("interpreting", 120.0)
        self.arm()
        found = undefined(self._mod, [array.copy() for array in self.arguments])
        return None if found is None else found.splitlines()[0]

    def wrong(self, *, outputs: bool = True) -> str | None:
        """What is wrong after a call, in one sentence; None when nothing is.

        Args:
            outputs: whether they are compared: not where the kernel updates what earlier calls left.
        """
        phase("comparing outputs", 120.0)
        # Asked in any case: what was spoiled is made anew for the next candidate.
        wrong = self._reference.spoiled(self._given)
        if wrong is None and outputs:
            wrong = self._reference.wrong(self.case, self.arguments)
        for position, before in self._packed.items():
            if wrong is None and not same_bits(self.arguments[position], before):
                wrong = f"the packed input {self._reference.facts.params[position].name} was written to"
        return wrong
