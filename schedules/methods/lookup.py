"""Methods that find blocks."""

from __future__ import annotations

from ..analysis import consumers_of, producers_of
from ..random_variable import BlockRV, LoopRV
from ..state import ScheduleState
from ..tree import BlockNode, all_blocks, child_blocks, loops_around


class LookupMethods(ScheduleState):
    """Finding blocks and loops."""

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called ``name`` in ``func_name`` (default: the function that is worked on)."""
        func = func_name or self._working_on
        return self._run("GetBlock", [], [name, func], lambda: self._find_block(name, func_name))

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block up to the enclosing block, outermost first."""
        block = self._as_rv(block)
        return self._run("GetLoops", [block], [], lambda: loops_around(self._block(block, "get_loops")))

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks directly inside a block, or under a loop."""
        node = self._node(block_or_loop)
        return self._run("GetChildBlocks", [block_or_loop], [], lambda: child_blocks(node))

    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that write what this one reads."""
        block = self._as_rv(block)
        return self._run(
            "GetProducers", [block], [], lambda: producers_of(self._block(block, "get_producers"))
        )

    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read what this one writes."""
        block = self._as_rv(block)
        return self._run(
            "GetConsumers", [block], [], lambda: consumers_of(self._block(block, "get_consumers"))
        )

    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks in a scope that write buffers which the scope does not allocate."""
        scope_block = self._as_rv(scope_block)

        def find() -> list[BlockNode]:
            scope = self._block(scope_block, "get_output_blocks")
            inside = [item for item in all_blocks(scope) if item is not scope]
            allocated = {buffer for item in (scope, *inside) for buffer in item.alloc_buffers}
            return [item for item in inside if {region.buffer for region in item.writes} - allocated]

        return self._run("GetOutputBlocks", [scope_block], [], find)
