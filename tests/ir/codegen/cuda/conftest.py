"""What tests of CUDA code need of the machine."""

from __future__ import annotations

import pytest

from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError


@pytest.fixture(scope="session")
def nvrtc() -> None:
    """Skips where NVRTC is not installed."""
    try:
        toolkit()
    except CudaToolkitError as error:
        pytest.skip(str(error))
