"""Fuzz loopsmith: random programs, native code against the interpreter.

    python -m experiments.fuzz tir --seeds 0:200                       TIR programs, each for one of the targets, by its seed
    python -m experiments.fuzz tir --seeds 0:200 --target x86-64-v3    all of them with vectors of 32 bytes
    python -m experiments.fuzz tir --seeds 0:200 --wrap --size 12      longer programs, in which integers wrap
    python -m experiments.fuzz schedules --seeds 0:200                 random schedules of small kernels
    python -m experiments.fuzz tir --seeds 17 --show                   what a seed stands for, without running it
    python -m experiments.fuzz reduce --seeds 17 --wrap                a smaller program that fails alike, and the pass that breaks it

A seed always means the same program (with the same --wrap and --size). Each failure is a line: the seed, what went wrong, and
for which target; the last line counts the verdicts, and the exit code is 1 if anything failed. "invalid" is a program that the interpreter
refuses or that races: a defect of the generator or of the interpreter, rare, and not counted as a failure. Everything runs in
child processes: one that dies or takes a minute is a failure, and the rest goes on. Use one process per core, with seeds of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from ir.script import from_source

from .blame import first_wrong_pass
from .children import judged_alone, judged_apart
from .oracle import TARGETS, Verdict, judge_text, usable_targets
from .reduce import reduced
from .schedules import judge_schedule, scheduled_kernel
from .tir_programs import TirProgram, tir_program


def seed_range(text: str) -> range:
    """``17`` or ``0:200``, the end excluded."""
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    description, _, details = (__doc__ or "").partition("\n")
    command = argparse.ArgumentParser(
        "python -m experiments.fuzz",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("kind", choices=["tir", "schedules", "reduce"], help="what to run")
    command.add_argument(
        "--seeds", type=seed_range, default=range(100), metavar="FIRST[:END]", help="default: 0:100"
    )
    command.add_argument(
        "--target",
        action="append",
        choices=list(TARGETS),
        help="may be given again; default: one, by the seed",
    )
    command.add_argument(
        "--wrap", action="store_true", help="TIR: let integers leave the range of their dtype"
    )
    command.add_argument(
        "--size", type=int, default=6, help="TIR: statements in each at the top (default: 6)"
    )
    command.add_argument("--show", action="store_true", help="print the programs and run nothing")
    return command


class Session:
    """What the options ask for."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._usable = usable_targets()

    def targets(self, seed: int) -> list[str]:
        """The targets that a seed is compiled for."""
        return self._options.target or [self._usable[seed % len(self._usable)]]

    def program(self, seed: int) -> TirProgram:
        """The TIR program of a seed."""
        return tir_program(seed, self._options.wrap, self._options.size)

    def judge_tir(self, seed: int) -> Verdict:
        """Runs a TIR program."""
        program = self.program(seed)
        return judge_text(program.text, program.arguments, self.targets(seed))

    def judge_schedule(self, seed: int) -> Verdict:
        """Runs a scheduled kernel."""
        return judge_schedule(seed, self.targets(seed))

    def show(self, seed: int) -> str:
        """What a seed stands for."""
        if self._options.kind == "schedules":
            found = scheduled_kernel(seed)
            return f"{found.kernel.script()}\n# scheduled:\n{found.scheduled.script()}"
        return self.program(seed).text

    def reduce(self, seed: int) -> bool:
        """Prints a smaller program for a seed that fails, and the pass that breaks it; whether it does."""
        program = self.program(seed)

        def judge(text: str) -> Verdict:
            return judged_alone(lambda: judge_text(text, program.arguments, self.targets(seed)))

        first = judge(program.text)
        print(seed, first.kind, first.detail, flush=True)
        if first.failed:
            small = reduced(program.text, lambda text: judge(text).kind == first.kind)
            print(small)
            print("#", judged_alone(lambda: self._blame(small, seed)).kind)
        return first.failed

    def _blame(self, text: str, seed: int) -> Verdict:
        """Which pass is the first to break a program, for the first target that shows it."""
        func, arguments = from_source(text), self.program(seed).arguments
        for target in self.targets(seed):
            found = first_wrong_pass(func, arguments, target)
            if found is not None:
                return Verdict(f"first wrong after {found}, for {target}")
        return Verdict("no pass of the lowering is wrong: it is the code generator or LLVM")


def fuzz(seeds: range, judge: Callable[[int], Verdict]) -> bool:
    """Judges seeds and prints failures and a count; whether something failed."""
    kinds: Counter[str] = Counter()
    failed = False
    start = time.monotonic()
    for seed, verdict in judged_apart(seeds, judge):
        kinds[verdict.kind] += 1
        if verdict.failed:
            failed = True
            print(seed, verdict.kind, verdict.detail, flush=True)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"{counts}; {time.monotonic() - start:.0f} s")
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code."""
    options = parser().parse_args(arguments)
    session = Session(options)
    if options.show:
        print("\n".join(session.show(seed) for seed in options.seeds))
        return 0
    if options.kind == "reduce":
        return int(any([session.reduce(seed) for seed in options.seeds]))
    judge = session.judge_tir if options.kind == "tir" else session.judge_schedule
    return int(fuzz(options.seeds, judge))


if __name__ == "__main__":
    sys.exit(main())
