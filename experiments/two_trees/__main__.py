"""Compare this tree with another one: both tune some rows of the operator suite, each compiles the best candidates of both.

    git worktree add ../base HEAD~100
    python -m experiments.two_trees ../base                      every row, 16 trials, the best two of each tree's search
    python -m experiments.two_trees ../base C2D GMM:1,512,512,512 --trials 64 --best 4

A line per candidate: the time here over the time there, the median of rounds in which both take turns, and in parentheses the ratio of the
fastest calls; `*` where other processes disturbed the rounds. The geometric mean is at the end. What a search found in either tree is
kept in `--scratch`, so that a second run only measures.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..harness.contestant import QUIET, Job, ratio, run_job, start, take_turns
from ..operators import data, suite
from ..operators.rows import key

_HERE = Path(__file__).resolve().parents[2]
_SIDE = "side"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    description, _, details = (__doc__ or "").partition("\n")
    command = argparse.ArgumentParser(
        "python -m experiments.two_trees",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("base", type=Path, help="a checkout of the other state")
    command.add_argument("rows", nargs="*", default=["operators"], help="as in experiments/run.py")
    command.add_argument("--trials", type=int, default=16, help="of each tree for each row")
    command.add_argument("--best", type=int, default=2, help="candidates of each tree's search")
    command.add_argument("--rounds", type=int, default=7)
    command.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    command.add_argument("--scratch", type=Path, default=_HERE / "experiments" / "out" / "two_trees")
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    command = parser()
    options = command.parse_args(argv)
    if not (options.base / "experiments" / "harness" / "child.py").is_file():
        command.error(f"{options.base} is no checkout of this repository")
    options.base = options.base.resolve()
    options.scratch.mkdir(parents=True, exist_ok=True)
    ratios: list[float] = []
    for name, shape in suite.parse_rows(options.rows):
        for found in _compared(name, shape, options):
            ratios.append(found)
    if not ratios:
        print("no candidate was compiled by both trees")
        return 1
    print(
        f"{len(ratios)} candidates: geometric mean {statistics.geometric_mean(ratios):.3f} of the time there"
    )
    return 0


def _compared(name: str, shape: Sequence[int], options: argparse.Namespace) -> Iterator[float]:
    """The ratios of a row's candidates; each is printed."""
    arrays = options.scratch / f"{key(name, shape).replace(' ', '-')}.npz"
    data.write(arrays, name, shape)
    for tree, label in ((_HERE, "here"), (options.base, "there")):
        for number, candidate in enumerate(_candidates(tree, name, shape, options)):
            row = {"name": name, "shape": list(shape), "threads": options.threads}
            call = {**row, "arrays": str(arrays), "trace": candidate["trace"]}
            jobs = [
                _job(name, root, f"{_SIDE}:call", call, options)
                for name, root in (("here", _HERE), ("there", options.base))
            ]
            title = f"{key(name, shape)} {label} {number + 1}"
            with start(jobs) as (here, there):
                disturbed = take_turns([here, there], options.rounds)
                failed = next(((side.name, side.failed) for side in (here, there) if side.failed), None)
                if failed is not None:
                    print(f"{title}: {failed[0]}: {failed[1]}", flush=True)
                    continue
                fastest = [min(turn.min_secs for turn in side.rounds) for side in (here, there)]
                found = ratio(here, there)
            mark = "*" if disturbed > QUIET else ""
            print(f"{title}: {found:.3f}{mark} ({fastest[0] / fastest[1]:.3f})", flush=True)
            yield found


def _candidates(
    tree: Path, name: str, shape: Sequence[int], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The best candidates that a tree's own search finds."""
    digest = hashlib.sha256(str(tree).encode()).hexdigest()[:8]
    database = str(options.scratch / f"{digest}-{options.trials}-trials-{options.threads}-threads.db")
    row = {"name": name, "shape": list(shape), "threads": options.threads, "database": database}
    tuning = {**row, "trials": options.trials}
    run_job(_job("tune", tree, "experiments.operators.loopsmith:tune", tuning, options))
    found: list[dict[str, Any]] = run_job(
        _job("traces", tree, f"{_SIDE}:best_traces", {**row, "best": options.best}, options)
    )
    return found


def _job(name: str, tree: Path, function: str, values: dict[str, Any], options: argparse.Namespace) -> Job:
    return Job(name, function, values, threads=options.threads, tree=tree, path=(str(Path(__file__).parent),))


if __name__ == "__main__":
    sys.exit(main())
