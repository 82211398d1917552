"""What is known of the host, and how to describe it as another processor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ir.target import host
from ir.target.host import facts_of_cpu, host_info

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("cpu, bits", [("x86-64-v2", 128), ("x86-64-v3", 256), ("x86-64-v4", 512)])
def test_the_environment_describes_the_host(cpu: str, bits: int) -> None:
    """Vector width, target and generated code follow the name; no feature of the real processor remains."""
    program = (
        "from ir.target import Target; from ir.target.host import host_info\n"
        "host, target = host_info(), Target('cpu')\n"
        "print(host.cpu, host.vector_bits, host.features, host.flags, target.attrs['mcpu'], target.vector_bits)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LOOPSMITH_HOST_CPU": cpu},
    )
    assert done.stdout == f"{cpu} {bits} ()  {cpu} {bits}\n", done.stderr


def test_code_for_a_described_host_has_only_its_instructions() -> None:
    program = (
        "from ir.codegen.build import build; from ir.script import from_source\n"
        "kernel = from_source('''@T.prim_func\n"
        'def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):\n'
        "    for i in T.vectorized(64):\n"
        "        B[i] = A[i] * T.float32(2)\n''')\n"
        "print(build(kernel).assembly)"
    )
    texts = {
        cpu: subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "LOOPSMITH_HOST_CPU": cpu},
        ).stdout
        for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4")
    }
    widest = {cpu: max(re.findall("%([xyz])mm", text)) for cpu, text in texts.items()}
    assert widest == {"x86-64-v2": "x", "x86-64-v3": "y", "x86-64-v4": "z"}


@pytest.mark.skipif(bool(os.environ.get("LOOPSMITH_HOST_CPU")), reason="the host is described by name")
def test_features_may_be_taken_from_the_host() -> None:
    host = host_info()
    assert facts_of_cpu(host.cpu) == host.facts
    narrowed = facts_of_cpu(host.cpu, features=tuple(f"-{name}" for name in host.features))
    assert narrowed.vector_bits == 128 and narrowed.l2_cache_bytes == host.facts.l2_cache_bytes


def test_cache_sizes_are_read_with_their_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    described = [
        ("Data", "1", "48K"),
        ("Instruction", "1", "32K"),
        ("Unified", "2", "2M"),
        ("Unified", "3", "1G"),
    ]
    for number, (kind, level, size) in enumerate(described):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(value + "\n")
    (tmp_path / "index9").mkdir()  # a level that the kernel does not describe
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path)
    assert host._cache_sizes() == {1: 48 << 10, 2: 2 << 20, 3: 1 << 30}
