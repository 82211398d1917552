"""Measure the test suite: change the program a little, and see whether a test notices.

    python experiments/mutation/run.py --number 400                        changes of all packages, by their shares
    python experiments/mutation/run.py arithmetic schedules --number 30    changes of two packages
    python experiments/mutation/run.py --again                             ask all tests, as they are now, about the survivors
    python experiments/mutation/run.py --only 1a2b3c4d5e6f                 ask them about one
    python experiments/mutation/run.py --show                              the table and the survivors of what has run so far

A mutant is judged in a copy of the working tree, by the tests that run the changed statement, those in the file of the same name first,
then the fastest, until one fails. Which tests run it is asked once per test file, in a copy with a probe before each sampled statement
(also in the processes that tests start), and kept until the test file changes. Tests run in processes that are forked with the
heavy libraries loaded and import the project afresh. Results are lines of JSON under --out; a second run with the same
arguments goes on where the first one ended. The same seed samples the same mutants as long as their lines are the same; the table
counts those of the sample of the program as it is, so that a mutant whose code is gone counts no more, and another is drawn for it.
`exempt.py` says which survivors are equivalent to the program, or a matter of speed or wording alone.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from experiments.mutation.operators import Mutant, mutants_of  # noqa: E402
from experiments.mutation.packages import PACKAGES, Package  # noqa: E402
from experiments.mutation.report import diffs, kind, page, table  # noqa: E402
from experiments.mutation.session import preload, run  # noqa: E402
from experiments.mutation.tests_of import Collector, TestsOf  # noqa: E402
from experiments.mutation.trees import apply, compile_tree, copy_tree, probed_tree, restore  # noqa: E402

_FIRST_BATCH_SECONDS = 4.0
_GROWTH = 4
"""Each batch of tests may take so many times what the one before took."""
_START_SECONDS = 8.0
"""Of processor time, for what a run does besides its tests, on a slow machine."""


def all_mutants(package: Package, root: Path) -> list[Mutant]:
    """Every mutant of a package."""
    return [
        mutant
        for path in package.files(root)
        for mutant in mutants_of(path, (root / path).read_text(encoding="utf-8"))
    ]


def sample(package: Package, number: int, seed: int, root: Path) -> list[Mutant]:
    """A number of a package's mutants, drawn evenly: a change elsewhere in the package leaves most of the draw as it is."""
    drawn = sorted(
        all_mutants(package, root), key=lambda item: hashlib.sha256(f"{seed} {item.id}".encode()).digest()
    )
    return list(itertools.islice((mutant for mutant in drawn if mutant.parses), number))


