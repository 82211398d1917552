"""Random Relax modules: :mod:`.program` writes one for a seed, :mod:`.oracle` says what it means and how native code differs.

The text of a module says everything: its parameters are called after what they hold (:mod:`.arguments`), symbolic extents after their
value. So a module that was made smaller (:mod:`.reduce`) needs nothing beside it.
"""
