"""``loopsmith package``: a wheel of a built library, which needs numpy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.wheel import package_library

from .console import note, size_text


def package(
    library: Annotated[Path, typer.Argument(help="A model built by `loopsmith build` for processors.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder to write the wheel to.")
    ] = Path(),
    name: Annotated[
        str | None,
        typer.Option(help="What programs import; by default the name of the library's file."),
    ] = None,
    version: Annotated[str, typer.Option(help="The version of the package.")] = "1.0.0",
) -> None:
    """Make a wheel of a library: pip installs it where there is numpy, and nothing of loopsmith is needed there."""
    wheel = package_library(library, output, name=name, version=version)
    note(f"wrote {wheel} ({size_text(wheel.stat().st_size)})")
