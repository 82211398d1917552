"""Random programs, judged by running them in more than one way.

A kind of programs is a module in :mod:`.kinds`, declared as :mod:`.kind` says. :mod:`.campaign` runs the seeds of a kind in child
processes (:mod:`.children`) and groups what fails (:mod:`.verdict`). For TIR the interpreter says what a program means
(:mod:`.oracle`), and native code for several vector widths must agree; :mod:`.reduce` makes a failing program small, :mod:`.blame` names
the pass that breaks it.
"""
