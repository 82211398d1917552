"""Names and files of the project that pages, docstrings and comments mention exist."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ir", "schedules", "cost_models", "database", "runners", "tuner")
FOLDERS = (*PACKAGES, "tests", "experiments", "docs")
NAME = re.compile(rf"`~?((?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
FILE = re.compile(rf"(?<![\w./:-])((?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:py|md|json|ll|toml))\b")


def texts_of(path: Path) -> str:
    """The prose of a file: a page without its programs, or all docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"^```.*?^```$", "", source, flags=re.MULTILINE | re.DOTALL)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join([*found, *(item.string for item in tokens if item.type == tokenize.COMMENT)])


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # a module that is there needs one that is not installed
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def sources() -> list[Path]:
    """Every page and module that git knows, or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a checkout")
    return [path for line in done.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_what_is_missing_is_found() -> None:
    assert exists("ir.relax.transform.FuseOps") and exists("ir.tir.lower")
    assert not exists("ir.relax.transform.FuzeOps") and not exists("ir.tri.lower")
    assert FILE.findall("in ir/tir/lower.py, `runners/nothing.py`; other/ir/x.py") == [
        "ir/tir/lower.py",
        "runners/nothing.py",
    ]


def test_names_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in sorted(set(NAME.findall(texts_of(path))))
        if not name.endswith(".X") and not exists(name)  # X stands for any name
    ]
    assert missing == []


def test_files_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in sorted(set(FILE.findall(texts_of(path))))
        if not (ROOT / name).is_file()
    ]
    assert missing == []
