"""``loopsmith db``: look into tuning databases, tidy them up, and move records between them. A file for each family of commands."""

from __future__ import annotations

import typer

from . import comparison, exchange, listing, record, removal, sessions, verification

app = typer.Typer(help="Look into a tuning database, tidy it up, and move records.", no_args_is_help=True)
app.command("ls")(listing.list_workloads)
app.command("top")(listing.top)
app.command("show")(record.show)
app.command("history")(sessions.history)
app.command("verify")(verification.verify)
app.command("rm")(removal.remove)
app.command("prune")(removal.prune)
app.command("gc")(removal.collect_garbage)
app.command("merge")(exchange.merge)
app.command("diff")(comparison.diff)
app.command("export")(exchange.export)
app.command("import")(exchange.import_)
app.command("export-study")(exchange.export_study)
