"""Footprints, shared sets and cache traffic of nests made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.loops import NestLoops, nest_loops
from cost_models.machine import CacheLevel, Machine
from cost_models.memory import Slot, Traffic, companions, crowding, slots_of, traffic_of
from schedules.population.skeleton import Skeleton

from .nests import facts, nest
from .programs import TARGET


def test_elements_and_lines_per_level() -> None:
    _, (slot,) = facts(nest([("i", 8), ("j", 32)], [("A", [8, 64], [[1, 0], [0, 1]], False)]))
    np.testing.assert_array_equal(slot.elements[:, 0], [256, 32, 1])
    np.testing.assert_array_equal(slot.lines[:, 0], [16, 2, 1])
    np.testing.assert_array_equal(slot.strides[:, 0], [64, 1])


def test_overlapping_windows_are_counted_once() -> None:
    _, (slot,) = facts(nest([("y", 6), ("r", 3)], [("A", [8, 1], [[1, 1], [0, 0]], False)]))
    np.testing.assert_array_equal(slot.elements[:, 0], [8, 3, 1])


def test_strided_accesses_skip_elements_but_fetch_their_lines() -> None:
    _, (slot,) = facts(nest([("i", 16)], [("A", [64], [[4]], False)]))
    assert slot.elements[0, 0] == 16
    assert slot.lines[0, 0] == pytest.approx(61 * 4 / 64)


def test_rows_at_powers_of_two_crowd_a_cache() -> None:
    cache = CacheLevel(48 << 10, 12, 1.0, 2.0)
    _, (wide,) = facts(nest([("i", 64), ("j", 16)], [("A", [64, 1024], [[1, 0], [0, 1]], False)]))
    _, (odd,) = facts(nest([("i", 64), ("j", 16)], [("A", [64, 1040], [[1, 0], [0, 1]], False)]))
    _, (dense,) = facts(nest([("i", 64), ("j", 1024)], [("A", [64, 1024], [[1, 0], [0, 1]], False)]))
    assert cache.sets == 64
    assert crowding(wide, cache, 64)[0, 0] == 64
    assert crowding(odd, cache, 64).max() == 1
    assert crowding(dense, cache, 64)[0, 0] == 1


def test_what_fits_is_fetched_once_and_what_does_not_each_time() -> None:
    loops = [("i", 16), ("j", 1 << 16)]
    streamed = nest(loops, [("A", [1 << 16], [[0, 1]], False)])
    small = nest([("i", 16), ("j", 1 << 10)], [("A", [1 << 10], [[0, 1]], False)])
    machine = Machine.of(TARGET)
    for skeleton, repeated in ((streamed, 16), (small, 1)):
        nested, slots = facts(skeleton)
        traffic = traffic_of(slots, nested, machine, [np.zeros(1, dtype=bool)])
        unique = slots[0].lines[0, 0]
        assert traffic.lines[0][0, 0] == unique * repeated
        assert traffic.lines[1][0, 0] == unique  # both fit the second level


def test_tiles_of_intermediate_buffers_are_used_again() -> None:
    producer = nest([("t", 4), ("i", 8)], [("T", [32], [[8, 1]], True)])
    consumer = nest([("t", 4), ("i", 8)], [("T", [32], [[8, 1]], False)])
    consumer.nests[0].loops[1].key = 17  # only the outer loop is shared
    both = Skeleton(1, [producer.nests[0], consumer.nests[0]])
    loops = nest_loops(both)
    for slots in slots_of(both, loops, 64):
        assert slots[0].allocated == 1
        np.testing.assert_array_equal(slots[0].elements[:, 0], [8, 8, 1])


def blocks(panel: int, n_blocks: int, reduces: bool = True) -> Skeleton:
    """A tile of results that is added to after each of several blocks, which read a panel of bytes."""
    parts = nest(
        [("k0", n_blocks), ("k1", panel // 4)], [("B", [n_blocks * panel // 4], [[panel // 4, 1]], False)]
    )
    sums = nest([("k0", n_blocks), ("i", 1 << 12)], [("C", [1 << 12], [[0, 1]], True)])
    sums.nests[0].accesses[0].buffer = 1
    sums.nests[0].loops[0].is_reduction = reduces
    sums.nests[0].loops[1].key = 17
    return Skeleton(1, [parts.nests[0], sums.nests[0]])


@pytest.mark.parametrize(
    ("panel", "n_blocks", "reduces", "times"),
    [(1 << 12, 8, True, 1), (1 << 18, 8, True, 8), (1 << 18, 8, False, 1), (1 << 18, 1, True, 1)],
)
def test_results_stay_in_a_cache_between_blocks_where_those_leave_room(
    panel: int, n_blocks: int, reduces: bool, times: int
) -> None:
    skeleton = blocks(panel, n_blocks, reduces)
    loops = nest_loops(skeleton)
    slots = slots_of(skeleton, loops, 64)
    nowhere = [[np.zeros(1, dtype=bool)]] * 2
    machine = Machine.of(TARGET)
    beside = companions(loops, slots, nowhere, machine)
    traffic = traffic_of(slots[1], loops[1], machine, nowhere[1], beside[1])
    assert traffic.lines[0][0, 0] == times * slots[1][0].lines[0, 0]
    alone = traffic_of(slots[1], loops[1], machine, nowhere[1])
    assert alone.lines[0][0, 0] == slots[1][0].lines[0, 0]


def test_what_lies_outside_of_a_shared_reduction_takes_no_room_in_it() -> None:
    """Each job has panels of its own; together they are far more than a cache, and not between two steps of any reduction."""
    jobs, panel = [("job", 16), ("t", 16)], 1 << 10
    parts = nest(
        [*jobs, ("k0", 2), ("k1", panel)],
        [("B", [16 * 16 * 2 * panel], [[16 * 2 * panel, 2 * panel, panel, 1]], False)],
    )
    sums = nest([*jobs, ("k0", 2), ("i", 1 << 8)], [("C", [1 << 8], [[0, 0, 0, 1]], True)])
    sums.nests[0].accesses[0].buffer = 1
    sums.nests[0].loops[2].is_reduction = True
    sums.nests[0].loops[3].key = 17
    skeleton = Skeleton(1, [parts.nests[0], sums.nests[0]])
    loops, nowhere = nest_loops(skeleton), [[np.zeros(1, dtype=bool)]] * 2
    slots, machine = slots_of(skeleton, loops, 64), Machine.of(TARGET)
    beside = companions(loops, slots, nowhere, machine)
    assert beside[1]
    traffic = traffic_of(slots[1], loops[1], machine, nowhere[1], beside[1])
    assert traffic.lines[0][0, 0] == slots[1][0].lines[0, 0]


def test_what_both_nests_touch_takes_room_once() -> None:
    """A panel that one fills and the other adds up, beside as large a tile of results: twice the panel would be too much."""
    machine = Machine.of(TARGET)
    count = int(0.4 * machine.usable * machine.caches[0].capacity / 4)
    panel = [("T", [count], [[0, 1]])]
    parts = nest([("k0", 8), ("i", count)], [(*panel[0], True)])
    sums = nest([("k0", 8), ("i", count)], [(*panel[0], False), ("C", [count], [[0, 1]], True)])
    sums.nests[0].loops[0].is_reduction = True
    sums.nests[0].loops[1].key = 17
    skeleton = Skeleton(1, [parts.nests[0], sums.nests[0]])
    loops = nest_loops(skeleton)
    slots = slots_of(skeleton, loops, 64)
    nowhere = [[np.zeros(1, dtype=bool)] * len(own) for own in slots]
    beside = companions(loops, slots, nowhere, machine)
    assert beside[1]
    traffic = traffic_of(slots[1], loops[1], machine, nowhere[1], beside[1])
    assert traffic.lines[0][:, 0].tolist() == [slot.lines[0, 0] for slot in slots[1]]


def test_short_rows_that_are_touched_whole_share_lines() -> None:
    _, (slot,) = facts(nest([("i", 64), ("j", 4)], [("A", [64, 4], [[1, 0], [0, 1]], False)]))
    np.testing.assert_array_equal(slot.lines[:, 0], [64 * 4 * 4 // 64, 1, 1])
    _, (part,) = facts(nest([("i", 64), ("j", 4)], [("A", [64, 32], [[1, 0], [0, 1]], False)]))
    assert part.lines[0, 0] == 64


@pytest.mark.parametrize(("columns", "n_starts"), [(1024, 0), (1023, 16)])
def test_rows_of_a_page_are_read_ahead(columns: int, n_starts: int) -> None:
    loops, slots = facts(nest([("i", 16), ("j", columns)], [("A", [16, 2048], [[1, 0], [0, 1]], False)]))
    traffic = traffic_of(slots, loops, Machine.of(TARGET), [np.zeros(1, dtype=bool)])
    assert traffic.runs[2][0] == n_starts


def test_a_region_ends_where_another_nest_shares_no_more_loops() -> None:
    """Two nests in one parallel loop, one of which has a parallel loop of its own: the first opens the region of the shared one."""
    inner, other = (nest([("i", 4), ("j", 8)], [("A", [4, 8], [[1, 0], [0, 1]], True)]) for _ in range(2))
    other.nests[0].loops[1].key = 17
    for loop in (*inner.nests[0].loops, other.nests[0].loops[0]):
        loop.mark = "parallel"
    first, second = nest_loops(Skeleton(1, [inner.nests[0], other.nests[0]]))
    assert (first.jobs[0], second.jobs[0]) == (4, 4)
    assert (first.opens_region, second.opens_region) == (True, False)
    (alone,) = nest_loops(Skeleton(1, inner.nests))
    assert alone.jobs[0] == 4 * 8


def test_stretches_that_are_gone_through_by_turns_begin_again_and_again() -> None:
    """Of 4096 rows of 64 KiB 128 bytes each in turn: nothing is read ahead. Of 8 rows at a time, the hardware sees 8 stretches."""
    machine, resident = Machine.of(TARGET), [np.zeros(1, dtype=bool)]

    def starts(*loops: tuple[str, int]) -> float:
        reach = [
            [int("r" in name) * (8 if name == "r0" else 1) for name, _ in loops],
            [32 * int(name == "c") + int(name == "v") for name, _ in loops],
        ]
        around, slots = facts(nest(list(loops), [("A", [4096, 16384], reach, True)]))
        return float(traffic_of(slots, around, machine, resident).runs[2][0])

    lines = 4096 * 16384 * 4 / 64
    assert starts(("c", 512), ("r", 4096), ("v", 32)) == pytest.approx(lines / 2)
    assert starts(("r0", 512), ("c", 512), ("r", 8), ("v", 32)) == 0


def by_turns(rows: int, rest: int = 1, width: int = 32) -> tuple[NestLoops, list[Slot]]:
    """Of so many rows of 65600 bytes, ``width`` numbers of each in turn; ``rest`` more such groups of rows follow."""
    loops = [("r0", rest), ("c", 16384 // width), ("r", rows), ("v", width)]
    reach = [[rows, 0, 1, 0], [0, width, 0, 1]]
    return facts(nest(loops, [("A", [rows * rest, 16400], reach, True)]))


def traffic(built: tuple[NestLoops, list[Slot]], is_resident: bool = False, ahead: float = 0.0) -> Traffic:
    return traffic_of(built[1], built[0], Machine.of(TARGET), [np.array([is_resident])], ahead=ahead)


def test_turns_are_taken_from_memory_only() -> None:
    """512 KiB are in the second cache, from where rows are gone through one after the other."""
    found = traffic(by_turns(4096))
    assert found.runs[1][0] == 0 and found.runs[2][0] == 4096 * 512


def test_what_fits_the_last_cache_comes_once_row_by_row() -> None:
    found = traffic(by_turns(64))
    assert found.fitting[2] == 0 and found.runs[2][0] == 0


@pytest.mark.parametrize(("rows", "n_starts"), [(16, 0), (17, 17 * 512 * 256)])
def test_hardware_keeps_sixteen_stretches_in_view(rows: int, n_starts: int) -> None:
    assert traffic(by_turns(rows, rest=256)).runs[2][0] == n_starts


def test_a_line_begins_once_however_little_of_it_is_used() -> None:
    found = traffic(by_turns(4096, width=1))
    assert found.runs[2][0] == found.lines[2].sum() > 0


def test_loops_that_move_nothing_meet_the_stretches_of_the_loops_in_them() -> None:
    _, (slot,) = facts(
        nest([("i", 4), ("r", 16), ("j", 8)], [("A", [16, 64], [[0, 1, 0], [0, 0, 1]], False)])
    )
    assert slot.runs[:, 0].tolist() == [16, 16, 1, 1]


def test_what_is_fetched_ahead_takes_room_in_the_second_cache_only() -> None:
    built = by_turns(4)
    before, after = traffic(built), traffic(built, ahead=float(1 << 40))
    assert before.fitting[1] == 0 and after.fitting[1] == built[0].count
    assert (after.fitting[0], after.fitting[2]) == (before.fitting[0], before.fitting[2])


def test_what_lives_in_registers_moves_nothing_and_takes_no_room() -> None:
    rows = facts(nest([("i", 16), ("j", 1000)], [("A", [16, 2048], [[1, 0], [0, 1]], False)]))
    assert traffic(rows).runs[2] == 16
    found = traffic(rows, is_resident=True)
    assert not found.footprint.any()
    for lines, runs, fitting in zip(found.lines, found.runs, found.fitting, strict=True):
        assert not lines.any() and not runs.any() and fitting == 0
    assert [level[0] for level in traffic(by_turns(4096), is_resident=True).fitting] == [0, 0, 0]
