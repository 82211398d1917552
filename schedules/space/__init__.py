"""Design-space generators: from a program and rules to the sketches that a search explores."""

from .post_order_apply import PostOrderApply
