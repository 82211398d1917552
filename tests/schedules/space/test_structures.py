"""Structures: choices that no array can carry, looked at one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import te
from ir.target import Target
from ir.tir import PrimFunc
from schedules import BlockRV, LoopRV, Schedule, ScheduleError, Trace
from schedules.error import RuleError
from schedules.population.sketch import SketchSchedule, WouldChange
from schedules.primitive.sampling import compute_locations
from schedules.rule import PyScheduleRule, RandomComputeLocation, RegisterTiling, compute_location
from schedules.space import PostOrderApply, ScheduleFn, SpaceGeneratorUnion, Structures
from schedules.space.structure_tree import _begins, _Rows
from tests.programs.expressions import matmul, matmul_bias

from ..checks import assert_replays, assert_same_meaning

TARGET = Target("cpu")


def two_steps() -> PrimFunc:
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, te.compute((8, 12), lambda i, j: b[i, j] + 1.0, name="C")])


def places(sch: Schedule) -> None:
    """Computes a block somewhere."""
    block = sch.get_block("B")
    sch.compute_at(block, sch.sample_compute_location(block))


def test_each_place_of_a_block_is_a_structure() -> None:
    func = two_steps()
    space = ScheduleFn(places).structures(func, TARGET)
    assert space.is_complete
    programs = set()
    for sketch in space.known:
        sch = sketch.materialize(func, np.zeros(0, dtype=np.int64))
        assert_replays(sch, func)
        programs.add(sch.mod.script())
    assert len(programs) == len(space.known) == 4  # inlined, at the root, under either loop


def reads_one(sch: Schedule) -> None:
    """Looks at one number of the two decisions that it takes, and compares it."""
    first, second = sch.get_loops("C")[:2]
    tile = sch.sample_perfect_tile(first, 2)
    choice = sch.sample_categorical([1, 4], [0.5, 0.5])
    if sch.get(choice) == 4:
        sch.parallel(first)
    else:
        sch.split(first, tile)
        sch.unroll(second)


def test_only_the_number_that_is_read_makes_structures() -> None:
    func = two_steps()
    space = ScheduleFn(reads_one).structures(func, TARGET)
    assert space.is_complete and len(space.known) == 2
    scripts = []
    for sketch in space.known:
        assert sketch.n_columns == 1 and sketch.size() == 4
        for row in sketch.sample(4, np.random.default_rng(0)):
            sch = sketch.materialize(func, row)
            assert_replays(sch, func)
        scripts.append(sch.mod.script())
    assert ["parallel" in script for script in scripts].count(True) == 1


def loops_by_their_extents(sch: Schedule, block: BlockRV) -> Schedule:
    """A rule that decides by the extents of loops, some of which other rules have sampled."""

    def extent(loop: LoopRV) -> int:
        return int(sch.get(loop).extent.value)

    for loop in sch.get_loops(block):
        if extent(loop) == 2:
            sch.annotate(loop, "two", 1)
    return sch


def split_first(sch: Schedule, block: BlockRV) -> list[Schedule]:
    loop = sch.get_loops(block)[0]
    sch.split(loop, sch.sample_perfect_tile(loop, 2))
    return [sch]


def test_a_rule_may_read_what_others_have_sampled() -> None:
    """Then all candidates are structures: the rule sees one at a time, and the search still finds all."""
    func = two_steps()
    space = PostOrderApply(sch_rules=[split_first, loops_by_their_extents]).structures(func, TARGET)
    assert space.is_complete and len(space.known) == 16  # four tiles of eight for each of two blocks
    marked = []
    for sketch in space.known:
        assert sketch.n_columns == 0
        sch = sketch.materialize(func, np.zeros(0, dtype=np.int64))
        assert_replays(sch, func)
        script = sch.mod.script()
        marked.append(script.count('"two"'))
        assert script.count('"two"') == sum(
            sch.get(loop).extent.value == 2 for name in "BC" for loop in sch.get_loops(name)
        )
    assert sorted(set(marked)) == [0, 1, 2]


def test_a_rule_that_refuses_closes_nothing() -> None:
    """A refusal that does not depend on numbers leaves the decisions of other rules open."""

    def fits_nothing(sch: Schedule, block: BlockRV) -> Schedule:
        raise ScheduleError("not for me")

    func = two_steps()
    space = PostOrderApply(sch_rules=[split_first, fits_nothing]).structures(func, TARGET)
    assert [sketch.n_columns for sketch in space.known] == [2]


def test_what_always_fails_is_an_error() -> None:
    def fails(sch: Schedule) -> None:
        sch.get_block("nowhere")

    with pytest.raises(ScheduleError, match="nowhere"):
        ScheduleFn(fails).structures(two_steps(), TARGET)

    def mistaken(sch: Schedule, block: BlockRV) -> Schedule:
        return sch.no_such_method(block)  # type: ignore[no-any-return, attr-defined]

    with pytest.raises(AttributeError, match="no_such_method"):
        PostOrderApply(sch_rules=[split_first, mistaken]).structures(two_steps(), TARGET)


@pytest.mark.parametrize("answer", [5, 0])
@pytest.mark.parametrize("failing", [0, 1])
def test_what_is_no_schedule_for_one_of_its_choices_is_an_error(failing: int, answer: int) -> None:
    """It was asked again and again, as if it took another number for granted."""

    def sometimes(sch: Schedule) -> Any:
        return answer if sch.get(sch.sample_categorical([0, 1], [0.5, 0.5])) == failing else None

    with pytest.raises(RuleError, match=f"must return a Schedule.*got {answer}"):
        ScheduleFn(sometimes).structures(two_steps(), TARGET)


def test_a_rule_that_refuses_one_of_its_choices_leaves_the_program_there_as_it_was() -> None:
    def splits_sometimes(sch: Schedule, block: BlockRV) -> Schedule:
        if sch.get(sch.sample_categorical([0, 1], [0.5, 0.5])):
            raise ScheduleError("not this one")
        sch.split(sch.get_loops(block)[0], [None, 2])
        return sch

    func = two_steps()
    space = PostOrderApply(sch_rules=[splits_sometimes]).structures(func, TARGET)
    assert space.is_complete and len(space.known) > 1


def three_times_three(sch: Schedule) -> None:
    """27 structures, each with its numbers in an annotation."""
    for name in "xyz":
        choice = sch.get(sch.sample_categorical([0, 1, 2], [1 / 3] * 3))
        sch.annotate(sch.get_block("C"), name, choice)


def numbers_of(space: Structures) -> list[tuple[int, ...]]:
    """What each known structure chose."""
    return [
        tuple(sketch.trace.decisions[inst] for inst in sketch.trace.insts if inst.kind.takes_decision)
        for sketch in space.known
    ]


@pytest.mark.parametrize("bad", [{1}, {3}, {1, 2}, {2, 3, 4}])
def test_numbers_that_make_no_schedule_are_left_out(bad: set[int]) -> None:
    """Whichever the function looks at first: the others are all found, once each."""

    def refuses_some(sch: Schedule) -> None:
        number = sch.get(sch.sample_categorical([1, 2, 3, 4], [0.25] * 4))
        loop = sch.get_loops("C")[0]
        if number in bad:
            sch.split(loop, [3, 0])
        sch.annotate(loop, "number", number)

    space = ScheduleFn(refuses_some).structures(two_steps(), TARGET)
    assert space.is_complete
    assert numbers_of(space) == [(number - 1,) for number in (1, 2, 3, 4) if number not in bad]


def test_what_numbers_make_no_schedule_may_depend_on_later_ones() -> None:
    def refuses_pairs(sch: Schedule) -> None:
        first, second = (sch.get(sch.sample_categorical([0, 1, 2], [1 / 3] * 3)) for _ in range(2))
        if first + second > 2:
            raise ScheduleError("too many")
        sch.annotate(sch.get_block("C"), "numbers", [first, second])

    space = ScheduleFn(refuses_pairs).structures(two_steps(), TARGET)
    assert space.is_complete
    assert numbers_of(space) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


def test_a_rule_that_refuses_what_it_looked_at_leaves_the_schedule_as_it_was() -> None:
    def refuses_two(sch: Schedule, block: BlockRV) -> Schedule:
        number = sch.get(sch.sample_categorical([1, 2, 3], [1 / 3] * 3))
        if number == 2:
            raise ScheduleError("not two")
        sch.annotate(block, "number", number)
        return sch

    space = PostOrderApply(
        sch_rules=[refuses_two], f_block_filter=lambda block: block.name_hint == "C"
    ).structures(two_steps(), TARGET)
    assert space.is_complete
    assert numbers_of(space) == [(0,), (), (2,)]


def test_sampled_factors_need_not_multiply_to_the_extent() -> None:
    """Whether they do is part of the structure: some need a predicate, others leave something out."""

    def splits(sch: Schedule) -> None:
        factor = sch.sample_categorical([1, 2, 4, 8], [0.25] * 4)
        sch.split(sch.get_loops("C")[0], [factor, 2, 2])

    func = two_steps()
    space = ScheduleFn(splits).structures(func, TARGET)
    assert space.is_complete
    assert numbers_of(space) == [(1,), (2,), (3,)]
    for sketch in space.known:
        sch = sketch.materialize(func, np.zeros(0, dtype=np.int64))
        assert_replays(sch, func)
        assert_same_meaning(func, sch)
        assert ("T.where" in sch.mod.script()) == (sketch is not space.known[0])


def test_numbers_that_all_make_no_schedule_are_an_error() -> None:
    def refuses_all(sch: Schedule) -> None:
        number = sch.get(sch.sample_categorical([1, 2], [0.5] * 2))
        raise ScheduleError(f"not {number}")

    with pytest.raises(ScheduleError, match="not [12]"):
        ScheduleFn(refuses_all).structures(two_steps(), TARGET)


@pytest.mark.parametrize("limit", [1, 4, 7, 12])
def test_no_choice_is_cut_by_its_place(limit: int) -> None:
    """Where there are too many structures, those with few choices but the first come first: all of one before any of two."""
    space = ScheduleFn(three_times_three, samples=limit).structures(two_steps(), TARGET)
    found = numbers_of(space)
    assert len(set(found)) == limit and not space.is_complete
    deviations = [sum(number != 0 for number in item) for item in found]
    assert deviations == sorted(deviations) and deviations[0] == 0
    if limit > 4:
        assert {place for item in found[1:5] for place, number in enumerate(item) if number} == {0, 1, 2}


def test_all_structures_are_found_in_the_end() -> None:
    space = ScheduleFn(three_times_three, samples=5).structures(two_steps(), TARGET)
    generator = np.random.default_rng(0)
    for _ in range(60):
        space.grow(2, generator)
    assert len(set(numbers_of(space))) == len(space.known) == 27
    space.grow(4, generator)
    assert len(space.known) == 27


def test_structures_near_one_differ_in_one_choice() -> None:
    space = ScheduleFn(three_times_three, samples=1).structures(two_steps(), TARGET)
    generator = np.random.default_rng(0)
    space.grow(1, generator)
    near = space.known[-1]
    space.grow(6, generator, near)
    begin, *others = numbers_of(space)[1:]
    assert len(others) == 6
    assert all(sum(one != other for one, other in zip(begin, item, strict=True)) == 1 for item in others)


def test_a_complete_space_is_in_the_order_of_its_choices() -> None:
    space = ScheduleFn(three_times_three, samples=27).structures(two_steps(), TARGET)
    assert numbers_of(space) == sorted(numbers_of(space)) and len(space.known) == 27
    assert [sketch.name for sketch in space.known] == [f"function{n}" for n in range(27)]


def test_a_stored_trace_leads_to_its_structure() -> None:
    """Also where the structure was not known, and in another session; all sessions name it alike."""
    func = two_steps()
    first = ScheduleFn(three_times_three, samples=3).structures(func, TARGET)
    first.grow(8, np.random.default_rng(3))
    for sketch in first.known:
        trace = sketch.trace_of(np.zeros(0, dtype=np.int64))
        second = ScheduleFn(three_times_three, samples=3).structures(func, TARGET)
        found = second.explaining(trace)
        assert found is not None
        assert str(second.known[found[0]].trace) == str(sketch.trace)
        assert second.known[found[0]].name == sketch.name
        assert len(second.known) <= 4


def reads_a_tile(sch: Schedule) -> None:
    """Does the same whatever it has read: sizes, and later places, are all that differs."""
    first, second = sch.get_loops("C")
    tile = sch.sample_perfect_tile(first, 2)
    sch.split(first, tile)
    if sch.get(tile[0]) > sch.get(tile[1]):
        sch.get_block("B")
    sch.split(second, sch.sample_perfect_tile(second, 2))


@pytest.mark.parametrize("function", [reads_a_tile, places])
def test_structures_of_the_same_steps_are_told_apart_by_what_was_chosen(function: Any) -> None:
    func = two_steps()
    space = ScheduleFn(function).structures(func, TARGET)
    assert len(space.known) == 4
    programs = set()
    for number, sketch in enumerate(space.known):
        for row in sketch.sample(3, np.random.default_rng(0)):
            sch = sketch.materialize(func, row)
            programs.add(sch.mod.script())
            assert sch.trace is not None
            found = space.explaining(Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))))
            assert found is not None and found[0] == number and (found[1] == row).all()
    assert len(programs) > 3


def test_choices_that_change_nothing_lead_to_one_structure() -> None:
    def looks_only(sch: Schedule) -> None:
        choice = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
        if sch.get(choice) < 4:
            sch.parallel(sch.get_loops("C")[0])

    space = ScheduleFn(looks_only, samples=1).structures(two_steps(), TARGET)
    space.grow(8, np.random.default_rng(0))
    assert len(space.known) == 2


def layouts(sch: Schedule) -> list[Schedule]:
    other = sch.copy()
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    other.transform_layout("B", ("write", 0), lambda i, j: (i, j // 4, j % 4))
    return [sch, other]


def test_structures_of_other_layouts_are_told_apart() -> None:
    func = two_steps()
    space = ScheduleFn(layouts).structures(func, TARGET)
    assert len(space.known) == 2
    for number, sketch in enumerate(space.known):
        sch = sketch.materialize(func, np.zeros(0, dtype=np.int64))
        assert sch.trace is not None
        found = space.explaining(Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))))
        assert found is not None and found[0] == number


def test_what_was_chosen_is_not_adapted() -> None:
    """A candidate of another extent with a block in another place is none of this structure."""
    larger = te.placeholder((16, 12), name="A")
    b = te.compute((16, 12), lambda i, j: larger[i, j] * 2.0, name="B")
    other = te.create_prim_func([larger, te.compute((16, 12), lambda i, j: b[i, j] + 1.0, name="C")])
    ours, theirs = (ScheduleFn(places).structures(func, TARGET).known for func in (two_steps(), other))
    for number, sketch in enumerate(ours):
        adapted = [sketch.adapted_row(item.trace) is not None for item in theirs]
        assert adapted == [place == number for place in range(4)]


def test_what_a_rule_asks_of_a_tile_is_asked_of_its_own_alternative_only() -> None:
    def larger_tiles(sch: Schedule, block: BlockRV) -> list[Schedule]:
        """As it is, and marked with tiles of four at least."""
        marked = sch.copy()
        assert isinstance(marked, SketchSchedule)
        (inst, _) = marked.columns[0]
        marked.restrict_tile(list(inst.outputs), lambda table: table[:, 1] >= 4)
        marked.annotate(marked.get_loops(block)[0], "large", 1)
        return [sch, marked]

    space = PostOrderApply(lambda block: block.name_hint == "C", [split_first, larger_tiles])
    plain, marked = space.structures(two_steps(), TARGET).known
    assert (plain.size(), marked.size()) == (4, 2)


def test_a_trace_of_something_else_leads_nowhere() -> None:
    sch = Schedule(two_steps())
    sch.parallel(sch.get_loops("C")[0])
    assert sch.trace is not None
    space = ScheduleFn(three_times_three, samples=3).structures(two_steps(), TARGET)
    assert space.explaining(sch.trace) is None and len(space.known) == 3


def test_candidates_of_rules_lead_to_their_structure() -> None:
    func = matmul_bias()
    space = PostOrderApply(max_sketches=1).structures(func, TARGET)
    whole = PostOrderApply().structures(func, TARGET)
    assert len(whole.known) > 1 and whole.is_complete and not space.is_complete
    for sketch in whole.known:
        (row,) = sketch.sample(1, np.random.default_rng(0))
        found = space.explaining(sketch.trace_of(row))
        assert found is not None and (found[1] == row).all()
        assert str(space.known[found[0]].trace) == str(sketch.trace)


def test_a_union_grows_with_its_parts() -> None:
    func = two_steps()
    union = SpaceGeneratorUnion([ScheduleFn(places), ScheduleFn(three_times_three, samples=2)])
    space = union.structures(func, TARGET)
    assert len(space.known) == 6 and not space.is_complete
    generator = np.random.default_rng(0)
    space.grow(3, generator)
    space.grow(3, generator, near=space.known[-1])
    assert len(space.known) > 9
    last = space.known[-1]
    found = union.structures(func, TARGET).explaining(last.trace_of(np.zeros(0, dtype=np.int64)))
    assert found is not None


def test_factors_of_a_partitioned_tile_stay_open() -> None:
    def partitioned(sch: Schedule) -> None:
        loop = sch.get_loops("C")[1]
        sch.split(loop, sch.sample_partitioned_tile(loop, 3, 1, 4))

    func = two_steps()
    (sketch,) = ScheduleFn(partitioned).structures(func, TARGET).known
    (decision,) = sketch.decisions
    assert decision.size == len(decision.table) > 1  # type: ignore[union-attr]
    for number in range(decision.size):
        assert np.prod(decision.trace_decision(number)[1:]) % 4 == 0  # type: ignore[index]
        assert_replays(sketch.materialize(func, np.array([number])), func)


def test_a_tile_that_is_read_keeps_what_a_rule_asks_of_it() -> None:
    """Rules restrict tiles; where a tile is a choice of structure, those that are not wanted have no candidates."""
    space = PostOrderApply(sch_rules=[RegisterTiling(), loops_by_their_extents], max_sketches=40)
    structures = space.structures(matmul(16), TARGET)
    open_space = PostOrderApply(sch_rules=[RegisterTiling()]).structures(matmul(16), TARGET)
    generator = np.random.default_rng(0)
    valid = [sketch for sketch in structures.known if len(sketch.sample(1, generator))]
    assert valid
    for sketch in valid:
        trace = sketch.trace_of(np.zeros(0, dtype=np.int64))
        tiles = [trace.get_decision(inst) for inst in trace.insts if inst.kind.takes_decision]
        assert any(
            len(tiles) == len(other.decisions)
            and (row := [item.number_of(tile) for item, tile in zip(other.decisions, tiles, strict=True)])
            and None not in row
            and other.valid(np.array([row]))[0]
            for other in open_space.known
        )


def chain_of_exponentials() -> PrimFunc:
    tensors = [te.placeholder((16, 16), name="A")]
    for number in range(4):
        before = tensors[-1]
        tensors.append(
            te.compute((16, 16), lambda i, j, before=before: te.exp(before[i, j]), name=f"E{number}")
        )
    return te.create_prim_func([tensors[0], tensors[-1]])


def test_alternatives_are_made_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    right = compute_location._moved

    def moved(sch: Schedule, block: BlockRV, position: int) -> list[Schedule]:
        tried.append(position)
        return right(sch, block, position)

    monkeypatch.setattr(compute_location, "_moved", moved)
    counts = []
    for limit in (1, 500):
        tried.clear()
        PostOrderApply(sch_rules=[RandomComputeLocation()], max_sketches=limit).structures(
            chain_of_exponentials(), TARGET
        )
        counts.append(len(tried))
    assert counts[0] < counts[1] / 2


def test_structures_of_rules_are_all_looked_at() -> None:
    """More than a search begins with: the first structures reach each choice of each block."""
    func = chain_of_exponentials()
    space = PostOrderApply(sch_rules=[RandomComputeLocation()], max_sketches=6).structures(func, TARGET)
    whole = PostOrderApply(sch_rules=[RandomComputeLocation()], max_sketches=500).structures(func, TARGET)
    assert whole.is_complete and len(whole.known) > len(space.known) == 6
    assert {str(item.trace) for item in space.known} < {str(item.trace) for item in whole.known}


class PlacesBesideAnnotated(PyScheduleRule):
    """Offers a copy with a block computed somewhere, and changes the schedule itself after that."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if sch.get(block).name_hint != "B":
            return [sch]
        other = sch.copy()
        other.compute_at(block, other.sample_compute_location(block))
        sch.annotate(block, "seen", 1)
        return [other, sch]


