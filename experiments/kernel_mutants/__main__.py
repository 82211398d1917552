"""The tuner's check on trial: broken kernels it must refuse, right ones it must not.

    python -m experiments.kernel_mutants mutants                          two places of each kind in each kernel, about 1,500 mutants
    python -m experiments.kernel_mutants mutants --each 1 --kernels C2D,attention
    python -m experiments.kernel_mutants mutants --show                   with the programs of accepted ones, as differences
    python -m experiments.kernel_mutants candidates --number 20000        random candidates of all design spaces
    python -m experiments.kernel_mutants candidates --large --number 500  of kernels in the sizes of models and of the operator suite
    python -m experiments.kernel_mutants candidates --kernels softmax:128x30522

A mutant is a scheduled program with one place changed. It runs through what a candidate runs through that would become the best:
all kinds of inputs, guarded memory, timed calls, several numbers of threads. One that is accepted is run in the interpreter
against the unchanged program, with loops or vectors; where all outputs have the same values on all inputs the change means nothing, and
it is counted as equivalent; where floats differ by 4 units in the last place at most (a sum in another order, a softmax shifted
by another row's maximum), or are the same with float64 in the place of every float (a norm of shifted numbers), as same to
rounding. The exit code is 1 if more than a hundredth of the mutants is accepted, or
a right candidate is refused, or none was made; after Ctrl-C, which ends with what is counted so far, it is 130.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from experiments.fuzz.children import judged_apart
from experiments.fuzz.verdict import INTERRUPTED, Verdict
from ir import IRModule
from runners.verify import Reference
from runners.verify.facts import entry

from .candidates import random_candidates
from .checking import (
    built,
    every_second_call_wrong,
    reference_of,
    refusal,
    same_in_the_interpreter,
)
from .exact import same_in_exact_arithmetic
from .kernels import large_names, module_of, names
from .mutations import MUTATIONS, mutant, places

_SECONDS = 90
_EVERY_SECOND = "only one call in two wrong"
_ABOUT_ROUNDING = "narrow accumulation"
_COLUMNS = ("refused", "accepted", "equivalent", "same to rounding", "not built")
_BATCH = 25
"""Candidates of a kernel that are judged together, so that the design space is made once."""
_LARGE_BATCH = 5
"""The same of large kernels."""

Item = tuple[str, str, int, int]
"""Kernel, mutation, which of its places, seed of the schedule."""


@lru_cache(maxsize=2)
def _reference(name: str) -> Reference:
    return reference_of(module_of(name))


@lru_cache(maxsize=None)  # places are found by identity: there is one program of each
def _scheduled(name: str, seed: int) -> IRModule:
    return next(random_candidates(module_of(name), 1, seed))


@lru_cache(maxsize=None)
def _places(name: str, mutation: str, seed: int) -> list[tuple[Any, Any]]:
    (chosen,) = [item for item in MUTATIONS if item.name == mutation]
    return places(entry(_scheduled(name, seed)), chosen)


def mutant_of(item: Item) -> IRModule:
    """The program of a mutant."""
    name, mutation, place, seed = item
    mod = _scheduled(name, seed)
    func = entry(mod)
    broken = mutant(func, _places(name, mutation, seed)[place])
    return IRModule({var.name_hint: broken if old is func else old for var, old in mod.functions.items()})


def items_of(kernels: Sequence[str], each: int, seed: int) -> list[Item]:
    """Places to change: of every kind in every kernel, ``each`` at most."""
    rng = random.Random(seed)
    items: list[Item] = []
    for name in kernels:
        for mutation in MUTATIONS:
            count = len(_places(name, mutation.name, seed))
            chosen = rng.sample(range(count), min(each, count))
            items += [(name, mutation.name, place, seed) for place in sorted(chosen)]
        items.append((name, _EVERY_SECOND, 0, seed))
    return items


def judge_mutant(item: Item) -> Verdict:
    """One of the columns of the table."""
    name, mutation, _, seed = item
    mod, reference = _scheduled(name, seed), _reference(name)
    if mutation == _EVERY_SECOND:
        found = refusal(every_second_call_wrong(built(mod)), reference)
        return Verdict("accepted") if found is None else Verdict("refused", found)
    broken = mutant_of(item)
    try:
        kernel = built(broken)
    except Exception as error:  # any error is a verdict
        return Verdict("not built", f"{type(error).__name__}: {error}"[:300])
    found = refusal(kernel, reference)
    if found is not None:
        return Verdict("refused", found)
    kind = same_in_the_interpreter(mod, broken, reference)
    if kind == "accepted":
        kind = same_in_the_interpreter(mod, broken, reference, lowered=True)
    if (
        kind == "accepted"
        and mutation != _ABOUT_ROUNDING
        and same_in_exact_arithmetic(mod, broken, reference)
    ):
        kind = "same to rounding"
    return Verdict(kind)


def run_mutants(options: argparse.Namespace) -> int:
    """The table of refused and accepted mutants by kind."""
    items = items_of(options.kernels or names(), options.each, options.seed)
    counts: Counter[tuple[str, str]] = Counter()
    accepted: list[Item] = []
    interrupted = False
    try:
        for item, verdict in judged_apart(items, judge_mutant, _SECONDS):
            kind = verdict.kind
            if kind.startswith(("died", "exit", "took")):
                kind = "refused"  # it costs a worker process, as in a search
            counts[item[1], kind] += 1
            if kind not in _COLUMNS[:1] + _COLUMNS[2:]:
                accepted.append(item)
                print(f"{kind}: {item} {verdict.detail[-500:]}", flush=True)
            elif options.verbose:
                print(f"{kind}: {item} {verdict.kind} {verdict.detail[:160]}", flush=True)
    except KeyboardInterrupt:
        interrupted = True
    if options.show and not interrupted:
        for item in accepted:
            print(difference(item))
    print(f"{'':32}" + "".join(f"{column:>18}" for column in _COLUMNS))
    for mutation in [*(item.name for item in MUTATIONS), _EVERY_SECOND]:
        print(f"{mutation:32}" + "".join(f"{counts[mutation, column]:18}" for column in _COLUMNS))
    refused = sum(count for (_, kind), count in counts.items() if kind == "refused")
    total = refused + len(accepted)
    judged = f"{counts.total()} of {len(items)}" if interrupted else len(items)
    print(f"{judged} mutants, {total} that mean something: {refused} refused, {refused / max(total, 1):.2%}")
    if interrupted:
        return INTERRUPTED
    return int(len(accepted) > total / 100 or not total)


def difference(item: Item) -> str:
    """What a mutant changes, as lines of the two programs."""
    name, mutation, _, seed = item
    if mutation == _EVERY_SECOND:
        return f"{name}: {mutation}"
    before = _scheduled(name, seed).script().splitlines()
    after = mutant_of(item).script().splitlines()
    return "\n".join([f"{name}: {mutation}", *difflib.unified_diff(before, after, lineterm="", n=2)])


def judge_candidates(item: tuple[str, int, int]) -> Verdict:
    """Whether all of a batch of right candidates are accepted."""
    name, seed, count = item
    reference = _reference(name)
    accepted = 0
    for number, mod in enumerate(random_candidates(module_of(name), count, seed)):
        try:
            kernel = built(mod)
        except Exception as error:  # any error is a verdict
            return Verdict("not built", f"candidate {number}: {type(error).__name__}: {error}"[:400])
        found = refusal(kernel, reference)
        if found is not None:
            return Verdict("refused", f"candidate {number}: {found}")
        accepted += 1
    return Verdict("ok", str(accepted))


def run_candidates(options: argparse.Namespace) -> int:
    """How many right candidates were accepted; every refusal is a false alarm, or a defect that somebody should look at."""
    kernels = options.kernels or (large_names() if options.large else names())
    begin = time.monotonic()
    size = _LARGE_BATCH if any(":" in name for name in kernels) else _BATCH
    if options.number % size:
        print(
            f"candidates are checked {size} at a time: {-(-options.number // size) * size} instead of {options.number}"
        )
    accepted, failed, batch = 0, 0, 0

    def report() -> None:
        print(
            f"{accepted} candidates accepted, {failed} batches failed, {time.monotonic() - begin:.0f} s",
            flush=True,
        )

    while accepted < options.number and (failed == 0 or options.go_on):
        items = [(name, options.seed + batch, size) for name in kernels]
        batch += 1
        before = accepted
        try:
            for item, verdict in judged_apart(items, judge_candidates, 20 * _SECONDS):
                if verdict.kind == "ok":
                    accepted += int(verdict.detail)
                else:
                    failed += 1
                    print(f"{verdict.kind}: {item} {verdict.detail[-600:]}", flush=True)
                if accepted >= options.number:
                    break
        except KeyboardInterrupt:
            report()
            return INTERRUPTED
        report()
        if accepted == before:
            break
    return int(failed > 0 or accepted == 0)


def kernel_names(text: str) -> list[str]:
    """Names with commas between.

    Raises:
        argparse.ArgumentTypeError: there is no such kernel.
    """
    chosen = text.split(",")
    for name in chosen:
        if name not in names() + large_names():
            raise argparse.ArgumentTypeError(
                f"no kernel {name!r}; there are: {', '.join(names() + large_names())}"
            )
    return chosen


def positive(text: str) -> int:
    """A number of at least 1.

    Raises:
        argparse.ArgumentTypeError: it is none: nothing would be checked.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def seed_of(text: str) -> int:
    """A seed.

    Raises:
        argparse.ArgumentTypeError: it is negative, or no number.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, a number of at least 0")
    return int(text)


_OPTIONS_OF = {"mutants": ("each", "show", "verbose"), "candidates": ("number", "go_on", "large")}


def _refuse_what_does_not_fit(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a message for an option that would change nothing, and for kernels that are not for this command."""
    for what, names_of_options in _OPTIONS_OF.items():
        for name in names_of_options:
            if what != options.what and getattr(options, name):
                command.error(
                    f"--{name.replace('_', '-')} is an option of {what}, and says nothing of {options.what}"
                )
    large = [name for name in options.kernels or () if ":" in name]
    if options.what == "mutants" and large:
        command.error(
            f"the interpreter, which is asked about accepted mutants, takes too long for {large[0]}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    command = argparse.ArgumentParser(
        "python -m experiments.kernel_mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("what", choices=["mutants", "candidates"])
    command.add_argument(
        "--kernels", type=kernel_names, help="names, with commas between; default: all small ones"
    )
    command.add_argument(
        "--each", type=positive, help="mutants: places of each kind in each kernel (default: 2)"
    )
    command.add_argument("--number", type=positive, help="candidates: right ones to check (default: 500)")
    command.add_argument(
        "--large",
        action="store_true",
        help="candidates: of kernels in the sizes of models and of the operator suite",
    )
    command.add_argument("--seed", type=seed_of, default=0, help="of places and schedules (default: 0)")
    command.add_argument("--show", action="store_true", help="mutants: print accepted ones as differences")
    command.add_argument("--verbose", action="store_true", help="mutants: print every verdict")
    command.add_argument(
        "--go-on", action="store_true", help="candidates: do not stop at the first that is refused"
    )
    options = command.parse_args(arguments)
    _refuse_what_does_not_fit(command, options)
    if options.each is None:
        options.each = 2
    if options.number is None:
        options.number = 500
    try:
        return run_mutants(options) if options.what == "mutants" else run_candidates(options)
    except KeyboardInterrupt:  # before anything was judged
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
