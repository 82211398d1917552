"""``loopsmith inspect``: where a built library comes from, read from its file, which is neither loaded nor run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ir.time_interval import milliseconds
from runners.library_file import read_description

from .console import out, print_json, size_text
from .options import JsonOption


def inspect(
    library: Annotated[Path, typer.Argument(help="A model built by `loopsmith build`.")],
    as_json: JsonOption = False,
) -> None:
    """Tell the provenance of a library: model, records, versions, target and licences. Its checksum is compared; nothing of it is run."""
    description = read_description(library)
    if as_json:
        print_json(_told(description))
        return
    for line in lines_of(library, description):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _told(description: dict[str, Any]) -> dict[str, Any]:
    """What there is to tell, without what only the virtual machine reads."""
    kept = ("format", "prefix", "target", "device", "provenance")
    functions = {
        name: {key: entry[key] for key in ("kind", "params", "outputs", "workspace_bytes") if key in entry}
        for name, entry in description["functions"].items()
        if entry.get("public", True)
    }
    return {**{key: description[key] for key in kept if key in description}, "functions": functions}


def lines_of(library: Path, description: dict[str, Any]) -> list[str]:
    """What there is to tell of a library with a description, for people."""
    target = description.get("target", {})
    provenance = description.get("provenance")
    lines = [f"{library}: {size_text(library.stat().st_size)}, the checksum is right"]
    lines.append(f"target      {target.get('text', '')}")
    lines.append(f"processor   {target.get('machine', '')} {target.get('cpu', '')}")
    lines += [f"function    {_function(name, entry)}" for name, entry in _public(description)]
    lines.append(f"names in C  {description.get('prefix', '')}_...")
    if not isinstance(provenance, dict):
        return [*lines, "provenance  not told: the library was built without the tuner (relax.build)"]
    model, licences = provenance.get("model", {}), provenance.get("licences", {})
    versions = provenance.get("versions", {})
    lines.append(f"model       {model.get('name', '')} {model.get('hash', '')}")
    lines.append(f"built with  {', '.join(f'{name} {version}' for name, version in versions.items())}")
    lines.append(f"licences    {', '.join(f'{name}: {text}' for name, text in licences.items())}")
    lines.append(f"lock        {provenance.get('lock') or 'none'}")
    return [*lines, *_kernel_lines(provenance.get("kernels", []))]


def _public(description: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [item for item in sorted(description["functions"].items()) if item[1].get("public", True)]


def _function(name: str, entry: dict[str, Any]) -> str:
    params = ", ".join(str(param.get("name", "")) for param in entry.get("params", ()))
    return f"{name}({params}), {entry['kind']}"


def _kernel_lines(kernels: list[dict[str, Any]]) -> list[str]:
    width = max((len(str(item.get("name", ""))) for item in kernels), default=0)
    lines = []
    for item in kernels:
        told = str(item.get("source", ""))
        if "record" in item:
            told = f"record {item['record']}  {milliseconds(item['seconds'])} ms"
        lines.append(f"kernel      {item.get('name', ''):{width}}  {told}")
    return lines
