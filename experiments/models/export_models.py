"""Export the benchmark architectures from PyTorch to ONNX, by either of PyTorch's exporters, and as exported programs.

``python -m experiments.models.export_models --models resnet18 bert_base --exporter both`` writes
``<out>/<model>[-small].<exporter>.onnx`` (git-ignored) with random seeded weights, and beside each the ``.pt2`` that
``torch.export.save`` makes of the same module. The importer must take both forms of ONNX:
the dynamo exporter emits recent opsets and fused operators, the TorchScript one decomposes and leaves shape
arithmetic in the graph.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import torch
from torch._export.serde.serialize import SerializeError

from . import library_models, torch_models

EXPORTERS = ("dynamo", "torchscript")
DEFAULT_OUT = Path(__file__).parents[1] / "out" / "models"


def export(
    name: str, out: Path = DEFAULT_OUT, *, exporter: str = "dynamo", small: bool = False, seed: int = 0
) -> Path:
    """Export one model and return the path of its ONNX file.

    Parameters
    ----------
    name
        One of ``torch_models.FULL`` or ``library_models.MODELS``.
    out
        The folder to write to; it is made when missing.
    exporter
        ``dynamo`` or ``torchscript``.
    small
        The test configuration instead of the published one; models of libraries have none.
    seed
        Seeds the weights and the inputs that the exporter traces with.
    """
    if exporter not in EXPORTERS:
        raise SystemExit(f"no exporter called {exporter!r}; there are: {', '.join(EXPORTERS)}")
    model, inputs = _model_and_inputs(name, small, seed)
    outputs = ["output", "k_cache_out", "v_cache_out"] if name == "llama_block" else ["output"]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}{'-small' if small else ''}.{exporter}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        # Both exporters warn of their own deprecations, which no reader of the output can act on.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=outputs,
            dynamo=exporter == "dynamo",
            **({"external_data": False, "verbose": False} if exporter == "dynamo" else {}),
        )
        _save_program(model, tuple(inputs.values()), path.with_suffix(".pt2"))
    return path


def _save_program(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> None:
    """The module as an exported program. What transformers does with trees of arguments is kept as a call that cannot be stored, unless
    PyTorch reads the source (strict)."""
    try:
        torch.export.save(torch.export.export(model, inputs), path)
    except SerializeError:
        torch.export.save(torch.export.export(model, inputs, strict=True), path)


def _model_and_inputs(name: str, small: bool, seed: int) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    configs = torch_models.SMALL if small else torch_models.FULL
    if name in configs:
        config = configs[name]
        return torch_models.build(config, seed), torch_models.example_inputs(config, seed)
    if name in library_models.MODELS and not small:
        return library_models.build(name, seed), library_models.example_inputs(name, seed)
    known = [*configs, *([] if small else library_models.MODELS)]
    raise SystemExit(
        f"no model called {name!r}{' with a small configuration' if small else ''}; there are: {', '.join(known)}"
    )


def export_for_peers(name: str, out: str, small: bool) -> str:
    """One model as the harness wants it, in a process of its own."""
    return str(export(name, Path(out), small=small))


def main() -> None:
    """Command line; prints one line per file written."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(torch_models.FULL),
        choices=[*torch_models.FULL, *library_models.MODELS],
    )
    parser.add_argument("--exporter", default="both", choices=[*EXPORTERS, "both"])
    parser.add_argument(
        "--small", action="store_true", help="the test configurations instead of the full ones"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    for name in args.models:
        for exporter in EXPORTERS if args.exporter == "both" else [args.exporter]:
            path = export(name, args.out, exporter=exporter, small=args.small, seed=args.seed)
            print(f"{path}  {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
