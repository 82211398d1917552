"""Measuring design spaces: every candidate of a small one, some drawn from a large one, on one thread of this machine.

Of a space with at most ``--complete`` candidates all are measured. Of a larger one ``--count`` are drawn: six tenths uniformly, with
equal shares for the structures, as random search draws; fifteen hundredths the analytical estimate's best of 20000 more such; the others
in rounds as mutants of the fastest twentieth of what was measured before. A strategy that is replayed has the measured candidates for
its whole space, so that all strategies have the same one; random search finds more fast ones there than in the real space.

Candidates are built and timed by loopsmith's own builder and runner, without a check of their outputs (other tests have that). A time is
the fastest of five groups of calls. Where the second fastest is more than 3 % slower, other processes disturbed it, and it is taken again.
The fastest twentieth is measured twice more at the end, and the median of the three counts, since the fastest of many is partly luck.

    python -m experiments.search.spaces measure GMM:1,128,128,128 matvec:512,512 --seconds 300
    python -m experiments.search.spaces show

A run that is interrupted, by Ctrl-C or by ``--seconds``, goes on when it is started again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cost_models.prior import estimate_seconds
from database import Workload, hardware_fingerprint, software_versions
from ir import IRModule
from ir.target import Target
from runners import (
    Builder,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    MeasureRequest,
    Runner,
    WorkerPool,
    measure_candidates,
)
from schedules import ScheduleError
from schedules.population import Sketch
from schedules.space import PostOrderApply
from tuner import TuneContext
from tuner.program import ScheduledProgram
from tuner.search import MeasureCandidate

from ..operators import rows as operators
from ..operators import suite
from .stored_space import FOLDER, OK, StoredSpace, StoredSpaceError, Structure, load_all

SOURCES = ("all", "uniform", "estimate", "mutant")
SHARES = {"uniform": 0.6, "estimate": 0.15, "mutant": 0.25}
ESTIMATED = 20_000
"""Random candidates among which the estimate's best are found."""
MUTANT_ROUNDS = 5
BEST_SHARE = 0.05
DISTURBED = 1.03
RETRIES = 4
BATCH = 48
CONFIG = EvaluatorConfig(number=1, repeat=5, min_repeat_ms=3)

Candidate = tuple[int, bytes]
"""Number of the structure, and the row's bytes."""


