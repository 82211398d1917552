"""What a rule, or a list of rules, got wrong is an error that names the rule and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ir import te
from ir.error import IRError
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from schedules import BlockRV, RuleError, Schedule, ScheduleError
from schedules.mutator import MutateUnroll
from schedules.postproc import RewriteReductionBlock
from schedules.rule import AutoInline, ScheduleRule
from schedules.space import PostOrderApply, ScheduleFn, SpaceGenerator, SpaceGeneratorUnion


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


def nothing(sch: Schedule) -> None:
    """A space of one candidate."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PostOrderApply(sch_rules=[3]), "PostOrderApply: sch_rules holds rules, got 3"),
        (
            lambda: PostOrderApply(postprocs=RewriteReductionBlock()),
            r"postprocs is a list of postprocessors, got .*; write \[postprocessor\]",
        ),
        (
            lambda: PostOrderApply(postprocs=[RewriteReductionBlock]),
            r"got the class RewriteReductionBlock; write RewriteReductionBlock\(\)",
        ),
        (lambda: PostOrderApply(postprocs=[Forgets()]), "postprocs holds postprocessors, got .*Forgets"),
        (
            lambda: ScheduleFn(nothing, mutator_probs=[MutateUnroll()]),
            r"ScheduleFn: mutator_probs is a dict of mutators and their shares, got \[.*; write {mutator: 0.5}",
        ),
        (
            lambda: PostOrderApply(mutator_probs={MutateUnroll: 1.0}),
            r"mutator_probs holds mutators, got the class MutateUnroll; write MutateUnroll\(\)",
        ),
        (
            lambda: PostOrderApply(mutator_probs={Forgets(): 1.0}),
            "mutator_probs holds mutators, got .*Forgets",
        ),
        (
            lambda: SpaceGeneratorUnion(PostOrderApply()),
            r"space_generators is a list of space generators, got .*; write \[space generator\]",
        ),
        (
            lambda: SpaceGeneratorUnion([PostOrderApply(), nothing]),
            "space_generators holds space generators, got <function nothing",
        ),
        (lambda: SpaceGeneratorUnion([]), "nothing to search, space_generators is empty"),
        (lambda: ScheduleFn(3), "sch_fn is a function of a schedule, got 3"),
        (
            lambda: SpaceGenerator.create(PostOrderApply),
            "by its name or as an instance, got the class PostOrderApply",
        ),
    ],
)
def test_what_is_no_part_of_a_space_is_named(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        make()


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
    (sch,) = PostOrderApply(sch_rules=[SplitsTooMuch()]).generate_design_space(func, Target("cpu"))
    assert sch.mod["main"] is func and sch.trace is not None
    assert all(inst.kind.is_pure for inst in sch.trace.insts)
    assert "rule SplitsTooMuch does not apply to block B, which stays as it was: reorder: " in caplog.text


def chain() -> PrimFunc:
    """Two blocks of a loop each."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    return te.create_prim_func([a, te.compute((8,), lambda i: b[i] + 1.0, name="C")])


def splits_too_much(sch: Schedule, block: BlockRV) -> None:
    """A rule that is a function."""
    loop = sch.get_loops(block)[0]
    sch.reorder(loop, loop)


@pytest.mark.parametrize("rule", [SplitsTooMuch(), splits_too_much])
def test_a_refused_step_is_told_once_a_task_with_its_place(
    rule: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Rules of the project find out in this way that they do not apply, and say nothing."""
    for _ in range(2):
        caplog.clear()
        space = PostOrderApply(sch_rules=[AutoInline(into_consumer=False), rule])
        space.generate_sketches(chain(), Target("cpu"))
        (told,) = caplog.messages
        line = re.search(rf"\(refused at {re.escape(__file__)}:(\d+)\)", told)
        assert line is not None
        assert "sch.reorder(" in Path(__file__).read_text().splitlines()[int(line[1]) - 1]


def test_the_rules_of_the_project_refuse_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    class Ours(SplitsTooMuch):
        is_users = False

    assert AutoInline().is_users is False and SplitsTooMuch().is_users
    PostOrderApply(sch_rules=[Ours()]).generate_sketches(chain(), Target("cpu"))
    assert not caplog.messages


def test_a_kernel_without_blocks_is_told(caplog: pytest.LogCaptureFixture) -> None:
    @T.prim_func
    def loops(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = T.float32(1)

    assert len(PostOrderApply().generate_sketches(loops, Target("cpu"))) == 1
    assert "the kernel has no blocks, and schedules work on blocks" in caplog.text
    caplog.clear()
    PostOrderApply(f_block_filter=lambda block: False).generate_sketches(chain(), Target("cpu"))
    assert "f_block_filter accepts no block" in caplog.text


def reads_by_int(sch: Schedule) -> None:
    """Takes what it sampled for a number."""
    loop = sch.get_loops("B")[0]
    sch.split(loop, [None, int(sch.sample_perfect_tile(loop, n=2)[1])])


def counts(sch: Schedule) -> None:
    """Likewise."""
    for _ in range(sch.sample_perfect_tile(sch.get_loops("B")[0], n=2)[1]):  # type: ignore[call-overload]
        pass


def compares(sch: Schedule) -> None:
    """Likewise."""
    if sch.sample_perfect_tile(sch.get_loops("B")[0], n=2)[1] > 4:
        pass


def compares_it(sch: Schedule) -> None:
    """Likewise."""
    if sch.sample_categorical([0, 1], [0.5, 0.5]) == 1:
        sch.parallel(sch.get_loops("B")[0])


def compares_a_factor(sch: Schedule) -> None:
    """Likewise."""
    loop = sch.get_loops("B")[0]
    _, inner = sch.sample_perfect_tile(loop, n=2)
    if inner != 1:
        sch.parallel(loop)


def looks_it_up(sch: Schedule) -> None:
    """Likewise."""
    if sch.sample_categorical([1, 2, 4], [0.3, 0.3, 0.4]) in (2, 4):
        sch.parallel(sch.get_loops("B")[0])


@pytest.mark.parametrize(
    "function", [reads_by_int, counts, compares, compares_it, compares_a_factor, looks_it_up]
)
def test_who_takes_a_sample_for_a_number_is_told_of_get(function: Any) -> None:
    with pytest.raises(IRError, match=r"schedule.get\(\w+\) is the number"):
        ScheduleFn(function).generate_sketches(chain(), Target("cpu"))
    with pytest.raises(IRError, match=r"schedule.get\(\w+\) is the number"):
        function(Schedule(chain()))
