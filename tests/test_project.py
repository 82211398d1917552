"""What holds for the project as a whole: cheap imports, packaging facts, and that README says what CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "torch",
    "onnx",
    "onnxruntime",
    "xgboost",
    "optuna",
    "sqlalchemy",
    "alembic",
    "jax",
    "scipy",
    "matplotlib",
)


@pytest.mark.parametrize(
    "package", ["ir", "ir.tir", "schedules", "cost_models", "database", "runners", "tuner"]
)
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    program = f"import sys, {package}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr or f"import {package} loads {done.stdout}"


def test_ir_imports_in_half_a_second() -> None:
    program = "import time; t = time.process_time(); import ir; print(time.process_time() - t)"
    times = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT).stdout
        )
        for _ in range(2)
    ]
    assert min(times) < 0.5


def test_every_source_folder_is_packaged() -> None:
    """A folder without ``__init__.py`` would be missing from a wheel."""
    for package in ("ir", "schedules", "cost_models", "database", "runners", "tuner"):
        folders = {path.parent for path in (ROOT / package).rglob("*.py")}
        assert folders, f"{package} is missing"
        assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_readme_begins_with_the_two_set_up_commands() -> None:
    commands = re.findall(r"^```sh\n(.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[0].startswith(
        "pip install -e '.[onnx]' && loopsmith tune --zoo resnet18 --target cpu --trials 256"
    )
    assert commands[1] == "pip install -e '.[test]' && pytest -n 2 tests"


def test_the_kernel_in_readme_runs() -> None:
    blocks = re.findall(r"^```python\n(.+?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", blocks[-1]], capture_output=True, text=True, cwd=ROOT)
    assert "sch.vectorize" in done.stdout, done.stderr


def test_extras_are_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = {"onnx", "torch", "jax", "cuda", "postgres", "report", "ray", "search", "test", "dev"}
    assert set(project["optional-dependencies"]) == expected
    assert project["scripts"] == {"loopsmith": "tuner.cli.entry:main"}
    assert (ROOT / "LICENSE").read_text().count("Apache License") >= 1
