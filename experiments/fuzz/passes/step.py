"""What is asked of every step of a sequence of passes, whatever the programs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ir.error import IRValueError
from ir.module import IRModule
from ir.script import from_source
from ir.structural import structural_equal, structural_hash
from ir.transform import Pass

from ..round_trips import json_round_trip
from ..verdict import Verdict, crash

_MAY_REFUSE = {"tir.ForceNarrowIndexToInt32": IRValueError}
"""What passes raise for programs that they say they do not take, such as one whose loops were widened; the next pass goes on."""
_LARGEST_SCRIPT = 300_000
"""Characters. Passes that copy loops, one behind the other, make programs that take minutes to judge: sequences end there."""
Check = Callable[[IRModule, str], str]
"""From a module and the name of the pass that left it to what is wrong with it; empty where nothing is."""


def judge_sequence(mod: IRModule, passes: Sequence[Pass], check: Check) -> Verdict:
    """Applies passes one after the other, and checks what each leaves.

    A sequence ends early, without a look at the last program, where that is too large.

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
            if isinstance(error, _MAY_REFUSE.get(name, ())):
                continue
            found = crash(name, error)
            return Verdict(found.kind, f"{error}{_behind(done)}", f"{name}, {found.place}")
        if structural_hash(mod) != before:
            return Verdict("changed its input", _behind(done).strip(), name)
        is_same, mod = structural_equal(mod, after), after
        if not is_same:
            if len(mod.script()) > _LARGEST_SCRIPT:
                break
            found = _judged(mod, check, name)
            if found.failed:
                return Verdict(found.kind, f"{found.detail}{_behind(done)}", name)
        done.append(name)
    return Verdict("ok")


def _judged(mod: IRModule, check: Check, name: str) -> Verdict:
    """What is wrong with what a pass left.

    Its script is read to a program of the same meaning, which need not be the same: the parser joins blocks, and gives a variable that a
    pass left bound in two places two names.
    """
    try:
        difference = check(mod, name)
    except Exception as error:  # any error is a verdict
        return Verdict(f"left what fails: {type(error).__name__}", str(error))
    if difference:
        return Verdict("wrong", difference)
    try:
        difference = check(from_source(mod.script(show_meta=True)), name)
    except Exception as error:  # any error is a verdict
        return Verdict("left a script that fails", f"{type(error).__name__}: {error}")
    if difference:
        return Verdict("left a script that is wrong", difference)
    trouble = json_round_trip(mod)
    return Verdict("lost", trouble) if trouble else Verdict("ok")


def _behind(done: Sequence[str]) -> str:
    return f"\nbehind {', '.join(done)}" if done else ""
