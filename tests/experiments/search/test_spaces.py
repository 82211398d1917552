"""Stored spaces: what comes back from a file, how they are measured in parts, and searches replayed on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from cost_models import PerStoreFeature, PriorModel
from database import MemoryDatabase
from experiments.search.compare import Exhaustive
from experiments.search.replay import StoredGenerator, TraceBuilder, judge, replay, replaying_runner
from experiments.search.spaces import SpaceMeasurement
from experiments.search.stored_space import FOLDER, StoredSpace, StoredSpaceError, Structure, load_all
from ir import structural_equal, structural_hash
from runners import ReplayBuilder, ReplayRunner, RunnerResult
from schedules.population import Sketch
from tuner import EvolutionarySearch, ReplayTrace, tune_tasks

ROW = ("GMM", (1, 16, 16, 16))


def _seconds(program: object) -> float:
    return 1e-6 * (2 + structural_hash(program) % 1000 / 1000)  # type: ignore[arg-type]


def _measurement(path: Path, count: int = 40, complete: int = 10) -> SpaceMeasurement:
    return SpaceMeasurement(*ROW, path, count, complete)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces") / "GMM.npz"
    assert _measurement(path).run(ReplayBuilder(), ReplayRunner(_seconds), float("inf"))
    return path


def test_a_file_brings_everything_back(made: Path) -> None:
    space = StoredSpace.load(made)
    measured = _measurement(made)
    assert structural_equal(space.mod, measured.workload.mod) and str(space.target) == str(measured.target)
    assert space.changes() == [] and len(space) == 40 and not space.complete
    assert {space.sources[item] for item in space.source} == {"uniform", "estimate", "mutant"}
    extractor = PerStoreFeature()
    for number, (ours, rebuilt) in enumerate(zip(measured.sketches, space.sketches(), strict=True)):
        rows, seconds = space.rows_of(number)
        assert len(rows) == len(np.unique(rows, axis=0)) and ours.valid(rows).all()
        np.testing.assert_array_equal(
            extractor.features_of(ours.skeleton(rows), space.target).values,
            extractor.features_of(rebuilt.skeleton(rows), space.target).values,
        )
        for row, secs in zip(rows[:3], seconds, strict=False):
            sch = ours.materialize(space.mod, row)
            measured.context.space_generator.postprocess(sch, space.target)
            assert secs == pytest.approx(_seconds(sch.mod), rel=0.5)  # packed weights are parameters there


def test_a_small_space_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "softmax.npz"
    measurement = SpaceMeasurement("softmax", (4, 64), path, 5, 1000)
    assert measurement.run(ReplayBuilder(), ReplayRunner(_seconds), float("inf"))
    space = StoredSpace.load(path)
    assert space.complete and len(space) == sum(sketch.size() for sketch in measurement.sketches)


class _Failing(ReplayRunner):
    """Every third candidate crashes."""

    def _one(self, item: object) -> RunnerResult:
        result = super()._one(item)  # type: ignore[arg-type]
        return result if self.count % 3 else RunnerResult(None, "crashed")


def test_an_interrupted_measurement_goes_on_where_it_ended(tmp_path: Path, made: Path) -> None:
    path = tmp_path / "GMM.npz"
    builder, runner = ReplayBuilder(), ReplayRunner(_seconds)
    first = _measurement(path)
    batches = first.batches()
    source, batch = next(batches)
    first.measure(batch[:10], builder, runner)
    first.sources.update(dict.fromkeys(batch[:10], source))
    first.save()
    assert not _measurement(path).run(builder, runner, time.monotonic() - 1)
    assert _measurement(path).run(builder, runner, float("inf"))
    again, whole = StoredSpace.load(path), StoredSpace.load(made)
    np.testing.assert_array_equal(again.decisions, whole.decisions)
    count = runner.count
    assert _measurement(path).run(builder, runner, float("inf")) and runner.count == count


def test_failures_are_kept_with_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "GMM.npz"
    _measurement(path).run(ReplayBuilder(), _Failing(_seconds), float("inf"))
    space = StoredSpace.load(path)
    failed = ~np.isfinite(space.seconds)
    assert 0 < failed.sum() < len(space)
    assert {space.kinds[item] for item in space.kind[failed]} == {"run_error"}


def test_other_rules_are_noticed_and_other_primitives_refused(made: Path) -> None:
    space = StoredSpace.load(made)
    kept = space.structures[0]
    space.structures[0] = Structure("0" * 16, "old", kept.trace, kept.choices)
    assert space.changes()[0] == "old is not made any more" and " is new" in space.changes()[1]
    space.structures[0] = Structure(kept.key, kept.name, kept.trace, (((1, 1, 1, 16),), *kept.choices[1:]))
    assert space.changes() == [f"{kept.name} has other tables"]
    insts, decisions = kept.trace
    broken = [[("NoSuchStep" if name == "Split" else name), *rest] for name, *rest in insts]
    with pytest.raises(StoredSpaceError, match="does not replay: .*NoSuchStep.*measure the space again"):
        Structure(kept.key, kept.name, [broken, decisions], kept.choices).sketch(space.mod)
    with pytest.raises(StoredSpaceError, match="decisions today and 1 in the file"):
        Structure(kept.key, kept.name, kept.trace, kept.choices[:1]).sketch(space.mod)


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(StoredSpaceError, match=r"broken\.npz is no stored space"):
        StoredSpace.load(path)
    with pytest.raises(StoredSpaceError, match="no stored space begins with 'XYZ'; there are"):
        load_all(names=["XYZ"])


def test_a_whole_tuning_run_is_answered_from_a_file(made: Path) -> None:
    space = StoredSpace.load(made)
    generator, store = StoredGenerator([space]), MemoryDatabase()
    context = generator.context(space, seed=0)
    runner = replaying_runner(generator.measured(structural_hash(space.mod)))
    tune_tasks(
        tasks=[context], database=store, max_trials_global=12, builder=TraceBuilder(), runner=runner,
        cost_model="prior", measure_callbacks=[],
    )  # fmt: skip
    records = store.get_all_tuning_records()
    assert len(records) == 12 and all(item.is_valid() for item in records)
    assert {np.float32(item.mean_secs) for item in records} <= set(space.seconds)


@pytest.mark.parametrize(
    "make", [EvolutionarySearch, ReplayTrace, Exhaustive, lambda: EvolutionarySearch(exhaustive_limit=0)]
)
def test_every_strategy_stays_within_what_was_measured(made: Path, make: object) -> None:
    space = StoredSpace.load(made)
    generator = StoredGenerator([space])
    history = replay(generator.context(space, 0), make(), PriorModel(), 200, 8)  # type: ignore[operator]
    assert len(history) == len(space) or "lambda" in str(make)
    assert min(history) == pytest.approx(space.best_secs, rel=1e-6) and len(history) <= len(space)


def _sketches(space: StoredSpace) -> Iterator[Sketch]:
    yield from StoredGenerator([space]).measured(structural_hash(space.mod))


def test_measured_sketches_move_between_measured_rows(made: Path) -> None:
    generator = np.random.default_rng(0)
    for sketch in _sketches(StoredSpace.load(made)):
        rows = sketch.sample(8, generator)
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert sketch.valid(sketch.mutate(rows, generator)).all()
        assert sketch.valid(sketch.crossover(rows, rows[::-1], generator)).all()
        assert not sketch.valid(rows + 10_000).any()
        near = sketch.neighbours(rows[0])
        assert len(near) and sketch.valid(near).all() and not (near == rows[0]).all(axis=1).any()


def _trials(history: Sequence[float]) -> dict[float, int | None]:
    return judge(history, 1.0, 8).trials


def test_judging_a_history() -> None:
    assert _trials([2.0, float("inf"), 1.04, 1.0]) == {0.9: 3, 0.95: 3, 0.99: 4}
    assert _trials([2.0, 1.2]) == {0.9: None, 0.95: None, 0.99: None}
    outcome = judge([float("inf"), 2.0], 1.0, 4)
    assert outcome.area == pytest.approx(1.5 / 4) and outcome.regret == 1.0 and outcome.failed == 1


def test_the_stored_spaces_can_be_searched_and_are_small() -> None:
    paths = list(FOLDER.glob("*.npz"))
    assert len(paths) >= 8 and sum(path.stat().st_size for path in paths) < 5_000_000
    for space in load_all():
        assert space.facts["machine"]["cpu"] and len(space) > 40
        assert all(
            sketch.n_columns == len(item.choices) for sketch, item in zip(space.sketches(), space.structures)
        )
