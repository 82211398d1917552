"""Random ONNX models: what is imported and built against ONNX Runtime and ONNX's reference evaluator."""

from __future__ import annotations

import argparse

from ..kind import KINDS, Kind
from ..verdict import Verdict


@KINDS.register("onnx")
class Onnx(Kind):
    """random ONNX models: what is imported and built computes what ONNX Runtime does"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=int, default=5, help="nodes at most (default: 5)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        import onnx

        from ..onnx_models import random_model

        made = random_model(seed, options.size)
        inputs = "\n".join(f"# {name} = {array.tolist()}" for name, array in made.inputs.items())
        return f"{onnx.printer.to_text(made.model)}\n{inputs}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        from ..onnx_models import random_model
        from ..onnx_oracle import judge_model

        return judge_model(random_model(seed, options.size))


@KINDS.register("onnx-export")
class OnnxExport(Onnx):
    """random ONNX models imported, exported and imported again: the same numbers, also in ONNX Runtime"""

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        from ..onnx_models import random_model
        from ..onnx_oracle import judge_export

        return judge_export(random_model(seed, options.size))
