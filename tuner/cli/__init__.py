"""The command ``loopsmith``: one module per group of subcommands."""
