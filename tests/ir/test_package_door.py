"""A package finds what it does not list in the file of that name, and nothing else."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ir.package_door import by_file_name, is_file_of

DOOR = """
from ir.package_door import by_file_name
from .listed import Listed
__getattr__ = by_file_name(__name__)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = tmp_path / "a_package_with_a_door"
    folder.mkdir()
    (folder / "__init__.py").write_text(DOOR)
    (folder / "listed.py").write_text("class Listed: ...\n")
    (folder / "lower_tir_of_gpu.py").write_text("class LowerTIROfGPU: ...\n_Lower = 1\nclass Other: ...\n")
    (folder / "needs_a_library.py").write_text("import a_library_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    import a_package_with_a_door

    monkeypatch.delitem(__import__("sys").modules, "a_package_with_a_door")
    return a_package_with_a_door


def test_a_name_is_found_in_its_file(package: ModuleType) -> None:
    from a_package_with_a_door import LowerTIROfGPU

    assert package.LowerTIROfGPU is LowerTIROfGPU
    assert package.LowerTIROfGPU.__module__ == "a_package_with_a_door.lower_tir_of_gpu"
    assert package.Listed.__name__ == "Listed"


@pytest.mark.parametrize("name", ["Other", "_Lower", "Nothing", "LOWER_TIR_OF_GPU", "lower_tir"])
def test_what_is_in_no_file_of_its_name_is_missing(package: ModuleType, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'a_package_with_a_door' has no attribute '{name}'"):
        getattr(package, name)


def test_modules_are_still_imported_as_such(package: ModuleType) -> None:
    from a_package_with_a_door import lower_tir_of_gpu

    assert isinstance(lower_tir_of_gpu, ModuleType)


def test_a_file_that_cannot_be_imported_says_why(package: ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
        package.NeedsALibrary


def test_lists_of_files_are_taken_by_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a_package_that_takes_lists"
    (folder / "part").mkdir(parents=True)
    (folder / "__init__.py").write_text("from ir.package_door import take_lists\ntake_lists(__name__)\n")
    (folder / "family.py").write_text("__all__ = ['a', 'family']\na, family, _c, d = range(4)\n")
    (folder / "part" / "__init__.py").write_text("")
    (folder / "part" / "more.py").write_text("__all__ = ['e']\ne = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    import a_package_that_takes_lists as package

    assert (package.a, package.family, package.part.e) == (0, 1, 5)
    assert not {"d", "_c", "e"} & set(vars(package))


def test_names_and_files() -> None:
    assert is_file_of("CommonSubexprElimTIR", "common_subexpr_elim_tir")
    assert is_file_of("function_pass", "function_pass")
    assert not is_file_of("UnrollLoop", "unroll_loops") and not is_file_of("UnrollLoop", "UnrollLoop")
    with pytest.raises(AttributeError, match="ir.tir.transform"):
        by_file_name("ir.tir.transform")("Fresh")
