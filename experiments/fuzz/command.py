"""Fuzz loopsmith: random programs of several kinds, each judged by running it in more than one way.

    python -m experiments.fuzz tir --seeds 0:200                       the programs of 200 seeds of a kind
    python -m experiments.fuzz tir --seeds 0:200 --wrap --size 12      with options of the kind: `python -m experiments.fuzz tir --help`
    python -m experiments.fuzz tir --seeds 17 --show                   what a seed stands for, without running it
    python -m experiments.fuzz reduce tir --seeds 17 --wrap            a smaller program that fails alike, and what breaks it

A seed always means the same program (with the same options of its kind). Failures that are likely one defect are one group: each
new group is a line that begins with its seed, and the end, also after Ctrl-C, is a count of the verdicts and a table of the groups.
The exit code is 1 if anything failed, 130 after Ctrl-C. "invalid" is a program that the interpreter refuses or that races: a defect
of the generator or of the interpreter, rare, and no failure unless it is a fifth of all. "none" is a seed that stands for no program:
a design space may hold fewer candidates than it has seeds. Everything runs in child processes: one that
dies or takes a minute is a failure, and the rest goes on. Use one process per core, with seeds of their own.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence

from .campaign import Campaign
from .children import judged_apart
from .kind import KINDS, Kind
from .verdict import INTERRUPTED, UNREAD


def seed_range(text: str) -> range:
    """``17`` or ``0:200``, the end excluded.

    Raises:
        argparse.ArgumentTypeError: it is neither, or holds no seed: a run that judges nothing would pass.
    """
    found = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no seed, such as 17, and no range of seeds, such as 0:200"
        )
    first = int(found[1])
    seeds = range(first, first + 1 if found[2] is None else int(found[2]))
    if not seeds:
        raise argparse.ArgumentTypeError(
            f"{text} holds no seed: the end, which is excluded, must be above {first}"
        )
    return seeds


def seconds_of(text: str) -> float:
    """A time that passes.

    Raises:
        argparse.ArgumentTypeError: it is no number above 0: a run that judges nothing, or never stops, would look right.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def parser() -> argparse.ArgumentParser:
    """The command line: one subcommand for each kind, and ``reduce`` with the same below it."""
    description, _, details = (__doc__ or "").partition("\n")
    command = argparse.ArgumentParser(
        "python -m experiments.fuzz",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = command.add_subparsers(required=True, metavar="KIND")
    _add_kinds(commands, reduce=False)
    reduce = commands.add_parser(
        "reduce",
        help="make a failing program of a kind smaller",
        description="Print a smaller program that fails as that of a seed does, and what breaks it.",
    )
    _add_kinds(reduce.add_subparsers(required=True, metavar="KIND"), reduce=True)
    return command


def _add_kinds(commands: argparse._SubParsersAction[argparse.ArgumentParser], reduce: bool) -> None:
    for name in KINDS.names():
        kind = KINDS[name]()
        if reduce and not kind.has_reducer:
            continue
        line_of_help = (type(kind).__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=line_of_help, description=line_of_help)
        command.add_argument(
            "--seeds",
            type=seed_range,
            default=range(100),
            required=reduce,
            metavar="FIRST[:END]",
            help="those that fail" if reduce else "END is excluded (default: 0:100)",
        )
        if not reduce:
            command.add_argument("--show", action="store_true", help="print the programs and run nothing")
            command.add_argument("--seconds", type=seconds_of, help="stop after this time, whatever is left")
        kind.add_options(command)
        command.set_defaults(kind=kind, reduce=reduce)


def reduce_seed(kind: Kind, seed: int, options: argparse.Namespace) -> bool:
    """Prints a smaller program for a seed that fails, and what breaks it; whether it does fail."""
    ((_, verdict),) = judged_apart([seed], lambda one: kind.judge(one, options), kind.seconds)
    print(seed, verdict, flush=True)
    if verdict.failed:
        print(kind.reduced(seed, options, verdict))
    return verdict.failed


def _joined(arguments: Sequence[str]) -> list[str]:
    """The arguments, with a value of ``--seeds`` that begins with a minus joined to it: argparse would take it for an option."""
    found: list[str] = []
    for item in arguments:
        if found and found[-1] == "--seeds" and re.match(r"-\d", item):
            found[-1] = f"--seeds={item}"
        else:
            found.append(item)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser().parse_args(_joined(given))
    kind: Kind = options.kind
    try:
        if options.reduce:
            return int(any([reduce_seed(kind, seed, options) for seed in options.seeds]))
        if options.show:
            for seed in options.seeds:
                print(kind.show(seed, options), flush=True)
            return 0
        return int(Campaign(kind, options, options.seconds).run(options.seeds))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (
        BrokenPipeError
    ):  # the reader, such as `head`, has seen enough; Python would complain again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
