"""The command's entry point: assembles the subcommands and turns errors into one paragraph and exit status 2."""

from __future__ import annotations

import shutil
import sys

import typer

from ir.error import IRError

from . import bench, build, database, run, tasks, tune
from .console import complain

_COLUMNS = shutil.get_terminal_size().columns
_NARROW = _COLUMNS < 70
"""Whether the boxes of typer's help would cut names of options; there is plain text then, as wide as the terminal."""

app = typer.Typer(
    name="loopsmith",
    help="Tune tensor programs on this machine, keep what was found, and build with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None if _NARROW else "rich",
    context_settings={"terminal_width": _COLUMNS} if _NARROW else {},
)
app.command("tune")(tune.tune)
app.command("tasks")(tasks.tasks)
app.command("build")(build.build)
app.command("run")(run.run)
app.command("bench")(bench.bench)
app.add_typer(database.app, name="db")


def main() -> None:
    """Run the command line; errors of the user end with one paragraph and status 2, Ctrl-C with status 130."""
    try:
        status = app(standalone_mode=False)
    except IRError as error:
        complain(str(error))
        sys.exit(2)
    except typer.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        complain("interrupted; everything that was finished is kept")
        sys.exit(130)
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
    return f"{error.format_message()}{hint}"


if __name__ == "__main__":
    main()
