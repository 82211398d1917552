"""Measured design spaces in files: which candidates there are, what each took, and enough to rebuild the search on them.

A file holds one workload on one target of one machine. Its candidates are decisions of *structures* (sketches), and a structure is
kept as its trace and its tables of decisions, not as the rules that made it. So a file outlives the rules: the sketches are rebuilt by
replaying the stored traces, and :meth:`StoredSpace.changes` tells how far today's rules have moved away from them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ir import IRModule, load_json, save_json
from ir.target import Target
from schedules import ScheduleError, Trace
from schedules.population import Sketch, SketchSchedule, TileDecision
from schedules.space import PostOrderApply

FOLDER = Path(__file__).parent / "spaces"
FORMAT = 1
OK = "ok"


class StoredSpaceError(Exception):
    """A file is no stored space, or the structures in it cannot be rebuilt."""


@dataclass(frozen=True)
class Structure:
    """One structure as data.

    Attributes:
        key: hash of the trace's text; see :func:`structure_key`.
        name: which rules made it, for people.
        trace: ``Trace.as_json`` without open decisions.
        choices: per decision the table of a tile [rows][factors], or the candidates of a categorical choice.
    """

    key: str
    name: str
    trace: Any
    choices: tuple[Any, ...]

    @staticmethod
    def of(sketch: Sketch) -> Structure:
        """The description of a sketch."""
        choices = tuple(
            item.table.tolist() if isinstance(item, TileDecision) else list(item.candidates)
            for item in sketch.decisions
        )
        return Structure(structure_key(sketch), sketch.name, sketch.trace.as_json(), choices)

    def sketch(self, mod: IRModule) -> Sketch:
        """The structure replayed on the workload, with the stored tables; its constraints are not known any more.

        Raises:
            StoredSpaceError: today's primitives refuse the trace, or sample otherwise.
        """
        schedule = SketchSchedule(mod, seed=0)
        try:
            Trace.from_json(self.trace).apply_to_schedule(schedule, remove_postproc=True)
        except ScheduleError as error:
            raise StoredSpaceError(
                f"structure {self.name!r} does not replay: {error}; measure the space again"
            ) from error
        sketch = Sketch(schedule, self.name)
        if len(sketch.decisions) != len(self.choices):
            raise StoredSpaceError(
                f"structure {self.name!r} has {len(sketch.decisions)} decisions today and {len(self.choices)} in the file"
            )
        for decision, choices in zip(sketch.decisions, self.choices, strict=True):
            if isinstance(decision, TileDecision):
                decision.table = np.asarray(choices, dtype=np.int64)
            elif decision.candidates != list(choices):
                raise StoredSpaceError(
                    f"decision {decision.name!r} chooses among {decision.candidates}, in the file among {list(choices)}"
                )
        return sketch


def structure_key(sketch: Sketch) -> str:
    """A hash of a sketch's trace: equal for structures that do the same steps.

    Tables are no part of it: a rule that restricts a tile otherwise makes other candidates of the same structure.
    """
    text = json.dumps(sketch.trace.as_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class StoredSpace:
    """Measured candidates of one workload on one target.

    Attributes:
        row: the workload's name and shape, as the suites write it.
        mod: the unscheduled module.
        target: what it was built for.
        structures: S structures.
        structure: which one a candidate belongs to: int8 [N].
        decisions: row numbers and positions, padded with -1: int16 [N, most decisions].
        seconds: the fastest of the undisturbed repeats, infinite for failures: float32 [N].
        kind: positions in ``kinds``: int8 [N].
        kinds: "ok" and the kinds of failures.
        source: positions in ``sources``, how a candidate was chosen: int8 [N].
        sources: names of the ways in which candidates are chosen.
        facts: machine, versions, commit, and how the candidates were drawn and timed; ``complete`` if nothing is left out.
    """

    row: str
    mod: IRModule
    target: Target
    structures: list[Structure]
    structure: np.ndarray
    decisions: np.ndarray
    seconds: np.ndarray
    kind: np.ndarray
    kinds: list[str]
    source: np.ndarray
    sources: list[str]
    facts: dict[str, Any]

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def complete(self) -> bool:
        """Whether every candidate of every structure was measured."""
        return bool(self.facts["complete"])

    @property
    def best_secs(self) -> float:
        """The fastest time."""
        return float(self.seconds.min())

    def sketches(self) -> list[Sketch]:
        """The structures, rebuilt.

        Raises:
            StoredSpaceError: see :meth:`Structure.sketch`.
        """
        return [structure.sketch(self.mod) for structure in self.structures]

    def rows_of(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(decisions int64 [n, columns], seconds float64 [n]) of one structure."""
        mine = self.structure == number
        width = len(self.structures[number].choices)
        return self.decisions[mine, :width].astype(np.int64), self.seconds[mine].astype(np.float64)

    def changes(self) -> list[str]:
        """What today's rules make otherwise, as sentences; empty when they make the stored structures with the stored tables."""
        today = {
            structure_key(sketch): Structure.of(sketch)
            for sketch in PostOrderApply().generate_sketches(self.mod, self.target)
        }
        stored = {item.key: item for item in self.structures}
        found = [f"{item.name} is not made any more" for key, item in stored.items() if key not in today]
        found += [f"{item.name} is new" for key, item in today.items() if key not in stored]
        found += [
            f"{item.name} has other tables"
            for key, item in stored.items()
            if key in today and [list(x) for x in today[key].choices] != [list(x) for x in item.choices]
        ]
        return found

    def save(self, path: Path) -> None:
        """Write the file; what was there stays whole until the new one is."""
        meta = {
            "format": FORMAT,
            "row": self.row,
            "target": self.target.export(),
            "module": json.loads(save_json(self.mod)),
            "structures": [
                {"key": item.key, "name": item.name, "trace": item.trace, "choices": item.choices}
                for item in self.structures
            ],
            "kinds": self.kinds,
            "sources": self.sources,
            "facts": self.facts,
        }
        text = np.frombuffer(json.dumps(meta, separators=(",", ":")).encode(), dtype=np.uint8)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                meta=text,
                structure=self.structure.astype(np.int8),
                decisions=self.decisions.astype(np.int16),
                seconds=self.seconds.astype(np.float32),
                kind=self.kind.astype(np.int8),
                source=self.source.astype(np.int8),
            )
        os.replace(partial, path)

    @staticmethod
    def load(path: Path) -> StoredSpace:
        """The space that :meth:`save` wrote.

        Raises:
            StoredSpaceError: the file is none, or of another format.
        """
        try:
            with np.load(path) as file:
                meta = json.loads(file["meta"].tobytes())
                arrays = {
                    name: file[name] for name in ("structure", "decisions", "seconds", "kind", "source")
                }
        except (KeyError, ValueError, OSError) as error:
            raise StoredSpaceError(f"{path} is no stored space: {error}") from error
        if meta["format"] != FORMAT:
            raise StoredSpaceError(
                f"{path} has format {meta['format']}, this version reads {FORMAT}; measure it again"
            )
        return StoredSpace(
            meta["row"],
            load_json(json.dumps(meta["module"])),
            Target(meta["target"]),
            [
                Structure(item["key"], item["name"], item["trace"], tuple(item["choices"]))
                for item in meta["structures"]
            ],
            kinds=meta["kinds"],
            sources=meta["sources"],
            facts=meta["facts"],
            **arrays,
        )


def load_all(folder: Path = FOLDER, names: Sequence[str] = ()) -> list[StoredSpace]:
    """All stored spaces of a folder in order of their names, or those whose file names begin with one of ``names``.

    Raises:
        StoredSpaceError: a name fits no file.
    """
    paths = sorted(folder.glob("*.npz"))
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            raise StoredSpaceError(
                f"no stored space begins with {name!r}; there are {', '.join(p.stem for p in paths)}"
            )
    return [StoredSpace.load(p) for p in paths if not names or any(p.name.startswith(n) for n in names)]
