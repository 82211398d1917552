"""The property that all tests of scripts check: text → program → text is a fixed point, program → text → program keeps it."""

from __future__ import annotations

from typing import Any

import ir
from ir.script import from_source


def check(node: Any, map_free_vars: bool = False) -> str:
    """Print a program, read it back, and hold both against each other; returns the text."""
    text = node.script(show_meta=True)
    again = from_source(text, check_well_formed=False)
    ir.assert_structural_equal(node, again, map_free_vars)
    assert again.script(show_meta=True) == text
    return text
