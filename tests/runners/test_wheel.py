"""Wheels of models: pip installs them, and they run with Python and numpy alone."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ir import relax
from ir.relax.struct_info import TensorStructInfo
from ir.script import ir as I
from ir.script import relax as R
from runners.program import ExecutableError
from runners.wheel import package_library


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
        return R.add(x, y), R.nn.softmax(x)

    @R.function
    def grow(x: R.Tensor(("n",), "float32")):
        return R.concat([x, x], axis=0)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return relax.build(Model, "llvm").export_library(tmp_path_factory.mktemp("built") / "libsmall-net.so")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that has numpy, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for found in Path(np.__file__).parents[1].glob("numpy*"):
        (packages / found.name).symlink_to(found)
    return folder


PROGRAM = """
import sys
import numpy as np
import small_net
x, y = np.arange(6, dtype="float32").reshape(2, 3), np.ones(3, "float32")
total, shares = small_net.main(x, y)
np.testing.assert_array_equal(total, x + 1)
np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
np.testing.assert_array_equal(small_net.grow(y), np.ones(6))
small_net.set_num_threads(1)
try:
    small_net.main(x, x)
except ValueError as error:
    print(error)
print(type(total), small_net.__version__, small_net.provenance())
ours = ("ir", "runners", "tuner", "database", "schedules", "cost_models", "llvmlite")
print([name for name in sys.modules if name.partition(".")[0] in ours])
"""


def test_a_wheel_needs_numpy_alone(library: Path, environment: Path, tmp_path: Path) -> None:
    wheel = package_library(library, tmp_path, version="2.1.0")
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-index", str(wheel)], check=True, timeout=120)
    # a folder of that name beside the program is not taken for the compiler
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir/error.py").write_text("raise SystemExit('imported')")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [python, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={}
    )
    assert done.returncode == 0, done.stderr
    refused, told, imported = done.stdout.splitlines()
    assert "argument y must be float32[3], got float32[2, 3]" in refused
    assert told == "<class 'numpy.ndarray'> 2.1.0 None" and imported == "[]"
    subprocess.run([*pip, "check"], check=True, timeout=120)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs binutils")
def test_names_tell_the_platform(library: Path, tmp_path: Path) -> None:
    """The machine, and the version of the C library that the newest of its functions came with."""
    wheel = package_library(library, tmp_path)
    versions = subprocess.run(["readelf", "-V", library], capture_output=True, text=True, check=True).stdout
    newest = max(int(number) for number in re.findall(r"GLIBC_2\.(\d+)", versions))
    machine = platform.machine().lower()
    assert wheel.name == f"small_net-1.0.0-py3-none-manylinux_2_{max(newest, 17)}_{machine}.whl"


NAMES = ("isinstance", "hasattr", "_numpy", "machine", "runtime", "Path", "class", "_MACHINES", "9 lives")


def test_names_of_a_model_are_not_those_of_its_module(environment: Path, tmp_path: Path) -> None:
    """Functions and arguments are called what they like: keywords of Python, and what the module itself needs."""
    builder = relax.BlockBuilder()
    for name in NAMES:
        x, y = (relax.Var(each, TensorStructInfo((2,), "float32")) for each in ("_numpy", name))
        with builder.function(name, [x, y]):
            builder.emit_func_output(builder.emit(relax.op.add(x, y)))
    library = relax.build(builder.finalize(), "llvm").export_library(tmp_path / "odd.so")
    with zipfile.ZipFile(package_library(library, tmp_path)) as archive:
        archive.extractall(tmp_path / "installed")
    words = [
        "isinstance_",
        "hasattr_",
        "_numpy_",
        "machine_",
        "runtime_",
        "Path_",
        "class_",
        "_MACHINES_",
        "_9_lives",
    ]
    program = f"import numpy, odd\nfor word in {words!r}:\n    print(getattr(odd, word)(*numpy.ones((2, 2), 'float32')))"
    done = subprocess.run(
        [environment / "bin/python", "-c", program], cwd=tmp_path / "installed", capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["[2. 2.]"] * len(NAMES)


def test_equal_libraries_give_equal_wheels(library: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    one, other = (package_library(library, folder) for folder in (tmp_path, tmp_path / "again"))
    assert one.read_bytes() == other.read_bytes()


def test_dtypes_that_numpy_lacks_are_asked_for(tmp_path: Path) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", TensorStructInfo((4,), "bfloat16"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    path = relax.build(builder.finalize(), "llvm").export_library(tmp_path / "narrow.so")
    with zipfile.ZipFile(package_library(path, tmp_path)) as archive:
        metadata = archive.read("narrow-1.0.0.dist-info/METADATA").decode()
    assert "Requires-Dist: numpy" in metadata and "Requires-Dist: ml_dtypes" in metadata


def test_what_makes_no_package_is_refused(library: Path, tmp_path: Path) -> None:
    with pytest.raises(ExecutableError, match="'3d-net' is no name of a package"):
        package_library(library, tmp_path, name="3d-net")
    with pytest.raises(ExecutableError, match="'new' is no version"):
        package_library(library, tmp_path, version="new")
    with pytest.raises(ExecutableError, match="cannot write .*there is no folder .*nowhere; make it first"):
        package_library(library, tmp_path / "nowhere")
    cut = tmp_path / "cut.so"
    cut.write_bytes(library.read_bytes()[:-7])
    with pytest.raises(ExecutableError, match="cut short"):
        package_library(cut, tmp_path)
