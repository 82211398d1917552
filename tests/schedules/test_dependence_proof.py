"""The proof that iterations do not conflict, against all iterations of small loops: it is never wrong, and refuses little that is right."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    "v % 4 + v % 3",
    "v // 2 + v % 2",
    "v // 2 * 3 + v % 3",
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


# -- memory of iterations, data in indices, conditions -----------------------------
ROW, COLUMN = ["i", "j", "i * 3 + j", "3 - i", "0"], ["k", "2 - k", "j", "k + 1"]
ELEMENTS = [*INDICES, "w", "w", "w", "K[0] + w", "J[w] + v", "J[0] * 4 + w", "v * 4 + J[1]"]
OWN_ELEMENTS = ["w", "w", "w", "w", "w", "w + 1", "4 - w", "K[0] + w", "J[0] + w", "0", "v"]
CONDITIONS = ["i % 2 == 0", "j < 2", "J[i] > 1", "K[0] > 1", "P[w0] > 2", "B[v0 + 1] > 2", "k < 2", "k0 == 0"]


@dataclass
class Statement:
    """One block: ``target[place] = source[where] + A[v]``, perhaps in a loop and under a condition."""

    in_loop: bool
    condition: str | None
    is_guarded_by_predicate: bool
    v: str
    w: str
    target: str
    place: str
    source: str
    where: str

    def lines(self, number: int) -> list[str]:
        condition, depth = self.condition, 0
        result = []
        if self.in_loop:
            result.append("for k in range(3):")
            depth += 1
        if condition and not self.is_guarded_by_predicate:
            result.append("    " * depth + f"if {condition}:")
            depth += 1
        result.append("    " * depth + f'with T.block("S{number}"):')
        inner = [f"v = T.axis.spatial(16, {self.v})", f"w = T.axis.spatial(8, {self.w})"]
        if condition and self.is_guarded_by_predicate:
            inner.append(f"T.where({condition})")
        inner.append(f"{self.target}[{self.place}] = {self.source}[{self.where}] % 3 + A[v]")
        return result + ["    " * (depth + 1) + line for line in inner]


def statement(generator: random.Random, targets: Sequence[str]) -> Statement:
    target = generator.choice(targets)
    in_loop = target != "K" and generator.random() < 0.8
    v, w = generator.choice(ROW), generator.choice(COLUMN if in_loop else ["j", "0", "i"])
    named = {"v0": v, "w0": w, "k0": "k" if in_loop else "j", "k": "k" if in_loop else "j"}
    condition = generator.choice(CONDITIONS) if generator.random() < 0.3 else None
    for name, value in named.items():
        condition = condition and re.sub(rf"\b{name}\b", f"({value})", condition)
    place, source, where = (
        "0" if target == "K" else generator.choice(ELEMENTS if target == "B" else OWN_ELEMENTS),
        generator.choice("AABPPPP" if target == "B" else "AAABP"),
        generator.choice(OWN_ELEMENTS),
    )
    is_predicate = generator.random() < 0.5
    return Statement(in_loop, condition, is_predicate, v, w, target, place, source, where)


def body(generator: random.Random) -> list[Statement]:
    """Mostly: an index of its own, a buffer that is filled, and a use of both."""
    kinds = [targets for targets in ("K", "P", "BBP") if generator.random() < 0.75] or ["B"]
    if generator.random() < 0.2:
        generator.shuffle(kinds)
    return [statement(generator, targets) for targets in kinds]


def text_of(statements: Sequence[Statement]) -> str:
    lines = [line for number, item in enumerate(statements) for line in item.lines(number)]
    header = ", ".join(f"{name}: T.Buffer((128,), 'int32')" for name in "JAB")
    return "\n".join(
        [
            "@T.prim_func",
            f"def main({header}):",
            '    T.func_attr({"tir.noalias": True})',
            "    P = T.alloc_buffer((128,), 'int32')",
            "    K = T.alloc_buffer((1,), 'int32')",
            "    for i in range(4):",
            "        for j in range(3):",
            *["            " + line for line in lines],
        ]
    )


class Memory:
    """A buffer that notes who touches what, by iterations (i, j), in program order."""

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.touched: list[tuple[tuple[int, int], int, bool]] = []
        self.now = (0, 0)

    def __getitem__(self, index: int) -> int:
        self.touched.append((self.now, index, False))
        return self.values[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.touched.append((self.now, index, True))
        self.values[index] = value

    def is_fought_over(self, loop: int, is_allocated: bool) -> bool:
        """Whether iterations of a loop (0: i, 1: j) meet, and could not each have such a buffer for themselves."""
        users: dict[Any, set[tuple[int, bool]]] = {}
        filled: set[Any] = set()
        is_own = is_allocated
        for now, index, is_write in self.touched:
            users.setdefault((now[:loop], index), set()).add((now[loop], is_write))
            if is_write:
                filled.add((now[: loop + 1], index))
            elif (now[: loop + 1], index) not in filled:
                is_own = False
        meet = any(
            len({number for number, _ in seen}) > 1 and any(is_write for _, is_write in seen)
            for seen in users.values()
        )
        return meet and not is_own


def run(statements: Sequence[Statement], generator: random.Random) -> dict[str, Memory]:
    """The program, by Python."""
    data = {name: Memory([generator.randrange(4) for _ in range(128)]) for name in "JABP"}
    data["K"] = Memory([0])
    for i, j in itertools.product(range(4), range(3)):
        for memory in data.values():
            memory.now = (i, j)
        for item in statements:
            for k in range(3) if item.in_loop else [0]:
                names: dict[str, Any] = {**data, "i": i, "j": j, "k": k}
                if item.condition and not eval(item.condition, names):
                    continue
                names |= {"v": eval(item.v, names), "w": eval(item.w, names)}
                value = data[item.source][eval(item.where, names)] % 3 + data["A"][names["v"]]
                data[item.target][eval(item.place, names)] = value
    return data


def judged_by_a_run(seed: int) -> Counter[str]:
    """How often the proof finds what a run shows, of the two loops around."""
    generator = random.Random(seed)
    statements = body(generator)
    text = text_of(statements)
    data = run(statements, generator)
    sch = Schedule(from_source(text), error_render_level="none")
    loops = loops_around(sch._block(sch.get_block("S0")))[:2]
    found: Counter[str] = Counter()
    for position, loop in enumerate(loops):
        proved = why_iterations_conflict(loop, blocks_below(loop)) is None
        is_so = not any(memory.is_fought_over(position, name in "PK") for name, memory in data.items())
        assert is_so or not proved, f"no conflict of {loop.var.name} is proved, and there is one\n{text}"
        found["proved" if proved else "refused, and right" if is_so else "refused"] += 1
    return found


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_is_proved_of_data_and_of_own_memory_is_so(seed: int) -> None:
    judged_by_a_run(seed)


def test_own_memory_is_recognized() -> None:
    found: Counter[str] = Counter()
    for seed in range(200):
        found += judged_by_a_run(seed)
    assert found["proved"] > 60 and found["refused"] > 100, found
