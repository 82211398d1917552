"""The changes that the mutation script makes, and how it chooses the tests that judge them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from experiments.mutation.operators import Mutant, mutants_of
from experiments.mutation.packages import PACKAGES, Package
from experiments.mutation.run import ROOT, batches, judge, namesakes, sample, table
from experiments.mutation.tests_of import TestsOf

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
        ast.parse(mutant.mutated)
        assert mutant.mutated != mutant.source and f"--- a/{mutant.path}" in mutant.diff


def test_packages_and_their_tests_are_there() -> None:
    for package in PACKAGES.values():
        assert package.files(ROOT)
        assert all((ROOT / item).exists() for item in (*package.sources, *package.tests))


def test_tests_of_a_line_come_fastest_first() -> None:
    known = TestsOf({"f.py": {5: {"slow", "quick"}, 9: {"other"}}}, {"slow": 2.0, "quick": 0.1, "other": 1.0})
    assert known.of_line("f.py", 4, 5) == ["quick", "slow"]
    assert known.of_line("f.py", 1, 1) == ["quick", "other", "slow"]  # the import alone runs line 1
    assert known.of_line("g.py", 1, 1) == []
    seconds = {"t/test_g.py::a": 3.0, "t/test_g.py::b": 1.0, "t/test_f.py::c": 0.1}
    assert namesakes("p/g.py", Package((), ()), seconds) == ["t/test_g.py::b", "t/test_g.py::a"]
    assert batches(["a", "b", "c"], {"a": 6.0, "b": 6.0, "c": 4.0}) == [["a"], ["b", "c"]]
    assert batches(["a", "b"], {"a": 6.0, "b": 4.0}) == [["a", "b"]]


@pytest.mark.parametrize(("text", "status"), [("1 - 1", "killed"), ("1 * 2", "survived"), ("f()", "killed")])
def test_a_mutant_is_judged_by_its_tests(tmp_path: Path, text: str, status: str) -> None:
    source = "def f():\n    return 1 + 1\n"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "mutated_example.py").write_text(source)
    (tmp_path / "test_mutated.py").write_text(
        "from mutated_example import f\n\n\ndef test_f():\n    assert f() == 2\n"
    )
    begin, test = source.index("1 + 1"), "test_mutated.py::test_f"
    mutant = Mutant("mutated_example.py", "arithmetic", 2, begin, begin + 5, text, source)
    known = TestsOf({mutant.path: {2: {test}}}, {test: 0.01})
    row = judge(mutant, Package((), ()), known, tmp_path, budget=10)
    assert row["status"] == status and (tmp_path / mutant.path).read_text() == source
    assert row["by"] == (test if status == "killed" else "")
    score = "100%" if status == "killed" else "0%"
    assert f"| {score} |" in table([{"package": "tuner", **row}])
