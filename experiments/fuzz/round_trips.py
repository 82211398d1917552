"""Round trips: a program is itself again after it was printed and read, or saved and loaded."""

from __future__ import annotations

from typing import Any

from ir.json_format import load_json, save_json
from ir.script import from_source
from ir.structural import assert_structural_equal, structural_equal, structural_hash


def round_trip(program: Any) -> str:
    """What is lost when a module or function goes through script and JSON; empty where nothing is."""
    text = program.script(show_meta=True)
    try:
        again = from_source(text)
    except Exception as error:  # the printer's text is valid: whatever the parser raises is a finding
        return f"script is not read: {type(error).__name__}: {error}"
    try:
        assert_structural_equal(again, program)
    except Exception as error:  # any error is a verdict
        return f"script is another program\n{error}"
    if again.script(show_meta=True) != text:
        return "script is printed otherwise once it was read"
    return json_round_trip(program)


def json_round_trip(program: Any) -> str:
    """What is lost when a module or function is saved and loaded; empty where nothing is."""
    saved = save_json(program)
    loaded = load_json(saved)
    if not structural_equal(loaded, program) or structural_hash(loaded) != structural_hash(program):
        return "JSON is another program"
    return "" if save_json(loaded) == saved else "JSON is saved otherwise once it was loaded"
