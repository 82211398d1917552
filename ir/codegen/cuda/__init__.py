"""CUDA: lowered kernels as readable C++, what NVRTC makes of it, and its emulation on the CPU."""
