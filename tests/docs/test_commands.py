"""Commands that pages and the command line's own README show: their options exist, and what they name is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from experiments import run
from experiments.harness.settings import Settings, parse_peers
from tuner.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "experiments/README.md"]


def commands(program: str) -> list[tuple[str, list[str]]]:
    """Page and arguments of every call of a program in the shell blocks of the pages."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            for line in re.split(r"\n|&&", block.replace("\\\n", " ")):
                words = shlex.split(line, comments=True)
                if words[: len(shlex.split(program))] == shlex.split(program):
                    found.append((str(page.relative_to(ROOT)), words[len(shlex.split(program)) :]))
    return found


def unknown(arguments: list[str]) -> list[str]:
    """The options among the arguments that the command does not have, and the command where there is none of its name."""
    command: Any = get_command(app)
    left = list(arguments)
    while hasattr(command, "commands"):
        name = left.pop(0)
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)}
    return [word for word in left if word.startswith("-") and word not in known]


CALLS = commands("loopsmith")


@pytest.mark.parametrize(("page", "arguments"), CALLS, ids=[" ".join(words) for _, words in CALLS])
def test_options_that_pages_show_exist(page: str, arguments: list[str]) -> None:
    assert unknown(arguments) == [], page


def test_what_does_not_exist_is_found() -> None:
    assert len(CALLS) > 15
    assert unknown(["tune", "model.onnx", "--trails", "4"]) == ["--trails"]
    assert unknown(["db", "list", "tuning.db"]) == ["list"]


def test_what_pages_measure_is_there() -> None:
    calls = commands("python experiments/run.py")
    assert len(calls) > 3
    for _page, words in calls:
        options = run.arguments([word for word in words if not word.startswith("[")])
        parse_peers(options.peers, "python")
        assert list(run.tasks(options.what, Settings(trials=options.trials)))