def samples(names: list[str], number: int, seed: int, root: Path) -> dict[str, list[Mutant]]:
    """So many mutants of the packages together, by their shares."""
    shares = sum(PACKAGES[name].share for name in names)
    return {
        name: sample(PACKAGES[name], -(-number * PACKAGES[name].share // shares), seed, root)
        for name in names
    }


def batches(tests: list[str], seconds: dict[str, float], budget: float) -> list[list[str]]:
    """Tests in order as far as the budget goes, a few seconds' worth first, then more each time."""
    result: list[list[str]] = [[]]
    room = first = _FIRST_BATCH_SECONDS
    for number, test in enumerate(tests):
        cost = seconds[test]
        if number and budget < cost:
            continue
        budget -= cost
        if result[-1] and room < cost:
            result.append([])
            room = first = first * _GROWTH
        room -= cost
        result[-1].append(test)
    return [batch for batch in result if batch]


def judge(mutant: Mutant, tests_of: TestsOf, tree: Path, budget: float) -> dict[str, Any]:
    """Run a mutant's tests in a tree; the tree is as before afterwards."""
    begin = time.monotonic()
    tests = tests_of.of(mutant)
    status, by, asked = "survived", "", 0
    apply(mutant, tree)
    try:
        for batch in batches(tests, tests_of.seconds, budget):
            cpu_seconds = _START_SECONDS + 2 * sum(tests_of.seconds[test] for test in batch)
            files = list(dict.fromkeys(test.split("::")[0] for test in batch))
            session = run(tree, files, batch, cpu_seconds=cpu_seconds)
            asked += len(batch)
            if session.status != "passed":
                status, by = "timeout" if session.status == "timeout" else "killed", session.by
                break
    finally:
        restore(mutant, tree)
    return {
        "id": mutant.id, "path": mutant.path, "function": mutant.function, "line": mutant.line,
        "operator": mutant.operator, "status": status, "by": by, "tests": asked, "of_tests": len(tests),
        "seconds": round(time.monotonic() - begin, 1), "diff": mutant.diff,
    }  # fmt: skip


def _tell(text: str) -> None:
    print(text, flush=True)


def _judge_all(
    wanted: dict[str, list[Mutant]], probed: list[Mutant], options: argparse.Namespace, results: Path
) -> None:
    """Package by package: which tests run the mutants, then what they say."""
    preload()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder) / "judged"
        copy_tree(tree)
        compile_tree(tree)

        def make(mutants: list[Mutant]) -> Path:
            path = Path(folder) / "probed"
            probed_tree(path, mutants)
            return path

        collector = Collector(make, probed, options.out / "tests")
        for name, mutants in wanted.items():
            if not mutants:
                continue
            _tell(f"{name}: {len(mutants)} mutants")
            asked = PACKAGES.values() if options.again or options.only else [PACKAGES[name]]
            files = sorted({file for package in asked for file in package.test_files(tree)})
            tests_of = collector.collect(files, tree, _tell)
            for mutant in mutants:
                row = {"package": name, **judge(mutant, tests_of, tree, options.budget)}
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                _tell(
                    f"{row['status']:>8} {row['seconds']:6.1f} s {row['tests']:4}/{row['of_tests']:<4} {row['id']} "
                    f"{row['path']}:{row['line']} {row['operator']} {row['by']}"
                )


def _rows(results: Path) -> dict[str, dict[str, Any]]:
    """What was said last about each mutant."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def _show(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    print(table(rows))
    (options.out / "survivors.diff").write_text(diffs(rows))
    print(f"the open survivors: {options.out / 'survivors.diff'}")
    if options.page:
        options.page.write_text(page(rows))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", help=f"any of {', '.join(PACKAGES)} (all)")
    parser.add_argument("--number", type=int, default=400, help="mutants of all packages together (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        help="seconds of tests per mutant, as they take unchanged (60)",
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "experiments" / "out" / "mutation", help="folder of results"
    )
    parser.add_argument("--only", nargs="+", help="ids of mutants: run these again")
    parser.add_argument("--again", action="store_true", help="run the open survivors again")
    parser.add_argument("--show", action="store_true", help="run nothing: the table of what is there")
    parser.add_argument("--page", type=Path, help="write the table and the survivors to this file")
    options = parser.parse_args()
    names = options.packages or list(PACKAGES)
    unknown = sorted(set(names) - set(PACKAGES))
    if unknown:
        parser.error(f"unknown packages {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.jsonl"
    done = _rows(results)
    if not options.show:
        probed = samples(names, options.number, options.seed, ROOT)
        wanted = probed
        if options.only or options.again:
            ids = set(options.only or (key for key, row in done.items() if kind(row) == "open"))
            wanted = {
                name: [item for item in all_mutants(PACKAGES[name], ROOT) if item.id in ids] for name in names
            }
        else:
            wanted = {name: [item for item in probed[name] if item.id not in done] for name in names}
        _judge_all(
            wanted,
            [item for found in (probed, wanted) for items in found.values() for item in items],
            options,
            results,
        )
    current = {
        mutant.id for found in samples(names, options.number, options.seed, ROOT).values() for mutant in found
    }
    rows = _rows(results)
    print(f"{len(current - set(rows))} of the sample are not judged yet")
    _show([row for key, row in rows.items() if key in current], options)


if __name__ == "__main__":
    main()
