"""Units and containers start commands that there are, with options that these have."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from tuner.cli.main import app

DEPLOY = Path(__file__).parent.parent / "deploy"


def _commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in sorted(DEPLOY.iterdir()):
        text = path.read_text()
        lines = re.findall(r"^ExecStart=(.+)$", text, re.M) or re.findall(
            r"podman run.* loopsmith (rpc .+)$", text, re.M
        )
        assert lines, f"{path.name} starts nothing"
        found += [(path.name, shlex.split(line)) for line in lines]
    return found


@pytest.mark.parametrize(("name", "words"), _commands())
def test_commands_and_options_are_there(name: str, words: list[str]) -> None:
    words = words[1:] if words[0].endswith("/loopsmith") else words
    group = typer.main.get_command(app)
    while words and not words[0].startswith("-"):
        group = group.commands[words.pop(0)]
    options = {option for parameter in group.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options, name
    needed = {parameter.opts[0] for parameter in group.params if parameter.required}
    assert needed <= set(words), name


def test_extras_of_the_container_are_there() -> None:
    from tests.test_project import ROOT

    text = (DEPLOY / "Containerfile").read_text()
    (extras,) = re.findall(r"/src\[(.+?)\]", text)
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras.split(","))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.service")), ids=lambda path: path.name)
def test_units_are_units(path: Path) -> None:
    found = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True)
    complaints = [
        line for line in found.stderr.splitlines() if path.name in line and "not executable" not in line
    ]
    assert not complaints
