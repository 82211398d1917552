"""Which tests run a mutant's statement: asked once per test file, in a tree with probes, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .operators import Mutant
from .probes import Marks
from .session import run

_CPU_SECONDS = 400.0


@dataclass
class TestsOf:
    """Tests by mutant, and how long each takes."""

    __test__ = False

    seconds: dict[str, float] = field(default_factory=dict)
    runs: dict[str, set[str]] = field(default_factory=dict)
    """By the mutant's id."""
    near: dict[str, set[str]] = field(default_factory=dict)
    """The tests of files that were not asked about a mutant, but about others of its file; by the mutant's id."""

    def of(self, mutant: Mutant) -> list[str]:
        """Tests that run the mutant (or may): those of the same name first, then the others, the fastest first."""
        return sorted(
            self.runs.get(mutant.id, set()) | self.near.get(mutant.id, set()),
            key=lambda test: (not is_namesake(test, mutant.path), self.seconds[test], test),
        )


def is_namesake(test: str, path: str) -> bool:
    """Whether the test's file is named after the changed one."""
    file = Path(test.split("::")[0])
    return file.stem == f"test_{Path(path).stem}" or file.stem == f"test_{Path(path).parent.name}"


class Collector:
    """Runs test files in the tree with probes, unless the cache knows the file.

    A mutant that is newer than what the cache holds of a test file is asked of those of its tests that run the file.
    """

    def __init__(self, make_tree: Callable[[list[Mutant]], Path], mutants: list[Mutant], cache: Path) -> None:
        self._make_tree, self._mutants, self._cache = make_tree, mutants, cache
        self._tree: Path | None = None
        cache.mkdir(parents=True, exist_ok=True)

    def collect(self, files: list[str], root: Path, say: Callable[[str], None]) -> TestsOf:
        """What the tests of the files run."""
        known = TestsOf()
        for file in files:
            digest = hashlib.sha256((root / file).read_bytes()).hexdigest()[:12]
            kept = self._cache / f"{file.replace('/', '.')}-{digest}.json"
            entry = json.loads(kept.read_text()) if kept.exists() else None
            if entry is None:
                entry = self._run(file)
                kept.write_text(json.dumps(entry))
                say(
                    f"  {sum(entry['seconds'].values()):6.1f} s {len(entry['seconds']):4} tests {file} {entry['failed']}"
                )
            known.seconds.update(entry["seconds"])
            for mutant, tests in entry["runs"].items():
                known.runs.setdefault(mutant, set()).update(tests)
            for mutant in self._mutants:
                if mutant.id not in entry["mutants"]:
                    known.near.setdefault(mutant.id, set()).update(self._near(mutant, entry))
        return known

    def _near(self, mutant: Mutant, entry: dict[str, Any]) -> set[str]:
        others = (other.id for other in self._mutants if other.path == mutant.path)
        return {
            *(test for test in entry["seconds"] if is_namesake(test, mutant.path)),
            *(test for other in others for test in entry["runs"].get(other, ())),
        }

    def _run(self, file: str) -> dict[str, Any]:
        if self._tree is None:
            self._tree = self._make_tree(self._mutants)
        path = self._tree / "marks"
        session = run(
            self._tree, [file], cpu_seconds=_CPU_SECONDS, marks=(path, Marks(path, max(1, len(self._mutants)))),
            write_bytecode=True,
        )  # fmt: skip
        runs: dict[str, list[str]] = {}
        passed = sorted(session.seconds, key=session.seconds.__getitem__)
        for test, numbers in session.marked.items():
            # what importing the file makes may be used by any test of it
            for asked in passed if test == "" else [test] if test in session.seconds else []:
                for number in numbers:
                    runs.setdefault(self._mutants[number].id, []).append(asked)
        return {
            "mutants": [mutant.id for mutant in self._mutants], "seconds": session.seconds, "runs": runs,
            "failed": "" if session.status == "passed" else f"{session.status} {session.by}",
        }  # fmt: skip
