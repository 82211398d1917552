"""What is known of the host, and how to describe it as another processor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ir.codegen.llvm.compile import options_of, vector_constraints
from ir.target import Target, host
from ir.target.host import CpuFacts, facts_of_cpu, host_info

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


@pytest.mark.parametrize("cpu", ["", "x86-64", "x86-64-v3", "x86-64-v4", "znver4", "skylake-avx512"])
@pytest.mark.parametrize(
    "switches",
    [
        "-avx",
        "-avx2",
        "-fma",
        "-avx512f",
        "-f16c",
        "-sse4.2",
        "-xsave",
        "+avx512f",
        "+avx2,-avx",
        "-avx,+avx2",
        "-fma,+avx512f",
        "+avx512f,-avx512f",
        "+f16c",
    ],
)
def test_vectors_are_as_wide_as_the_registers_that_llvm_has_left(cpu: str, switches: str) -> None:
    target = Target(f"llvm -mcpu={cpu} -mattr={switches}" if cpu else f"llvm -mattr={switches}")
    assert target.vector_bits == max(vector_constraints(options_of(target)))


def _describe(folder: Path, *caches: dict[str, str]) -> None:
    """Write what the kernel tells of some caches."""
    for number, facts in enumerate(caches):
        (folder / f"index{number}").mkdir()
        for name, value in facts.items():
            (folder / f"index{number}" / name).write_text(value + "\n")


def test_caches_are_read_with_their_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = {"coherency_line_size": "128"}
    _describe(
        tmp_path,
        {"type": "Data", "level": "1", "size": "48K", "ways_of_associativity": "12", **line},
        {"type": "Instruction", "level": "1", "size": "32K", "ways_of_associativity": "4", **line},
        {"type": "Unified", "level": "2", "size": "2M", "ways_of_associativity": "0", **line},
        {"type": "Unified", "level": "3", "size": "512M", "shared_cpu_list": "0-7,64-71"},
        {},  # a level that the kernel does not describe
    )
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path)
    assert host._cache_facts() == {
        "l1_cache_bytes": 48 << 10,
        "l1_cache_ways": 12,
        "cache_line_bytes": 128,
        "l2_cache_bytes": 2 << 20,
        "l3_cache_bytes": 512 << 20,
        "l3_cache_cores": 16,
    }


@pytest.mark.parametrize(("cpus", "size"), [("0-1", 64 << 20), ("0", 32 << 20), ("0-15", 480 << 20)])
def test_a_few_cores_do_not_have_the_cache_of_a_whole_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpus: str, size: int
) -> None:
    """A virtual machine says so of the cores that it has."""
    _describe(tmp_path, {"type": "Unified", "level": "3", "size": "480M", "shared_cpu_list": cpus})
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path)
    assert host._cache_facts()["l3_cache_bytes"] == size


def test_a_second_level_may_be_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _describe(
        tmp_path,
        {"type": "Data", "level": "1", "size": "64K"},
        {"type": "Unified", "level": "2", "size": "1M", "ways_of_associativity": "16"},
    )
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path)
    facts = CpuFacts(128, 32, **host._cache_facts())
    assert (facts.l3_cache_bytes, facts.l3_cache_ways, facts.l3_cache_cores) == (1 << 20, 16, 1)


def test_without_a_description_caches_are_typical(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "_SYSFS_CACHE", tmp_path / "none")
    assert host._cache_facts() == {}
    assert CpuFacts(256, 16).l3_cache_cores is None
    other = "znver4" if host_info().cpu != "znver4" else "znver3"  # of the host itself all is known
    assert Target(f"llvm -mcpu={other} -num-cores=3").l3_cache_cores == 3
