"""The shape of the import graph: no large circles, and names are imported from where they are defined."""

from __future__ import annotations

import ast
import importlib
import pydoc
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("ir", "schedules", "cost_models", "database", "runners", "tuner")
LARGEST_CIRCLE = 6


def _circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one module (Tarjan, SIAM Journal on Computing 1972), without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []
    for root in imports:
        work = [(root, iter(sorted(imports[root])))] if root not in order else []
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
        while work:
            module, rest = work[-1]
            for other in rest:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    work.append((other, iter(sorted(imports[other]))))
                    break
                if other in stack:
                    low[module] = min(low[module], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == order[module]:
                    at = stack.index(module)
                    found.append(set(stack[at:]))
                    del stack[at:]
    return [circle for circle in found if len(circle) > 1]


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, _circles(graph))) == [["a", "b", "c"], ["d", "e"]]


@pytest.mark.parametrize("type_checking", [False, True], ids=["run time", "with imports for types"])
def test_no_circle_is_large(type_checking: bool) -> None:
    """Imports inside of functions count."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=not type_checking)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    too_large = [sorted(circle) for circle in _circles(imports) if len(circle) > LARGEST_CIRCLE]
    assert not too_large


def _imports_of_ours(path: Path) -> Iterator[tuple[ast.ImportFrom, bool]]:
    """Imports from our packages, with whether each is inside of a function."""
    tree = ast.parse(path.read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] in PACKAGES):
            yield node, id(node) in inside


def _modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


LAZY = {
    "ir.codegen.model_library": "llvmlite",
    "runners.cuda.kernel": "llvmlite",
    "runners.native": "llvmlite",
}
"""Modules of ours that are imported inside of functions, for the library that they bring."""
WHILE_CTRL_C_IS_CAUGHT = {"tuner/cli/entry.py": "tuner.cli.main"}
"""What takes so long to load that users end it: it is loaded where that is no traceback."""
WITHOUT_THE_COMPILER = {"runners/registered.py": "ir.registry"}
"""What an artefact uses if it is there: it runs where ``ir`` is not installed."""


def test_imports_inside_of_functions_are_for_heavy_libraries() -> None:
    """A package's ``__getattr__`` loads its lazy parts; all else of ours is imported at the top."""
    offences = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _modules()
        for node, inside in _imports_of_ours(path)
        if inside
        and path.name != "__init__.py"
        and _absolute(path, node) not in LAZY
        and _absolute(path, node)
        not in (
            WITHOUT_THE_COMPILER.get(str(path.relative_to(ROOT))),
            WHILE_CTRL_C_IS_CAUGHT.get(str(path.relative_to(ROOT))),
        )
    ]
    assert not offences


@pytest.mark.parametrize("module, library", LAZY.items())
def test_what_is_imported_late_brings_a_heavy_library(module: str, library: str) -> None:
    program = f"import sys, runners; before = {library!r} in sys.modules; import {module}; print(before, {library!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False True", done.stderr


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The package or module that an import names."""
    if not node.level:
        return node.module or ""
    parts = list(path.relative_to(ROOT).parts[:-1])
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def test_names_in_ir_come_from_the_modules_that_define_them() -> None:
    """Not through a package's door; doors are for users, and for their own parts."""
    offences = []
    for path in sorted((ROOT / "ir").rglob("*.py")):
        if path.name == "__init__.py":
            continue
        for node, _ in _imports_of_ours(path):
            source = ROOT / _absolute(path, node).replace(".", "/")
            if not (source / "__init__.py").exists():
                continue
            for name in node.names:
                if not (source / name.name).is_dir() and not (source / f"{name.name}.py").exists():
                    offences.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name.name}")
    assert not offences


def test_every_module_of_ir_is_in_a_layer() -> None:
    """A layers contract says nothing of modules that it does not name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (item for item in settings["contracts"] if item["name"] == "Layers inside of ir")
    named = {name.strip() for layer in contract["layers"] for name in re.split("[:|]", layer)}
    doors = {"ir", "ir.tir", "ir.relax"}
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "ir").rglob("*.py")
    }
    missing = [
        module
        for module in sorted(modules - doors)
        if not any(module == name or module.startswith(f"{name}.") for name in named)
    ]
    assert not missing
    assert named <= modules


@pytest.mark.parametrize("package", ["tuner", "runners", "database", "schedules", "cost_models"])
def test_help_lists_what_a_package_offers(package: str) -> None:
    module = importlib.import_module(package)
    shown = pydoc.render_doc(module, renderer=pydoc.plaintext)
    offered = getattr(module, "__all__", ())
    missing = [name for name in offered if not re.search(rf"\b{name}\b", shown.partition("\nDATA\n")[0])]
    data = shown.partition("\nDATA\n")[2]
    assert [name for name in missing if f"    {name} =" not in data] == []
    assert set(offered) <= set(dir(module))