def test_a_rule_may_change_its_schedule_behind_choices_of_a_copy() -> None:
    sch = Schedule(two_steps())
    places = len(list(compute_locations(sch._block(sch.get_block("B")))))
    space = PostOrderApply(sch_rules=[PlacesBesideAnnotated()]).structures(two_steps(), TARGET)
    seen = ["seen" in item.materialize(two_steps(), np.zeros(0, int)).mod.script() for item in space.known]
    assert seen.count(True) == 1 and 2 <= len(seen) <= places + 1
    assert {len(path) for path in space._paths.values()} == {2}  # the place, and which of both schedules


@pytest.mark.parametrize(
    "change",
    [
        lambda sch: sch.work_on("main"),
        lambda sch: sch.seed(1),
        lambda sch: sch.annotate("B", "seen", 1),
        lambda sch: sch.sample_categorical([1, 2], [0.5, 0.5]),
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2),
        lambda sch: sch.constrain([], lambda: np.ones(1, bool)),
    ],
)
def test_who_only_looks_changes_nothing(change: Callable[[SketchSchedule], object]) -> None:
    sch = SketchSchedule(two_steps(), seed=0)
    with pytest.raises(WouldChange), sch.looked_at():
        sch.copy().annotate("B", "seen", 1)
        change(sch)
    assert not sch.trace.insts and not sch.columns and not sch.constraints
    change(sch)


