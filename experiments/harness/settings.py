"""What a run of the harness is told, whatever it measures."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

TVM_VARIABLE = "LOOPSMITH_TVM_PYTHON"
"""Environment variable with the Python of the environment that has apache-tvm."""

PEERS = ("default", "torch", "torch_compile", "torch_max", "onnxruntime", "tvm", "numpy", "cublas")
"""``default`` is loopsmith itself without records: what tuning gains. ``cublas`` is asked by rows on a device."""
DEFAULT_PEERS = ("torch", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Settings:
    """Options that every theme shares."""

    trials: int = 64
    """Per row or model; 0 measures what is built without tuning."""
    rounds: int = 7
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    peers: tuple[str, ...] = DEFAULT_PEERS
    tvm_python: str | None = None
    scratch: Path = Path(__file__).parents[1] / "out"
    """Databases, exported models, TVM's records: kept, so that a second run only measures."""
    seed: int = 0

    def python_of(self, peer: str) -> str:
        """The Python that a peer runs in."""
        return str(self.tvm_python) if peer == "tvm" else sys.executable

    def database(self, name: str) -> str | None:
        """The tuning database of a number of trials, as more trials would answer another question; None where nothing is tuned."""
        if not self.trials:
            return None
        self.scratch.mkdir(parents=True, exist_ok=True)
        return str(self.scratch / f"{name}-{self.trials}-trials-{self.threads}-threads.db")


def parse_peers(text: str, tvm_python: str | None) -> tuple[str, ...]:
    """The peers of a comma-separated list.

    Raises:
        ValueError: a name is unknown, or TVM is wanted and nothing says where it is.
    """
    names = tuple(item.strip().replace(".", "_") for item in text.split(",") if item.strip())
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise ValueError(f"unknown peer {unknown[0]!r}; choose among {', '.join(PEERS)}")
    if "tvm" in names and not tvm_python:
        raise ValueError(
            f"the peer tvm needs --tvm-python or {TVM_VARIABLE}: the Python of an environment that has it"
        )
    return names
