"""Programs are compiled once: what the key covers, damaged entries, other processes, and the bound of the folder."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from ir.codegen.cuda import cache as module
from ir.codegen.cuda.cache import KernelCache, compile_cached, default_cache
from ir.codegen.error import CudaCompileError

pytestmark = pytest.mark.usefixtures("nvrtc")

SOURCE = 'extern "C" __global__ void f(float* x) { int unused; x[0] = FACTOR; }'
OPTIONS = ("-DFACTOR=3",)


def _counts(cache: KernelCache) -> tuple[int, int, int]:
    return cache.hits, cache.misses, cache.damaged


def test_a_program_is_found_again_with_all_that_was_said_of_it(tmp_path):
    cache = KernelCache(tmp_path / "made" / "when needed")
    first = cache.compile(SOURCE, "sm_80", options=OPTIONS, kernels=["f"])
    assert _counts(cache) == (0, 1, 0)
    again = KernelCache(cache.folder).compile(SOURCE, "sm_80", options=OPTIONS, kernels=["f"])
    assert again == first
    assert again.resources["f"].spill_store_bytes == 0 and again.warnings and again.symbols == {"f": "f"}
    assert cache.compile(SOURCE, "sm_80", options=OPTIONS, kernels=["f"]) == first
    assert _counts(cache) == (1, 1, 0)


def test_whatever_changes_the_code_is_part_of_the_key(tmp_path, monkeypatch):
    cache = KernelCache(tmp_path)
    cache.compile(SOURCE, "sm_80", options=OPTIONS)
    cache.compile(SOURCE + " ", "sm_80", options=OPTIONS)
    cache.compile(SOURCE, "sm_86", options=OPTIONS)
    cache.compile(SOURCE, "sm_80", options=("-DFACTOR=4",))
    cache.compile(SOURCE, "sm_80", options=("-DFACTOR=4", "-DB"))
    cache.compile(SOURCE, "sm_80", options=OPTIONS, name="other.cu")
    cache.compile(SOURCE, "sm_80", options=OPTIONS, kernels=["f"])
    monkeypatch.setattr(module, "compiler_identity", lambda: "another compiler")
    cache.compile(SOURCE, "sm_80", options=OPTIONS)
    assert _counts(cache) == (0, 8, 0)


def test_programs_that_are_wrong_are_not_kept(tmp_path):
    cache = KernelCache(tmp_path)
    for _ in range(2):
        with pytest.raises(CudaCompileError):
            cache.compile("nothing", "sm_80")
    assert list(tmp_path.iterdir()) == [] and _counts(cache) == (0, 0, 0)


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "other format", "header"])
def test_a_damaged_entry_is_compiled_again(tmp_path, damage):
    cache = KernelCache(tmp_path)
    first = cache.compile(SOURCE, "sm_80", options=OPTIONS)
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(
        {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "changed": whole[:-1] + bytes([whole[-1] ^ 1]),
            "other format": b"something else" + whole,
            "header": whole[:10],
        }[damage]
    )
    assert cache.compile(SOURCE, "sm_80", options=OPTIONS).resources == first.resources
    assert _counts(cache) == (0, 2, 1)
    cache.compile(SOURCE, "sm_80", options=OPTIONS)
    assert _counts(cache) == (1, 2, 1)


def test_the_folder_keeps_what_was_used_last(tmp_path):
    cache = KernelCache(tmp_path)
    names = [f"f{number}.cu" for number in range(4)]
    for age, name in enumerate(reversed(names)):
        cache.compile(SOURCE, "sm_80", options=OPTIONS, name=name)
        for entry in tmp_path.iterdir():
            if entry.stat().st_mtime > 1000:
                os.utime(entry, (age + 1, age + 1))  # f3 is the oldest
    cache.compile(SOURCE, "sm_80", options=OPTIONS, name="f3.cu")  # found, and so the newest
    assert _counts(cache) == (1, 4, 0)
    cache.max_bytes = int(2.5 * max(entry.stat().st_size for entry in tmp_path.iterdir()))
    cache.compile(SOURCE, "sm_80", options=OPTIONS, name="f4.cu")
    assert len(list(tmp_path.iterdir())) == 2
    for name in ("f3.cu", "f4.cu"):
        cache.compile(SOURCE, "sm_80", options=OPTIONS, name=name)
    assert _counts(cache) == (3, 5, 0)


def test_what_a_killed_process_left_is_removed_after_an_hour_and_no_other_files(tmp_path):
    old, new, foreign = tmp_path / "old.part", tmp_path / "new.part", tmp_path / "notes.txt"
    for file in (old, new, foreign):
        file.write_bytes(b"x")
        os.utime(file, (1, 1))
    os.utime(new)
    KernelCache(tmp_path).compile(SOURCE, "sm_80", options=OPTIONS)
    assert not old.exists() and new.exists() and foreign.exists()
    KernelCache(tmp_path).clear()
    assert list(tmp_path.iterdir()) == [foreign]


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    cache = KernelCache(tmp_path / "file")
    for _ in range(2):
        assert cache.compile(SOURCE, "sm_80", options=OPTIONS).cubin
    assert _counts(cache) == (0, 2, 0)


def test_threads_share_a_folder(tmp_path):
    cache = KernelCache(tmp_path)
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(cache.compile(SOURCE, "sm_80", options=OPTIONS).ptx.encode())
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert cache.hits + cache.misses == 8 and cache.damaged == 0
    assert [file.suffix for file in tmp_path.iterdir()] == [".cuda"]


def test_processes_share_a_folder(tmp_path):
    program = (
        "import sys\nfrom ir.codegen.cuda.cache import compile_cached, default_cache\n"
        f"for number in range(6):\n    compile_cached({SOURCE!r}, 'sm_80', options=[f'-DFACTOR={{number}}'])\n"
        "print(default_cache().damaged, default_cache().hits + default_cache().misses)"
    )
    environment = {**os.environ, "LOOPSMITH_CUDA_CACHE_FOLDER": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=300)[0] for process in running] == ["0 6\n", "0 6\n"]
    assert len(list(tmp_path.iterdir())) == 6


def test_the_users_folder_is_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("LOOPSMITH_CUDA_CACHE_FOLDER", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache().folder == tmp_path / "xdg" / "loopsmith" / "cuda"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache().folder == tmp_path / "home" / ".cache" / "loopsmith" / "cuda"
    monkeypatch.setenv("LOOPSMITH_CUDA_CACHE_FOLDER", str(tmp_path / "named"))
    assert default_cache() is default_cache()
    compile_cached(SOURCE, "sm_80", options=OPTIONS)
    assert len(list((tmp_path / "named").iterdir())) == 1
    monkeypatch.setenv("LOOPSMITH_CUDA_CACHE_FOLDER", "")
    assert default_cache() is None
    assert compile_cached(SOURCE, "sm_80", options=OPTIONS).cubin
    assert not (tmp_path / "home" / ".cache").exists()
