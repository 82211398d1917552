"""What all commands have: how much they say. Declared once, and given to each command, so that it may stand anywhere on the line."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ..console import printable
from .console import Loudness, set_loudness, speak_json

_PACKAGES = ("ir", "schedules", "cost_models", "database", "runners", "tuner")
"""Whose logs are shown."""
_LEVELS = {
    Loudness.QUIET: logging.ERROR,
    Loudness.USUAL: logging.WARNING,
    Loudness.VERBOSE: logging.INFO,
    Loudness.DEBUG: logging.DEBUG,
}


class Commands(TyperGroup):
    """The command with all its subcommands; it and each of them take ``-q`` and ``-v``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for command in (self, *_leaves(self)):
            command.params += _common_options()
        for command in _below(self):
            # Left to itself, the list of commands in a narrow terminal cuts their sentences.
            command.short_help = command.short_help or " ".join((command.help or "").split("\n\n")[0].split())

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Begin a command: as loud as usual, and for people, until its options say otherwise."""
        say(Loudness.USUAL)
        speak_json(False)
        return super().make_context(*args, **options)


def _below(group: Any) -> list[Any]:
    """All commands and groups of a group, theirs included."""
    return [
        item
        for command in group.commands.values()
        for item in (command, *(_below(command) if hasattr(command, "commands") else ()))
    ]


def _leaves(group: Any) -> list[Any]:
    return [command for command in _below(group) if not hasattr(command, "commands")]


def _said_options(
    quiet: Annotated[
        bool,
        typer.Option(
            "-q",
            "--quiet",
            help="Say nothing but results and errors.",
            callback=lambda asked: say(Loudness.QUIET) if asked else None,
            expose_value=False,
        ),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            metavar="",
            show_default=False,
            help="Say more of what is done; twice (-vv), all that is logged.",
            callback=lambda times: (
                say(Loudness(min(Loudness.USUAL + times, Loudness.DEBUG))) if times else None
            ),
            expose_value=False,
        ),
    ] = 0,
) -> None:
    """Stands for any command: what typer makes of its options is added to each."""


def _common_options() -> list[Any]:
    """New option objects, each of which belongs to one command."""
    stand_in = typer.Typer(add_completion=False)
    stand_in.command()(_said_options)
    return [param for param in get_command(stand_in).params if param.name != "help"]


def say(loudness: Loudness) -> None:
    """How much this process says from now on."""
    set_loudness(loudness)
    for name in _PACKAGES:
        logger = logging.getLogger(name)
        logger.setLevel(_LEVELS[loudness])
        if not any(isinstance(handler, _Lines) for handler in logger.handlers):
            logger.addHandler(_Lines())


class _Lines(logging.Handler):
    """Logs as lines of the command on standard error, with the module where there is more than warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        place = f" {record.name}:" if record.levelno < logging.WARNING else ""
        print(printable(f"loopsmith: {level}:{place} {record.getMessage()}"), file=sys.stderr, flush=True)
