"""Code generation: from lowered TIR to machine code."""
