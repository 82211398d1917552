"""The files of models' libraries: described without being loaded, and refused where a byte is another one."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import runners
from ir import relax
from ir.script import ir as I
from ir.script import relax as R
from runners import library_file
from runners.library_file import read_description, seal
from runners.program import ExecutableError


@I.ir_module
class Double:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(x, R.const(np.arange(4, dtype="float32")))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return relax.build(Double, "llvm").export_library(tmp_path_factory.mktemp("built") / "model.so")


def test_it_is_described_without_being_loaded(library: Path) -> None:
    program = (
        f"import pathlib, runners.library_file as f; print(list(f.read_description(pathlib.Path({str(library)!r}))['functions']));"
        " print(any('model.so' in line for line in open('/proc/self/maps')))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["['main']", "False"]


def test_every_change_is_found(library: Path, tmp_path: Path) -> None:
    """Of its code, of its description, and of what says where that is: nothing is loaded then."""
    whole, changed = library.read_bytes(), tmp_path / "changed.so"
    rng = random.Random(0)
    places = [4, 0x28, len(whole) - 1, len(whole) - 40, len(whole) - 50, *rng.sample(range(len(whole)), 60)]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        changed.write_bytes(data)
        with pytest.raises(ExecutableError):
            runners.load_module(changed)
    changed.write_bytes(whole + b"\0")
    with pytest.raises(ExecutableError, match="cut short"):
        runners.load_module(changed)
    assert str(changed) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"functions":{"main":{}}}',
        b"[" * 5000,
        b'{"functions":{},"constants":[{"dtype":"float32","shape":[1000000],"offset":0}]}',
        b'{"functions":{},"constants":[{"dtype":"float32","shape":[-1],"offset":0}]}',
        b'{"functions":{},"target":{"features":[1]}}',
        b'{"functions":{"main":{"kind":"native","params":[{"name":"x","shape":1.5}]}}}',
        b"\xff\xfe",
    ],
)
def test_descriptions_that_nobody_wrote_are_refused(text: bytes, tmp_path: Path) -> None:
    """Also where the checksum is right."""
    path = tmp_path / "forged.so"
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(58) + text)
    seal(path, text)
    with pytest.raises(ExecutableError, match="cannot be read"):
        read_description(path)


def test_libraries_of_other_forms_are_told_apart(library: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(library_file, "MAGIC", b"loopsmL9")
    with pytest.raises(ExecutableError, match="has the form b'loopsmL1', .* build the model again"):
        read_description(library)


def test_a_library_that_is_loaded_may_be_built_again(tmp_path: Path) -> None:
    """What runs keeps its code, for the new file takes the place of the old one as a whole."""
    executable = relax.build(Double, "llvm")
    path = executable.export_library(tmp_path / "model.so")
    loaded = runners.VirtualMachine(runners.load_module(path))
    executable.export_library(path)
    expected = 1 + np.arange(4, dtype="float32")
    np.testing.assert_array_equal(loaded["main"](np.ones(4, "float32")).numpy(), expected)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["model.h", "model.so"]


def test_constants_lie_within_the_library() -> None:
    """To the byte: one more would be read behind the end of what is mapped."""
    constant = {"shape": [2, 3], "dtype": "float32", "offset": 40}
    description = {"functions": {}, "constants": [constant]}
    library_file._require_form(description, 64)
    with pytest.raises(ValueError, match="a constant ends behind the library"):
        library_file._require_form(description, 63)
