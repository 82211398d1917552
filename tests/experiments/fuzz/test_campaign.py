"""Campaigns of seeds: batches that are split where they fail, groups of failures, and kinds that are found by their file."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from experiments.fuzz import command
from experiments.fuzz.campaign import Campaign
from experiments.fuzz.children import judged_apart
from experiments.fuzz.kind import KINDS, Kind
from experiments.fuzz.verdict import UNREAD, Verdict, crash


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


class Refused(Numbers):
    """numbers, every n-th of which is no program"""

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return Verdict("ok" if seed % options.every else "invalid")


@pytest.mark.parametrize(
    ("every", "seeds", "fails"), [(1, 40, True), (4, 40, True), (8, 40, False), (1, 5, False)]
)
def test_a_campaign_that_judges_too_little_fails(
    every: int, seeds: int, fails: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interpreter that refuses everything would find nothing."""
    assert Campaign(Refused(), argparse.Namespace(every=every)).run(range(seeds)) is fails
    assert ("so many invalid programs" in capsys.readouterr().out) is fails


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


class Interrupted(Campaign):
    """A campaign that somebody ends after its fourth verdict."""

    def _enter(self, seed: int, verdict: Verdict) -> None:
        super()._enter(seed, verdict)
        if seed == 3:
            raise KeyboardInterrupt


def test_ctrl_c_ends_with_what_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(KINDS._found, "numbers", Numbers)
    monkeypatch.setattr(command, "Campaign", Interrupted)
    assert command.main(["numbers", "--seeds", "0:40"]) == 130
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["3 wrong (even tens) at 3", "interrupted: 4 of 40 seeds were judged"]
    assert lines[2].startswith("3 ok, 1 wrong; ")
    assert lines[3:] == ["  1 times, from seed 3: wrong | even tens | at _"]


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


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of a command line that it refuses."""
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_kinds_without_a_reducer_are_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(KINDS._found, "numbers", Numbers)
    said = refused(["reduce", "numbers", "--seeds", "3"], capsys)
    assert "invalid choice: 'numbers'" in said and "'tir-passes'" in said


@pytest.mark.parametrize("name", KINDS.names())
def test_every_kind_has_a_reducer(name: str) -> None:
    assert KINDS[name]().has_reducer


def test_the_seeds_of_invalid_programs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Campaign(Refused(), argparse.Namespace(every=8)).run(range(20))
    assert "  invalid: 0, 8, 16\n" in capsys.readouterr().out
    Campaign(Refused(), argparse.Namespace(every=1)).run(range(25))
    assert "18, 19 and 5 more\n" in capsys.readouterr().out


class RefusedForReasons(Numbers):
    """numbers that are no programs, for one of two reasons"""

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        if seed < 18:
            return Verdict("ok")
        return Verdict("invalid", "a race" if seed == 19 else f"index {seed} of dimension 0\n  at A[i]")


def test_why_programs_are_invalid_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Campaign(RefusedForReasons(), argparse.Namespace()).run(range(21))
    lines = capsys.readouterr().out.splitlines()
    assert "  invalid | index _ of dimension _: 18, 20" in lines and "  invalid | a race: 19" in lines


@pytest.mark.parametrize("arguments", [["reduce", "tir"], ["tir", "--show"]])
def test_ctrl_c_ends_the_other_commands_too(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "reduce_seed", interrupted)
    monkeypatch.setattr(KINDS["tir"], "show", interrupted)
    assert command.main([*arguments, "--seeds", "3"]) == 130


def test_what_is_made_smaller_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred seeds, most of which pass, are not what anybody wants reduced."""
    assert "required: --seeds" in refused(["reduce", "tir"], capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "'x' is no seed, such as 17, and no range of seeds, such as 0:200"),
        ("3:", "'3:' is no seed"),
        ("-3", "'-3' is no seed"),
        ("5:3", "5:3 holds no seed: the end, which is excluded, must be above 5"),
        ("1:1", "1:1 holds no seed"),
    ],
)
def test_seeds_that_are_none_are_refused(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Above all those that hold none: a run that judges nothing would pass."""
    assert message in refused(["tir", f"--seeds={text}"], capsys)


def test_the_page_has_every_kind() -> None:
    page = (Path(__file__).resolve().parents[3] / "experiments" / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert set(KINDS.names()) <= told


@pytest.mark.parametrize("kind", ["tir", "round-trip", "relax-passes", "gradients"])
@pytest.mark.parametrize("text", ["-3", "0", "1.5", "many"])
def test_sizes_are_counts(kind: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{text!r} is no whole number of at least 1" in refused([kind, f"--size={text}"], capsys)


class Absent(Numbers):
    """numbers that stand for no program"""

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return Verdict("none")


def test_the_verdict_none_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Campaign(Absent(), argparse.Namespace()).run(range(3))
    assert "  none: seeds that stand for no program" in capsys.readouterr().out
    assert '"none" is a seed that stands for no program' in command.parser().format_help()


def test_a_reader_that_has_seen_enough_ends_the_command() -> None:
    line = f"{sys.executable} -m experiments.fuzz tir --seeds 0:200 --show"
    process = subprocess.Popen(line.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    with process.stderr:
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", UNREAD)


def test_a_child_for_which_nobody_waits_is_ended() -> None:
    def judge(seed: int) -> Verdict:
        if seed:
            time.sleep(50)
        return Verdict(str(os.getpid()))

    answers = judged_apart(range(2), judge)
    _, verdict = next(answers)
    answers.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(int(verdict.kind), 0)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_times_that_do_not_pass_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["tir", f"--seconds={text}"])
    assert f"'{text}' is no number of seconds above 0" in capsys.readouterr().err


def test_seeds_below_zero_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["tir", "--seeds", "-3:2"])
    assert "'-3:2' is no seed" in capsys.readouterr().err


def test_the_end_says_that_it_was_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(self: Campaign, seeds: Sequence[int]) -> object:
        yield seeds[0], Verdict("ok")
        raise KeyboardInterrupt

    monkeypatch.setattr(Campaign, "_judged", judged)
    assert command.main(["tir", "--seeds", "0:5"]) == 130
    assert "interrupted: 1 of 5 seeds were judged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("starter", "module"),
    [
        (
            "import runpy; runpy.run_module('experiments.fuzz', run_name='__main__')",
            "experiments.fuzz.command",
        ),
        ("from tuner.cli.entry import main; main()", "tuner.cli.main"),
    ],
)
def test_ctrl_c_while_a_command_is_loaded_is_exit_code_130(starter: str, module: str) -> None:
    program = f"""
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
{starter}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")