def test_looking_leaves_nothing_behind() -> None:
    """What rules that do not fit ask for is in no trace."""
    (sketch,) = (
        PostOrderApply(sch_rules=[RegisterTiling(), RegisterTiling()]).structures(two_steps(), TARGET).known
    )
    assert not sketch.trace.insts


def test_a_changed_choice_that_leaves_fewer_behind_it_leads_somewhere() -> None:
    """Of the later choices near a structure those are taken that there are."""

    def fewer_for_others(sch: Schedule) -> None:
        first = sch.get(sch.sample_categorical(range(6), [1 / 6] * 6))
        second = sch.get(sch.sample_categorical(range(2 if first else 3), [1 / 3] * (2 if first else 3)))
        sch.annotate(sch.get_block("C"), "numbers", [first, second])

    space = ScheduleFn(fewer_for_others, samples=5).structures(two_steps(), TARGET)
    assert numbers_of(space) == [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2)]
    space.grow(3, np.random.default_rng(0), near=space.known[4])
    assert {(3, 0), (4, 0), (5, 0)} & set(numbers_of(space))


def test_a_trace_begins_with_no_more_steps_than_it_has() -> None:
    sch = Schedule(two_steps())
    loops = sch.get_loops("C")
    assert sch.trace is not None
    before = sch.trace.copy()
    sch.parallel(loops[0])
    one_more = sch.trace.copy()
    sch.unroll(loops[1])
    for trace in (before, one_more, sch.trace):
        assert [_begins(trace, prefix) for prefix in (before, one_more, sch.trace)] == [
            len(prefix.insts) <= len(trace.insts) for prefix in (before, one_more, sch.trace)
        ]


