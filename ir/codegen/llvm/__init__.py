"""LLVM code generation: text builder, vector mathematics, runtime, compilation."""
