"""Measure the test suite: change the program a little, and see whether a test notices.

    python experiments/mutation/run.py --number 400                        50 changes of each of the eight packages
    python experiments/mutation/run.py arithmetic schedules --number 30    15 changes of two packages
    python experiments/mutation/run.py --show                              the table and the survivors of what has run so far

Each mutant is run in a copy of the working tree, with the tests that execute the changed line, fastest first, until one fails. Which
tests those are is measured once per package (coverage with one context per test) and kept. A line that no test executes in its own
process is asked of the tests of the same name. Results are lines of JSON under --out; a second run with the same arguments goes on
where the first one ended. The same seed samples the same mutants of the same sources.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from experiments.mutation.operators import Mutant, mutants_of  # noqa: E402
from experiments.mutation.packages import PACKAGES, Package  # noqa: E402
from experiments.mutation.tests_of import TestsOf, collect  # noqa: E402

KILLED = ("killed", "timeout")
_FIRST_BATCH_SECONDS = 10.0


def sample(package: Package, number: int, seed: int, root: Path) -> list[Mutant]:
    """A number of a package's mutants, drawn evenly from all of them."""
    found = [
        mutant
        for path in package.files(root)
        for mutant in mutants_of(path, (root / path).read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(found, min(number, len(found)))


def copy_tree(target: Path) -> None:
    """The working tree as git sees it: tracked files and new ones, not what is ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def namesakes(path: str, package: Package, seconds: dict[str, float]) -> list[str]:
    """Tests in files that are named after the changed file, for code that other processes run; else all, fastest first."""
    stem = Path(path).stem
    near = [test for test in seconds if Path(test.split("::")[0]).stem == f"test_{stem}"]
    return sorted(near or seconds, key=lambda test: seconds[test])


def batches(tests: list[str], seconds: dict[str, float]) -> list[list[str]]:
    """Tests in order, a few seconds' worth first, then twice as much each time."""
    result: list[list[str]] = [[]]
    room = _FIRST_BATCH_SECONDS
    for test in tests:
        cost = seconds.get(test, 1.0)
        if result[-1] and room < cost:
            result.append([])
            room = _FIRST_BATCH_SECONDS * 2 ** (len(result) - 1)
        room -= cost
        result[-1].append(test)
    return [batch for batch in result if batch]


def _limit() -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))


