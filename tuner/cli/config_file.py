"""``loopsmith.toml``: options that are not to be typed each time.

A key is the long name of an option. Those at the top hold for every command that has the option, those of a table for the command of
its name; what is typed goes before both::

    database = "tuning.db"
    target = "llvm -mcpu=znver4 -num-cores=16"

    [tune]
    trials = 2000

    [db.top]
    k = 10
"""

from __future__ import annotations

import difflib
import logging
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..error import TunerError

NAME = "loopsmith.toml"
VARIABLE = "LOOPSMITH_CONFIG"
"""The environment variable that names another file, or, empty, none."""

_TYPED = frozenset({"help", "as_json"})
"""Options that say what is wanted of one call."""

_LOG = logging.getLogger(__name__)


def defaults(group: Any, path: Path | None) -> dict[str, Any]:
    """What the file says for each command, as click's map of defaults.

    Args:
        group: the command with its subcommands.
        path: the file; by default what the environment variable names, else the one in this folder or the nearest above.

    Raises:
        TunerError: the file is missing, is no TOML, or has a key or value that no command takes.
    """
    found = path or _named() or _nearest()
    if found is None:
        return {}
    settings = _read(found)
    _LOG.info("options are read from %s", found)
    return _Reader(found).of_group(group, settings, {})


def _named() -> Path | None:
    name = os.environ.get(VARIABLE)
    return Path(name) if name else None


def _nearest() -> Path | None:
    if VARIABLE in os.environ:  # and empty: none is wanted
        return None
    here = Path.cwd()
    return next((place for folder in (here, *here.parents) if (place := folder / NAME).is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if not isinstance(error, OSError):
            raise TunerError(f"cannot read options from {path}, which is no TOML: {error}") from error
        named = (
            f"; the environment variable {VARIABLE} names it" if str(path) == os.environ.get(VARIABLE) else ""
        )
        raise TunerError(f"cannot read options from {path}: {error.strerror}{named}") from error


class _Reader:
    """Checks the settings of one file against the options that commands have.

    Args:
        path: of the file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def of_group(
        self, group: Any, settings: dict[str, Any], above: dict[str, Any], table: str = ""
    ) -> dict[str, Any]:
        """The defaults of each command of a group; ``above`` is what holds for all of them, ``table`` how their names begin."""
        own = {name: value for name, value in settings.items() if name not in group.commands}
        known = {name for command in _leaves(group) for name in _options(command)}
        for name in own:
            if name not in known:
                raise TunerError(self._unknown(name, sorted(known | set(group.commands))))
        shared, found = {**above, **own}, {}
        for name, command in group.commands.items():
            inner = settings.get(name, {})
            if not isinstance(inner, dict):
                raise TunerError(
                    f"{self._path}: {name} is a command; write its options in a table [{table}{name}]"
                )
            if hasattr(command, "commands"):
                found[name] = self.of_group(command, inner, shared, f"{table}{name}.")
            else:
                found[name] = self._of_command(f"[{table}{name}] ", command, inner, shared)
        return found

    def _of_command(
        self, place: str, command: Any, settings: dict[str, Any], above: dict[str, Any]
    ) -> dict[str, Any]:
        options = _options(command)
        for key in settings:
            if key not in options:
                raise TunerError(self._unknown(key, sorted(options), place))
        return {
            options[key].name: self._checked(options[key], key, value)
            for key, value in {**above, **settings}.items()
            if key in options
        }

    def _checked(self, option: Any, key: str, value: Any) -> Any:
        """A value of the kind that the option takes; raises where it is another, with the name of the file."""
        if isinstance(value, dict):
            raise TunerError(f"{self._path}: {key} is an option and no table")
        if option.is_flag != isinstance(value, bool):
            kind = "true or false" if option.is_flag else "a value"
            raise TunerError(f"{self._path}: {key} takes {kind}, got {value!r}")
        if option.multiple != isinstance(value, list):
            kind = "a list" if option.multiple else "one value"
            raise TunerError(f"{self._path}: {key} takes {kind}, got {value!r}")
        if option.is_flag:
            return value
        # as it would be typed, so that the command says of it what it says of that
        return [str(item) for item in value] if option.multiple else str(value)

    def _unknown(self, name: str, known: list[str], where: str = "") -> str:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        return f"{self._path}: {where}{name!r} is no option; {hint}"


def _options(command: Any) -> dict[str, Any]:
    """The options of a command by their names without dashes, the long ones where there are any."""
    found: dict[str, Any] = {}
    for param in command.params:
        if param.param_type_name == "option" and param.name not in _TYPED:
            longest = max(map(len, param.opts))
            found |= {text.lstrip("-"): param for text in param.opts if len(text) == longest}
    return found


def _leaves(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _leaves(command)
        else:
            yield command
