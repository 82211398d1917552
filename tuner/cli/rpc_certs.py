"""``loopsmith rpc certs``: an authority of a fleet's own, certificates of its machines and people, and tokens of its keys."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ..error import TunerError
from .console import out

_DAYS = 397


def certs(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the fleet, which is made or added to.", metavar="DIR")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of a machine with devices; may be given again."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="Key of devices, which gets a token; may be given again."),
    ] = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or address of the tracker's machine; the first --host where there is no tracker yet."
        ),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(help="Who uses the fleet; one of its own for each person tells them apart."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long new certificates are valid.")] = _DAYS,
) -> None:
    """Make the certificates and tokens of a fleet, or add to them; what is there is never overwritten.

    Each machine and each person gets the folder DIR/trackers/NAME, DIR/servers/NAME or DIR/clients/NAME, and names it by --credentials or
    LOOPSMITH_RPC_CREDENTIALS. DIR itself stays where it is: authority.key makes certificates that the whole fleet trusts.

    Example: loopsmith rpc certs fleet --host 10.0.0.7 --tracker 10.0.0.1 --client alice --key cpu-zen4
    """
    made = _certificates().make_certificates(
        folder, trackers=tracker or (), hosts=host or (), clients=client or (), keys=key or (), days=days
    )
    for path in made.written:
        out.print(str(path), markup=False, highlight=False, soft_wrap=True)
    count, kept = len(made.written), len(made.kept)
    out.print(f"{count} {'file' if count == 1 else 'files'} written, {kept} kept", soft_wrap=True)
    if made.ends is not None:
        out.print(f"new certificates are valid until {made.ends:%Y-%m-%d}", soft_wrap=True)
    if key and not (host or client) and made.kept:
        out.print(
            f"the new tokens are in {folder / 'tokens'} and with the trackers; name the hosts and clients that get them",
            markup=False,
            soft_wrap=True,
        )


def _certificates() -> Any:
    """The module that makes them: the other commands do without its library.

    Raises:
        TunerError: the library is not installed.
    """
    try:
        return import_module("runners.rpc.certificates")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "cryptography":
            raise
        raise TunerError(
            "certificates need the library cryptography: pip install 'loopsmith[rpc]'"
        ) from error
