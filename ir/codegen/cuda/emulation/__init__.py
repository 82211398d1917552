"""CUDA C++ kernels on the CPU, without a CUDA toolkit: headers that give CUDA's language a meaning, and their compilation."""
