"""Random candidates of design spaces: what they are drawn from, that they are right, and that bugs planted in rules and primitives are
found.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from experiments.fuzz import command
from experiments.fuzz.candidates import (
    DESCRIBED,
    ROWS,
    candidates_of,
    judge_candidate,
    judge_candidates,
    space_of,
    target_names,
)
from experiments.fuzz.candidates.programs import _SHAPES, Pitched, program_of
from experiments.fuzz.kind import KINDS
from experiments.fuzz.kinds.candidates import _on
from experiments.fuzz.verdict import Verdict
from experiments.operators import first_suite
from ir.target import Target
from schedules import rule as rules
from schedules.population import Sketch
from schedules.primitive import reduction
from schedules.rule import ScheduleRule
from schedules.tree import LeafNode


def places(seeds: range, target: str) -> set[str]:
    """How and where candidates fail."""
    return {
        f"{verdict.kind} {verdict.place}"
        for number in range(seeds.start // ROWS, seeds.stop // ROWS)
        for verdict in judge_candidates(range(number * ROWS, number * ROWS + ROWS), target)
        if verdict.failed
    }


# -- what is drawn -----------------------------------------------------------------
def test_every_workload_of_the_suite_has_small_shapes() -> None:
    assert set(_SHAPES) == set(first_suite.WORKLOADS)
    drawn = Counter(program_of(random.Random(seed), seed, 60).name for seed in range(400))
    assert set(first_suite.WORKLOADS) <= set(drawn) and drawn["script"] > 50 and len(drawn) > 40


def test_some_arrays_have_gaps_between_rows_that_nobody_may_write() -> None:
    programs = [program_of(random.Random(seed), seed, 60) for seed in range(60)]
    pitched = [program for program in programs if program.pitches]
    assert pitched
    for program in pitched:
        ((position, pitch),) = program.pitches.items()
        buffer = program.func.buffer_map[program.func.params[position]]
        item = Pitched(program.arguments[position], pitch)
        size = item.array.itemsize
        assert [int(extent) for extent in buffer.strides] == [  # type: ignore[call-overload]
            stride // size for stride in item.array.strides
        ]
        np.testing.assert_array_equal(item.array, program.arguments[position])
        assert item.intact
        item._gaps[..., 0] = 0
        assert not item.intact


def test_every_rule_is_in_some_space() -> None:
    used: set[str] = set()
    for seed in range(150):
        space = space_of(seed, "gpu" if seed % 2 else "cpu")
        used |= {type(item).__name__ for item in space.generator.sch_rules or []}
    every = {
        name
        for name, item in vars(rules).items()
        if isinstance(item, type) and issubclass(item, ScheduleRule) and not item.changes_rounding
    }
    assert every - used == {
        "ScheduleRule",
        "PyScheduleRule",
        "FunctionRule",
        "WarpGroupTiling",  # of targets that are told to the rules
    }  # candidates are compared exactly


def test_a_seed_is_a_candidate() -> None:
    first, second = (candidates_of(space_of(5, "x86-64-v3"), 5) for _ in range(2))
    assert list(first) == list(second) == list(range(ROWS))
    traces = [[getattr(item, "trace", None) for item in made.values()] for made in (first, second)]
    assert traces[0] == traces[1] and len({str(trace) for trace in traces[0]}) > 1


def test_the_targets_are_those_of_this_machine_and_others() -> None:
    assert set(DESCRIBED) < set(target_names())
    assert Target(DESCRIBED["gpu"]).is_gpu and space_of(1, "gpu").is_native is False


def test_candidates_that_a_space_does_not_have_are_no_failures() -> None:
    kinds = Counter(verdict.kind for verdict in judge_candidates(range(8), "cpu"))
    assert kinds["ok"] and not set(kinds) - {"ok", "none"}


# -- they are right ----------------------------------------------------------------
@pytest.mark.parametrize("target", ["cpu", "sapphire rapids", "arm", "gpu"])
def test_some_candidates_pass(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["candidates", "--seeds", "0:40", "--target", target]) == 0
    assert " ok" in capsys.readouterr().out


@pytest.mark.slow
def test_candidates_of_thirty_spaces_pass() -> None:
    """The same ones on each machine, however fast it is: spaces that no earlier run has seen would make this test fail by chance."""
    kind, options = KINDS["candidates"](), argparse.Namespace(target=None)
    seeds = range(100_000 * ROWS, 100_030 * ROWS)
    verdicts = kind.judge_together(seeds, options)
    assert not [(seed, str(item)) for seed, item in zip(seeds, verdicts, strict=True) if item.failed]


# -- bugs planted ------------------------------------------------------------------
def test_an_init_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = reduction._init_nest

    def forgets(block: Any, inner: Any) -> Any:
        nest, made = right(block, inner)
        made.set_body(LeafNode(reduction.tir.Evaluate(reduction.tir.const(0))))
        return nest, made

    monkeypatch.setattr(reduction, "_init_nest", forgets)
    assert any(place.startswith("the candidate is not defined") for place in places(range(64), "cpu"))


def test_a_row_that_becomes_another_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Sketch.skeleton

    def first_row(sketch: Sketch, matrix: np.ndarray) -> Any:
        return right(sketch, np.zeros_like(matrix))

    monkeypatch.setattr(Sketch, "skeleton", first_row)
    assert "other features extents" in places(range(64), "cpu")


def test_code_that_differs_from_the_interpreted_candidate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.fuzz.candidates import judge

    right = judge.build

    def other(module: Any, target: Any) -> Any:
        functions = {var.name_hint: func for var, func in module.functions.items()}
        return right(
            judge.IRModule({name: func.replace(body=_nothing()) for name, func in functions.items()}), target
        )

    monkeypatch.setattr(judge, "build", other)
    assert judge_candidate(0, "cpu").kind == "wrong"


def _nothing() -> Any:
    return reduction.tir.Evaluate(reduction.tir.const(0))


def test_failures_of_two_targets_are_two() -> None:
    wrong = Verdict("wrong", "at 3", "somewhere")
    assert _on("cpu", wrong).signature != _on("gpu", wrong).signature
    assert _on("cpu", Verdict("ok")) == Verdict("ok")
