"""What a kind of random program must say to be fuzzed: :class:`Kind`, found by its file.

To add a kind, put a module into ``experiments/fuzz/kinds``; nothing lists it::

    \"\"\"Random sums: ...\"\"\"

    @KINDS.register("sums")
    class Sums(Kind):
        \"\"\"sums of numbers, against math.fsum\"\"\"     # its first line is the line of help

        def add_options(self, command: argparse.ArgumentParser) -> None:
            add_targets(command)                       # --target; targets_of(seed, options) reads it
            command.add_argument("--terms", type=count, default=8)

        def show(self, seed: int, options: argparse.Namespace) -> str: ...
        def judge(self, seed: int, options: argparse.Namespace) -> Verdict: ...

``show`` and ``judge`` may depend on nothing but the seed and the options. ``judge`` runs in a child process: it may die, hang or raise, and
each is a verdict. A kind that gains by it overrides ``batch`` and ``judge_together`` (many programs to one compilation), one that can
tell defects apart ``blame`` (the pass that is wrong), and one that can make programs smaller ``reduced``. Libraries that not everyone
has, and slow ones, are imported where they are used: the command line imports every kind.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ir.kinds import Kinds

from .oracle import TARGETS, usable_targets
from .verdict import Verdict

KINDS: Kinds[type[Kind]] = Kinds("kind of random programs", ValueError, "experiments.fuzz.kinds")


def count(text: str) -> int:
    """A whole number of at least 1, for options.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


class Kind(ABC):
    """A kind of random programs; the first line of a subclass's docstring is its line of help."""

    batch: ClassVar[int] = 1
    """How many programs are judged together."""

    seconds: ClassVar[int] = 60
    """How long a batch may take."""

    @property
    def has_reducer(self) -> bool:
        """Whether programs of the kind can be made smaller."""
        return type(self).reduced is not Kind.reduced

    def add_options(self, command: argparse.ArgumentParser) -> None:
        """Adds what the kind can be told beside the seeds."""

    @abstractmethod
    def show(self, seed: int, options: argparse.Namespace) -> str:
        """What a seed stands for, as a text."""

    @abstractmethod
    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        """What comes of the program of a seed."""

    def judge_together(self, seeds: Sequence[int], options: argparse.Namespace) -> list[Verdict]:
        """What comes of a batch, a verdict for each seed; those that fail are judged again, alone."""
        return [self.judge(seed, options) for seed in seeds]

    def blame(self, seed: int, options: argparse.Namespace) -> str:
        """Which part of the compiler breaks a program that fails; empty where that is not known.

        It runs in a child process of its own; failures of one kind and one blame are reported once.
        """
        return ""

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """A smaller program that fails as the one of a seed does.

        Args:
            seed: one whose program fails.
            options: what the kind was told.
            verdict: how it fails.

        Raises:
            NotImplementedError: the kind has no reducer.
        """
        raise NotImplementedError


def add_targets(command: argparse.ArgumentParser) -> None:
    """Adds the option ``--target``; :func:`targets_of` reads it."""
    command.add_argument(
        "--target",
        action="append",
        choices=list(TARGETS),
        help="what to compile for; may be given again; default: one of them, by the seed",
    )


def targets_of(seed: int, options: argparse.Namespace) -> list[str]:
    """The names of the targets that a seed is compiled for."""
    usable = usable_targets()
    return options.target or [usable[seed % len(usable)]]
