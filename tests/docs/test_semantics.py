"""The rules of ``docs/semantics.md`` and the tests that hold them: each rule has a test, and each marker names a rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "semantics.md"
TESTS = ROOT / "tests"

_RULE = re.compile(r"`\[([a-z0-9-]+)\]` ")
"""Where a rule begins; one that is only mentioned has no space behind it, or stands in parentheses."""


def rules(text: str) -> list[str]:
    """The names of the rules of a page, in order."""
    return [match[1] for match in _RULE.finditer(text) if text[match.start() - 1] != "("]


def marked(source: str) -> Iterator[str]:
    """The names in the ``meaning`` markers of a test file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.meaning":
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(f"line {node.lineno}: a marker names rules by strings")
                yield argument.value


@cache
def held() -> dict[str, set[str]]:
    """The rules that tests hold, with the files of those."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        for name in marked(source) if "mark.meaning(" in source else ():
            found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def test_the_page_names_each_rule_once() -> None:
    names = rules(PAGE.read_text(encoding="utf-8"))
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("rule", rules(PAGE.read_text(encoding="utf-8")))
def test_each_rule_has_a_test(rule: str) -> None:
    assert rule in held(), f"no test is marked with meaning({rule!r})"


def test_each_marker_names_a_rule() -> None:
    known = set(rules(PAGE.read_text(encoding="utf-8")))
    unknown = {name: sorted(files) for name, files in held().items() if name not in known}
    assert not unknown


def test_what_the_interpreter_refuses_is_a_rule() -> None:
    """Its errors name rules of the page."""
    known = set(rules(PAGE.read_text(encoding="utf-8")))
    named = {
        argument.value
        for path in (ROOT / "ir" / "tir" / "interpreter").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refusal"
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert named and not named - known


def test_rules_are_found() -> None:
    text = "- `[a-rule]` Says. `[other]` Too (see `[a-rule]`).\n"
    assert rules(text) == ["a-rule", "other"]
    assert list(marked('@pytest.mark.meaning("x", "y")\ndef test(): ...')) == ["x", "y"]
    with pytest.raises(ValueError, match="strings"):
        list(marked("@pytest.mark.meaning(name)\ndef test(): ..."))
