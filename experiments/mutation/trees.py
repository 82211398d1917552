"""Copies of the working tree: one in which mutants are judged, and one with probes."""

from __future__ import annotations

import compileall
import py_compile
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

from .operators import Mutant
from .probes import MODULE, with_probes

ROOT = Path(__file__).resolve().parents[2]


def copy_tree(target: Path) -> None:
    """The working tree as git sees it: tracked files and new ones, not what is ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def compile_tree(tree: Path) -> None:
    """Bytecode that is valid as long as the text is the same, so that a mutant costs the compilation of one file."""
    for folder in sorted(path for path in tree.iterdir() if path.is_dir()):
        compileall.compile_dir(folder, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def probed_tree(tree: Path, mutants: list[Mutant]) -> None:
    """A copy in which each mutant's statement marks the byte of the mutant's number."""
    copy_tree(tree)
    by_file: dict[str, list[tuple[int, Mutant]]] = defaultdict(list)
    for number, mutant in enumerate(mutants):
        by_file[mutant.path].append((number, mutant))
    for path, found in by_file.items():
        (tree / path).write_text(with_probes(found[0][1].source, found), encoding="utf-8")
    (tree / "mutation_probe.py").write_text(MODULE)
    compile_tree(tree)


def apply(mutant: Mutant, tree: Path) -> None:
    """Change the file."""
    (tree / mutant.path).write_text(mutant.mutated, encoding="utf-8")


def restore(mutant: Mutant, tree: Path) -> None:
    """Change it back."""
    (tree / mutant.path).write_text(mutant.source, encoding="utf-8")
