"""Devices asked of the driver: a library of this test's stands in for it, made by the system's C compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_DRIVER = """
static int begun;
int cuInit(unsigned flags) { begun = flags == 0; return INIT; }
int cuDeviceGet(int* device, int index) {
  if (!begun || index >= 2) return 101;
  *device = index + 40;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  static const int of_both[][3] = {
    {1, 1024, 1024}, {10, 32, 32}, {12, 65536, 32768}, {8, 49152, 49152}, {97, 232448, 49152}, {81, 233472, 65536}, {16, 132, 1},
    {38, 52428800, 0}, {13, 1980000, 921600}, {36, 3201000, 0}, {37, 6144, 64}, {75, 9, 5}, {76, 0, 3},
  };
  for (unsigned i = 0; i < sizeof(of_both) / sizeof(of_both[0]); ++i)
    if (of_both[i][0] == attribute) { *value = of_both[i][device - 39]; return 0; }
  return 1;
}
"""


def _driver(folder: Path, init_status: int = 0) -> Path:
    """A folder with the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "driver.c").write_text(_DRIVER)
    command = [compiler, "-shared", "-fPIC", f"-DINIT={init_status}", "driver.c", "-o", "libcuda.so.1"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def _asked(driver: Path, *expressions: str) -> list:
    """Values of expressions in a process that finds this driver."""
    program = (
        "import json\nfrom ir.target import Target, TargetError\n"
        "def refusal(device):\n"
        "    try:\n        Target.from_device(device)\n    except TargetError as error:\n        return str(error)\n"
        f"print(json.dumps([{', '.join(expressions)}]))"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_target_without_an_architecture_is_the_device_of_this_machine(tmp_path):
    attrs, by_name, second, host = _asked(
        _driver(tmp_path),
        "Target('cuda').attrs",
        "Target.from_device('cuda:0') == Target('cuda') == Target({'kind': 'cuda'})",
        "Target.from_device('cuda:1').attrs",
        "Target('cuda', host='llvm').host.kind.name",
    )
    assert attrs == {
        "arch": "sm_90a",
        "clock_mhz": 1980,
        "l2_cache_size_bytes": 52428800,
        "max_shared_memory_per_block": 49152,
        "max_shared_memory_per_block_optin": 232448,
        "max_threads_per_block": 1024,
        "memory_gb_per_s": 4916,
        "multi_processor_count": 132,
        "registers_per_block": 65536,
        "shared_memory_per_multiprocessor": 233472,
        "thread_warp_size": 32,
    }
    assert by_name and host == "llvm"
    assert second["arch"] == "sm_53" and second["registers_per_block"] == 32768
    assert "l2_cache_size_bytes" not in second and "memory_gb_per_s" not in second  # not told: 0


def test_what_is_said_of_a_device_goes_before_what_is_found(tmp_path):
    arch, threads, shared, other = _asked(
        _driver(tmp_path),
        "Target('cuda -max_threads_per_block=256').arch",
        "Target('cuda -max_threads_per_block=256').max_threads_per_block",
        "Target('cuda -from_device=1').shared_memory_per_multiprocessor",
        "Target('cuda -arch=sm_75').attrs",
    )
    assert (arch, threads, shared, other) == ("sm_90a", 256, 65536, {"arch": "sm_75"})


def test_a_device_is_named_as_it_prints_itself_too(tmp_path):
    same, kind, other = _asked(
        _driver(tmp_path),
        "Target.from_device('cuda(1)') == Target.from_device('cuda:1')",
        "Target('cuda').device_type",
        "Target('llvm').device_type",
    )
    assert same and (kind, other) == ("cuda", "cpu")


def test_another_driver_is_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPSMITH_CUDA_DRIVER", str(_driver(tmp_path) / "libcuda.so.1"))
    (found,) = _asked(tmp_path / "nothing", "Target('cuda').arch")
    assert found == "sm_90a"


def test_a_device_that_is_not_there_is_an_error(tmp_path):
    refused, found = _asked(_driver(tmp_path), "refusal('cuda:7')", "Target('cuda -from_device=7').attrs")
    assert refused == "there is no CUDA device 7 on this machine"
    assert found == {"arch": "sm_80"}


def test_a_driver_that_does_not_start_is_as_none(tmp_path):
    attrs, refused = _asked(_driver(tmp_path, init_status=100), "Target('cuda').attrs", "refusal('cuda')")
    assert attrs == {"arch": "sm_80"}
    assert refused == "there is no CUDA device 0 on this machine"
