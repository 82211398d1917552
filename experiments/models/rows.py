"""Whole models: tuned, then timed in turns with ONNX Runtime, PyTorch, torch.compile and TVM on the same inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..harness.contestant import Job, run_job, start, summary, take_turns
from ..harness.settings import Settings

PACKAGE = "experiments.models"
NAMES = ("resnet18", "mobilenet_v2", "bert_base", "llama_block")
MORE_NAMES = (
    "resnet50", "efficientnet_b0", "mobilenet_v3_large", "densenet121", "inception_v3", "regnet_y_400mf", "vit_b_16", "swin_t",
    "convnext_tiny", "gpt2", "t5_encoder", "whisper_encoder",
)  # fmt: skip
"""Of torchvision and transformers, which need not be installed to measure the others."""
_RUNTIMES = {"onnxruntime": "onnxruntime", "torch": "torch", "torch_compile": "torch.compile"}
_OF_OPERATORS = {
    "torch_max": "is measured on operators only; of a whole model, torch_compile is",
    "numpy": "has no whole models",
}


def is_model(item: str) -> bool:
    """Whether an argument names a model: one of ours, also ``-small``, or an ONNX file."""
    return item.removesuffix("-small") in NAMES or item in MORE_NAMES or item.endswith(".onnx")


def left_out(settings: Settings) -> dict[str, str]:
    """The peers that are asked for and cannot run a whole model, and why."""
    return {peer: _OF_OPERATORS[peer] for peer in settings.peers if peer in _OF_OPERATORS}


def path_of(item: str, settings: Settings) -> Path:
    """The ONNX file of a model; ours are exported by PyTorch when they are first wanted.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if item.endswith(".onnx"):
        path = Path(item)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        return path
    path = settings.scratch / "models" / f"{item}.dynamo.onnx"
    if not path.is_file() or not path.with_suffix(".pt2").is_file():
        name, small = item.removesuffix("-small"), item.endswith("-small")
        options = {"name": name, "out": str(path.parent), "small": small}
        run_job(Job("export", f"{PACKAGE}.export_models:export_for_peers", options))
    return path


def measure(item: str, settings: Settings) -> dict[str, Any]:
    """One model as plain data."""
    path = path_of(item, settings)
    threads, model = settings.threads, str(path)
    arrays = str(settings.scratch / "models" / f"{path.stem}.npz")
    run_job(Job("reference", f"{PACKAGE}.peers:reference", {"model": model, "arrays": arrays}))
    database = settings.database(path.stem)
    tuned = {"model": model, "trials": settings.trials, "threads": threads, "seed": settings.seed}
    tuning: dict[str, Any] = {}
    if database is not None:
        ours = Job("loopsmith", f"{PACKAGE}.peers:tune", {**tuned, "database": database}, threads=threads)
        tuning["loopsmith"] = run_job(ours)
    row: dict[str, Any] = {"model": model, "arrays": arrays, "threads": threads}
    jobs = [Job("loopsmith", f"{PACKAGE}.peers:loopsmith", {**row, "database": database}, threads=threads)]
    for peer in settings.peers:
        if peer == "tvm":
            folder = str(settings.scratch / "tvm" / f"{path.stem}-{settings.trials}-trials-{threads}-threads")
            python = settings.python_of(peer)
            try:
                options = {**tuned, "folder": folder}
                tuning[peer] = run_job(Job(peer, f"{PACKAGE}.tvm_peer:tune", options, python, threads))
            except RuntimeError as error:
                tuning[peer] = {"failed": str(error)[-500:]}
            options = {**row, "folder": folder}
            jobs.append(Job(peer, f"{PACKAGE}.tvm_peer:call", options, python, threads))
        elif peer == "default":
            jobs.append(Job(peer, f"{PACKAGE}.peers:loopsmith", {**row, "database": None}, threads=threads))
        elif peer not in _OF_OPERATORS:
            options = {**row, "peer": _RUNTIMES[peer]}
            jobs.append(Job(peer, f"{PACKAGE}.peers:compared", options, threads=threads))
    with start(jobs) as everyone:
        disturbed = take_turns(everyone, settings.rounds)
        if everyone[0].failed is not None:
            raise RuntimeError(f"{item}: {everyone[0].failed}\n{everyone[0].log()[-2000:]}")
        return {
            "row": path.stem.removesuffix(".dynamo"),
            "trials": settings.trials,
            "threads": threads,
            "disturbed": disturbed,
            "tuning": tuning,
            "left_out": left_out(settings),
            "contestants": summary(everyone, everyone[0]),
        }
