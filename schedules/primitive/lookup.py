"""Finding blocks and loops: steps that change nothing, kept in the trace because later ones refer to what they find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis import consumers_of, producers_of
from ..argument import Argument, Block, BlockOrLoop, Show
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV, LoopRV
from ..state import ScheduleState
from ..tree import all_blocks, child_blocks, loops_around


class _Function(Argument):
    """The name of a function; None is the one that is worked on."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return value or sch.func_working_on


class _Positional(BlockOrLoop):
    """Printed without its name, as the field prints it."""

    def text(self, name: str, value: Any, show: Show) -> str | None:
        return show(value)


class LookupPrimitives(PrimitiveFamily):
    """Finding blocks and loops."""

    @primitive("GetBlock", is_pure=True, name=Argument(), func_name=_Function())
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called ``name`` in ``func_name`` (default: the function that is worked on)."""
        return self._new(self._find_block(name, func_name))

    @primitive("GetLoops", is_pure=True, block=Block())
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block up to the enclosing block, outermost first."""
        return self._new(loops_around(self._block(block)))

    @primitive("GetChildBlocks", is_pure=True, block_or_loop=_Positional())
    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The blocks directly inside a block, or under a loop."""
        return self._new(child_blocks(self._node(block_or_loop)))

    @primitive("GetProducers", is_pure=True, block=Block())
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that write what this one reads."""
        return self._new(producers_of(self._block(block)))

    @primitive("GetConsumers", is_pure=True, block=Block())
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """The blocks of the same scope that read what this one writes."""
        return self._new(consumers_of(self._block(block)))

    @primitive("GetOutputBlocks", is_pure=True, scope_block=Block())
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """The blocks in a scope that write buffers which the scope does not allocate."""
        scope = self._block(scope_block)
        inside = [item for item in all_blocks(scope) if item is not scope]
        allocated = {buffer for item in (scope, *inside) for buffer in item.alloc_buffers}
        return self._new([item for item in inside if {region.buffer for region in item.writes} - allocated])
