"""The pages in ``docs/`` cannot rot: the Python blocks of each page, joined, run; the C program compiles and runs; links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINKED = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


ON_A_DEVICE = {"cuda.md"}
"""Pages whose programs run on the stand-in for a device: ``tests/runners/cuda/test_docs.py``."""
RUNNABLE = [page for page in PAGES if blocks(page, "python") and page.name not in ON_A_DEVICE]


def execute(page: Path, folder: Path) -> None:
    """Run a page's Python in a process of its own (pages register operators and kinds); contract suites run under pytest."""
    run(name_of(page), "\n\n".join(blocks(page, "python")), folder)


def run(name: str, text: str, folder: Path, project: Path = ROOT) -> None:
    program = folder / "test_page.py"
    program.write_text(text, encoding="utf-8")
    command = [sys.executable, str(program)]
    if re.search(r"^(class Test|def test_)", text, re.MULTILINE):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
        command += ["-c", str(ROOT / "pyproject.toml"), str(program)]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    execute(page, tmp_path)


@pytest.mark.parametrize("page", sorted((DOCS / "seams").glob("*.md")), ids=name_of)
def test_a_seam_has_one_complete_example(page: Path) -> None:
    (program,) = blocks(page, "python")
    assert "assert" in program or "Contract)" in program, "an example that checks nothing cannot fail"


USES = {
    "cost-model.md": "import cost_models; cost_models.CostModel.create('biased')",
    "database.md": "import database; database.Database.kinds['mirrored']",
    "graph-pass.md": "from ir.relax.transform import RemoveDoubleNegation",
    "mutator.md": "from schedules.mutator import Mutator, SwapTileFactors; Mutator.create('swaps-only')",
    "postprocessor.md": "from schedules.postproc import Postproc, UnrollShortInnermost; Postproc.create('short-loops')",
    "schedule-primitive.md": "import ir, schedules; schedules.Schedule(ir.IRModule()).unroll_if_short",
    "schedule-rule.md": "from schedules.rule import ScheduleRule, TileElementwise; ScheduleRule.create('elementwise')",
    "search-strategy.md": "import tuner; tuner.SearchStrategy.create('best-of-random')",
    "tir-pass.md": "from ir.transform import PassContext; PassContext(config={'tir.AddInsteadOfDoubling': {'integers': True}})",
    "zoo-model.md": "from tuner import zoo; assert 'docs_mlp' in zoo.names(); zoo.small_config('docs_mlp')",
}
"""By page, how a program gets at what a file put into the project's folder declares, where nothing else knows it."""


@pytest.mark.parametrize("name", USES)
def test_one_file_is_all_that_a_page_needs(name: str, tmp_path: Path) -> None:
    """The upper part of the page's program, as the file that it names, is found; the lower part then does what the page shows."""
    (program,) = blocks(DOCS / "seams" / name, "python")
    head, _, rest = program.partition("# That is all.")
    path = Path(re.match(r"# The file: (\S+)\n", head)[1])  # type: ignore[index]
    assert rest and not (ROOT / path).exists()
    (tmp_path / path.name).write_text(head, encoding="utf-8")
    package = ".".join(path.parent.parts)
    put = f"import {package}\n{package}.__path__.append({str(tmp_path)!r})\n{USES[name]}\n"
    run(name, f"{put}from {package}.{path.stem} import *\n#{rest}", tmp_path)


FAMILIES = {
    "intrinsic.md": ("import ir.tir as T; T.bit_changes", ("", ""), ""),
    "operator.md": (
        "from ir import relax; from ir.script import relax as R; assert R.softmin is relax.op.softmin",
        ('"prod", ', '"prod", "softmin", '),
        '__all__ = ["softmin"]\n',
    ),
}
"""By page, how a program gets at what its family's file declares, how that file's ``__all__`` changes, and a new file's."""


@pytest.mark.parametrize("is_new", [False, True], ids=["of its family", "of its own"])
@pytest.mark.parametrize("name", FAMILIES)
def test_one_declaration_in_a_file_is_all(name: str, is_new: bool, tmp_path: Path) -> None:
    """As above, in a copy of the project: in the file that the page names, or in one that nothing lists."""
    (program,) = blocks(DOCS / "seams" / name, "python")
    head, _, rest = program.partition("# That is all.")
    path = Path(re.match(r"# The file of its family: (\S+)\n", head)[1])  # type: ignore[index]
    for folder in ("ir", "runners"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for other in ("schedules", "cost_models", "database", "tuner", "loopsmith_import_check.py"):
        (tmp_path / other).symlink_to(ROOT / other)
    use, names, own = FAMILIES[name]
    if is_new:
        path = path.with_name("a_family_of_its_own.py")
        text = head + own
    else:
        above, *tail = re.split(r"^(?=__all__)", (tmp_path / path).read_text(), flags=re.MULTILINE)
        text = above + head + "".join(tail).replace(*names)
    (tmp_path / path).write_text(text, encoding="utf-8")
    module = ".".join(path.with_suffix("").parts)
    page = f"{use}\nimport {module}\nglobals().update(vars({module}))\n#{rest}"
    run(name, page, tmp_path, tmp_path)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_c_program_runs(tmp_path: Path) -> None:
    page = DOCS / "building.md"
    execute(page, tmp_path)
    (program,) = blocks(page, "c")
    (tmp_path / "main.c").write_text(program)
    (commands,) = (text for text in blocks(page, "sh") if "cc " in text)
    done = subprocess.run(["sh", "-euc", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "3.000000" in done.stdout


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_seam_is_linked_from_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert [page.name for page in (DOCS / "seams").glob("*.md") if f"(seams/{page.name})" not in text] == []


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    """Paths in backticks that begin with one of the project's folders and end in a file's suffix."""
    folders = "ir|schedules|cost_models|database|runners|tuner|tests|experiments|docs"
    named = re.findall(rf"`((?:{folders})/[\w./]+\.(?:py|md))`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
