"""The changes that the mutation script makes, and how it chooses the tests that judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.mutation import report
from experiments.mutation.operators import Mutant, mutants_of
from experiments.mutation.packages import PACKAGES
from experiments.mutation.probes import MODULE, with_probes
from experiments.mutation.report import page, table
from experiments.mutation.run import ROOT, batches, judge, sample, samples
from experiments.mutation.tests_of import Collector, TestsOf
from experiments.mutation.trees import compile_tree

SOURCE = '''"""A docstring is no code."""
def f(a, b):
    """Nor is this."""
    total = 0
    for i in range(3):
        if a < b and not a:
            continue
        total += g(a, i + 1)
    if total:
        raise ValueError(f"{a + b} is wrong", 7)
    return -total
'''


def changed(operator: str) -> list[str]:
    """The first line that differs, for each mutant of an operator."""
    found = []
    for mutant in mutants_of("f.py", SOURCE):
        if mutant.operator == operator:
            pairs = zip(SOURCE.splitlines(), mutant.mutated.splitlines(), strict=True)
            found.append(next(new.strip() for old, new in pairs if old != new))
    return found


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("comparison", ["if (a <= b) and not a:"]),
        ("and/or", ["if (a < b or not a):"]),
        ("not dropped", ["if a < b and (a):"]),
        ("sign dropped", ["return (total)"]),
        ("arithmetic", ["total -= g(a, i + 1)", "total += g(a, (i - 1))"]),
        (
            "boundary",
            [
                "total = 1",
                "for i in range(2):",
                "for i in range(4):",
                "total += g(a, i + 0)",
                "total += g(a, i + 2)",
            ],
        ),
        ("arguments swapped", ["total += (g(i + 1, a))"]),
        ("condition negated", ["if (not (a < b and (not a))):", "if (not total):"]),
        ("statement deleted", ["pass", "pass"]),
        ("break/continue", ["break"]),
        ("result dropped", ["return None"]),
    ],
)  # fmt: skip
def test_every_operator(operator: str, expected: list[str]) -> None:
    assert changed(operator) == expected


def test_words_are_left_alone() -> None:
    assert not any(
        mutant.line == 10 and mutant.operator != "statement deleted" for mutant in mutants_of("f.py", SOURCE)
    )
    assert not any(mutant.line in (1, 3) for mutant in mutants_of("f.py", SOURCE))


def test_the_same_seed_samples_the_same_changes() -> None:
    first, second = (sample(PACKAGES["verification"], 5, seed=1, root=ROOT) for _ in range(2))
    assert [item.id for item in first] == [item.id for item in second]
    assert [item.id for item in first] != [
        item.id for item in sample(PACKAGES["verification"], 5, seed=2, root=ROOT)
    ]
    for mutant in first:
        assert mutant.parses
        assert mutant.mutated != mutant.source and f"--- a/{mutant.path}" in mutant.diff


def test_a_mutant_stays_the_same_when_something_else_changes() -> None:
    moved = SOURCE.replace("    total = 0\n", "    total = 0\n    other = 5\n")
    before, after = ({mutant.id for mutant in mutants_of("f.py", text)} for text in (SOURCE, moved))
    assert before < after and len(after - before) == 2  # the new constant, plus and minus one
    twice = list(mutants_of("f.py", "def f():\n    g(1)\n    g(1)\n"))
    assert len({mutant.id for mutant in twice}) == len(twice)


def test_packages_and_their_tests_are_there() -> None:
    for package in PACKAGES.values():
        assert package.files(ROOT) and package.test_files(ROOT)
        assert all((ROOT / item).exists() for item in package.without)
    files = [file for package in PACKAGES.values() for file in package.files(ROOT)]
    assert len(files) == len(set(files))


def test_every_file_of_the_project_is_in_a_package() -> None:
    files = {file for package in PACKAGES.values() for file in package.files(ROOT)}
    for folder in ("ir", "schedules", "database", "cost_models", "runners", "tuner"):
        for path in (ROOT / folder).rglob("*.py"):
            assert path.name == "__init__.py" or str(path.relative_to(ROOT)) in files


def test_packages_are_sampled_by_their_shares() -> None:
    found = samples(["database", "verification"], 8, 0, ROOT)
    assert {name: len(mutants) for name, mutants in found.items()} == {"database": 2, "verification": 6}


def test_tests_of_a_mutant_come_namesakes_first_then_the_fastest() -> None:
    mutant = Mutant("p/g.py", "arithmetic", 1, 0, 1, "2", "1\n")
    seconds = {"t/test_g.py::a": 3.0, "t/test_g.py::b": 1.0, "t/test_f.py::c": 0.1, "t/test_p.py::d": 2.0}
    known = TestsOf(seconds, {mutant.id: set(seconds)})
    assert known.of(mutant) == ["t/test_g.py::b", "t/test_p.py::d", "t/test_g.py::a", "t/test_f.py::c"]
    assert TestsOf(seconds, {}).of(mutant) == []


def test_batches_grow_and_keep_to_the_budget() -> None:
    seconds = {"a": 3.0, "b": 3.0, "c": 9.0, "d": 80.0, "e": 1.0}
    assert batches(list("abc"), seconds, 100) == [["a"], ["b", "c"]]
    assert batches(list("abcde"), seconds, 20) == [["a"], ["b", "c", "e"]]  # d is over the budget
    assert batches(["d"], seconds, 20) == [["d"]]  # one test is always asked


PROBED = '''"""Text."""
from __future__ import annotations
LIMIT = 7
def f(a):
    """Text."""
    if a == 1:
        return 5
    elif a == 2:
        return 6
    return LIMIT
'''


def test_probes_mark_the_statement_that_is_changed() -> None:
    mutants = [item for item in mutants_of("f.py", PROBED) if item.operator in ("comparison", "boundary")]
    text = with_probes(PROBED, list(enumerate(mutants)))
    text = text.replace("from mutation_probe import mark as _mutation_mark", "_mutation_mark = marked.append")

    def lines_marked(argument: int) -> set[int]:
        marked: list[int] = []
        names: dict[str, Any] = {"marked": marked}
        exec(text, names)
        assert names["f"].__doc__ == "Text."
        names["f"](argument)
        return {mutants[number].line for number in marked}

    outside = {3}  # run by whatever runs a function of the file
    assert lines_marked(1) == outside | {6, 7}
    assert lines_marked(2) == outside | {6, 8, 9}
    assert lines_marked(3) == outside | {6, 8}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A project of one function, with a test that runs it in another process too."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "mutated_example.py").write_text(EXAMPLE)
    (tmp_path / "test_mutated.py").write_text(
        "import subprocess, sys\nimport mutated_example\n\n\ndef test_f():\n    assert mutated_example.f() == 2\n"
        "\ndef test_process():\n    subprocess.run([sys.executable, '-c', 'import mutated_example as m; m.f()'], check=True)\n"
        "\ndef test_other():\n    pass\n"
    )
    compile_tree(tmp_path)
    return tmp_path


EXAMPLE = "def f():\n    return 1 + 1\n"


def change(text: str) -> Mutant:
    begin = EXAMPLE.index("1 + 1")
    return Mutant("mutated_example.py", "arithmetic", 2, begin, begin + 5, text, EXAMPLE, "f")


@pytest.mark.parametrize(
    ("text", "status"),
    [("1 - 1", "killed"), ("1 * 2", "survived"), ("f()", "killed"), ("max(iter(int, 1))", "timeout")],
)
def test_a_mutant_is_judged_by_its_tests(
    example: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: str
) -> None:
    if status == "timeout":  # the others end by themselves, on a slow machine too
        monkeypatch.setattr("experiments.mutation.run._START_SECONDS", 1.0)
    mutant, test = change(text), "test_mutated.py::test_f"
    row = judge(mutant, TestsOf({test: 0.01}, {mutant.id: {test}}), example, budget=10)
    assert row["status"] == status and (example / mutant.path).read_text() == EXAMPLE
    assert row["by"] == (test if status == "killed" else "")
    score = "0.0%" if status == "survived" else "100.0%"
    assert f"| {score} |" in table([{"package": "tuner", **row}])


def test_probes_tell_the_tests_of_a_mutant_in_all_processes(example: Path, tmp_path: Path) -> None:
    mutant, said = change("2"), list[str]()

    def make(mutants: list[Mutant]) -> Path:
        (example / mutant.path).write_text(with_probes(EXAMPLE, list(enumerate(mutants))))
        (example / "mutation_probe.py").write_text(MODULE)
        return example

    for _ in range(2):  # the second time from the cache
        known = Collector(make, [mutant], tmp_path / "cache").collect(
            ["test_mutated.py"], example, said.append
        )
        assert known.runs == {mutant.id: {"test_mutated.py::test_f", "test_mutated.py::test_process"}}
        assert set(known.seconds) == {f"test_mutated.py::test_{name}" for name in ("f", "process", "other")}
    assert len(said) == 1
    newer = change("3")  # the cache was not asked about this one, but about another of the file
    known = Collector(make, [mutant, newer], tmp_path / "cache").collect(
        ["test_mutated.py"], example, said.append
    )
    assert known.of(newer) == known.of(mutant) and len(said) == 1


def test_equivalent_survivors_do_not_count_and_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    common = {"package": "tuner", "path": "p.py", "function": "f", "operator": "boundary", "diff": "-a\n+b\n"}
    rows = [
        {"id": name, "status": status, **common}
        for name, status in (
            ("1", "killed"),
            ("2", "survived"),
            ("3", "survived"),
            ("4", "survived"),
            ("5", "timeout"),
        )
    ]
    monkeypatch.setattr(report, "EQUIVALENT", {"2": "it is never reached"})
    monkeypatch.setattr(report, "HINTS", {"3": "a cache"})
    text = page(rows)
    assert "| tuner | 5 | 2 | 1 | 3 | 1 | 1 | 1 | 50.0% |" in text
    assert "`b`: it is never reached" in text and "`b`: a cache" in text and "## Survivors: open" in text
