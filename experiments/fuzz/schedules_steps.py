"""Random steps of a schedule: every primitive, with arguments drawn so that about half of them are legal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ir import structural_equal
from schedules import Schedule, ScheduleError
from schedules.tree import all_blocks
from tests.schedules.random_steps import Step


class RefusalError(Exception):
    """A primitive refused and changed the program nevertheless."""


class WiderStep(Step):
    """The steps of the tests, and all others."""

    often: ClassVar[Sequence[str]] = (
        "split",
        "compute_at",
        "reverse_compute_at",
        "vectorize last",
        "parallel first",
        "split",
        "reorder",
        "fuse",
    )
    """Primitives that are drawn once more for each time they are named here, for others build on them."""

    def actions(self) -> dict[str, Callable[[], Any]]:
        sch, name, pick, number = self.sch, self.name, self.random.choice, self.random.randint
        return {
            **super().actions(),
            "fuse": lambda: sch.fuse(*self.chain(), preserve_unit_iters=self.flip()),
            "split unevenly": lambda: sch.split(self.loop(), [number(1, 5), None, number(1, 4)], self.flip()),
            "unroll": lambda: sch.unroll(self.loop()),
            "vectorize last": lambda: [sch.vectorize(loop) for loop in self.loops[-1:]],
            "parallel first": lambda: [sch.parallel(loop) for loop in self.loops[:1]],
            "unroll pragma": lambda: sch.annotate(
                self.loop(), "pragma_auto_unroll_max_step", pick([4, 16, 64])
            ),
            "annotate": lambda: sch.annotate(pick([sch.get_block(name), *self.loops]), "note", number(0, 3)),
            "unannotate": lambda: sch.unannotate(pick([sch.get_block(name), *self.loops]), "note"),
            "set_scope": lambda: sch.set_scope(name, number(0, 1), pick(["local", "global", "shared"])),
            "storage_align": lambda: sch.storage_align(name, 0, pick([-2, -1, 0]), 8, 3),
            "cache_read local": lambda: sch.cache_read(
                name, number(0, 2), pick(["local", "global"]), pick([(), (name,)])
            ),
            "cache_write for": lambda: sch.cache_write(name, 0, "local", [pick(self.names)]),
            "reindex_cache_write": lambda: sch.reindex_cache_write(name, 0, "global", self.places()),
            "reindex_cache_read somehow": lambda: sch.reindex_cache_read(
                name, number(0, 1), "local", self.places()
            ),
            "reorder_block_iter_var": lambda: sch.reorder_block_iter_var(
                name, self.order(len(self.block.iter_vars))
            ),
            "transform_layout": self.transform_layout,
            "transform_block_layout somehow": lambda: sch.transform_block_layout(name, self.places()),
            "blockize all": lambda: sch.blockize([sch.get_block(name), sch.get_block(pick(self.names))]),
            "set_axis_separator": lambda: sch.set_axis_separator(name, self.own_buffer(), [1]),
            "tiled": self.tiled,
        }

    def chain(self) -> list[Any]:
        """Neighbouring loops."""
        first = self.random.randint(0, max(0, len(self.loops) - 1))
        return self.loops[first : first + self.random.randint(1, 3)]

    def order(self, count: int) -> list[int]:
        return self.random.sample(range(count), count)

    def own_buffer(self) -> tuple[str, int]:
        """One that the block accesses; parameters stay as they are, for the caller knows their layout."""
        kind, position = self.random.choice(["read", "write", "write"]), self.random.choice([0, 0, 1])
        regions = self.block.writes if kind == "write" else self.block.reads
        parameters = self.sch.mod["main"].buffer_map.values()
        if position < len(regions) and any(regions[position].buffer is item for item in parameters):
            raise ScheduleError("the buffer is a parameter")
        return kind, position

    def places(self) -> Callable[..., Any]:
        """A map of indices: permuted, fused, split, shifted, or one that is no map at all."""
        shape, factor, seed = self.random.randint(0, 6), self.random.randint(2, 4), self.random.random()

        def mapped(*indices: Any) -> Any:
            found = list(indices)
            random.Random(seed).shuffle(found)
            if not found:
                return found
            if shape == 1:
                found[0] = found[0] + factor
            elif shape == 2:
                found[-1:] = [found[-1] // factor, found[-1] % factor]
            elif shape == 3 and len(found) > 1:
                found[:2] = [found[0] * 64 + found[1]]
            elif shape == 4:
                found[0] = found[0] // factor
            elif shape == 5:
                found = found[:-1]
            return found

        return mapped

    def transform_layout(self) -> None:
        """Another layout of a buffer, padded or not."""
        pad = self.random.choice([None, None, 0, lambda *indices: 1])
        self.sch.transform_layout(self.name, self.own_buffer(), self.places(), pad)

    def tiled(self) -> None:
        """A common pattern: every loop split, and the halves put together."""
        halves = []
        for loop in self.loops[:3]:
            halves.append(self.sch.split(loop, [None, self.random.randint(1, 4)]))
            self.before = self.sch.mod
        self.sch.reorder(*[outer for outer, _ in halves], *[inner for _, inner in halves])

    def run_counted(self, counts: Counter[tuple[str, bool]]) -> None:
        """One primitive, or none where it is refused.

        Raises:
            RefusalError: the refused primitive left something behind.
        """
        actions = self.actions()
        chosen = self.random.choice([*sorted(actions), *self.often])
        try:
            actions[chosen]()
            counts[chosen, True] += 1
        except ScheduleError as error:
            counts[chosen, False] += 1
            if not structural_equal(self.sch.mod["main"], self.before["main"]):
                raise RefusalError(f"{chosen} refused, and changed the program: {error}") from error


def take_steps(
    sch: Schedule, generator: random.Random, count: int, step: type[WiderStep] = WiderStep
) -> Counter[tuple[str, bool]]:
    """Random steps on a schedule; how often each was (legal, or refused)."""
    counts: Counter[tuple[str, bool]] = Counter()
    for _ in range(count):
        names = [block.name for block in all_blocks(sch._root("main")) if block.name != "root"]
        if any(names.count(name) == 1 for name in names):
            step(sch, generator).run_counted(counts)
    return counts
