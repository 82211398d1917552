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

from ir.relax.pipeline import lowering_passes
from schedules.rule import ScheduleRule

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


def test_names_and_files_exist() -> None:
    missing: list[str] = []
    for path in sources():
        prose, place = texts_of(path), path.relative_to(ROOT)
        names, files = set(NAME.findall(prose)), set(FILE.findall(prose))
        # X stands for any name
        missing += [f"{place}: {name}" for name in names if not name.endswith(".X") and not exists(name)]
        missing += [f"{place}: {name}" for name in files if not (ROOT / name).is_file()]
    assert missing == []


QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]*/[\w./-]*|[\w-]+\.(?:py|md|ll|toml)")
_WRITTEN = ("out/", "experiments/out/", "records/", "main.c", "loopsmith.toml", "ir.py")
"""What readers, the programs of a page, and experiments write."""
_FOREIGN = {
    *("PGPASSWORD", "LOOPSMITH_MAIN_WORKSPACE_BYTES", "thread_time", "MySchedule"),
    *("_WORKSPACE_BYTES_MAIN", "_launch_main", "_launchv_main", "_run_main", "_runv_main"),
    *("NET_MAIN_WORKSPACE_BYTES", "LOOPSMITH_ABI_VERSION", "LOOPSMITH_INTERFACE", "uint16_t"),
    *("loopsmith_abi_version", "loopsmith_check"),
    *("loopsmith_float16", "loopsmith_bfloat16", "loopsmith_to_bfloat16", "loopsmith_from_bfloat16"),
}
"""Words of other programs, of headers that builds write, and of what readers would write."""


MADE_OF_THE_COMMANDS = ROOT / "docs/cli.md"
"""The page whose words are those of the command line, in capitals where they stand for arguments."""


def pages() -> list[Path]:
    """Every page in the tree that describes what stands; results say what was measured."""
    return [path for path in sources() if path.suffix == ".md" and path.parent.name != "results"]


def quoted(page: Path) -> set[str]:
    """What the prose of a page sets as code."""
    return set(QUOTED.findall(texts_of(page)))


def path_exists(text: str, page: Path) -> bool:
    """Whether there is such a file or folder, from the root or beside the page; a bare name may be anywhere."""
    if "/" not in text:
        return any(path.name == text for path in tracked())
    return any((folder / text).exists() for folder in (ROOT, page.parent))


@cache
def tracked() -> list[Path]:
    """Every file that git knows, or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in done.stdout.splitlines()]


@cache
def words_of_the_code() -> frozenset[str]:
    """Every word of the modules and of the project's settings: names, and the texts of options."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in tracked()
        if path.suffix in (".py", ".toml") and path != Path(__file__)
    ]
    return frozenset(re.findall(r"\w+", "\n".join(texts)))


def unknown_words(page: Path) -> list[str]:
    """Names that a page sets as code and that neither the code nor the page's own programs have.

    A name has an underscore, or capitals in its middle: other words may be arguments of a shell, or prose.
    """
    programs = "\n".join(re.findall(r"^```.*?^```$", page.read_text(encoding="utf-8"), re.M | re.S))
    known = words_of_the_code() | set(re.findall(r"\w+", programs)) | _FOREIGN
    found = {word for text in quoted(page) for word in re.findall(r"\w+", _PATH.sub("", text))}
    return sorted(
        word
        for word in found
        if re.search(r"\w_\w|[a-z0-9][A-Z]|[A-Z]{2}", word) and word not in known and not word.isdigit()
    )


def test_what_is_missing_from_a_page_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`MadeUpName` in `no_such_folder/x.py`, `Visitor.remembers`\n```python\nMyOwn = 1\n```\n`MyOwn`\n"
    )
    assert unknown_words(page) == ["MadeUpName"]
    assert not path_exists("no_such_folder/x.py", page) and not path_exists("nothing_like_it.py", page)
    assert path_exists("ir/tir/transform/", page) and path_exists("emitter.py", page)


def test_paths_of_pages_exist() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {text}"
        for page in pages()
        for text in sorted(quoted(page))
        if _PATH.fullmatch(text) and not text.startswith(_WRITTEN) and not path_exists(text, page)
    ]
    assert missing == []


def test_words_of_pages_are_names_of_the_code() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {word}"
        for page in pages()
        if page != MADE_OF_THE_COMMANDS
        for word in unknown_words(page)
    ]
    assert missing == []


@pytest.mark.parametrize("kind", ["llvm", "cpu"])
def test_the_page_on_tuning_has_every_rule(kind: str) -> None:
    named = quoted(ROOT / "docs/tuning.md")
    missing = [name for rule in ScheduleRule.create(kind) if (name := type(rule).__name__) not in named]
    assert missing == []


_OTHER_WORDS = {
    r"(?<!\")\bprior\b": "estimate",
    r"\banalytical (estimate|prior)\b": "estimate",
    r"\bits record in `ir/": "declaration",
}
"""What pages have called by several names, and the one that the words of ``docs/tuning.md`` chose."""


def test_pages_use_one_word_for_one_thing() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}: say {word}"
        for page in pages()
        if page != MADE_OF_THE_COMMANDS  # which lists kinds by the names that options take
        for other, word in _OTHER_WORDS.items()
        for match in re.finditer(other, QUOTED.sub("`", texts_of(page)))
    ]
    assert found == []


def test_the_page_has_the_passes_of_the_way_down_in_their_order() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.M)
    listed = [name for row in rows for name in re.findall(r"`([A-Z]\w+)", row)]
    lowering = [item.info.name.rpartition(".")[2] for item in lowering_passes()]
    assert [name for name in listed if name in lowering] == lowering


def test_the_page_says_where_a_newcomer_finds_what() -> None:
    """Where a program is lowered, where an operator's aliasing is said, where a candidate becomes a program."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (Where .*?) \| (.*) \|$", text, re.M))
    for question, home, defined in (
        ("Where is a program lowered?", "ir/tir/lower.py", "ir.tir.lower.lower"),
        (
            "Where is it said what an operator does to memory?",
            "ir/relax/op/memory_effect.py",
            "ir.relax.op.memory_effect.MemoryEffect",
        ),
        (
            "Where does a search's candidate become a program?",
            "schedules/population/sketch.py",
            "schedules.population.sketch.Sketch.materialize",
        ),
    ):
        assert f"`{home}`" in rows[question] and exists(defined)