class SpaceMeasurement:
    """One space on its way to a file.

    Args:
        name, shape: the row of a suite.
        path: the file; what it holds already is taken over.
        count: candidates to draw of a large space.
        complete: a space with at most so many candidates is measured completely.

    Raises:
        StoredSpaceError: the file holds other structures than today's rules make.
    """

    def __init__(self, name: str, shape: Sequence[int], path: Path, count: int, complete: int) -> None:
        self.path, self.count = path, count
        self.target = one_thread()
        self.workload = Workload(IRModule({"main": suite.workload(name, tuple(shape))}))
        self.sketches = PostOrderApply().generate_sketches(self.workload.mod, self.target)
        self.row = operators.key(name, shape)
        self.context = TuneContext(self.workload.mod, self.target)
        self.everything: list[Candidate] | None = None
        """All candidates of a small space."""
        if sum(sketch.size() for sketch in self.sketches) <= complete:
            self.everything = [
                (number, row.tobytes())
                for number, sketch in enumerate(self.sketches)
                for row in _all_rows(sketch)
            ]
        self.times: dict[Candidate, list[float]] = {}
        """The fastest time of each round; empty for failures."""
        self.kinds: dict[Candidate, str] = {}
        self.sources: dict[Candidate, str] = {}
        self.rounds = 0
        """Rounds in which the fastest were measured again."""
        if path.exists():
            self._take_over(StoredSpace.load(path))

    def _take_over(self, stored: StoredSpace) -> None:
        changes = stored.changes()
        if changes:
            raise StoredSpaceError(
                f"{self.path} holds an older space ({'; '.join(changes)}); remove it to measure anew"
            )
        self.rounds = stored.facts["best_rounds"]
        for number in range(len(self.sketches)):
            places = np.flatnonzero(stored.structure == number)
            for row, place in zip(stored.rows_of(number)[0], places, strict=True):
                candidate = (number, row.tobytes())
                secs = float(stored.seconds[place])
                self.times[candidate] = [secs] if np.isfinite(secs) else []
                self.kinds[candidate] = stored.kinds[stored.kind[place]]
                self.sources[candidate] = stored.sources[stored.source[place]]

    # ---- which candidates ----------------------------------------------------------------------------------------

    def _row(self, candidate: Candidate) -> np.ndarray:
        return np.frombuffer(candidate[1], dtype=np.int64)

    def _taken(self, source: str) -> int:
        return sum(item == source for item in self.sources.values())

    def batches(self) -> Iterator[tuple[str, list[Candidate]]]:
        """What is still to be measured, in batches, each with how it was chosen."""
        if self.everything is not None:
            yield from self._new("all", self.everything, len(self.everything))
            return
        uniform, estimate, mutant = (round(share * self.count) for share in SHARES.values())
        generator = np.random.default_rng(0)
        yield from self._new("uniform", self._uniform(3 * uniform, generator), uniform)
        yield from self._new("estimate", self._by_estimate(generator), estimate)
        for last in range(1, MUTANT_ROUNDS + 1):
            wanted = mutant * last // MUTANT_ROUNDS
            generator = np.random.default_rng(last)
            yield from self._new("mutant", self._mutants(generator), wanted)

    def _new(
        self, source: str, candidates: Sequence[Candidate], wanted: int
    ) -> Iterator[tuple[str, list[Candidate]]]:
        """Those of the candidates that are not known, until ``wanted`` of this source are there."""
        fresh = [item for item in dict.fromkeys(candidates) if item not in self.kinds]
        fresh = fresh[: max(0, wanted - self._taken(source))]
        for begin in range(0, len(fresh), BATCH):
            yield source, fresh[begin : begin + BATCH]

    def _uniform(self, count: int, generator: np.random.Generator) -> list[Candidate]:
        """Rows of all structures in turns."""
        each = count // len(self.sketches) + 1
        rows = [sketch.sample(each, generator) for sketch in self.sketches]
        return [
            (number, own[position].tobytes())
            for position in range(each)
            for number, own in enumerate(rows)
            if position < len(own)
        ]

    def _by_estimate(self, generator: np.random.Generator) -> list[Candidate]:
        each = ESTIMATED // len(self.sketches)
        found: list[tuple[float, Candidate]] = []
        for number, sketch in enumerate(self.sketches):
            rows = sketch.sample(each, generator)
            estimates = estimate_seconds(sketch.skeleton(rows), self.target)
            found += [
                (float(secs), (number, row.tobytes())) for secs, row in zip(estimates, rows, strict=True)
            ]
        return [candidate for _, candidate in sorted(found)]

    def fastest(self) -> list[Candidate]:
        """The fastest twentieth, at least 24."""
        ran = sorted((np.median(secs), item) for item, secs in self.times.items() if secs)
        return [item for _, item in ran[: max(24, round(BEST_SHARE * len(ran)))]]

    def _mutants(self, generator: np.random.Generator) -> list[Candidate]:
        found: list[Candidate] = []
        for number, own in self.fastest() * 16:
            sketch = self.sketches[number]
            child = sketch.mutate(np.frombuffer(own, dtype=np.int64)[None], generator)
            if sketch.valid(child)[0]:
                found.append((number, child[0].tobytes()))
        return found

    # ---- measuring -----------------------------------------------------------------------------------------------

    def measure(self, candidates: Sequence[Candidate], builder: Builder, runner: Runner) -> None:
        """Build and time candidates; those that were disturbed again, a few times. Times are kept when all are done."""
        found: dict[Candidate, list[float]] = {}
        left = list(candidates)
        for _ in range(RETRIES):
            disturbed = []
            for candidate, kind, secs in self._timed(left, builder, runner):
                self.kinds[candidate] = kind
                known = sorted([*found.get(candidate, []), *secs])
                found[candidate] = known
                if len(known) > 1 and known[1] > DISTURBED * known[0]:
                    disturbed.append(candidate)
            left = disturbed
            if not left:
                break
        for candidate, secs in found.items():
            self.times.setdefault(candidate, [])
            if secs:
                self.times[candidate].append(secs[0])

    def _timed(
        self, candidates: Sequence[Candidate], builder: Builder, runner: Runner
    ) -> Iterator[tuple[Candidate, str, Sequence[float]]]:
        requests, asked = [], []
        for candidate in candidates:
            number = candidate[0]
            proposal = MeasureCandidate(self.sketches[number], self._row(candidate))
            try:
                trace = proposal.trace(self.context)
            except ScheduleError:
                trace = None
            if trace is None:
                yield candidate, "illegal_schedule", ()
                continue
            program = ScheduledProgram(self.workload.module_json, trace.as_json())
            requests.append(MeasureRequest(program, self.target))
            asked.append(candidate)
        for position, result in measure_candidates(requests, builder, runner):
            yield asked[position], str(result.kind), result.run_secs or ()

    def run(self, builder: Builder, runner: Runner, deadline: float) -> bool:
        """Measure until all is done or the deadline (``time.monotonic``) has come; whether all is done."""
        for source, batch in self.batches():
            if time.monotonic() > deadline:
                return False
            self.measure(batch, builder, runner)
            self.sources.update(dict.fromkeys(batch, source))
            self.save()
            print(f"{self.row}: {len(self.sources)} candidates", file=sys.stderr, flush=True)
        while self.rounds < 2:
            if time.monotonic() > deadline:
                return False
            self.measure(self.fastest(), builder, runner)
            self.rounds += 1
            self.save()
        return True

    def save(self) -> None:
        """Write the file."""
        candidates = sorted(self.sources, key=lambda item: (item[0], self._row(item).tolist()))
        kinds = [OK, *sorted(set(self.kinds.values()) - {OK})]
        width = max(sketch.n_columns for sketch in self.sketches)
        decisions = np.full((len(candidates), width), -1, dtype=np.int16)
        for position, candidate in enumerate(candidates):
            row = self._row(candidate)
            decisions[position, : len(row)] = row
        StoredSpace(
            self.row,
            self.workload.mod,
            self.target,
            [Structure.of(sketch) for sketch in self.sketches],
            np.array([number for number, _ in candidates]),
            decisions,
            np.array([np.median(self.times[item] or [np.inf]) for item in candidates]),
            np.array([kinds.index(self.kinds[item]) for item in candidates]),
            kinds,
            np.array([SOURCES.index(self.sources[item]) for item in candidates]),
            list(SOURCES),
            {
                "machine": hardware_fingerprint(),
                "versions": software_versions(),
                "commit": commit(),
                "complete": self.everything is not None and len(candidates) == len(self.everything),
                "candidates": sum(sketch.size() for sketch in self.sketches),
                "best_rounds": self.rounds,
                "timing": "median over rounds of the fastest of 5 groups of calls, one thread, outputs not checked",
            },
        ).save(self.path)


