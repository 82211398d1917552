"""Design-space generators: from a program and rules to the sketches that a search explores."""

from .base import SpaceGenerator
from .post_order_apply import PostOrderApply
from .schedule_fn import ScheduleFn
from .structures import Structures
from .union import SpaceGeneratorUnion

__all__ = ["PostOrderApply", "ScheduleFn", "SpaceGenerator", "SpaceGeneratorUnion", "Structures"]
