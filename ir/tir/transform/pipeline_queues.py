"""Asynchronous stages of a software pipeline: what is committed together, who waits for it, and how much may be under way then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..expr import PrimExpr, Var
from ..operators import const
from ..operators import max as max_of
from ..operators import min as min_of
from ..stmt import AttrStmt, Stmt
from .pipeline_dependences import Child, Dependences

COMMIT, WAIT, IN_FLIGHT = "async_commit_queue_scope", "async_wait_queue_scope", "async_wait_inflight_count"
ASYNC = "async_scope"


def commit_groups(children: Sequence[Child], dependences: Dependences) -> list[list[Child]]:
    """The children in the order of the pipeline; asynchronous ones of one stage that follow each other are one group.

    A child that needs what another one of its group copies begins a new group: it can only wait for what is committed.
    """
    groups: list[list[Child]] = []
    for child in sorted(children, key=lambda item: item.order):
        group = groups[-1] if groups else []
        joins = (
            child.is_async
            and group
            and group[0].is_async
            and group[0].stage == child.stage
            and not any(True for other in group for _ in dependences.conflicts(other, child, 0))
        )
        if joins:
            group.append(child)
        else:
            groups.append([child])
    return groups


@dataclass(frozen=True)
class Wait:
    """A child waits until a group of a queue has arrived, in each of its iterations."""

    queue: int
    """The stage whose copies it waits for."""
    time: int
    """When the group was committed: so many iterations of the pipeline behind the child's iteration of the loop (or before, below 0)."""
    commit: int
    """The position at which the group was committed."""
    back: int
    """How many iterations of the loop before the child's iteration the copies belong to."""


class Queues:
    """The queues of a pipeline: one for each asynchronous stage.

    Args:
        groups: all children, see :func:`commit_groups`.
        dependences: of the children.
        versions: of the buffers with more than one, by address.
    """

    def __init__(
        self, groups: Sequence[Sequence[Child]], dependences: Dependences, versions: Mapping[Var, int]
    ) -> None:
        self._dependences, self._versions = dependences, versions
        self._commit = {child: group[-1].order for group in groups for child in group if child.is_async}
        children = [child for group in groups for child in group]
        needs = {child: self._needs(child) for child in children}
        self._waits = {
            child: [wait for wait in found if not self._is_known(child, wait, needs)]
            for child, found in needs.items()
        }

    def _needs(self, child: Child) -> list[Wait]:
        """What must have arrived before a child may run: of each queue the last group."""
        last: dict[int, Wait] = {}
        for copy, commit in self._commit.items():
            for back in range(self._dependences.reach + 2):
                if copy.runs_before(child, back) and self._touch(copy, child, back):
                    wait = Wait(copy.stage, copy.stage - back, commit, back)
                    known = last.get(wait.queue)
                    if known is None or (known.time, known.commit) < (wait.time, wait.commit):
                        last[wait.queue] = wait
                    break
        return list(last.values())

    def _touch(self, copy: Child, child: Child, back: int) -> bool:
        """Whether a child needs that a copy of so many iterations before has arrived."""
        private = self._dependences.private
        if any(
            not back or region.buffer.data not in private
            for region in self._dependences.conflicts(copy, child, back)
        ):
            return True
        touched = {region.buffer.data for region in (*child.reads, *child.writes)} & private
        return back > 0 and any(  # the memory is used again
            region.buffer.data in touched and back % self._versions.get(region.buffer.data, 1) == 0
            for region in copy.writes
        )

    def _is_known(self, child: Child, wait: Wait, needs: Mapping[Child, Sequence[Wait]]) -> bool:
        """Whether another child has waited for this group, or a later one, by then."""
        return any(
            other.runs_before(child, before)
            and (known.time - before, known.commit) >= (wait.time, wait.commit)
            for other, found in needs.items()
            for known in found
            if known.queue == wait.queue
            for before in range(wait.back + 1)
        )

    def waiting(
        self,
        child: Child,
        iteration: PrimExpr,
        is_steady: bool,
        body: Stmt,
        simplified: Callable[[PrimExpr], PrimExpr],
    ) -> Stmt:
        """A child's statement under the attributes that say what it waits for.

        Args:
            child: the child.
            iteration: the number of its iteration, from 0 on.
            is_steady: whether all stages run then.
            body: the statement.
            simplified: gives a number in short form.
        """
        for wait in reversed(self._waits[child]):
            under_way = simplified(self._under_way(child, wait, iteration, is_steady))
            body = AttrStmt(0, WAIT, const(wait.queue), AttrStmt(0, IN_FLIGHT, under_way, body))
        return body

    def _under_way(self, child: Child, wait: Wait, iteration: PrimExpr, is_steady: bool) -> PrimExpr:
        """How many groups were committed behind the one that a child waits for."""
        left = self._dependences.loop.extent - iteration
        total: PrimExpr = const(0, left.dtype)
        commits = {commit for copy, commit in self._commit.items() if copy.stage == wait.queue}
        for commit in commits:
            first = wait.time + (commit <= wait.commit)
            last = child.stage - (commit >= child.order)
            count = max(last - first + 1, 0)
            if is_steady:
                total = total + count
            else:  # no more are committed than there are iterations
                total = total + max_of(min_of(const(count, left.dtype), left + (wait.queue - first)), 0)
        return total
