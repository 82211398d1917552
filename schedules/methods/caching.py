"""Methods that stage data in other buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir import tir
from ir.tir import IndexMap

from ..primitive import caching, reindex, staging
from ..random_variable import BlockRV, LoopRV
from ..state import ScheduleState


class CachingMethods(ScheduleState):
    """Copies of buffers in other scopes and layouts."""

    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Stage a buffer that a block reads: a new block copies it to ``storage_scope``, and consumers read the copy.

        ``B[i] = A[i]`` becomes ``A_local[i] = A[i]; B[i] = A_local[i]``.

        Returns:
            The copying block, placed before the first consumer (behind the producer, if there is one).
        """
        return self._cache(
            "cache_read", "CacheRead", False, block, read_buffer_index, storage_scope, consumer_blocks
        )

    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Let a block write to ``storage_scope`` first: a new block behind it copies the result to the buffer.

        ``B[i] = A[i]`` becomes ``B_local[i] = A[i]; B[i] = B_local[i]``.
        """
        return self._cache(
            "cache_write", "CacheWrite", True, block, write_buffer_index, storage_scope, consumer_blocks
        )

    def _cache(
        self,
        method: str,
        instruction: str,
        is_write: bool,
        block: BlockRV | str,
        buffer: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None,
    ) -> BlockRV:
        consumers = [self._as_rv(item) for item in consumer_blocks or []]
        block = self._as_rv(block)
        index = self._buffer_index(block, buffer, is_write, method)
        rewrite = caching.cache_write if is_write else caching.cache_read
        return self._run(
            instruction,
            [block, consumers],
            [index, storage_scope],
            lambda: rewrite(
                self._block(block, method),
                index,
                storage_scope,
                [self._block(item, method) for item in consumers],
            ),
        )

    def reindex_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Like :meth:`cache_read` for one consumer, with the copy laid out by a map from the block's variables.

        ``C[i, j] = A[j, i]`` with ``lambda i, j: (i, j)`` becomes ``A_local[i, j] = A[j, i]; C[i, j] = A_local[i, j]``.
        """
        return self._reindex_cache(
            "reindex_cache_read",
            "ReindexCacheRead",
            False,
            block,
            read_buffer_index,
            storage_scope,
            index_map,
        )

    def reindex_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Like :meth:`cache_write`, with the copy laid out by a map from the block's variables.

        ``C[j, i] = A[i, j]`` with ``lambda i, j: (i, j)`` becomes ``C_local[i, j] = A[i, j]; C[j, i] = C_local[i, j]``.
        """
        return self._reindex_cache(
            "reindex_cache_write",
            "ReindexCacheWrite",
            True,
            block,
            write_buffer_index,
            storage_scope,
            index_map,
        )

    def _reindex_cache(
        self,
        method: str,
        instruction: str,
        is_write: bool,
        block: BlockRV | str,
        buffer: int | str | tir.Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        block = self._as_rv(block)
        node = self._block(block, method)
        index = self._buffer_index(block, buffer, is_write, method)
        mapping = self._as_index_map(index_map, len(node.iter_vars), node)
        resolved = self._resolved_map(mapping)
        return self._run(
            instruction,
            [block],
            [index, storage_scope, self._recorded_map(mapping, resolved)],
            lambda: reindex.reindex_cache(node, index, storage_scope, resolved, is_write),
        )

    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | str | tir.Buffer) -> BlockRV:
        """Stage a buffer in a copy whose dimensions are the block's iteration variables; returns the copying block.

        ``buffer`` is ("read" or "write", position), a name, or a Buffer. ``C[i, j] = A[j, i]`` becomes
        ``A_reindex[i, j] = A[j, i]; C[i, j] = A_reindex[i, j]``.
        """
        block = self._as_rv(block)
        node = self._block(block, "reindex")
        is_write, position = self._which_buffer(node, buffer, "reindex")
        return self._run(
            "ReIndex", [block], [position, is_write], lambda: reindex.reindex(node, position, is_write)
        )

    def cache_inplace(
        self, block: BlockRV | str, read_buffer_index: int | str | tir.Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Let a block that updates a buffer in place work on a copy: [block that copies in, block that copies out].

        ``A[i] = f(A[i])`` becomes ``A_local[i] = A[i]; A_local[i] = f(A_local[i]); A[i] = A_local[i]``.
        """
        block = self._as_rv(block)
        index = self._buffer_index(block, read_buffer_index, False, "cache_inplace")
        return self._run(
            "CacheInplace",
            [block],
            [index, storage_scope],
            lambda: staging.cache_inplace(self._block(block, "cache_inplace"), index, storage_scope),
        )

    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices that a block needs into buffers first; returns the computing blocks.

        ``B[i] = A[i // 4]`` becomes ``index_var_0[i] = i // 4; B[i] = A[index_var_0[i]]``. ``cse_thresh`` above 0 takes only
        index parts that occur that often.
        """
        block = self._as_rv(block)
        return self._run(
            "CacheIndex",
            [block],
            [storage_scope, cse_thresh],
            lambda: staging.cache_index(self._block(block, "cache_index"), storage_scope, cse_thresh),
        )

    def read_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Copy what the blocks under ``loop`` read of a buffer, by one block at the head of each iteration."""
        return self._copy_at("read_at", "ReadAt", False, loop, block, read_buffer_index, storage_scope)

    def write_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Let the blocks under ``loop`` write to a copy, written back by one block at the end of each iteration."""
        return self._copy_at("write_at", "WriteAt", True, loop, block, write_buffer_index, storage_scope)

    def _copy_at(
        self,
        method: str,
        instruction: str,
        is_write: bool,
        loop: LoopRV,
        block: BlockRV | str,
        buffer: int | str | tir.Buffer,
        storage_scope: str,
    ) -> BlockRV:
        block = self._as_rv(block)
        index = self._buffer_index(block, buffer, is_write, method)
        rewrite = staging.write_at if is_write else staging.read_at
        return self._run(
            instruction,
            [loop, block],
            [index, storage_scope],
            lambda: rewrite(self._loop(loop, method), self._block(block, method), index, storage_scope),
        )
