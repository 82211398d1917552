"""What every search strategy must do, whoever implements it: subclass :class:`StrategyContract` and supply ``make``."""

from __future__ import annotations

import json

from cost_models import RandomModel
from database import MemoryDatabase
from ir.tir.analysis import verify_well_formed
from schedules import Schedule, Trace
from tests.programs.expressions import matmul
from tuner import TuneContext
from tuner.search import MeasureCandidate, SearchStrategy


def made_up_seconds(candidate: MeasureCandidate) -> float | None:
    """A time that depends on the decisions only; some candidates fail."""
    digest = int(candidate.row.sum()) * 2654435761 % 1000
    return None if digest % 17 == 0 else 1e-4 + digest * 1e-6


class StrategyContract:
    """Ask and tell until the budget is used up."""

    def make(self) -> SearchStrategy:
        """A new strategy."""
        raise AssertionError("subclasses supply the strategy")

    def start(self, trials: int, batch: int, seed: int = 3) -> SearchStrategy:
        context = TuneContext(matmul(), "cpu", seed=seed)
        strategy = self.make()
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(trials, batch, context.sketches(), MemoryDatabase(), RandomModel(seed=0))
        return strategy

    def rounds(self, strategy: SearchStrategy) -> list[list[MeasureCandidate]]:
        found = []
        while (candidates := strategy.generate_measure_candidates()) is not None:
            found.append(candidates)
            strategy.notify_runner_results(candidates, [made_up_seconds(item) for item in candidates])
            assert len(found) < 100
        return found

    def test_the_budget_is_kept_and_used(self) -> None:
        batches = self.rounds(self.start(20, 8))
        assert sum(map(len, batches)) == 20
        assert max(map(len, batches)) <= 8

    def test_no_candidate_is_proposed_twice(self) -> None:
        strategy = self.start(40, 8)
        keys = [(id(item.sketch), item.row.tobytes()) for batch in self.rounds(strategy) for item in batch]
        assert len(set(keys)) == len(keys)

    def test_every_candidate_becomes_a_program(self) -> None:
        strategy = self.start(8, 8)
        for batch in self.rounds(strategy):
            for item in batch:
                trace = item.trace(strategy.context)
                assert trace is not None
                sch = Schedule(strategy.context.mod)
                Trace.apply_json_to_schedule(json.loads(json.dumps(trace.as_json())), sch)
                assert verify_well_formed(sch.mod)

    def test_the_same_seed_proposes_the_same(self) -> None:
        def run(seed: int) -> list[list[int]]:
            return [item.row.tolist() for batch in self.rounds(self.start(24, 8, seed)) for item in batch]

        assert run(5) == run(5)
        assert run(5) != run(6)

    def test_without_budget_nothing_is_proposed(self) -> None:
        assert self.start(0, 8).generate_measure_candidates() is None
