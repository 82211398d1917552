"""Random ONNX models: what is imported and built against ONNX Runtime and ONNX's reference evaluator."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..children import judged_alone
from ..kind import KINDS, Kind, count
from ..verdict import Verdict

if TYPE_CHECKING:
    from ..onnx_models import RandomModel


@KINDS.register("onnx")
class Onnx(Kind):
    """random ONNX models: what is imported and built computes what ONNX Runtime does"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=count, default=5, help="nodes at most (default: 5)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        from ..onnx_models import random_model

        return self._text(random_model(seed, options.size))

    def _text(self, made: RandomModel) -> str:
        import onnx

        inputs = "\n".join(f"# {name} = {array.tolist()}" for name, array in made.inputs.items())
        return f"{onnx.printer.to_text(made.model)}\n{inputs}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        from ..onnx_models import random_model

        return self._judged(random_model(seed, options.size))

    def _judged(self, made: RandomModel) -> Verdict:
        from ..onnx_oracle import judge_model

        return judge_model(made)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        from ..onnx_models import random_model
        from ..onnx_reduce import reduced

        def fails(made: RandomModel) -> bool:
            found = judged_alone(lambda: self._judged(made))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(random_model(seed, options.size), fails)
        return f"{self._text(small)}\n# {judged_alone(lambda: self._judged(small))}"


@KINDS.register("onnx-export")
class OnnxExport(Onnx):
    """random ONNX models imported, exported and imported again: the same numbers, also in ONNX Runtime"""

    def _judged(self, made: RandomModel) -> Verdict:
        from ..onnx_oracle import judge_export

        return judge_export(made)
