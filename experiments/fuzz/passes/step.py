"""What is asked of every step of a sequence of passes, whatever the programs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ir.module import IRModule
from ir.structural import structural_equal, structural_hash
from ir.transform import Pass

from ..round_trips import round_trip
from ..verdict import Verdict, crash

Check = Callable[[IRModule, str], str]
"""From a module and the name of the pass that left it to what is wrong with it; empty where nothing is."""


def judge_sequence(mod: IRModule, passes: Sequence[Pass], check: Check) -> Verdict:
    """Applies passes one after the other, and checks what each leaves.

    Args:
        mod: a module that is well-formed.
        passes: what is applied.
        check: what a module of this kind must satisfy.
    """
    done: list[str] = []
    for item in passes:
        name = item.info.name
        before = structural_hash(mod)
        try:
            after = item(mod)
        except Exception as error:  # every pass of the sequence takes what the ones before it leave
            found = crash(name, error)
            return Verdict(found.kind, f"{error}{_behind(done)}", f"{name}, {found.place}")
        if structural_hash(mod) != before:
            return Verdict("changed its input", _behind(done).strip(), name)
        done.append(name)
        try:
            difference = check(after, name)
        except Exception as error:
            return Verdict(f"left what fails: {type(error).__name__}", f"{error}{_behind(done)}", name)
        if difference:
            return Verdict("wrong", f"{difference}{_behind(done[:-1])}", name)
        if not structural_equal(mod, after):
            trouble = round_trip(after)
            if trouble:
                return Verdict("no round trip", f"{trouble}{_behind(done[:-1])}", name)
        mod = after
    return Verdict("ok")


def _behind(done: Sequence[str]) -> str:
    return f"\nbehind {', '.join(done)}" if done else ""
