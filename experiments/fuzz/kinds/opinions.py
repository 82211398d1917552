"""The references of operators against PyTorch."""

from __future__ import annotations

import argparse

from ..kind import KINDS, Kind
from ..relax.opinions import asked, disagreement
from ..verdict import Verdict, crash


@KINDS.register("opinions")
class Opinions(Kind):
    """single operators: the numpy references that Relax modules are judged by agree with PyTorch"""

    def show(self, seed: int, options: argparse.Namespace) -> str:
        return str(asked(seed))

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        question = asked(seed)
        name = question.opinion.name
        try:
            difference = disagreement(question)
        except Exception as error:  # any error is a verdict
            return crash(name, error)
        return Verdict("disagrees", difference, name) if difference else Verdict("ok")
