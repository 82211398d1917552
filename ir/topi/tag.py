"""Tags that operators put on their computes; passes tell element-wise work from reductions by them."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether an operator with this tag broadcasts element by element."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether every output element comes from one element of each input."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)