def run_tests(tree: Path, tests: list[str], timeout: float) -> tuple[str, str]:
    """killed, survived, timeout or broken, and the test that failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(tests))
        names.flush()
        command = [
            sys.executable,
            "-B",
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            f"@{names.name}",
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        child = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=_limit,
        )  # fmt: skip
        try:
            output, _ = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return "timeout", ""
    if child.returncode == 0:
        return "survived", ""
    failed = [
        line.split(" - ")[0].split(" ", 1)[1]
        for line in output.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    ]
    return "killed", failed[0] if failed else output.strip().splitlines()[-1][:200]


def judge(mutant: Mutant, package: Package, tests_of: TestsOf, tree: Path, budget: float) -> dict[str, Any]:
    """Run a mutant's tests in a tree of its own; the tree is as before afterwards."""
    begin = time.monotonic()
    last = mutant.line + mutant.source[mutant.begin : mutant.end].count("\n")
    tests = tests_of.of_line(mutant.path, mutant.line, last)
    covered = bool(tests)
    tests = tests or namesakes(mutant.path, package, tests_of.seconds)
    status, by, spent, asked = "survived", "", 0.0, 0
    file = tree / mutant.path
    file.write_text(mutant.mutated, encoding="utf-8")
    try:
        for batch in batches(tests, tests_of.seconds):
            expected = sum(tests_of.seconds.get(test, 1.0) for test in batch)
            if spent + expected > budget and asked:
                break
            status, by = run_tests(tree, batch, 30 + 4 * expected)
            spent, asked = spent + expected, asked + len(batch)
            if status in KILLED:
                break
    finally:
        file.write_text(mutant.source, encoding="utf-8")
    return {
        "id": mutant.id, "path": mutant.path, "line": mutant.line, "operator": mutant.operator, "status": status,
        "by": by, "covered": covered, "tests": asked, "of_tests": len(tests),
        "seconds": round(time.monotonic() - begin, 1), "diff": mutant.diff,
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Killed, timed out and survived by package."""
    lines = [
        "| package | mutants | killed | timeout | survived | of them on lines that no test runs | score |",
        "|---|---|---|---|---|---|---|",
    ]
    packages = sorted({row["package"] for row in rows}, key=list(PACKAGES).index)
    for name in [*packages, "all"]:
        mine = [row for row in rows if name in ("all", row["package"])]
        counts = Counter(row["status"] for row in mine)
        dark = sum(row["status"] == "survived" and not row["covered"] for row in mine)
        score = (counts["killed"] + counts["timeout"]) / max(1, len(mine))
        lines.append(
            f"| {name} | {len(mine)} | {counts['killed']} | {counts['timeout']} | {counts['survived']} | {dark} | {score:.0%} |"
        )
    return "\n".join(lines) + "\n"


def show(rows: list[dict[str, Any]], out: Path) -> None:
    """Print the table; write it and the survivors' diffs."""
    text = table(rows)
    print(text)
    (out / "table.md").write_text(text)
    survivors = [row for row in rows if row["status"] == "survived"]
    notes = [
        f"# {row['id']} {row['package']}: {row['operator']}, {row['tests']} of {row['of_tests']} tests"
        f"{'' if row['covered'] else ' (none runs the line)'}\n{row['diff']}"
        for row in survivors
    ]
    (out / "survivors.diff").write_text("\n".join(notes))
    print(f"{len(survivors)} survivors: {out / 'survivors.diff'}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", help=f"any of {', '.join(PACKAGES)} (all)")
    parser.add_argument("--number", type=int, default=400, help="mutants of all packages together (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="mutants at a time, each in a copy of the tree (1)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=120.0,
        help="seconds of tests per mutant, as they take unchanged (120)",
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "experiments" / "out" / "mutation", help="folder of results"
    )
    parser.add_argument("--only", help="a mutant's id: run this one again")
    parser.add_argument(
        "--show", action="store_true", help="run nothing: table and survivors of what is there"
    )
    options = parser.parse_args()
    names = options.packages or list(PACKAGES)
    unknown = sorted(set(names) - set(PACKAGES))
    if unknown:
        parser.error(f"unknown packages {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if not options.show:
        _run(names, options, results, rows)
    wanted = [row for row in rows if row["package"] in names]
    show(list({row["id"]: row for row in wanted}.values()), options.out)


def _run(names: list[str], options: argparse.Namespace, results: Path, rows: list[dict[str, Any]]) -> None:
    done = {row["id"] for row in rows}
    share = -(-options.number // len(names))
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trees = [Path(folder) / str(number) for number in range(max(1, options.jobs))]
        for tree in trees:
            copy_tree(tree)
        free, lock = list(trees), threading.Lock()
        for name in names:
            package = PACKAGES[name]
            chosen = sample(package, share, options.seed, ROOT)
            chosen = [
                item
                for item in chosen
                if item.id == options.only or (not options.only and item.id not in done)
            ]
            if not chosen:
                continue
            print(f"{name}: {len(chosen)} mutants; collecting which tests run which lines", flush=True)
            tests_of = collect(name, package, ROOT, options.out / "coverage")
            # what fails in an unchanged copy says nothing about mutants
            status, by = run_tests(
                trees[0], sorted(tests_of.seconds, key=tests_of.seconds.__getitem__)[:50], 300
            )
            if status != "survived":
                raise SystemExit(f"{by} fails in an unchanged copy of the tree ({status})")

            def work(
                mutant: Mutant, name: str = name, package: Package = package, known: TestsOf = tests_of
            ) -> None:
                with lock:
                    tree = free.pop()
                try:
                    row = {"package": name, **judge(mutant, package, known, tree, options.budget)}
                finally:
                    with lock:
                        free.append(tree)
                with lock, results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                    rows.append(row)
                print(
                    f"{row['status']:>8} {row['seconds']:6.1f} s {row['path']}:{row['line']} {row['operator']} {row['by']}",
                    flush=True,
                )

            with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
                list(pool.map(work, chosen))


if __name__ == "__main__":
    main()
