"""Kernels on a device, against the libraries that people use there: tuned, then timed in turns on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..harness.contestant import Job, run_job, start, summary, take_turns
from ..harness.settings import Settings
from ..operators import data, suite
from ..operators.rows import key
from .coverage import SHAPES

PACKAGE = "experiments.cuda"
ROWS: Mapping[str, Sequence[tuple[int, ...]]] = {
    "bfloat16_product": ((4096, 4096, 4096), (8192, 8192, 8192)),
    "float16_product": ((4096, 4096, 4096),),
    "tf32_product": ((4096, 4096, 4096),),
    "int8_product": ((4096, 4096, 4096),),
    "attention": ((64, 2048, 64),),
    "causal_attention": ((64, 2048, 64),),
    "decode_attention": ((64, 8192, 128),),
    "float16_attention": ((64, 2048, 64),),
    "float16_causal_attention": ((64, 2048, 64),),
    "float16_decode_attention": ((64, 8192, 128),),
    "softmax": ((4096, 4096), (128, 30522)),
    "layer_norm": ((4096, 4096),),
    "rms_norm": ((4096, 4096),),
}
"""Of the suites, at sizes that fill a device."""
PEERS = ("default", "torch", "torch_compile", "torch_max", "cublas", "onnxruntime")
TORCH_MODES = {"torch": "eager", "torch_compile": "compile", "torch_max": "max"}


def rows(emulated: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each row; at small shapes where a device is emulated."""
    for name, shapes in ROWS.items():
        yield from ((name, shape) for shape in ((SHAPES[name],) if emulated else shapes))


def left_out(settings: Settings, known: Sequence[str] = PEERS) -> dict[str, str]:
    """The peers that are asked for and do not run on a device."""
    return {peer: "does not compute on a device here" for peer in settings.peers if peer not in known}


@contextmanager
def on_device(emulated: bool) -> Iterator[None]:
    """Within, processes that are started find the stand-in of a device where one is emulated."""
    if not emulated:
        yield
        return
    from runners.cuda import stand_in

    with stand_in.used(devices=1):
        yield


def measure(name: str, shape: Sequence[int], settings: Settings, emulated: bool = False) -> dict[str, Any]:
    """One row as plain data: times and ratios of all contestants, and what tuning cost.

    Raises:
        RuntimeError: there is no device, or what was built here fails.
    """
    with on_device(emulated):
        return _measure(name, shape, settings, "cuda-emulated" if emulated else "cuda")


def _measure(name: str, shape: Sequence[int], settings: Settings, theme: str) -> dict[str, Any]:
    machine = run_job(Job("device", f"{PACKAGE}.contestants:device"))
    row: dict[str, Any] = {"name": name, "shape": list(shape)}
    database = settings.database(theme)
    tuning: dict[str, Any] = {}
    if database is not None:
        options = {**row, "trials": settings.trials, "database": database, "seed": settings.seed}
        tuning["loopsmith"] = run_job(Job("loopsmith", f"{PACKAGE}.contestants:tune", options))
    arrays = settings.scratch / "rows" / f"{key(name, shape).replace(' ', '-')}.npz"
    data.write(arrays, name, shape)
    jobs = jobs_of("contestants", {**row, "arrays": str(arrays)}, database, settings)
    return {
        "row": name,
        "shape": list(shape),
        "machine": machine,
        "flops": suite.flops(name, shape),
        "bytes": suite.bytes_moved(name, shape),
        "tuning": tuning,
        **compared(key(name, shape), jobs, settings),
    }


def jobs_of(
    module: str, row: dict[str, Any], database: str | None, settings: Settings, known: Sequence[str] = PEERS
) -> list[Job]:
    """Ourselves, and those of the peers that are known; ``module`` of this package prepares them, a function for each."""
    ours = f"{PACKAGE}.{module}:loopsmith"
    jobs = [Job("loopsmith", ours, {**row, "database": database})]
    for peer in settings.peers:
        if peer == "default":
            jobs.append(Job(peer, ours, {**row, "database": None}))
        elif peer in TORCH_MODES:
            jobs.append(Job(peer, f"{PACKAGE}.{module}:torch", {**row, "mode": TORCH_MODES[peer]}))
        elif peer in known:
            jobs.append(Job(peer, f"{PACKAGE}.{module}:{peer}", row))
    return jobs


def compared(
    what: str, jobs: Sequence[Job], settings: Settings, known: Sequence[str] = PEERS
) -> dict[str, Any]:
    """Times and ratios of contestants that took turns, ourselves the first, as a part of a row.

    Raises:
        RuntimeError: what was built here fails.
    """
    with start(jobs) as everyone:
        disturbed = take_turns(everyone, settings.rounds)
        ours = everyone[0]
        if ours.failed is not None:
            raise RuntimeError(f"{what}: {ours.failed}\n{ours.log()[-2000:]}")
        return {
            "trials": settings.trials,
            "disturbed": disturbed,
            "left_out": left_out(settings, known),
            "contestants": summary(everyone, ours),
        }
