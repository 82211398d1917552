"""Every module of the experiments loads: most run by hand only, and would else be the last to hear of a name that moved."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_PEERS = ("tvm_peer", "conformance")
"""Loaded by other Pythons, or as scripts of their own folder."""
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "experiments").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
    and not any(name in path.as_posix() for name in OF_PEERS)
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_loads(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (ROOT / (error.name or "").partition(".")[0]).is_dir():
            raise  # one of ours
        pytest.skip(f"it needs {error.name}")
