"""Registries of implementations by name: what fills them, what finds a file in the folder, what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ir.error import IRError
from ir.kinds import Kinds

BASE = """
from ir.kinds import Kinds

class Shape:
    kinds = Kinds("shape", ValueError, __package__)
"""
OVAL = """
from ..base import Shape

@Shape.kinds.register("oval")
class Oval(Shape):
    pass
"""
CIRCLE = """
from .base import Shape

@Shape.kinds.register("circle", "disc")
class Circle(Shape):
    pass
"""
BROKEN = "import a_library_that_nobody_has\n"


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kinds[type]:
    """The registry of a package on the disk: a base, one shape, and one that needs what is not installed."""
    folder = tmp_path / "shapes_of_a_test"
    folder.mkdir()
    for name, text in (("__init__", ""), ("base", BASE), ("round_ones", CIRCLE), ("square", BROKEN)):
        (folder / f"{name}.py").write_text(text)
    for name, module, text in (
        ("drawn", "shape", OVAL),
        ("drawn", "other", BROKEN),
        ("cut", "other", BROKEN),
    ):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "__init__.py").touch()
        (folder / name / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("shapes_of_a_test")]:
        monkeypatch.delitem(sys.modules, name)
    from shapes_of_a_test.base import Shape

    return Shape.kinds  # type: ignore[no-any-return]


def test_a_file_in_the_folder_is_found_when_its_name_is_asked_for(shapes: Kinds[type]) -> None:
    assert "shapes_of_a_test.round_ones" not in sys.modules
    assert shapes["circle"].__name__ == "Circle"
    assert shapes["disc"] is shapes["circle"]


def test_an_unknown_name_lists_what_there_is(shapes: Kinds[type]) -> None:
    with pytest.raises(ValueError, match="unknown shape 'cube'; there are circle, disc, oval"):
        shapes["cube"]
    assert "cube" not in shapes and shapes.names() == ["circle", "disc", "oval"]


def test_a_kind_whose_library_is_missing_says_so(shapes: Kinds[type]) -> None:
    """Asked for by its own name; in the list it is left out."""
    with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
        shapes["square"]


def test_a_name_has_one_owner() -> None:
    kinds: Kinds[object] = Kinds("shape", IRError)

    @kinds.register("circle")
    class Circle: ...

    with pytest.raises(IRError, match=r"shape 'circle' is registered already, as .*Circle"):
        kinds.register("circle")(object())
    assert kinds["circle"] is Circle
    with pytest.raises(IRError, match="there are circle"):
        kinds["square"]


def test_a_file_that_imports_what_a_package_does_not_have_says_so(shapes: Kinds[type]) -> None:
    """It is no missing library: the list would be short by a kind without a word."""
    Path(sys.modules["shapes_of_a_test"].__path__[0], "wrong.py").write_text(
        "from . import_of_nothing import x\n"
    )
    with pytest.raises(ModuleNotFoundError, match="import_of_nothing"):
        shapes.names()


def test_subpackages_have_theirs_in_modules_of_one_name(shapes: Kinds[type]) -> None:
    assert shapes["oval"].__name__ == "Oval"
