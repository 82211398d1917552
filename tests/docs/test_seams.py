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


RUNNABLE = [page for page in PAGES if blocks(page, "python")]


def execute(page: Path, folder: Path) -> None:
    """Run a page's Python in a process of its own (pages register operators and kinds); contract suites run under pytest."""
    program = folder / "test_page.py"
    program.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    command = [sys.executable, str(program)]
    if re.search(r"^class Test", program.read_text(), re.MULTILINE):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
        command += ["-c", str(ROOT / "pyproject.toml"), str(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name_of(page)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    execute(page, tmp_path)


@pytest.mark.parametrize("page", sorted((DOCS / "seams").glob("*.md")), ids=name_of)
def test_a_seam_has_one_complete_example(page: Path) -> None:
    (program,) = blocks(page, "python")
    assert "assert" in program or "Contract)" in program, "an example that checks nothing cannot fail"


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
