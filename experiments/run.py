"""Measure loopsmith against its peers and against the machine: one command, one row or all of them.

    python experiments/run.py operators                          every row of the first operator suite
    python experiments/run.py second                             every row of the second: what lies between the products
    python experiments/run.py C2D GMM:1,1024,1024,1024 softmax   one operator, one shape
    python experiments/run.py tensor_cores                       products and attention in the dtypes of tensor cores, on the processor
    python experiments/run.py cuda                               kernels on a CUDA device; cuda-emulated tries it without one
    python experiments/run.py cuda-models                        three models there; cuda-models-emulated likewise
    python experiments/run.py models                             the four whole models; or resnet18, or any file.onnx
    python experiments/run.py more-models                        twelve of torchvision and transformers; or resnet50
    python experiments/run.py search                             the search itself, on some rows; or search:C2D
    python experiments/run.py foundation                         what nodes, script, code generation and parallel loops cost
    python experiments/run.py all --trials 64 --peers torch,torch_compile,onnxruntime,tvm,numpy

Every figure is a median of rounds in which all contestants take turns, each in a process of its own. Results go to
experiments/results/<theme>.json, .md and .png; a row measured again takes the place of the old one, so that long runs can be
done in parts. One that fails keeps the old one, and is named at the end. Tuning records are kept in experiments/out: a second
run only measures.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.harness import results, tables
from experiments.harness.settings import DEFAULT_PEERS, PEERS, TVM_VARIABLE, Settings, parse_peers

SEARCH_ROWS = ("C2D:1,14,14,256,256,3,1,1", "GMM:1,1024,1024,1024", "DEP", "SFM")
Task = tuple[str, str, Callable[[], dict[str, Any]]]
"""(theme, key of the row, how to measure it)."""


def tasks(items: list[str], settings: Settings) -> Iterator[Task]:
    """What the arguments ask for.

    Raises:
        KeyError: an argument names nothing that there is.
    """
    from experiments.models import rows as models

    for item in items:
        if item == "all":
            yield from tasks(["operators", "second", "models", "search", "foundation"], settings)
        elif item in ("models", "more-models"):
            yield from tasks(list(models.NAMES if item == "models" else models.MORE_NAMES), settings)
        elif models.is_model(item):
            key = Path(item).stem.removesuffix(".dynamo")
            yield _theme("models", settings), key, lambda item=item: models.measure(item, settings)  # type: ignore[misc]
        elif item in ("cuda", "cuda-emulated"):
            yield from _on_device(item, settings)
        elif item in ("cuda-models", "cuda-models-emulated"):
            yield from _models_on_device(item, settings)
        elif item == "foundation":
            from experiments import foundation

            for name in foundation.THEMES:
                yield "foundation", name, lambda name=name: foundation.measure(name)  # type: ignore[misc]
        elif not settings.trials and item.startswith("search"):
            raise ValueError("the search is measured by its trials: --trials 0 leaves nothing of it")
        elif item == "search" or item.startswith("search:"):
            yield from _search([item.removeprefix("search:")] if ":" in item else list(SEARCH_ROWS), settings)
        else:
            yield from _operators([item], settings)


def _operators(items: list[str], settings: Settings) -> Iterator[Task]:
    from experiments.operators import rows, suite

    for name, shape in suite.parse_rows(items):
        key = rows.key(name, shape)
        theme = _theme(suite.theme(name), settings)
        yield theme, key, lambda name=name, shape=shape: rows.measure(name, shape, settings)  # type: ignore[misc]


def _on_device(theme: str, settings: Settings) -> Iterator[Task]:
    from experiments.cuda import rows
    from experiments.operators.rows import key

    emulated = theme == "cuda-emulated"
    for name, shape in rows.rows(emulated):
        yield (
            _theme(theme, settings),
            key(name, shape),
            lambda name=name, shape=shape: rows.measure(name, shape, settings, emulated),  # type: ignore[misc]
        )


def _models_on_device(theme: str, settings: Settings) -> Iterator[Task]:
    from experiments.cuda import models

    emulated = theme.endswith("-emulated")
    for item in models.SMALL if emulated else models.NAMES:
        yield _theme(theme, settings), item, lambda item=item: models.measure(item, settings, emulated)  # type: ignore[misc]


def _theme(theme: str, settings: Settings) -> str:
    """Where results go: those of default schedules lie beside those of tuning."""
    return theme if settings.trials else f"{theme}-untuned"


def _search(items: list[str], settings: Settings) -> Iterator[Task]:
    from experiments.operators import rows as operators
    from experiments.operators import suite
    from experiments.search import rows

    yield "search", "virtual machine", lambda: rows.machine_calls(settings)
    for name, shape in suite.parse_rows(items):
        key = operators.key(name, shape)
        yield "search", f"speed {key}", lambda name=name, shape=shape: rows.speed(name, shape)  # type: ignore[misc]
    for name, shape in suite.parse_rows(items):
        key = operators.key(name, shape)
        yield "search", f"growth {key}", lambda name=name, shape=shape: rows.growth(name, shape, settings)  # type: ignore[misc]


def report(theme: str, rows: tables.Rows, folder: Path, plot: bool) -> str:
    """Write the table and the plot of a theme, and return the table."""
    text = tables.TABLES[theme.removesuffix("-untuned")](rows)
    (folder / f"{theme}.md").write_text(text + "\n")
    if plot:
        from experiments.harness.plots import PLOTS

        if theme in PLOTS:
            PLOTS[theme](rows, folder / f"{theme}.png")
    return text


def remarks(row: dict[str, Any]) -> Iterator[str]:
    """What was asked for and is not in a row that was measured, and why."""
    if "limits_failed" in row:
        yield f"machine limits: {row['limits_failed']}"
    for peer, why in row.get("left_out", {}).items():
        yield f"{peer}: {why}"
    for peer, outcome in row.get("contestants", {}).items():
        if "failed" in outcome:
            yield f"{peer}: {outcome['failed'].splitlines()[0]}"


def arguments(given: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", help="all, a theme, a row, a model, or an ONNX file")
    parser.add_argument(
        "--trials",
        type=int,
        default=64,
        help="measured trials per row or model (default 64); 0 measures default schedules",
    )
    parser.add_argument("--peers", default=",".join(DEFAULT_PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which all take turns (default 7)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of every contestant")
    parser.add_argument("--seed", type=int, default=0, help="of the search")
    parser.add_argument(
        "--tvm-python",
        default=os.environ.get(TVM_VARIABLE),
        help=f"Python with apache-tvm (or {TVM_VARIABLE})",
    )
    parser.add_argument("--out", type=Path, default=results.DEFAULT, help="folder of the results")
    parser.add_argument(
        "--scratch", type=Path, default=Settings().scratch, help="folder of databases and exported models"
    )
    parser.add_argument("--no-plot", action="store_true", help="without matplotlib")
    options = parser.parse_args(given)
    if options.rounds < 5:
        print("fewer than 5 rounds: good for trying the harness, not for figures", file=sys.stderr)
    return options


def main(given: list[str]) -> int:
    """Measure, write, print; 1 where a row failed, 2 where the arguments mean nothing."""
    options = arguments(given)
    try:
        peers = parse_peers(options.peers, options.tvm_python)
        settings = Settings(
            options.trials,
            options.rounds,
            options.threads,
            peers,
            options.tvm_python,
            options.scratch,
            options.seed,
        )
        todo = list(tasks(options.what, settings))
    except (KeyError, ValueError) as error:
        print(f"run.py: {error.args[0]}", file=sys.stderr)
        return 2
    stores = {theme: results.Results(options.out, theme) for theme, _, _ in todo}
    failed: list[str] = []
    measured: set[str] = set()
    for number, (theme, key, measure) in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {theme}: {key}", file=sys.stderr, flush=True)
        try:
            stores[theme].add(key, measure())
        except KeyboardInterrupt:
            print("interrupted; the rows that were finished are kept", file=sys.stderr)
            failed.append(key)
            break
        except (RuntimeError, FileNotFoundError) as error:  # one row must not cost the others
            failed.append(key)
            print(f"{key}: {error}", file=sys.stderr)
            continue
        measured.add(theme)
        for line in remarks(stores[theme].rows[key]):
            print(f"  {line}", file=sys.stderr)
    for theme in sorted(measured):
        print(f"\n# {theme}\n\n{report(theme, stores[theme].rows, options.out, not options.no_plot)}")
    if failed:
        print(f"not measured, results are as they were: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
