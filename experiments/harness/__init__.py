"""How things are measured: contestants in processes of their own that take turns, the machine's limits, tables and plots."""
