"""Random programs, judged by running them in more than one way.

Two kinds: TIR programs (:mod:`.tir_programs`) and schedules of small kernels (:mod:`.schedules`). The interpreter says what they mean
(:mod:`.oracle`), native code for several vector widths must agree, in child processes (:mod:`.children`); :mod:`.reduce` makes a
failing TIR program small, :mod:`.blame` names the pass that breaks it. Not here yet: Relax modules, candidates of design spaces,
sequences of passes, round trips, optimization levels, opinions from outside (ONNX Runtime, PyTorch), many programs to one
compilation, int4 and float8, float16 for x86-64 without F16C, and a reducer of schedules.
"""
