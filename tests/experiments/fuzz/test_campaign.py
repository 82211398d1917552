"""Campaigns of seeds: batches that are split where they fail, groups of failures, and kinds that are found by their file."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from typing import ClassVar

import pytest

from experiments.fuzz import __main__ as command
from experiments.fuzz.campaign import Campaign
from experiments.fuzz.kind import KINDS, Kind
from experiments.fuzz.verdict import Verdict, crash


class Numbers(Kind):
    """numbers, some of which fail"""

    def show(self, seed: int, options: argparse.Namespace) -> str:
        return str(seed)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        if seed % 10 == 3:
            return Verdict("wrong", f"at {seed}")
        if seed == 15:
            os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("ok")

    def blame(self, seed: int, options: argparse.Namespace) -> str:
        return "odd tens" if seed // 10 % 2 else "even tens"


class Batched(Numbers):
    """numbers by eight, of which 20 is wrong in company"""

    batch: ClassVar[int] = 8

    def judge_together(self, seeds: Sequence[int], options: argparse.Namespace) -> list[Verdict]:
        verdicts = super().judge_together(seeds, options)
        return [
            Verdict("wrong") if seed == 20 else found for seed, found in zip(seeds, verdicts, strict=True)
        ]


def campaign(kind: Kind, capsys: pytest.CaptureFixture[str]) -> tuple[Campaign, list[str]]:
    """A campaign over forty seeds, and the lines that it printed."""
    found = Campaign(kind, argparse.Namespace())
    assert found.run(range(40))
    return found, capsys.readouterr().out.splitlines()


def test_failures_are_grouped_by_what_they_have_in_common(capsys: pytest.CaptureFixture[str]) -> None:
    found, lines = campaign(Numbers(), capsys)
    assert found.groups == {
        "wrong | even tens | at _": [3, 23],
        "wrong | odd tens | at _": [13, 33],
        "died of SIGKILL | odd tens": [15],
    }
    assert lines[:3] == [
        "3 wrong (even tens) at 3",
        "13 wrong (odd tens) at 13",
        "15 died of SIGKILL (odd tens)",
    ]
    assert lines[3].startswith("35 ok, 4 wrong, 1 died of SIGKILL; ")
    assert "  2 times, from seed 13: wrong | odd tens | at _" in lines


def test_a_batch_that_fails_is_split(capsys: pytest.CaptureFixture[str]) -> None:
    """Those around a seed that dies are judged alone; what is wrong in company alone is told."""
    found, _ = campaign(Batched(), capsys)
    assert found.groups == {
        "wrong | even tens | at _": [3, 23],
        "wrong | odd tens | at _": [13, 33],
        "died of SIGKILL | odd tens": [15],
        "wrong, in a batch only | even tens": [20],
    }


def test_one_defect_has_one_signature() -> None:
    def failure(shape: tuple[int, ...]) -> Verdict:
        try:
            raise ValueError(f"'x{shape[0]}' has shape {shape}")
        except ValueError as error:
            return crash("build", error)

    first, second = failure((1, 2)), failure((3, 4, 5))
    assert first != second and first.signature == second.signature
    assert first.signature.startswith("crash ValueError | fuzz/test_campaign.py:")


@pytest.mark.parametrize("name", KINDS.names())
def test_every_kind_has_a_line_of_help_and_shows_its_programs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (KINDS[name].__doc__ or "").strip()
    shown = []
    for _ in range(2):
        assert command.main([name, "--seeds", "5", "--show"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and shown[0].strip()


def test_a_kind_without_a_reducer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS._found, "numbers", Numbers)
    with pytest.raises(SystemExit, match="cannot be made smaller"):
        command.main(["reduce", "numbers", "--seeds", "3"])
    assert command.main(["reduce", "numbers", "--seeds", "4"]) == 0
