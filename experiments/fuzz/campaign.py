"""A campaign: seeds judged in children, with progress, counts by verdict, and failures grouped by what is likely one defect."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .children import judged_alone, judged_apart, judged_in_batches
from .kind import Kind
from .verdict import Verdict

_SECONDS_BETWEEN_REPORTS = 10.0
_BLAME_SECONDS = 60
_MOST_INVALID, _FEWEST = 0.2, 20
"""A larger share of invalid programs is a failure too, from so many programs on: an interpreter that refuses everything finds nothing."""
_NAMED = 20
"""How many seeds of invalid programs are told."""
_LINES = 6
"""Of a failure's message: some carry whole programs."""


@dataclass
class Campaign:
    """What has been judged so far."""

    kind: Kind
    options: argparse.Namespace
    seconds: float | None = None
    """When to stop, whatever is left."""
    counts: Counter[str] = field(default_factory=Counter)
    groups: dict[str, list[int]] = field(default_factory=dict)
    """The seeds of each signature, in the order in which they failed."""
    invalid: dict[str, list[int]] = field(default_factory=dict)
    """The seeds of programs that the interpreter refuses, by why."""

    def run(self, seeds: Sequence[int]) -> bool:
        """Judges seeds, prints a line for each new kind of failure, and in the end a table; whether somebody should look."""
        start = reported = time.monotonic()
        interrupted = True
        try:
            for done, (seed, verdict) in enumerate(self._judged(seeds), 1):
                self._enter(seed, verdict)
                if self.seconds is not None and time.monotonic() - start > self.seconds:
                    break
                if time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
                    reported = time.monotonic()
                    print(self._progress(done, len(seeds), reported - start), file=sys.stderr, flush=True)
            interrupted = False
        finally:  # what is known is told, also when Ctrl-C ends it
            if interrupted:
                print(
                    f"interrupted: {sum(self.counts.values())} of {len(seeds)} seeds were judged", flush=True
                )
            self._report(time.monotonic() - start)
        return bool(self.groups) or self._judges_too_little

    @property
    def _judges_too_little(self) -> bool:
        done = sum(self.counts.values())
        return done >= _FEWEST and self.counts["invalid"] > _MOST_INVALID * done

    def _judged(self, seeds: Sequence[int]) -> Iterator[tuple[int, Verdict]]:
        """Verdicts of seeds; where one of a batch fails, each that does is judged again, alone."""
        kind, options = self.kind, self.options
        for batch, verdicts in judged_in_batches(
            seeds, lambda some: kind.judge_together(some, options), kind.seconds, kind.batch
        ):
            for seed, verdict in zip(batch, verdicts, strict=True):
                yield seed, self._alone(seed, verdict) if verdict.failed and len(batch) > 1 else verdict

    def _alone(self, seed: int, together: Verdict) -> Verdict:
        """The verdict on a program that failed in a batch.

        A crash or a timeout is the verdict on all of a batch, most of which are innocent; any other must show again.
        """
        ((_, verdict),) = judged_apart(
            [seed], lambda one: self.kind.judge(one, self.options), self.kind.seconds
        )
        innocent = together.kind.startswith(("crash", "died", "took too long", "exit code", "fuzzer"))
        return (
            verdict
            if verdict.failed or innocent
            else replace(together, kind=f"{together.kind}, in a batch only")
        )

    def _enter(self, seed: int, verdict: Verdict) -> None:
        self.counts[verdict.kind] += 1
        if verdict.kind == "invalid":
            self.invalid.setdefault(verdict.signature, []).append(seed)
        if not verdict.failed:
            return
        place = verdict.place or self._blame(seed)
        found = replace(verdict, place=place)
        group = self.groups.setdefault(found.signature, [])
        group.append(seed)
        if len(group) == 1:
            print(
                seed, *str(found).splitlines()[:_LINES], sep="\n  " if "\n" in str(found) else " ", flush=True
            )

    def _blame(self, seed: int) -> str:
        verdict = judged_alone(lambda: Verdict(self.kind.blame(seed, self.options)), _BLAME_SECONDS)
        return "" if verdict.kind == "fuzzer" else verdict.kind

    def _progress(self, done: int, total: int, seconds: float) -> str:
        failed = sum(len(group) for group in self.groups.values())
        left = (total - done) * seconds / done
        return f"{done} of {total}, {done / seconds:.1f}/s, {failed} failed in {len(self.groups)} ways, {left:.0f} s left"

    def _report(self, seconds: float) -> None:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common())
        print(f"{counts}; {seconds:.0f} s, {sum(self.counts.values()) / max(seconds, 1e-9):.1f}/s")
        for signature, seeds in sorted(self.groups.items(), key=lambda item: -len(item[1])):
            print(f"  {len(seeds)} times, from seed {min(seeds)}: {signature}")
        if self.counts["none"]:
            print(
                "  none: seeds that stand for no program, for their space has no more candidates; no failure"
            )
        for signature, seeds in self.invalid.items():
            more = f" and {len(seeds) - _NAMED} more" if len(seeds) > _NAMED else ""
            print(f"  {signature}: {', '.join(map(str, seeds[:_NAMED]))}{more}")
        if self._judges_too_little:
            print("  so many invalid programs are a defect of the generator or of the interpreter")
