"""The fuzzer: seeds that mean the same program always, verdicts on right and wrong programs, and the reducer."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

import numpy as np
import pytest

from experiments.fuzz import command, oracle
from experiments.fuzz.blame import first_wrong_pass
from experiments.fuzz.children import judged_alone, judged_apart
from experiments.fuzz.kind import KINDS
from experiments.fuzz.oracle import Guarded, Outcome, interpreted, judge_native, judge_text, usable_targets
from experiments.fuzz.reduce import reduced
from experiments.fuzz.schedules import scheduled_kernel
from experiments.fuzz.statements import TRACE
from experiments.fuzz.tir_programs import tir_program
from experiments.fuzz.verdict import Verdict
from ir.pass_context import PassContext
from ir.script import from_source
from ir.tir.transform import prim_func_pass

COPY = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "main"})
    for i in T.parallel(8):
        B[INDEX] = A[i]
"""


def copied(index: str) -> tuple[str, list[np.ndarray]]:
    """A program that copies to some index, and its arguments."""
    return COPY.replace("INDEX", index), [np.arange(8, dtype="int32"), np.zeros(8, "int32")]


# -- programs ----------------------------------------------------------------------
@pytest.mark.parametrize("wrap", [False, True])
def test_a_seed_is_a_program(wrap: bool) -> None:
    for seed in range(5):
        first, second = tir_program(seed, wrap), tir_program(seed, wrap)
        assert first.text == second.text
        assert Outcome(first.arguments, []).agrees(Outcome(second.arguments, []))
    assert len({tir_program(seed, wrap).text for seed in range(20)}) == 20


def test_programs_have_every_kind_of_statement() -> None:
    text = "".join(tir_program(seed).text for seed in range(100))
    kinds = [
        "T.parallel",
        "T.vectorized",
        "T.unroll",
        "T.serial",
        "while ",
        "T.LetStmt",
        "T.decl_buffer",
        "else:",
    ]
    kinds += ["T.where", "T.init", "T.match_buffer", "strides=", "call_packed", "T.let(", "bfloat16", "int64"]
    kinds += ['"int2"', '"uint2"', '"int4"', '"uint4"']
    assert [kind for kind in kinds if kind not in text] == []


def test_programs_compute_with_nan_and_infinities() -> None:
    programs = [tir_program(seed) for seed in range(120)]
    text = "".join(program.text for program in programs)
    assert [part for part in ('("nan")', '("inf")', "/ T.fabs(") if part not in text] == []
    floats = [
        item for program in programs for item in program.arguments if np.asarray(item).dtype.kind == "f"
    ]
    assert sum(not np.isfinite(item.astype("float64")).all() for item in floats) > 10


def test_parameters_share_memory_and_have_strides() -> None:
    programs = [tir_program(seed) for seed in range(80)]
    shared = [program for program in programs if " X: T.Buffer" in program.text]
    assert len(shared) > 5 and not any("noalias" in program.text for program in shared)
    for program in shared:
        arrays = [item for item in oracle.copied(program.arguments) if isinstance(item, np.ndarray)]
        assert any(np.may_share_memory(array, arrays[-1]) for array in arrays[:-1])
    assert sum("strides=[" in program.text.splitlines()[1] for program in programs) > 10


def test_a_seed_is_a_schedule() -> None:
    first, second = scheduled_kernel(3), scheduled_kernel(3)
    assert first.scheduled.script() == second.scheduled.script() != first.program.func.script()


