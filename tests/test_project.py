"""What holds for the project as a whole: cheap imports, packaging facts, and that README says what CI runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

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


def test_the_model_in_readme_runs(tmp_path: Path) -> None:
    """With few trials, of a small model with the same input."""
    (program, _) = re.findall(r"^```python\n(.+?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 1, 1])
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "net", [given], [made]), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.save(model, tmp_path / "model.onnx")
    assert "max_trials_global=1000" in program
    program = program.replace("max_trials_global=1000", "max_trials_global=2")
    program += "np.testing.assert_allclose(np.asarray(y).ravel(), x.mean(axis=(0, 2, 3)), atol=1e-4)\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_the_kernel_in_readme_runs() -> None:
    blocks = re.findall(r"^```python\n(.+?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", blocks[-1]], capture_output=True, text=True, cwd=ROOT)
    assert "sch.vectorize" in done.stdout, done.stderr


def test_extras_are_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = {"onnx", "torch", "jax", "cuda", "postgres", "report", "ray", "rpc", "search", "test", "dev"}
    assert set(project["optional-dependencies"]) == expected
    assert project["scripts"] == {"loopsmith": "tuner.cli.entry:main"}
    assert (ROOT / "LICENSE").read_text().count("Apache License") >= 1
