"""The version of loopsmith that runs here, which both ends tell each other."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata


@lru_cache(maxsize=1)
def version() -> str:
    """As the installed distribution has it; "source" where it is not installed."""
    try:
        return metadata.version("loopsmith")
    except metadata.PackageNotFoundError:
        return "source"
