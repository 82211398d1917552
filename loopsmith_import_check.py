"""Whether Python finds loopsmith's packages, or files of the same names that lie before them on the path.

The packages are called ``ir``, ``schedules``, ``database`` and so on, and a script's own folder comes first on ``sys.path``: a
user's module ir beside the script would be imported by ``tuner`` instead of ours, and fail somewhere inside of it. Each package
asks here before it imports another one. The module stands on its own, with a name that nobody else has, for it must be found.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

NEEDS = {
    "ir": (),
    "schedules": ("ir",),
    "cost_models": ("ir", "schedules"),
    "database": ("ir", "schedules"),
    "runners": ("ir",),
    "tuner": ("ir", "schedules", "cost_models", "database", "runners"),
}
"""Which of the others each package imports; what it does not import may have any name."""


def require_needs(package: str, file: str) -> None:
    """Refuse to go on where another file would be imported in the place of a package that this one needs.

    Args:
        package: the package that is being imported.
        file: its ``__file__``; what it needs lies beside its folder.

    Raises:
        ImportError: something else is found under the name of one of them; the message says what, and how to mend it.
    """
    home = Path(file).absolute().parent.parent  # not where links lead: packages may be linked into one folder
    for needed in NEEDS[package]:
        found = _found(needed)
        if found is None or not (home / needed).is_dir() or found.parent.samefile(home):
            continue  # a built artefact runs where the compiler is not installed
        what = found if found.is_file() else found / "__init__.py"
        raise ImportError(
            f"{what} is found before loopsmith's package {needed!r}, which {package!r} needs (it is {home / needed}): a file or a"
            f" folder beside your script, or earlier on sys.path, has the same name. Rename it, or keep your own modules inside of a"
            f" package; where it only happens to lie in the folder, start Python with -P (or PYTHONSAFEPATH=1), which leaves the"
            f" script's folder out",
            name=needed,
            path=str(what),
        )


def _found(name: str) -> Path | None:
    """The file, or the folder of the package, that ``import`` takes for a name; None where there is none."""
    module = sys.modules.get(name)
    spec = PathFinder.find_spec(name) if module is None else getattr(module, "__spec__", None)
    origin = getattr(module, "__file__", None) if spec is None else spec.origin
    if origin is None:  # a folder without an __init__.py counts only where nothing else has the name
        return None
    path = Path(origin).absolute()
    return path.parent if path.name.startswith("__init__.") else path
