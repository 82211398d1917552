"""What is mutated, and where the tests of it are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """Files or folders that are mutated together, and the tests that are asked about them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self, root: Path) -> list[str]:
        """The Python files of the package, relative to the root."""
        found: set[Path] = set()
        for source in self.sources:
            path = root / source
            found.update(path.rglob("*.py") if path.is_dir() else [path] if path.exists() else [])
        return sorted(str(path.relative_to(root)) for path in found if path.name != "__init__.py")


PACKAGES = {
    "passes": Package(
        ("ir/tir/transform", "ir/relax/transform"),
        ("tests/ir/tir/transform", "tests/ir/tir/test_lower.py", "tests/ir/relax/transform", "tests/ir/codegen"),
    ),
    "arithmetic": Package(("ir/arith",), ("tests/ir/arith", "tests/ir/tir/transform")),
    "schedules": Package(("schedules",), ("tests/schedules",)),
    "verification": Package(
        ("runners/verify.py", "runners/reference_order.py", "runners/candidate.py", "runners/measure.py",
         "runners/evaluator.py", "runners/result.py", "runners/final.py"),
        ("tests/runners",),
    ),
    "codegen": Package(("ir/codegen",), ("tests/ir/codegen", "tests/ir/topi")),
    "database": Package(("database",), ("tests/database",)),
    "cost_models": Package(("cost_models",), ("tests/cost_models",)),
    "tuner": Package(("tuner",), ("tests/tuner",)),
}  # fmt: skip
