"""Documented names that live in packages above ``ir``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ir.error import IRError
from ir.external import EXTERNAL, external


@pytest.mark.parametrize("name", EXTERNAL)
def test_every_name_is_found(name: str) -> None:
    assert external(name).__name__ == name


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTERNAL, "Gone", "no_such_package.part")
    with pytest.raises(IRError, match="Gone needs the package 'no_such_package', which is not installed"):
        external("Gone")


def test_what_a_package_lacks_is_not_blamed_on_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "package_that_needs_more.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTERNAL, "Needy", "package_that_needs_more")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        external("Needy")
