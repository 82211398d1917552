"""``docs/cli.md`` from the commands themselves: ``python -m tuner.cli.reference > docs/cli.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from .main import app

_INTRODUCTION = """\
# The command line

Made by `python -m tuner.cli.reference` from the commands themselves; `loopsmith COMMAND --help` says the same.

Each command takes `-q` (`--quiet`: results and errors only), `-v` (`--verbose`: more of what is done; `-vv`: all that is logged) and
`-h` (`--help`). With `--json` a result is JSON on standard output. Results go to standard output, and so do notes of what is done,
which `-q` and `--json` leave out; progress, warnings and errors go to standard error.

| exit status | means |
|---|---|
| 0 | done; of `rpc tracker` and `rpc server` also: ended as they were asked, by Ctrl-C or SIGTERM |
| 1 | what was looked for is not as it should be: a check failed |
| 2 | the command, its input or this machine does not allow it: one paragraph on standard error says what and how to mend it |
| 130, 143, 129 | ended by Ctrl-C, SIGTERM, SIGHUP; whatever was finished is kept |

`loopsmith --install-completion` makes the shell complete commands, options, architectures and targets.

## A file with options

`loopsmith.toml` in the folder or in the nearest one above, or the file that `--config` or the environment variable `LOOPSMITH_CONFIG`
names (empty: none), holds options that are not to be typed each time. What is typed goes before them. They mean what they would
mean if they were typed: a path begins at the folder where the command is started, not at that of the file.

```toml
database = "tuning.db"      # at the top: for every command that has the option

[tune]                      # for one command
trials = 2000

[db.top]
k = 10
```
"""
_COMMON = frozenset({"help", "quiet", "verbose"})


def reference() -> str:
    """The page."""
    root = get_command(app)
    sections = [_section(path, command) for path, command in _commands(root, ("loopsmith",))]
    return "\n".join([_INTRODUCTION, *sections])


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([*path, *(_argument(param) for param in arguments)])
    text = inspect.cleandoc(command.help or "")
    text = re.sub(r"^Example: (.*)$", r"Example: `\1`", text, flags=re.MULTILINE)
    rows = [_row(param) for param in command.params if param.name not in _COMMON]
    table = ["| option | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"## `{usage}`", "", text, "", *table, ""])


def _argument(param: Any) -> str:
    name = str(param.name).upper()
    return name if param.required else f"[{name}]"


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        names = f"`{str(param.name).upper()}`"
    else:
        names = ", ".join(f"`{text}`" for text in (*param.opts, *param.secondary_opts))
    says = param.default is not None and param.default is not False and not callable(param.default)
    default = f"`{param.default}`" if says and param.default != [] else ""
    meaning = " ".join((getattr(param, "help", None) or "").split()).replace("|", "\\|")
    return f"| {names} | {default} | {meaning} |"


if __name__ == "__main__":
    print(reference(), end="")
