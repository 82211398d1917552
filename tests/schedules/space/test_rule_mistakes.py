"""What a rule, or a list of rules, got wrong is an error that names the rule and the fix."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ir import te
from ir.target import Target
from schedules import BlockRV, RuleError, Schedule, ScheduleError
from schedules.mutator import MutateUnroll
from schedules.rule import ScheduleRule
from schedules.space import PostOrderApply


class Forgets(ScheduleRule):
    """Returns what it was given to return."""

    def __init__(self, made: Any = None) -> None:
        self._made = made

    def apply(self, sch: Any, block: Any) -> Any:
        return sch if self._made == "schedule" else self._made


@pytest.mark.parametrize(
    ("made", "shown"), [(None, "NoneType"), ("schedule", "Schedule"), ([1], "list"), ([], "an empty list")]
)
def test_what_is_no_list_of_schedules_is_an_error_that_names_the_rule(made: Any, shown: str) -> None:
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    with pytest.raises(RuleError, match=f"rule Forgets: apply returns a list of schedules, got {shown}"):
        PostOrderApply(sch_rules=[Forgets(made)]).generate_design_space(func, Target("cpu"))


def test_a_class_and_a_single_rule_are_refused() -> None:
    with pytest.raises(ScheduleError, match=re.escape("got the class Forgets; write Forgets()")):
        PostOrderApply(sch_rules=[Forgets])
    with pytest.raises(ScheduleError, match=r"sch_rules is a list of rules, got .*; write \[rule\]"):
        PostOrderApply(sch_rules=Forgets())  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [-1, float("nan"), float("inf"), "a", True])
def test_shares_of_mutators_are_numbers(share: Any) -> None:
    mutator = MutateUnroll()
    with pytest.raises(ScheduleError, match=r"the share of MutateUnroll is a number of at least 0, got"):
        PostOrderApply(mutator_probs={mutator: share})


class SplitsTooMuch(ScheduleRule):
    """Changes the block before a primitive refuses a step."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        outer, _inner = sch.split(sch.get_loops(block)[0], [None, 4])
        sch.reorder(outer, outer)
        return [sch]


def test_where_a_primitive_refuses_a_step_nothing_that_the_rule_did_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The block is left as it was, and the refusal is there to read for whoever wonders."""
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])
    with caplog.at_level("DEBUG", "schedules.rule"):
        (sch,) = PostOrderApply(sch_rules=[SplitsTooMuch()]).generate_design_space(func, Target("cpu"))
    assert sch.mod["main"] is func and sch.trace is not None
    assert all(inst.kind.is_pure for inst in sch.trace.insts)
    assert "does not apply here: reorder: " in caplog.text