def _all_rows(sketch: Sketch) -> np.ndarray:
    rows = sketch.all_rows(sketch.size())
    assert rows is not None
    return rows


def one_thread() -> Target:
    """This processor with one core; its caches are written down, so that features are the same wherever the file is read."""
    host = Target("cpu -num-cores=1")
    sizes = {f"l{level}-cache-bytes": getattr(host, f"l{level}_cache_bytes") for level in (1, 2, 3)}
    return Target({**host.export(), **sizes})


def commit() -> str:
    """The commit of this tree."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def file_name(row: str, target: Target) -> str:
    """A file name of row and processor, such as ``GMM_1x128x128x128.znver3.npz``."""
    return f"{row.replace(' ', '_')}.{target.attrs.get('mcpu', target.kind_name)}.npz"


def show(spaces: Sequence[StoredSpace]) -> None:
    """One line per space."""
    for space in spaces:
        ran = np.isfinite(space.seconds)
        machine = space.facts["machine"]
        changes = space.changes()
        print(
            f"{space.row:32} {len(space):5} of {space.facts['candidates']:8} candidates, {len(space.structures)} structures,"
            f" best {space.best_secs * 1e6:8.2f} us, median {np.median(space.seconds[ran]) / space.best_secs:5.2f} x,"
            f" {int((~ran).sum())} failed; {machine['cpu']} ({space.target.attrs.get('mcpu')})"
        )
        for change in changes:
            print(f"    today: {change}")


def main(given: Sequence[str]) -> int:
    """The command line; 130 after Ctrl-C, 1 when time ran out before all was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.search.spaces",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("measure", "show"))
    parser.add_argument(
        "rows", nargs="*", help="rows of a suite to measure, or beginnings of file names to show"
    )
    parser.add_argument("--count", type=int, default=1000, help="candidates of a large space (default 1000)")
    parser.add_argument(
        "--complete", type=int, default=2000, help="size of a space measured completely (default 2000)"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the files")
    options = parser.parse_intermixed_args(given)
    if options.what == "show":
        show(load_all(options.folder, options.rows))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.seconds
    finished = True
    preload = ("runners.native", "runners.candidate", "schedules", "tuner.program")
    with WorkerPool(preload=preload) as pool:
        builder, runner = LocalBuilder(pool=pool), LocalRunner(5.0, CONFIG, pool=pool)
        try:
            for name, shape in suite.parse_rows(options.rows):
                path = options.folder / file_name(operators.key(name, shape), one_thread())
                space = SpaceMeasurement(name, shape, path, options.count, options.complete)
                finished &= space.run(builder, runner, deadline)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on", file=sys.stderr)
            return 130
    return 0 if finished else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
