"""A device that the stand-in has, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from runners.cuda import stand_in


@pytest.fixture(scope="module")
def device_library() -> Iterator[Path]:
    """Two devices of 256 MiB."""
    if not has_compiler():
        pytest.skip("needs a C++ compiler")
    with stand_in.used(devices=2, bytes=256 << 20) as path:
        yield path


@pytest.fixture(autouse=True)
def _every_test(device_library: Path) -> None:
    """All tests here find the stand-in."""


@pytest.fixture(scope="session")
def nvrtc() -> None:
    """Skips where NVRTC is not installed."""
    try:
        toolkit()
    except CudaToolkitError as error:
        pytest.skip(str(error))
