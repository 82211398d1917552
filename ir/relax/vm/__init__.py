"""From a lowered Relax module to something that runs: plans of native functions, bytecode, and memory plans."""
