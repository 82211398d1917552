"""The programs that tests of several packages, and comparisons in ``experiments``, share. Each says what it is good for.

- ``nodes``: made of plain nodes, for what needs no frontend;
- ``kernels``: TIR in the script dialect;
- ``expressions``: tensor expressions;
- ``graphs``: Relax modules.

A test whose program differs from these for a reason, or is about the program's text, writes its own.
"""
