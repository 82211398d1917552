"""Compare this tree with another one, on rows of the operator suite and on whole models.

    git worktree add ../base HEAD~100
    python -m experiments.two_trees ../base                      every row, 16 trials, the best two of each tree's search
    python -m experiments.two_trees ../base C2D GMM:1,512,512,512 --trials 64 --best 4
    python -m experiments.two_trees ../base models --trials 256  or resnet18, resnet18-small, any file.onnx

Both trees tune a row, and each compiles the best candidates of both. A model is compared as each tree builds it with default
schedules, and tuned with what its own search finds, the luck of a search included.

A line per candidate or build: the time here over the time there, the median of rounds in which both take turns, and in parentheses
the ratio of the fastest calls; `*` where other processes disturbed the rounds. The geometric mean is at the end. What a search found in
either tree is kept in `--scratch`, so that a second run only measures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..harness.settings import Settings
from ..models.rows import NAMES, is_model, path_of
from ..operators import suite
from . import models, rows
from .trees import HERE, Trees


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
    command.add_argument(
        "rows", nargs="*", default=["operators"], help="rows and models, as in experiments/run.py"
    )
    command.add_argument("--trials", type=int, default=16, help="of each tree for each row or model")
    command.add_argument("--best", type=int, default=2, help="candidates of a row of each tree's search")
    command.add_argument("--rounds", type=int, default=7)
    command.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    command.add_argument("--scratch", type=Path, default=HERE / "experiments" / "out" / "two_trees")
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    command = parser()
    options = command.parse_args(argv)
    if not (options.base / "experiments" / "harness" / "child.py").is_file():
        command.error(f"{options.base} is no checkout of this repository")
    options.scratch.mkdir(parents=True, exist_ok=True)
    trees = Trees(
        options.base.resolve(), options.scratch.resolve(), options.trials, options.rounds, options.threads
    )
    ratios = [found for found in _compared(options.rows, trees, options.best) if found is not None]
    if not ratios:
        print("nothing was compiled by both trees")
        return 1
    print(f"{len(ratios)} compared: geometric mean {statistics.geometric_mean(ratios):.3f} of the time there")
    return 0


def _compared(items: Sequence[str], trees: Trees, best: int) -> Iterator[float | None]:
    for item in items:
        if item == "models":
            yield from _compared(NAMES, trees, best)
        elif is_model(item):
            yield from models.compare(path_of(item, Settings(scratch=trees.scratch)).resolve(), trees)
        else:
            for name, shape in suite.parse_rows([item]):
                yield from rows.compare(name, shape, trees, best)


if __name__ == "__main__":
    sys.exit(main())
