"""Which tests run a line: coverage with one context per test, collected once per package and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import coverage

from .packages import Package


@dataclass
class TestsOf:
    """Tests by file and line, and how long each takes."""

    __test__ = False

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def of_line(self, path: str, line: int, end: int) -> list[str]:
        """Tests that run one of the lines, fastest first; those that run the file at all where only the import does."""
        by_line = self.lines.get(path, {})
        found: set[str] = set().union(*(by_line.get(number, set()) for number in range(line, end + 1)))
        if not found:
            found = set().union(*by_line.values())
        return sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test))


def collect(name: str, package: Package, root: Path, cache: Path) -> TestsOf:
    """Run the package's tests once under coverage, unless the cache has the same sources and tests."""
    folder = cache / f"{name}-{_digest(package, root)}"
    seconds, data = folder / "seconds.json", folder / "coverage"
    if not seconds.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rc").write_text(
            "[run]\ndata_file = "
            + str(data)
            + "\nsource =\n"
            + "".join(f"    {s}\n" for s in _folders(package))
        )
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={folder / 'rc'}", "-m", "pytest", "-q"]
        command += ["-p", "no:cacheprovider", "-p", "experiments.mutation.contexts", *package.tests]
        partial = folder / "seconds.partial"
        environment = {**os.environ, "PYTHONPATH": str(root), "MUTATION_SECONDS": str(partial)}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
        if done.returncode != 0 or not partial.exists():
            raise SystemExit(
                f"the tests of {name} fail without a mutant:\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
            )
        partial.rename(seconds)
    return TestsOf(_read(data, root), json.loads(seconds.read_text()))


def _folders(package: Package) -> list[str]:
    return sorted(
        {source if not source.endswith(".py") else str(Path(source).parent) for source in package.sources}
    )


def _read(path: Path, root: Path) -> dict[str, dict[int, set[str]]]:
    data = coverage.CoverageData(str(path))
    data.read()
    found: dict[str, dict[int, set[str]]] = {}
    for file in data.measured_files():
        by_line = {
            line: {test for test in tests if test} for line, tests in data.contexts_by_lineno(file).items()
        }
        found[str(Path(file).relative_to(root))] = by_line
    return found


def _digest(package: Package, root: Path) -> str:
    digest = hashlib.sha256(str(package).encode())
    for item in (*package.sources, *package.tests):
        path = root / item
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(str(file.relative_to(root)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
