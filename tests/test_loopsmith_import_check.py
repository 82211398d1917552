"""Files of a user's own that have the names of our packages are named when something of ours is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from loopsmith_import_check import NEEDS

ROOT = Path(__file__).resolve().parents[1]


def imported(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A script in a folder, run with our packages behind it on the path."""
    script = folder / "script.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, *options, str(script)], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "package, needed",
    [("tuner", "database"), ("runners", "ir"), ("schedules", "ir"), ("database", "schedules")],
)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_lies_before_a_package_is_named(package: str, needed: str, kind: str, tmp_path: Path) -> None:
    other = tmp_path / (f"{needed}.py" if kind == "file" else f"{needed}/__init__.py")
    other.parent.mkdir(exist_ok=True)
    other.write_text("VALUE = 1\n")
    done = imported(tmp_path, f"import {package}\n")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError")
    assert str(other) in last and f"loopsmith's package {needed!r}" in last and "python" in last.lower()


def test_the_advice_works(tmp_path: Path) -> None:
    (tmp_path / "ir.py").write_text("")
    assert imported(tmp_path, "import tuner; tuner.TunerError", "-P").returncode == 0
    (tmp_path / "ir.py").rename(tmp_path / "my_ir.py")
    assert imported(tmp_path, "import tuner; tuner.TunerError").returncode == 0


def test_what_was_imported_before_counts_too(tmp_path: Path) -> None:
    (tmp_path / "ir.py").write_text("")
    program = "import sys, ir; sys.path.pop(0); import schedules"
    assert f"{tmp_path / 'ir.py'} is found before" in imported(tmp_path, program).stderr


@pytest.mark.parametrize(
    "other, program",
    [
        ("database.py", "import schedules, cost_models, runners"),
        ("tuner.py", "import database, runners"),
        ("database/notes.txt", "import tuner; tuner.tune_tir"),
    ],
)
def test_names_that_nothing_needs_are_the_users(other: str, program: str, tmp_path: Path) -> None:
    path = tmp_path / other
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert imported(tmp_path, program).returncode == 0


def test_the_table_is_what_packages_import() -> None:
    graph = grimp.build_graph(*NEEDS, cache_dir=None, exclude_type_checking_imports=True)
    imports: dict[str, set[str]] = {package: set() for package in NEEDS}
    for module in graph.modules:
        package = module.partition(".")[0]
        imports[package] |= {
            name.partition(".")[0] for name in graph.find_modules_directly_imported_by(module)
        } - {package}
    assert imports == {package: set(needs) for package, needs in NEEDS.items()}