def rows_of_small_tiles() -> _Rows:
    """Of four tiles of eight those whose inner factor is 1 or 2."""
    sch = SketchSchedule(two_steps(), seed=0)
    loop = sch.get_loops("C")[0]
    factors = sch.sample_perfect_tile(loop, 2)
    sch.split(loop, factors)
    sch.constrain([factors[1]], lambda inner: inner <= 2)
    return _Rows(sch)


def test_rows_are_drawn_as_often_as_asked_where_valid_ones_are_hard_to_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = rows_of_small_tiles()
    assert rows.is_whole and rows.size == 2
    monkeypatch.setattr(rows.sketch, "sample", lambda count, _: np.stack(rows.rows[:1]))
    drawn = rows.draw(5, np.random.default_rng(0))
    assert len(drawn) == 5 and set(drawn.tolist()) <= {0, 1}


def test_neighbours_of_rows_are_allowed() -> None:
    rows = rows_of_small_tiles()
    found = rows.neighbours(np.array([0, 1] * 32), np.random.default_rng(0))
    assert set(found.tolist()) == {0, 1} and rows.size == 2


def test_numbers_that_a_rule_does_not_allow_are_no_structure() -> None:
    def allows_some(sch: SketchSchedule, block: BlockRV) -> SketchSchedule:
        number = sch.sample_categorical([1, 2, 3, 4], [0.25] * 4)
        sch.annotate(block, "number", sch.get(number))
        sch.constrain([number], lambda values: values % 2 == 0)
        return sch

    space = PostOrderApply(
        sch_rules=[allows_some], f_block_filter=lambda block: block.name_hint == "C"
    ).structures(two_steps(), TARGET)
    assert space.is_complete and numbers_of(space) == [(1,), (3,)]
