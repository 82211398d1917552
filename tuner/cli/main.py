"""The command's entry point: assembles the subcommands and turns errors into one paragraph and exit status 2."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from database import software_versions
from ir.error import IRError

from . import (
    bench,
    build,
    calibrate,
    config_file,
    database,
    devices,
    doctor,
    inspect,
    lock,
    package,
    profile,
    report,
    rpc,
    run,
    tasks,
    tune,
    zoo,
)
from .command import Commands
from .console import complain

_COLUMNS = shutil.get_terminal_size().columns
_NARROW = _COLUMNS < 100
"""Whether the boxes of typer's help would leave less room for words than for names; there is plain text then, as wide as the terminal."""

_INTERRUPTED = 130
"""The exit status after Ctrl-C."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the system says when a disk is full, or a user's part of it."""

app = typer.Typer(
    name="loopsmith",
    help="Tune tensor programs on this machine, keep what was found, and build with it.",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None if _NARROW else "rich",
    context_settings={
        "help_option_names": ["-h", "--help"],
        **({"terminal_width": _COLUMNS} if _NARROW else {}),
    },
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"loopsmith {software_versions()['loopsmith']}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help=f"A file with options (default: {config_file.NAME} here or in the nearest folder above).",
            show_default=False,
        ),
    ] = None,
) -> None:
    # typer makes the options of the command itself of a function's; the app's help stands above
    context.default_map = config_file.defaults(context.command, config)


app.command("tune")(tune.tune)
app.command("tasks")(tasks.tasks)
app.command("build")(build.build)
app.command("inspect")(inspect.inspect)
app.command("package")(package.package)
app.command("run")(run.run)
app.command("bench")(bench.bench)
app.command("profile")(profile.profile)
app.command("report")(report.report)
app.command("calibrate")(calibrate.calibrate)
app.command("zoo")(zoo.zoo)
app.command("devices")(devices.devices)
app.command("doctor")(doctor.doctor)
app.add_typer(database.app, name="db")
app.add_typer(lock.app, name="lock")
app.add_typer(rpc.app, name="rpc")


def main() -> None:
    """Run the command line; errors of the user end with one paragraph and status 2, Ctrl-C with status 130."""
    try:
        status = app(standalone_mode=False, prog_name="loopsmith")
        if status == _INTERRUPTED:  # what typer makes of a KeyboardInterrupt that no command has answered
            raise KeyboardInterrupt
        print(end="", flush=True)  # a full disk is found here, not when Python ends
    except IRError as error:
        complain(str(error))
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted; everything that was finished is kept")
        sys.exit(_INTERRUPTED)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        # What could not be written is still in Python's buffer, and would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        place = f" {error.filename}" if error.filename else " the output"
        complain(f"cannot write{place}: {error.strerror}; make room, or choose another place")
        sys.exit(2)
    except Exception as error:  # only wrong usage is handled here; everything else is raised again
        usage = _usage_error(error)
        if usage is None:
            raise
        message = error.format_message()  # type: ignore[attr-defined]
        if message.startswith("Usage:"):  # the help, which was asked for by naming no command
            print(message)
        elif message:  # without one that help is on the screen
            complain(usage)
        sys.exit(2)
    # `typer.Exit` does not come out of the app: its status is what the app returns; a command returns None.
    if status:
        sys.exit(status)


def _usage_error(error: Exception) -> str | None:
    """The message of a wrong command line, or None for any other error."""
    # typer carries its own copy of click, whose classes it does not export; wrong usage is known by what it can do.
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    hint = f" Try '{context.command_path} --help'." if context is not None else ""
    message = error.format_message()
    if beside := _of_config_file(error, context):
        message = f"{message.removesuffix('.')}. {beside}"
    return f"{message}{'' if message.endswith(('.', '?')) else '.'}{hint}"


def _of_config_file(error: Any, context: Any) -> str:
    """Words for a wrong value that nobody has typed."""
    name = getattr(getattr(error, "param", None), "name", None)
    source = None if context is None or name is None else context.get_parameter_source(name)
    return (
        f"It stands in {config_file.NAME}, or what --config names."
        if getattr(source, "name", "") == "DEFAULT_MAP"
        else ""
    )


if __name__ == "__main__":
    main()
