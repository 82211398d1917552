"""How a tensor lies on a mesh: per mesh axis, sharded along a tensor axis or replicated."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ...error import IRValueError
from ...node import Node, field


class PlacementSpecKind(IntEnum):
    """Sharded along an axis, or replicated."""

    kSharding = 0
    kReplica = 1


class PlacementSpec(Node, type_key="relax.distributed.PlacementSpec"):
    """The placement along one mesh axis; ``axis`` is the tensor's, -1 when replicated."""

    axis: int
    kind: int

    @staticmethod
    def sharding(axis: int) -> PlacementSpec:
        """Sharded along a tensor axis."""
        return PlacementSpec(axis, int(PlacementSpecKind.kSharding))

    @staticmethod
    def replica() -> PlacementSpec:
        """The whole tensor on every device."""
        return PlacementSpec(-1, int(PlacementSpecKind.kReplica))


class Placement(Node, type_key="relax.distributed.Placement"):
    """One spec per mesh axis; in text ``S[0], R``."""

    dim_specs: tuple[PlacementSpec, ...] = field()

    @staticmethod
    def from_text(text: str) -> Placement:
        """Read ``"S[0], R"``; raises IRValueError for anything else."""
        specs = []
        for part in (item.strip() for item in text.split(",")):
            if part == "R":
                specs.append(PlacementSpec.replica())
            elif part.startswith("S[") and part.endswith("]") and part[2:-1].strip().isdigit():
                specs.append(PlacementSpec.sharding(int(part[2:-1])))
            else:
                raise IRValueError(f"placement {text!r}: expected R or S[axis] per mesh axis, got {part!r}")
        return Placement(specs)

    def to_text(self) -> str:
        """The form that :meth:`from_text` reads."""
        return ", ".join(
            "R" if s.kind == PlacementSpecKind.kReplica else f"S[{s.axis}]" for s in self.dim_specs
        )


def specs_of(placement: Placement | str | Sequence[PlacementSpec]) -> Placement:
    """A placement from its text, its specs, or itself."""
    if isinstance(placement, Placement):
        return placement
    return Placement.from_text(placement) if isinstance(placement, str) else Placement(placement)
