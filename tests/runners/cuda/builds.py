"""Builders whose candidates go wrong on a device in every way that a kernel can."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ir import IRModule, structural_hash
from runners.cuda.kernel import DeviceKernel
from runners.cuda.module import CudaModule, build_module
from runners.native import build_native
from runners.verify import entry

FAULT = "test.fault"
"""The attribute that says what is wrong with a candidate."""
_INSERTED = {
    "illegal access": "*(volatile float*)(1ull << 40) = 1.0f;",
    "endless loop": "for (volatile int i = 0; i >= 0;) {}",
    "trap": "__trap();",
}


FAULTS_FOLDER = "LOOPSMITH_TEST_FAULTS"
"""The environment variable that names where :func:`build_with_faults_in_turn` notes which candidate has which fault."""
IN_TURN = ("illegal access", "endless loop", "too much shared memory", "wrong element")


def build_with_faults_in_turn(mod: Any, target: Any) -> Any:
    """Build for the device: the first candidates that come have one fault each, wherever they are built again."""
    folder, key = Path(os.environ[FAULTS_FOLDER]), f"{structural_hash(mod):x}"
    if "thread_binding" not in mod.script():
        return build_faulty(mod, target)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / f"{key}.fault"
        if not note.exists():
            given = len(list(folder.glob("*.fault")))
            note.write_text(IN_TURN[given] if given < len(IN_TURN) else "")
        fault = note.read_text()
    return build_faulty(with_fault(mod, fault) if fault else mod, target)


def with_fault(mod: Any, fault: str) -> IRModule:
    return mod.replace(functions={var: func.with_attr(FAULT, fault) for var, func in mod.functions.items()})


def build_faulty(mod: Any, target: Any) -> Any:
    """Build for the device, with what the program's attribute says put into the text of its kernels."""
    func = entry(mod)
    if "thread_binding" not in mod.script() and "launch_thread" not in mod.script():
        return build_native(mod, "cpu")  # the unscheduled program
    module, fault = build_module(mod, target, compiled=False), func.attrs.get(FAULT)
    if fault is None:
        return DeviceKernel(module, module.functions()[0])
    if fault == "no memory":
        return _Greedy(module, module.functions()[0])
    text = module.source()
    if fault == "wrong result":
        text = text.replace("* 2.0f", "* 2.5f")
    elif fault == "beside its output":
        text = text.replace("C[", "C[128 + ", 1)
    elif fault == "wrong element":
        return _Wrong(module, module.functions()[0])
    elif fault == "too much shared memory":
        return _Shared(module, module.functions()[0])
    else:
        text = text.replace("= threadIdx.x;", f"= threadIdx.x; {_INSERTED[fault]}", 1)
    assert text != module.source()
    changed = CudaModule(replace(module.device_source, text=text), module.host, module.arch)
    return DeviceKernel(changed, changed.functions()[0])


class _Wrong(DeviceKernel):
    def timed(self, byte, *arrays):
        secs = super().timed(byte, *arrays)
        arrays[-1].flat[-1] += 1
        return secs


class _Greedy(DeviceKernel):
    def timed(self, byte, *arrays):
        from runners.cuda.memory import allocator
        from runners.cuda.place import current_device

        allocator(current_device()).allocate(1 << 40)
        return time.perf_counter()


class _Shared(DeviceKernel):
    def timed(self, byte, *arrays):
        from runners.cuda.place import current_device

        of = current_device()
        kernel = next(iter(self._module.kernels_on(of).values()))
        kernel._dynamic.allow(1 << 20)
        return time.perf_counter()
