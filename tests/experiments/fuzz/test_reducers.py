"""Reducers of the kinds: a planted defect is still there in what is left of a program, and little else is."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest

from experiments.fuzz import command, onnx_oracle
from experiments.fuzz.kind import KINDS
from experiments.fuzz.kinds import opinions, round_trip, tir_passes
from experiments.fuzz.onnx_models import RandomModel, random_model
from experiments.fuzz.relax.opinions import Asked
from experiments.fuzz.verdict import Verdict
from ir.tir.transform import prim_func_pass


def reduced(kind: str, seed: int, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What ``reduce`` prints of a seed that fails."""
    assert command.main(["reduce", kind, "--seeds", str(seed), *options]) == 1
    return capsys.readouterr().out


def test_a_wrong_pass_of_tir(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One that forgets the whole function; the passes beside it go."""
    from ir.tir.stmt import Evaluate

    wrong = prim_func_pass(
        lambda func, module, context: func.with_body(Evaluate(0)), opt_level=0, name="Planted"
    )
    before = tir_passes.pass_sequence
    monkeypatch.setattr(tir_passes, "pass_sequence", lambda *given: [*before(*given)[:2], wrong])
    text = reduced("tir-passes", 3, capsys)
    assert text.startswith("3 ") and text.rstrip().endswith("# passes: Planted")
    assert len(text.splitlines()) < 12


def lost(program: Any) -> str:
    """A round trip that loses minima."""
    return "a minimum is lost" if "T.min(" in program.script() else ""


def test_a_round_trip_of_tir(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(round_trip, "round_trip", lost)
    small = argparse.Namespace(size=1)
    seed = next(seed for seed in range(1, 900, 3) if KINDS["round-trip"]().judge(seed, small).failed)
    text = reduced("round-trip", seed, capsys, "--size", "1")
    assert text.count("T.min(") == 1 and len(text.splitlines()) <= 5


SIZE = argparse.Namespace(size=10)


@pytest.mark.parametrize("seed", [3, 5])
def test_round_trips_of_modules_and_traces(
    seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(round_trip, "round_trip", lambda program: "all is lost")
    text = reduced("round-trip", seed, capsys)
    assert "--size 1" in text if seed % 3 == 0 else text.partition("# by:")[2].count("sch.") <= 4


def test_an_opinion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def disagreement(question: Asked) -> str:
        return "ones" if any((array == 1).any() for array in question.arrays) else ""

    monkeypatch.setattr(opinions, "disagreement", disagreement)
    kind = KINDS["opinions"]()
    seed = next(
        seed for seed in range(300)
        if sum(array.size for array in opinions.asked(seed).arrays) > 12 and kind.judge(seed, SIZE).failed
    )  # fmt: skip
    numbers = reduced("opinions", seed, capsys).partition(" of\n")[2]
    assert numbers.count("1.0") + numbers.count("1]") + numbers.count("True") >= 1
    assert len(numbers.replace("[", "").split(",")) <= 4


def test_an_exported_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The operator that fails stays, with what it computes from; the nodes before it become inputs."""

    def operators(made: RandomModel) -> list[str]:
        return [node.op_type for node in made.model.graph.node]

    seed = next(seed for seed in range(300) if len(operators(random_model(seed))) == 5)
    planted = operators(random_model(seed))[-1]

    def judge(made: RandomModel) -> Verdict:
        return Verdict("wrong", "planted") if planted in operators(made) else Verdict("ok")

    monkeypatch.setattr(onnx_oracle, "judge_export", judge)
    text = reduced("onnx-export", seed, capsys)
    nodes = [line for line in text.splitlines() if " = " in line and "(" in line and not line.startswith("#")]
    assert len([line for line in nodes if planted in line]) >= 1 and len(nodes) <= 2
    assert np.all([name in text for name in ("reduced", planted)])