# -- verdicts ----------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS.names())
def test_some_seeds_pass(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([kind, "--seeds", "0:4"]) == 0
    verdicts = capsys.readouterr().out.partition(";")[0]
    assert re.fullmatch(r"(\d none, )?[1-4] ok", verdicts), verdicts


def test_a_race_is_invalid() -> None:
    text, arguments = copied("i // 2")
    verdict = judge_text(text, arguments, [])
    assert verdict.kind == "invalid" and "[parallel]" in verdict.detail


def test_calls_in_an_order_that_is_not_said_are_invalid() -> None:
    text, arguments = copied("i")
    text = text.replace("        B[i]", f"        T.evaluate(T.call_packed('{TRACE}', i))\n        B[i]")
    assert judge_text(text, arguments, []) == Verdict("invalid", "the order of iterations matters")
    serial = text.replace("T.parallel(8)", "range(8)")
    assert judge_text(serial, arguments, usable_targets()[-1:]) == Verdict("ok")


def test_uninitialized_memory_is_invalid() -> None:
    text, arguments = copied("i")
    text = text.replace("    for", "    Z = T.alloc_buffer((8,), 'int32')\n    for").replace("A[i]", "Z[i]")
    assert judge_text(text, arguments, []).kind == "invalid"


def test_an_access_out_of_bounds_is_invalid() -> None:
    text, arguments = copied("i + 1")
    verdict = judge_text(text, arguments, [])
    assert verdict.kind == "invalid" and not verdict.failed


def test_other_results_are_wrong() -> None:
    target = usable_targets()[-1]
    right, arguments = copied("i")
    wrong, _ = copied("7 - i")
    expected = interpreted(from_source(right), arguments)
    assert judge_native(from_source(right), arguments, expected, target) == Verdict("ok")
    assert judge_native(from_source(wrong), arguments, expected, target) == Verdict("wrong", target)


def test_a_store_between_elements_is_a_verdict() -> None:
    text = COPY.replace('B: T.Buffer((8,), "int32")', 'B: T.Buffer((8,), "int32", strides=[2])').replace(
        "INDEX", "i"
    )
    arguments = [np.arange(8, dtype="int32"), np.zeros(16, "int32")[::2]]
    expected = interpreted(from_source(text), arguments)
    assert judge_native(from_source(text), arguments, expected, usable_targets()[-1]) == Verdict("ok")
    changed = oracle.copied(arguments)
    changed[1].base[4] = 7  # a byte of the element between the first two
    assert not oracle.same_gaps(arguments, changed) and oracle.same_gaps(arguments, oracle.copied(arguments))


def test_a_store_beside_an_array_is_a_verdict() -> None:
    target = usable_targets()[-1]
    func, (given, untouched) = from_source(copied("i + 1")[0]), copied("i")[1]
    expected = Outcome([given, np.array([0, *given[:-1]], "int32")], [])  # right, but for one more store
    assert judge_native(func, [given, untouched], expected, target).kind == "wrote beside an array"


def test_calls_that_are_not_made_are_a_verdict() -> None:
    target = usable_targets()[-1]
    text, arguments = copied("i")
    expected = Outcome(interpreted(from_source(text), arguments).arguments, [3])
    assert judge_native(from_source(text), arguments, expected, target) == Verdict("other calls", target)


def test_a_mistake_of_the_interpreter_is_no_invalid_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(oracle, "interpreted", mistaken)
    with pytest.raises(ZeroDivisionError):
        judge_text(*copied("i"), [])


def test_guards_see_stores_beside_an_array() -> None:
    guarded = Guarded(np.zeros(5, "int16"))
    guarded.array[:] = -1
    assert guarded.intact
    outside = np.lib.stride_tricks.as_strided(guarded.array, shape=(6,))
    outside[5] = 0
    assert not guarded.intact


def test_a_dead_process_is_a_verdict() -> None:
    def judge(item: int) -> Verdict:
        if item == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 2:
            raise ValueError("unexpected")
        return Verdict("ok")

    found = dict(judged_apart(range(4), judge))
    assert [found[item].kind for item in range(4)] == ["ok", "died of SIGKILL", "fuzzer", "ok"]


def test_an_endless_judgement_ends() -> None:
    def judge() -> Verdict:
        time.sleep(20)
        return Verdict("ok")

    assert judged_alone(judge, seconds=1) == Verdict("took too long")


# -- the reducer -------------------------------------------------------------------
def _takes_minima_for_maxima(text: str, arguments: list[Any]) -> bool:
    """Whether a compiler that does so fails on a program."""
    try:
        right = interpreted(from_source(text), arguments)
        wrong = interpreted(from_source(text.replace("T.min(", "T.max(")), arguments)
    except Exception:
        return False
    return not right.agrees(wrong)


def test_a_planted_failure_becomes_small() -> None:
    program = next(
        found
        for found in map(tir_program, range(100))
        if found.text.count("\n") >= 30 and _takes_minima_for_maxima(found.text, found.arguments)
    )

    def fails(text: str) -> bool:
        return _takes_minima_for_maxima(text, program.arguments)

    small = reduced(program.text, fails, seconds=60)
    assert fails(small)
    assert len(small.splitlines()) <= 4
    assert small.count("T.min(") == 1


def test_the_pass_that_breaks_a_program_is_named() -> None:
    text, arguments = copied("i")
    func = from_source(text)
    backwards = from_source(text.replace("B[i]", "B[7 - i]"))
    wrong = prim_func_pass(lambda func, module, context: backwards, opt_level=0, name="Planted")
    assert first_wrong_pass(func, arguments, "cpu") is None
    with PassContext(config={"tir.add_lower_pass": [(1, wrong)]}):
        assert first_wrong_pass(func, arguments, "cpu") == "Planted"
