"""The proof that iterations do not conflict, against all iterations of small loops: it is never wrong, and refuses little that is right."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.tir.evaluate import evaluate
from schedules import Schedule
from schedules.dependence import why_iterations_conflict
from schedules.tree import BlockNode, LoopNode, blocks_below, loops_around

BINDINGS = [
    "i",
    "j",
    "k",
    "i * 4 + j",
    "j * 5 + k",
    "i + j",
    "(i * 5 + k) // 3",
    "(i * 5 + k) % 3",
    "9 - j",
    "0",
    "i * 2 + k",
]
INDICES = [
    "v",
    "w",
    "v * 2",
    "v * 3 + w",
    "v * 8 + w",
    "v // 2",
    "v % 4",
    "v + w",
    "40 - v",
    "v * 2 + 1",
    "0",
    "v // 3 * 3 + v % 3",
]
PREDICATES = ["i * 4 + j < 9", "k < 2", "i + k < 4", "j != 1"]


def nest(generator: random.Random) -> tuple[str, dict[str, int]]:
    """Three loops around one or two blocks that share a buffer."""
    extents = {name: generator.choice([1, 2, 3, 4, 5]) for name in "ijk"}
    header = "A: T.Buffer((64,)), B: T.Buffer((128, 128)), C: T.Buffer((64, 64, 8))"
    lines = ["@T.prim_func", f"def main({header}):", '    T.func_attr({"tir.noalias": True})']
    lines += [
        f"{'    ' * (depth + 1)}for {name} in range({extents[name]}):" for depth, name in enumerate("ijk")
    ]
    for number in range(generator.choice([1, 1, 2])):
        place = f"B[{generator.choice(INDICES)}, {generator.choice(INDICES)}]"
        body = f"{place} = A[v]"
        if number:
            body = f"C[v, w, vk] = {place}"
        elif generator.random() < 0.2:
            body = f"{place} = B[{generator.choice(INDICES)}, {generator.choice(INDICES)}] + A[v]"
        lines += [f'                with T.block("{"WR"[number]}"):']
        lines += [f"                    v = T.axis.spatial(64, {generator.choice(BINDINGS)})"]
        lines += [f"                    w = T.axis.spatial(64, {generator.choice(BINDINGS)})"]
        lines += ["                    vk = T.axis.spatial(8, k)"]
        if generator.random() < 0.3:
            lines += [f"                    T.where({generator.choice(PREDICATES)})"]
        lines += [f"                    {body}"]
    return "\n".join(lines) + "\n", extents


def conflicts(loop: LoopNode, blocks: list[BlockNode]) -> bool:
    """Whether two iterations of a loop touch one element and one of them writes it, by running all of them."""
    seen: dict[Any, tuple[set[int], set[int]]] = {}
    for block in blocks:
        loops = loops_around(block)
        for iteration in itertools.product(*[range(item.extent.value) for item in loops]):  # type: ignore[attr-defined]
            values: dict[Any, Any] = dict(zip([item.var for item in loops], iteration, strict=True))
            if not evaluate(block.predicate, values):
                continue
            outer = tuple(values[item.var] for item in loops_around(loop))
            bound = {
                item.var: int(evaluate(value, values))
                for item, value in zip(block.iter_vars, block.iter_values, strict=True)
            }
            for regions, side in ((block.reads, 0), (block.writes, 1)):
                for buffer, element in elements(regions, bound):
                    entry = seen.setdefault((outer, buffer, element), (set(), set()))
                    entry[side].add(values[loop.var])
    return any(writes and len(reads | writes) > 1 for reads, writes in seen.values())


def elements(regions: Any, values: dict[Any, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for region in regions:
        starts = [int(evaluate(item.min, values)) for item in region.region]
        sizes = [int(evaluate(item.extent, values)) for item in region.region]
        for offsets in itertools.product(*[range(size) for size in sizes]):
            yield region.buffer.name, tuple(a + b for a, b in zip(starts, offsets, strict=True))


def judged(text: str) -> Counter[str]:
    """How often the proof finds what is so, for each loop of a nest."""
    sch = Schedule(from_source(text), error_render_level="none")
    found: Counter[str] = Counter()
    for loop in loops_around(sch._block(sch.get_block("W"))):
        blocks = blocks_below(loop)
        proved = why_iterations_conflict(loop, blocks) is None
        is_so = not conflicts(loop, blocks)
        assert is_so or not proved, f"no conflict of {loop.var.name} is proved, and there is one\n{text}"
        found["proved" if proved else "refused, and right" if is_so else "refused"] += 1
    return found


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_is_proved_is_so(seed: int) -> None:
    judged(nest(random.Random(seed))[0])


def test_little_that_is_right_is_refused() -> None:
    found: Counter[str] = Counter()
    for seed in range(150):
        found += judged(nest(random.Random(seed))[0])
    assert found["proved"] > 50 and found["refused"] > 50
    assert found["refused, and right"] == 0, found
