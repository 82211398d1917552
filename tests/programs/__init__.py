"""The programs that tests of several packages, and comparisons in ``experiments``, share. Each says what it is good for.

``nodes``: made of plain nodes, for what needs no frontend. ``expressions``: tensor expressions. ``graphs``: Relax modules.
"""
