"""What is mutated, and where the tests of it are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_VERIFICATION = (
    "runners/verify",
    *(
        f"runners/{name}.py"
        for name in ("reference_order", "candidate", "measure", "evaluator", "result", "final")
    ),
)


@dataclass(frozen=True)
class Package:
    """Files or folders that are mutated together, and the tests that are asked about them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    share: int = 1
    """Of the sample, against the other packages."""
    without: tuple[str, ...] = ()
    """Files and folders that belong to another package."""

    def files(self, root: Path) -> list[str]:
        """The Python files of the package, relative to the root."""
        found: set[Path] = set()
        for source in self.sources:
            path = root / source
            if source.endswith("/*"):
                found.update(path.parent.glob("*.py"))
            else:
                found.update(path.rglob("*.py") if path.is_dir() else [path])
        names = sorted(str(path.relative_to(root)) for path in found if path.name != "__init__.py")
        return [name for name in names if not any(Path(name).is_relative_to(other) for other in self.without)]

    def test_files(self, root: Path) -> list[str]:
        """The test files, relative to the root."""
        found: set[Path] = set()
        for test in self.tests:
            path = root / test
            if test.endswith("/*"):
                found.update(path.parent.glob("test_*.py"))
            else:
                found.update(path.rglob("test_*.py") if path.is_dir() else [path])
        return sorted(str(path.relative_to(root)) for path in found)


PACKAGES = {
    "arithmetic": Package(("ir/arith",), ("tests/ir/arith", "tests/ir/tir/transform"), share=3),
    "passes": Package(
        ("ir/tir/transform", "ir/relax/transform"),
        ("tests/ir/tir/transform", "tests/ir/tir/test_lower.py", "tests/ir/relax/transform", "tests/ir/codegen/*"),
        share=3,
    ),
    "schedules": Package(("schedules",), ("tests/schedules",), share=3),
    "verification": Package(_VERIFICATION, ("tests/runners",), share=3),
    "runners": Package(("runners",), ("tests/runners",), without=_VERIFICATION),
    "core": Package(("ir/*", "ir/target"), ("tests/ir/*", "tests/ir/target", "tests/ir/tir", "tests/ir/arith")),
    "tir": Package(
        ("ir/tir/*", "ir/tir/analysis", "ir/tir/interpreter", "ir/tir/intrinsic", "ir/tir/tensor_intrin"),
        ("tests/ir/*", "tests/ir/tir", "tests/ir/codegen", "tests/ir/script"),
        without=("ir/tir/lower.py",),
    ),
    "te and topi": Package(("ir/te", "ir/topi"), ("tests/ir/te", "tests/ir/topi", "tests/ir/relax/op")),
    "relax operators": Package(("ir/relax/op",), ("tests/ir/relax/op", "tests/ir/relax/transform")),
    "relax": Package(
        ("ir/relax/*", "ir/relax/analysis", "ir/relax/vm", "ir/relax/dpl", "ir/relax/distributed", "ir/relax/testing"),
        ("tests/ir/relax/*", "tests/ir/relax/analysis", "tests/ir/relax/dpl", "tests/ir/relax/distributed",
         "tests/ir/relax/testing", "tests/ir/relax/transform", "tests/runners/test_virtual_machine.py"),
    ),
    "script": Package(("ir/script",), ("tests/ir/script", "tests/ir/tir")),
    "frontends": Package(("ir/relax/frontend",), ("tests/ir/relax/frontend",)),
    "database": Package(("database",), ("tests/database",)),
    "cost_models": Package(("cost_models",), ("tests/cost_models",)),
    "tuner": Package(("tuner",), ("tests/tuner",)),
    "codegen": Package(("ir/codegen", "ir/tir/lower.py"), ("tests/ir/codegen", "tests/ir/tir/test_lower.py")),
}  # fmt: skip
