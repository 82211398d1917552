"""Random schedule primitives with random arguments: what is legal is the schedule's to say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from schedules import Schedule, ScheduleError
from schedules.tree import all_blocks


class Step:
    """One random primitive on a block of a schedule."""

    def __init__(self, sch: Schedule, generator: random.Random) -> None:
        self.sch, self.random = sch, generator
        names = [block.name for block in all_blocks(sch._root("main")) if block.name != "root"]
        self.names = [name for name in names if names.count(name) == 1]
        self.name = self.drawn_block()
        self.loops = sch.get_loops(self.name)
        self.block = sch.get(sch.get_block(self.name))
        self.before = sch.mod
        """The program as the last primitive left it, which one that is refused must not change."""

    def drawn_block(self) -> str:
        """The block that the step is about."""
        return self.random.choice(self.names)

    def loop(self) -> Any:
        if not self.loops:
            raise ScheduleError("the block has no loops")
        return self.random.choice(self.loops)

    def other_loop(self) -> Any:
        loops = self.sch.get_loops(self.random.choice(self.names))
        return self.random.choice(loops) if loops else self.loop()

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def actions(self) -> dict[str, Callable[[], Any]]:
        sch, name, pick, number = self.sch, self.name, self.random.choice, self.random.randint
        identity = lambda *indices: indices
        return {
            "split": lambda: sch.split(
                self.loop(), pick([[None, number(1, 4)], [number(1, 3), None]]), self.flip()
            ),
            "fuse": lambda: sch.fuse(*self.loops[: number(1, max(1, len(self.loops)))]),
            "reorder": lambda: sch.reorder(*self.random.sample(self.loops, len(self.loops))),
            "add_unit_loop": lambda: sch.add_unit_loop(pick([sch.get_block(name), *self.loops])),
            "compute_at": lambda: sch.compute_at(name, self.other_loop(), self.flip(), pick([-1, -2])),
            "reverse_compute_at": lambda: sch.reverse_compute_at(name, self.other_loop(), self.flip()),
            "compute_inline": lambda: sch.compute_inline(name),
            "reverse_compute_inline": lambda: sch.reverse_compute_inline(name),
            "sampled location": lambda: sch.compute_at(name, sch.sample_compute_location(name)),
            "cache_read": lambda: sch.cache_read(name, number(0, 1), "global"),
            "cache_write": lambda: sch.cache_write(name, 0, "global"),
            "cache_inplace": lambda: sch.cache_inplace(name, 0, "global"),
            "cache_index": lambda: sch.cache_index(name, "global", number(0, 1)),
            "reindex": lambda: sch.reindex(name, (pick(["read", "write"]), 0)),
            "reindex_cache_read": lambda: sch.reindex_cache_read(name, 0, "global", identity),
            "read_at": lambda: sch.read_at(self.loop(), name, 0, "global"),
            "write_at": lambda: sch.write_at(self.loop(), name, 0, "global"),
            "decompose_reduction": lambda: sch.decompose_reduction(name, self.loop()),
            "rfactor": lambda: sch.rfactor(self.loop(), number(-1, 1)),
            "decompose_padding": lambda: sch.decompose_padding(name, self.loop()),
            "pad_einsum": lambda: sch.pad_einsum(name, [number(1, 4) for _ in self.block.iter_vars]),
            "separate": lambda: sch.separate(self.loop()),
            "separate_rest": lambda: sch.separate_rest(self.loop(), number(1, 3)),
            "add_into": lambda: sch.add_into(name),
            "replicate": lambda: sch.replicate([name], number(1, 4), number(1, 2)),
            "rolling_buffer": lambda: sch.rolling_buffer(name, 0),
            "blockize": lambda: sch.blockize(self.loop(), self.flip()),
            "loop_partition": lambda: sch.loop_partition(self.loop(), [number(1, 2), None]),
            "interleave": lambda: sch.interleave(self.loop(), number(1, 4)),
            "merge": lambda: sch.merge(self.loop(), self.other_loop()),
            "parallel": lambda: sch.parallel(self.loop()),
            "vectorize": lambda: sch.vectorize(self.loop()),
            "transform_block_layout": lambda: sch.transform_block_layout(
                name, lambda *indices: indices[::-1]
            ),
        }

    def run(self) -> None:
        actions = self.actions()
        try:
            actions[self.random.choice(sorted(actions))]()
        except ScheduleError:
            assert self.sch.mod.script() == self.before.script()
