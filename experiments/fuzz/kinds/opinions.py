"""The references of operators against PyTorch."""

from __future__ import annotations

import argparse

from ..children import judged_alone
from ..kind import KINDS, Kind
from ..relax.opinions import Asked, asked, disagreement, reduced
from ..verdict import Verdict, crash


@KINDS.register("opinions")
class Opinions(Kind):
    """single operators: the numpy references that Relax modules are judged by agree with PyTorch"""

    def show(self, seed: int, options: argparse.Namespace) -> str:
        return str(asked(seed))

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return _judged(asked(seed))

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """The same question with fewer elements, and simpler ones."""

        def fails(question: Asked) -> bool:
            found = judged_alone(lambda: _judged(question))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(asked(seed), fails)
        return f"{small}\n# {judged_alone(lambda: _judged(small))}"


def _judged(question: Asked) -> Verdict:
    name = question.opinion.name
    try:
        difference = disagreement(question)
    except Exception as error:  # any error is a verdict
        return crash(name, error)
    return Verdict("disagrees", difference, name) if difference else Verdict("ok")
